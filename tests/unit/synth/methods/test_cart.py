"""Sequential trees: the dependences of the data, rules kept, no guarantee and saying so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.domain import Domain
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.mechanisms.cart_draw import CartDraw
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True, missing=True),
        us.Attribute(name="work", levels=("none", "part", "full")),
        us.Attribute(name="sex", levels=("F", "M")),
    ),
    impossible=(
        us.Impossible(conditions=(("age", us.Condition(below=15)), ("work", us.Condition(levels=("part", "full"))))),
    ),
)


@pytest.fixture
def source():
    rng = np.random.default_rng(3)
    ages = [None if i % 20 == 0 else int(rng.integers(0, 91)) for i in range(2000)]
    work = ["none" if age is not None and age < 15 else str(rng.choice(["none", "part", "full"])) for age in ages]
    sex = ["F" if one == "part" and rng.random() < 0.9 else "FM"[int(rng.integers(2))] for one in work]
    return us.open_source(pa.table({"age": ages, "work": work, "sex": sex}), SCHEMA)


def test_dependences_are_kept_and_rules_hold(source):
    release = us.synthesize(source, method="cart", budget=us.NonPrivate(), stream=SeededStream(4))
    (true,) = source.count([SCHEMA.names])
    drawn = us.open_source(release.frame(), SCHEMA).count([SCHEMA.names])[0]
    assert drawn.values.sum() == 2000
    assert not drawn.values[~SCHEMA.allowed(SCHEMA.names)].any()
    # Both are samples of 2,000 from nearly one law: chi-square of two samples on the possible cells.
    a, b = true.values[true.values + drawn.values > 0], drawn.values[true.values + drawn.values > 0]
    assert ((a - b) ** 2 / (a + b)).sum() < 3 * len(a)
    independent = us.synthesize(source, method="independent", budget=us.PureDP(epsilon=20), stream=SeededStream(4))
    away = us.open_source(independent.frame(), SCHEMA).count([SCHEMA.names])[0].values
    both = true.values + away > 0
    assert ((true.values - away)[both] ** 2 / (true.values + away)[both]).sum() > 3 * both.sum()


def test_a_leaf_of_everybody_is_a_draw_from_margins():
    """With the largest leaves nothing is learned, and attributes come out independent."""
    counts = np.array([500, 0, 0, 500])
    schema = us.Schema(attributes=tuple(us.Attribute(name=n, levels=("0", "1")) for n in "ab"))
    domain = Domain(schema=schema, margin=("a", "b"))
    cells = np.flatnonzero(counts)
    far = CartDraw(rows=4000, smallest_leaf=1000).draw(cells, counts[cells], domain, SeededStream(1), "test")
    near = CartDraw(rows=4000, smallest_leaf=5).draw(cells, counts[cells], domain, SeededStream(1), "test")
    assert np.abs(np.bincount(far[0], far[1], 4) / 4000 - 0.25).max() < 0.04
    assert np.bincount(near[0], near[1], 4)[1:3].sum() == 0


def test_any_promise_is_refused_and_the_warning_travels(source, tmp_path):
    with pytest.raises(UnsupportedError, match=r"cart.*none"):
        us.synthesize(source, method="cart", budget=us.PureDP(epsilon=1))
    release = us.synthesize(source, method="cart", budget=us.NonPrivate(), out=tmp_path / "release")
    (warning,) = release.statement.warnings
    assert "NO GUARANTEE" in warning
    with pytest.raises(InputError, match="at least 1"):
        us.plan(SCHEMA, method="cart", budget=us.NonPrivate(), records=10, smallest_leaf=0)


def test_files_say_that_nobody_is_in_them(source, tmp_path):
    import pyarrow.parquet as pq

    us.synthesize(source, method="cart", budget=us.NonPrivate(), out=tmp_path / "release")
    metadata = pq.read_schema(tmp_path / "release" / "synthetic_1.parquet").metadata
    assert metadata[b"description"] == b"SYNTHETIC DATA. NO ROW IS A PERSON."
