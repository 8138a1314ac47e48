"""A release without a guarantee says that nobody is protected wherever another says who is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import understudy as us
from understudy.cli.synthesize import show_plan, show_release
from understudy.commutes.map.map_wording import promise_html, promise_text
from understudy.privacy.promise.definition import NOBODY
from understudy.privacy.randomness.streams import SeededStream
from understudy.reporting.build import pyramid, summary_of
from understudy.reporting.deployments_registry import registry_fields
from understudy.reporting.promise_in_words import exact_lines, label_of

SCHEMA = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
ROWS = pa.table({"sex": ["F", "M"] * 20})
pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


def everything_said(release: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Each place that describes the unit, by its name."""
    plan = release.provenance.plan
    show_plan(plan)
    shown_plan = capsys.readouterr().out
    release.write(folder / "release")
    show_release(release, folder / "release")
    shown = capsys.readouterr().out
    subject = summary_of(release)
    us.report(release, audience="public", to=folder / "report.html")
    return {
        "plan on the screen": shown_plan,
        "plan in a notebook": plan._repr_html_(),
        "release on the screen": shown,
        "release in a notebook": release._repr_html_(),
        "statement": " ".join(release.statement.lines()),
        "README": (folder / "release" / "README.md").read_text(),
        "manifest": json.loads((folder / "release" / "manifest.json").read_text())["unit_in_words"],
        "export": (us.export(release, to="csv", out=folder / "csv") / "README.txt").read_text(),
        "report, exactly": " ".join(" ".join(line) for line in exact_lines(subject)),
        "report, pyramid": " ".join(level.claim for level in pyramid(subject, evaluated=False)),
        "report": (folder / "report.html").read_text(),
        "registry": json.dumps(registry_fields(subject)),
    }


def test_without_a_guarantee_every_place_says_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = us.synthesize(us.open_source(ROWS, SCHEMA), method="ipf", budget=us.NonPrivate())
    for place, text in everything_said(release, tmp_path, capsys).items():
        said = " ".join(text.split())
        assert NOBODY.rstrip(".") in said, place
        assert "Protected:" not in said, place
        assert "one unit" not in said, place


def test_with_a_guarantee_every_place_says_who(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = us.synthesize(us.open_source(ROWS, SCHEMA), budget=us.PureDP(epsilon=1))
    for place, text in everything_said(release, tmp_path, capsys).items():
        said = " ".join(text.split())
        assert "Protected: all values of one unit" in said, place
        assert NOBODY.rstrip(".") not in said, place


def test_test_randomness_protects_nobody_whatever_the_plan(tmp_path: Path) -> None:
    release = us.synthesize(us.open_source(ROWS, SCHEMA), budget=us.PureDP(epsilon=1), stream=SeededStream(1))
    assert NOBODY in release.statement.lines()
    assert "Protected:" not in (release.write(tmp_path / "release") / "README.md").read_text()


def test_a_map_says_it_too() -> None:
    release = us.wrap(ROWS, SCHEMA)
    for text in (promise_text(release.statement), promise_html(release.statement, "")):
        assert "protects nobody" in text
        assert "home" not in text


def test_the_report_does_not_list_exceptions_to_a_promise_that_was_not_made() -> None:
    release = us.synthesize(us.open_source(ROWS, SCHEMA), method="ipf", budget=us.NonPrivate())
    assert label_of(summary_of(release)).not_protected == ("Everything: any value of any person in the data.",)


def test_the_report_says_what_definition_6_speaks_of() -> None:
    budget = us.ProbabilisticDP(epsilon=4, delta="1e-3")
    release = us.synthesize(us.open_source(ROWS, SCHEMA), method="dirichlet", budget=budget)
    said = dict(exact_lines(summary_of(release)))
    assert "Definition 6" in said["What it says"]
    assert "probability over the randomness of the draws alone" in said["What it says"]
    other = us.synthesize(us.open_source(ROWS, SCHEMA), method="dirichlet", budget=us.PureDP(epsilon=4))
    assert "What it says" not in dict(exact_lines(summary_of(other)))
