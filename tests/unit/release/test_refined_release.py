"""A release whose bins were merged by noisy counts: verified, read, asked, and drawn from again on the fine grid."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release import model_file
from understudy.release.model_file import read_model, write_model

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="income", edges=tuple(range(0, 201, 2)), missing=True),
        us.Attribute(name="job", levels=("a", "b", "c")),
    )
)
RNG = np.random.default_rng(6)
JOB = RNG.integers(0, 3, 4000)
INCOME = np.minimum(RNG.gamma(2.0, 8.0 * (1 + JOB)), 199.0)
ROWS = pa.table({
    "sex": RNG.choice(["F", "M"], 4000),
    "income": pa.array(INCOME, mask=RNG.random(4000) < 0.03),
    "job": np.array(["a", "b", "c"])[JOB],
})  # fmt: skip


def make(out, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = {"budget": us.PureDP(epsilon=20), "refine": "income:8", "out": out, **asked}
        return us.synthesize(us.open_source(ROWS, SCHEMA), **asked)


@pytest.mark.parametrize(
    "asked",
    [{"method": "ipf"}, {"method": "aim"}, {"method": "mst"}, {"method": "auto"}, {"method": "ipf", "strata": "sex"}],
)
def test_written_verified_and_drawn_from_again(tmp_path, asked):
    made = make(tmp_path / "release", **asked)
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    assert "Within a merged bin of `income`" in (tmp_path / "release" / "README.md").read_text()
    read = us.read_release(tmp_path / "release")
    first, second = (one.fitted.draw(SCHEMA, 500, SeededStream(3), "rows", 1) for one in (made, read))
    assert all(np.array_equal(first.columns[name], second.columns[name]) for name in SCHEMA.names)
    larger = us.sample(read, rows=40_000)
    larger.write(tmp_path / "larger")
    assert all(check.passed for check in us.verify(tmp_path / "larger"))
    drawn = larger.frame().to_pandas()
    means = drawn.groupby("job", observed=True)["income"].mean().to_numpy()
    real = ROWS.to_pandas().groupby("job")["income"].mean().to_numpy()
    assert means == pytest.approx(real, rel=0.1)
    assert len(set((drawn["income"].dropna() // 2).astype(int))) > 50  # the fine grid, not eight bins


def test_questions_are_answered_from_tables_over_the_schemas_own_cells(tmp_path):
    release = make(tmp_path / "release", method="ipf")
    below = us.infer(release, "proportion(income < 20)", rng=np.random.default_rng(1))
    assert below.low < float((INCOME < 20).mean()) < below.high
    dependence = us.infer(release, "crosstab(sex, job)", rng=np.random.default_rng(1))
    assert len(dependence.estimates) == 6
    # Income by job was measured in merged bins only: what the other tables leave open is a range.
    among = us.infer(release, "proportion(income < 20, where=job == 'a')", rng=np.random.default_rng(1))
    assert among.validity == "range"
    assert among.low < float((INCOME < 20)[JOB == 0].mean()) < among.high


def test_merged_bins_that_are_none_are_refused(tmp_path):
    made = make(tmp_path / "release", method="ipf")
    file = tmp_path / "model.parquet"
    write_model(made.fitted, file)
    table = pq.read_table(file)
    shape = json.loads(table.schema.metadata[model_file.KEY])
    good = shape["fine"][0]
    codes = good["codes"]
    for change, match in (
        ({"codes": codes[:-1]}, "merges the bins"),
        ({"codes": codes[::-1]}, "merges the bins"),
        ({"codes": [0] * len(codes)}, "merges the bins"),
        ({"weights": good["weights"][1:]}, "merges the bins"),
        ({"weights": [-1.0, *good["weights"][1:]]}, "merges the bins"),
        ({"weights": [0.0] * len(codes)}, "merges the bins"),
        ({"weights": [float("nan"), *good["weights"][1:]]}, "merges the bins"),
        ({"name": "sex"}, "merges the bins"),
        ({"name": "nobody"}, "nobody"),
    ):
        spoiled = {**shape, "fine": [{**good, **change}]}
        pq.write_table(table.replace_schema_metadata({model_file.KEY: json.dumps(spoiled)}), file)
        with pytest.raises(InputError, match=match):
            read_model(file, SCHEMA)
