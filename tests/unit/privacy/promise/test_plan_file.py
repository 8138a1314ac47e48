"""The plan file: an equal plan comes back, and a changed one is refused."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import InputError
from understudy.privacy.promise.definition import ApproxDP, NonPrivate, PureDP, Unit
from understudy.privacy.promise.event import GeometricNoise, NoNoise, PureLoss, Strata
from understudy.privacy.promise.plan import Plan, Step, parse_plan, read_plan, write_plan

NOISE = GeometricNoise(l1=Fraction(2), scale=Fraction(20, 3))


def make_plan(**changes: object) -> Plan:
    fields: dict[str, object] = {
        "schema_fingerprint": "ab" * 32,
        "method": "histogram",
        "budget": PureDP(epsilon="0.3"),
        "unit": Unit(),
        "copies": 1,
        "rows": None,
        "records": None,
        "steps": (Step(label="all", margin=("sex", "age"), action="measure", event=NOISE, standard_deviation=9.4),),
    }
    return Plan(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "plan",
    [
        make_plan(),
        make_plan(steps=()),
        make_plan(budget=ApproxDP(epsilon=1, delta="1e-9"), rows=10**6, records=5, copies=3),
        make_plan(budget=NonPrivate(), steps=(Step(label="all", margin=(), action="measure", event=NoNoise()),)),
        make_plan(unit=Unit(kind="replace", rows_per_unit=3, unit_id="per son", fixed=("b", "a"))),
        make_plan(options={"prior": "0.5", "rounds": 3, "tight": True, "odd key = [": 0.1}, adaptive=True),
        make_plan(notes=('says "hi"\n\t\\', "é\x7f\x00"), schema_fingerprint=""),
        make_plan(
            steps=(
                Step(
                    label="areas",
                    margin=("area",),
                    action="measure",
                    event=Strata(strata=((NOISE, PureLoss(epsilon=Fraction(1, 7), source="Theorem 1")), ())),
                    repeats=4,
                    cells=10**30,
                ),
            )
        ),
    ],
)
def test_a_plan_survives_the_file_with_its_hash(plan: Plan) -> None:
    again = parse_plan(write_plan(plan), "plan.toml")
    assert again == plan
    assert again.hash == plan.hash


@given(note=st.text(), key=st.text(min_size=1), number=st.floats(allow_nan=False), whole=st.integers())
def test_any_text_and_number_survives(note: str, key: str, number: float, whole: int) -> None:
    plan = make_plan(notes=(note,), options={key: number, key + "2": whole})
    assert parse_plan(write_plan(plan), "plan.toml") == plan


def test_every_edit_is_noticed() -> None:
    text = write_plan(make_plan(rows=10))
    document = tomllib.loads(text)
    edits = {
        "epsilon": text.replace('epsilon = "0.3"', 'epsilon = "0.2"'),
        "scale": text.replace("20/3", "10/3"),
        "rows": text.replace("rows = 10", "rows = 11"),
        "no hash": text.replace(f'hash = "{document["hash"]}"\n', ""),
    }
    for name, edited in edits.items():
        assert edited != text, name
        with pytest.raises(InputError, match="was changed after it was written"):
            parse_plan(edited, "plan.toml")


@pytest.mark.parametrize("text", ["", "= 3", "version = 2", 'version = 1\nmethod = "x"', "version = 1\nsteps = 4"])
def test_what_is_not_a_plan_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse_plan(text, "plan.toml")


def test_a_folder_absent_file_or_binary_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "absent.toml", tmp_path / "binary.toml"):
        with pytest.raises(InputError, match="plan written by"):
            read_plan(path)


def test_a_plan_that_chooses_on_the_way_names_one_bound() -> None:
    """The least of two bounds would spend a delta on each; a plan that is fixed in advance may take it."""
    named = make_plan(budget=ApproxDP(epsilon=1, delta="1e-6"), adaptive=True, read_by="gaussian")
    assert parse_plan(write_plan(named), "plan.toml") == named
    assert named.by == "gaussian"
    assert make_plan(adaptive=True).by == "concentrated"
    assert make_plan().by == "least"
    with pytest.raises(InputError, match="names the one bound"):
        make_plan(adaptive=True, read_by="least")
