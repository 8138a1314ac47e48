"""Texts beside numbers ("N" for not applicable) from the data to the release, its exports and its answers."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import SchemaError, UntrackedWarning

INCOME = us.Attribute(
    name="income", edges=(0, 100, 1000), integer=True, special={"N": "not asked", -8: "refused"}, missing=True
)
SCHEMA = us.Schema(
    attributes=(INCOME, us.Attribute(name="sex", levels=("F", "M"))),
    derived=(us.Derived(name="sum", function="sum", sources=("income",)),),
)
TEXTS = ["N", " 5", "250", "-8", None, "N"] * 50
TABLE = pa.table({"income": TEXTS, "sex": ["F", "M"] * 150})


def test_every_text_gets_its_code():
    counted = us.open_source(TABLE, SCHEMA).count([("income",)])[0]
    assert counted.values.tolist() == [50, 50, 100, 50, 50]
    numbers = us.open_source(pa.table({"income": [5, 250, -8, None], "sex": ["F"] * 4}), SCHEMA)
    assert numbers.count([("income",)])[0].values.tolist() == [1, 1, 0, 1, 1]
    with pytest.raises(SchemaError, match="income"):
        us.open_source(pa.table({"income": ["n"], "sex": ["F"]}), SCHEMA).total()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("text-codes") / "release"
    with pytest.warns(UntrackedWarning):
        us.synthesize(TABLE, schema=SCHEMA, budget=us.PureDP(epsilon=10), method="histogram", out=place, csv=True)
    return place


def test_a_release_holds_texts_and_is_read_again(folder):
    made = us.read_release(folder).frame()
    assert made.column("income").type == pa.string()
    assert {"N", "-8", None} < set(made.column("income").to_pylist())
    for income, total in zip(made.column("income").to_pylist(), made.column("sum").to_pylist(), strict=True):
        assert total == (None if income in ("N", "-8", None) else int(income))
    assert all(check.passed for check in us.verify(folder))
    again = us.open_source(str(folder / "synthetic_1.csv"), us.Schema(attributes=SCHEMA.attributes, ignore=("sum",)))
    assert again.total() == made.num_rows
    assert us.read_release(folder).schema == SCHEMA


def test_answers_leave_them_out_of_means_and_know_them_by_name(folder):
    release = us.read_release(folder)
    assert 50 < us.infer(release, "mean(income)").estimates[0].value < 900
    assert us.infer(release, "proportion(income == 'N')").estimates[0].value == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("kind", ["dta", "sav"])
def test_statistics_packages_get_numbers_with_labels(folder, tmp_path, kind):
    place = us.export(folder, to=kind, out=tmp_path / kind)
    file = str(next(place.glob(f"*.{kind}")))
    labelled = pd.read_stata(file) if kind == "dta" else pd.read_spss(file)
    assert "N: not asked" in set(map(str, labelled["income"]))
    assert "refused" in set(map(str, labelled["income"]))


@pytest.mark.parametrize("code", ["3", " N", "", "nan", "1e5", "<missing>"])
def test_a_text_that_could_be_a_number_is_no_code(code):
    with pytest.raises(SchemaError, match="special"):
        us.Attribute(name="income", edges=(0, 1), special={code: "x"})
