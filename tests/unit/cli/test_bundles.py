"""A bundle of options is offered as its single options and arrives as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from understudy.cli.bundles import Budget, Cluster, Identified, Limit, Protected, Reading, bundled
from understudy.errors import InputError
from understudy.privacy.promise.definition import ApproxDP, NonPrivate, PureDP, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    colour: Annotated[str, typer.Option(help="Which colour.")] = "red"
    coats: Annotated[int, typer.Option(help="How often.")]


def made_app() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @bundled
    def paint(
        wall: Annotated[str, typer.Argument()],
        *,
        paint: Paint,
        dry: Annotated[bool, typer.Option("--dry")] = False,
    ) -> None:
        """Paint a wall."""
        typer.echo(f"{wall} {paint.colour} {paint.coats} {dry}")

    return app


def test_the_fields_are_the_options():
    runner = CliRunner()
    assert runner.invoke(made_app(), ["north", "--coats", "2"]).output == "north red 2 False\n"
    assert runner.invoke(made_app(), ["north", "--coats", "3", "--colour", "blue", "--dry"]).output == (
        "north blue 3 True\n"
    )


def test_a_field_without_default_must_be_given_and_types_are_checked():
    runner = CliRunner()
    assert runner.invoke(made_app(), ["north"]).exit_code == 2
    assert runner.invoke(made_app(), ["north", "--coats", "many"]).exit_code == 2


def test_the_help_lists_fields_where_the_bundle_stood():
    shown = CliRunner().invoke(made_app(), ["--help"]).output
    assert shown.index("--colour") < shown.index("--coats") < shown.index("--dry")
    assert "Paint a wall." in shown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"epsilon": "1"}, PureDP(epsilon=1)),
        ({"epsilon": "1", "delta": "1e-9"}, ApproxDP(epsilon=1, delta="1e-9")),
        ({"guarantee": "none"}, NonPrivate()),
        ({}, None),
    ],
)
@pytest.mark.parametrize("kind", [Budget, Limit])
def test_a_budget_is_what_its_amounts_say(kind, given, expected):
    assert kind(**given).read_if_given() == expected


def test_a_budget_that_is_needed_and_not_given_is_refused():
    with pytest.raises(InputError, match="no budget was given"):
        Budget().read()
    with pytest.raises(InputError, match="needs --epsilon and --delta"):
        Budget(epsilon="1", guarantee="approx").read()


def test_who_is_protected():
    assert Protected().read() is None
    assert Identified().read() is None
    assert Protected(fixed="sex, age").read() == Unit(fixed=("sex", "age"))
    assert Identified(unit_id="person", rows_per_unit=3).read() == Unit(unit_id="person", rows_per_unit=3)


def test_reading_and_cluster_use_the_names_of_open_source():
    assert Reading(decimal=",").options()["decimal_comma"] is True
    with pytest.raises(InputError, match="point or a comma"):
        Reading(decimal="'").options()
    assert Cluster().options() == {}
    assert Cluster(engine="spark", master="local[2]").options() == {"engine": "spark", "master": "local[2]"}
