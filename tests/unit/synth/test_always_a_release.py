"""What was charged for is handed out: a fit that does not end is no reason to keep a release back."""

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.models import fit as fitting
from understudy.models import regularised_fit
from understudy.privacy.gate.journal import Journal
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
LEVELS = 6


def sequences(rows=3000, columns=6, seed=0):
    """Visits that mostly stay where they are, or end and stay ended."""
    generator = np.random.default_rng(seed)
    found = [generator.integers(0, LEVELS - 1, rows)]
    for _ in range(columns - 1):
        ended = (generator.random(rows) < 0.3) | (found[-1] == LEVELS - 1)
        found.append(np.where(ended, LEVELS - 1, found[-1]))
    table = pa.table({f"v{place}": pa.array(codes) for place, codes in enumerate(found)})
    attributes = tuple(us.Attribute(name=name, levels=tuple(range(LEVELS))) for name in table.column_names)
    return us.open_source(table, us.Schema(attributes=attributes))


@pytest.fixture
def no_steps(monkeypatch):
    """No solver gets anywhere, and a stronger prior is not tried."""
    monkeypatch.setattr(regularised_fit, "SWEEP", 10**9)
    monkeypatch.setattr(regularised_fit, "minimise", lambda objective, point, **_: (point, 0))
    monkeypatch.setattr(fitting, "MOST_STRONGER", 0)


@pytest.mark.parametrize("method", ["mst", *(pytest.param(name, marks=pytest.mark.full) for name in ("aim", "auto"))])
@pytest.mark.parametrize("epsilon", [1, 100])
def test_near_deterministic_sequences(method, epsilon):
    budget = us.ApproxDP(epsilon=epsilon, delta="1e-9")
    source = sequences()
    release = us.synthesize(source, method=method, budget=budget, unit="add_remove", rows=3000, stream=SeededStream(1))
    table = release.frame()
    after = [str(one) for one in table["v1"].to_pylist()]
    ended = [place for place, one in enumerate(after) if one == str(LEVELS - 1)]
    later = [str(table["v2"][place].as_py()) for place in ended]
    assert later.count(str(LEVELS - 1)) > (0.97 if epsilon == 100 else 0.6) * len(ended)


def test_a_fit_that_ends_nowhere_is_released_with_a_warning(no_steps):
    release = us.synthesize(
        sequences(), method="mst", budget=us.PureDP(epsilon=10), unit="replace", stream=SeededStream(1)
    )
    assert release.frame().num_rows == 3000
    assert any("fit was stopped" in text for text in release.statement.warnings)


@pytest.mark.parametrize(("distances", "said"), [((10, 5, 30), "repeated with 3 times"), ((10, 90), "was stopped")])
def test_a_stronger_prior_that_takes_the_model_far_away_is_not_kept(monkeypatch, distances, said):
    monkeypatch.setattr(regularised_fit, "SWEEP", 10**9)
    monkeypatch.setattr(regularised_fit, "minimise", lambda objective, point, **_: (point, 0))
    told = iter(distances)
    monkeypatch.setattr(fitting, "_distance", lambda *_: next(told))
    release = us.synthesize(
        sequences(), method="mst", budget=us.PureDP(epsilon=10), unit="replace", stream=SeededStream(1)
    )
    texts = [*release.statement.warnings, *release.provenance.notes]
    assert any(said in text for text in texts)
    assert any("repeated with" in text for text in texts) == (said != "was stopped")
    assert next(told, None) is None


def test_a_run_that_was_interrupted_ends_with_a_release_too(no_steps, tmp_path, monkeypatch):
    class Death(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "choose_factor", lambda *_, **__: (_ for _ in ()).throw(Death()))
        patch.setattr(Journal, "discard", lambda self: None)
        with pytest.raises(Death):
            us.synthesize(
                sequences(), method="mst", budget=us.PureDP(epsilon=10), unit="replace", out=tmp_path / "release"
            )
    (run,) = tmp_path.glob("release.partial-*")
    release = us.resume(run)
    assert any("fit was stopped" in text for text in release.statement.warnings)
    us.verify(tmp_path / "release")


def test_ordinary_tables_need_no_stronger_prior():
    """All pairs of five attributes: sweeps alone once stopped short, and a prior of many times n was the way out."""
    schema = small_schema()
    people = us.open_source(make_people(100_000).select(list(schema.names)), schema)
    for seed in (1, 4):
        release = us.synthesize(people, method="ipf", budget=us.PureDP(epsilon=1), stream=SeededStream(seed))
        notes = " ".join(release.provenance.notes)
        assert "The model was fitted" in notes
        assert "did not end" not in notes
