"""Python as people write it: frames in, frames out, and our errors for whatever is of the wrong type."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.errors import BudgetError, InputError

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA, PEOPLE, ONE = small_schema(), make_people(300), us.PureDP(epsilon=1)


@pytest.fixture(scope="module")
def release():
    return us.synthesize(PEOPLE, schema=SCHEMA, budget=ONE, method="independent")


@pytest.mark.parametrize(
    ("given", "kind"), [("to_pandas", pd.DataFrame), ("frame", pa.Table), ("polars", pl.DataFrame)]
)
def test_fit_and_sample_give_back_the_kind_of_frame_they_were_given(given, kind):
    data = {"to_pandas": PEOPLE.to_pandas, "frame": lambda: PEOPLE, "polars": lambda: pl.from_arrow(PEOPLE)}[given]()
    maker = us.Synthesizer(SCHEMA, budget=ONE, method="independent")
    assert "not fitted" in repr(maker)
    with pytest.raises(InputError, match="fit"):
        maker.sample(10)
    made = maker.fit(data).sample(50)
    assert isinstance(made, kind)
    assert len(made) == 50
    assert len(maker.sample(70)) == 70
    assert maker.release.statement.guarantee == ONE


def test_every_fit_is_charged_and_sampling_is_not(tmp_path):
    ledger = us.Ledger.create(tmp_path / "budget.db")
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=1))
    paid = {"ledger": tmp_path / "budget.db", "account": "people"}
    maker = us.Synthesizer(SCHEMA, budget=us.PureDP(epsilon="0.6"), method="independent", **paid).fit(PEOPLE)
    maker.sample(10)
    maker.sample(10)
    assert float(ledger.account("people").spent["epsilon"]) == 0.6
    with pytest.raises(BudgetError):
        maker.fit(PEOPLE)


def test_options_take_lists_of_names():
    unit = us.Unit(fixed=("sex",))
    several = us.plan(SCHEMA, method="independent", budget=ONE, unit=unit, strata=["sex"])
    assert several.hash == us.plan(SCHEMA, method="independent", budget=ONE, unit=unit, strata="sex").hash
    kept = [us.plan(SCHEMA, method="partial", budget=us.NonPrivate(), keep=keep) for keep in (["sex"], "sex")]
    assert kept[0].steps == kept[1].steps


def test_a_release_as_frames(release):
    assert release.to_pandas().equals(release.frame().to_pandas())
    assert release.to_polars().height == release.rows[0]
    assert list(release.to_polars().columns) == list(SCHEMA.columns)


def test_a_release_in_memory_can_be_verified(release, tmp_path):
    assert [check.name for check in us.verify(release)] == [
        check.name for check in us.verify(release.write(tmp_path / "release"))
    ]
    with pytest.raises(InputError, match="no signature"):
        us.verify(release, key=tmp_path / "key")


def test_displays_for_notebooks(release):
    judged = us.evaluate(release, PEOPLE, parts=["utility"], ways=[1])
    assert "<table>" in judged._repr_html_()
    assert "INTERNAL" in judged._repr_html_()
    assert repr(judged).startswith("Evaluation(internal; utility:")


WRONG = {
    "plan of a path": lambda release: us.plan("people.toml", budget=ONE),
    "plan with a number": lambda release: us.plan(SCHEMA, budget=1.0),
    "method": lambda release: us.plan(SCHEMA, budget=ONE, method=3),
    "unit": lambda release: us.plan(SCHEMA, budget=ONE, unit=3),
    "copies": lambda release: us.plan(SCHEMA, budget=ONE, copies="2"),
    "data": lambda release: us.synthesize(3, schema=SCHEMA, budget=ONE),
    "schema": lambda release: us.synthesize(PEOPLE, schema="people.toml", budget=ONE),
    "plan file": lambda release: us.synthesize(PEOPLE, schema=SCHEMA, plan="plan.toml"),
    "ledger": lambda release: us.synthesize(PEOPLE, schema=SCHEMA, budget=ONE, ledger=3, account="a"),
    "out": lambda release: us.synthesize(PEOPLE, schema=SCHEMA, budget=ONE, out=3),
    "reading": lambda release: us.synthesize(PEOPLE, schema=SCHEMA, budget=ONE, reading="x"),
    "reading option": lambda release: us.synthesize(PEOPLE, schema=SCHEMA, budget=ONE, reading={"decimals": 1}),
    "read_schema": lambda release: us.read_schema(None),
    "read_release": lambda release: us.read_release(None),
    "read_plan": lambda release: us.read_plan(3),
    "read_manifest": lambda release: us.read_manifest(3),
    "verify": lambda release: us.verify(None),
    "ways": lambda release: us.evaluate(release, PEOPLE, ways=2),
    "models": lambda release: us.evaluate(release, PEOPLE, models="smokes ~ age"),
    "report": lambda release: us.report(release, to=3),
    "wrap": lambda release: us.wrap(PEOPLE, "x"),
    "export": lambda release: us.export(None, to="csv"),
    "write": lambda release: release.write(3),
    "frame": lambda release: release.frame(copy="1"),
    "write_schema": lambda release: us.write_schema("x"),
    "write_plan": lambda release: us.write_plan("x"),
    "write_evaluation": lambda release: us.write_evaluation("x", "there"),
    "ledger file": lambda release: us.Ledger.open(None),
    "resume": lambda release: us.resume(None),
    "sign": lambda release: us.sign(None, key=None),
    "attributes": lambda release: us.Schema(attributes=("x",)),
    "one attribute": lambda release: us.Schema(attributes=SCHEMA.attributes[0]),
    "Synthesizer": lambda release: us.Synthesizer("people.toml", budget=ONE),
    "Synthesizer budget": lambda release: us.Synthesizer(SCHEMA, budget=1),
    "infer": lambda release: us.infer("release", "mean(age)"),
    "sample": lambda release: us.sample(release, rows="10"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_gets_an_error_of_ours(name, release):
    with pytest.raises(us.UnderstudyError):
        WRONG[name](release)
