"""One file is all it takes: a method, an attack, a measure and an engine are put into the folders and are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

TESTS = Path(__file__).resolve().parents[1]
METHOD = """
from understudy.synth.methods.histogram import Histogram
from understudy.synth.shared.method import synthesizers


@synthesizers.add
class Mine(Histogram):
    name = "mine"
    summary = "a method in one file"
"""
ATTACK = """
from understudy.evaluation.shared.attack import Tally, attacks, play_scenes, section_of


@attacks.add
class Mine:
    name = "mine"
    summary = "an attack in one file"
    needs = ()

    def run(self, comparison):
        outcomes = play_scenes(comparison, self.name, lambda _: {"coin": Tally(successes=1, guesses=2)})
        return section_of(outcomes=outcomes)
"""
MEASURE = """
from understudy.core.result import Section
from understudy.evaluation.shared.measure import frame, measures


@measures.add
def mine(comparison):
    return Section(findings=(), frames={"mine": frame([{"rows": comparison.original.rows}])})
"""
ENGINE = """
from understudy.engines.engine import engines
from understudy.engines.systems.local.source import LocalSource


@engines.add
class Mine(LocalSource):
    name = "mine"

    @classmethod
    def claims(cls, data):
        return isinstance(data, dict)

    @classmethod
    def open(cls, data, schema, **reading):
        import pyarrow as pa

        print("opened by mine")
        return LocalSource.open(pa.table(data), schema, **reading)
"""
USE = """
import importlib, sys, warnings
for package in ("synth.methods", "evaluation.attacks", "evaluation.measures", "engines.systems"):
    importlib.import_module(f"understudy.{package}").__path__.append(f"{sys.argv[1]}/{package}")
warnings.simplefilter("ignore")
import understudy as us

schema = us.Schema(attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=("p", "q"))))
people = us.open_source({"a": list("xyxyyxxyyx"), "b": list("ppqqpqpqpq")}, schema)
release = us.synthesize(people, method="mine", budget=us.PureDP(epsilon=1), out=sys.argv[1] + "/release")
assert all(check.passed for check in us.verify(sys.argv[1] + "/release"))
found = us.evaluate(release, people, parts=("utility",), ways=(1,))
assert found.utility.frames["mine"].to_pylist() == [{"rows": 10}]
found = us.attack(release, people, only=("mine",))
assert set(found.frames["attacks"]["attack"].to_pylist()) == {"mine"}
sys.path.append(f"{sys.argv[2]}/conformance")
import test_synthesizers, test_sampled_audit
assert {case.guarantee for case in test_synthesizers.CASES if case.method == "mine"} >= {"pure", "approx", "zcdp"}
assert "mine" in {method for method, _, _ in test_sampled_audit.cases()}
from typer.testing import CliRunner
from understudy.cli.main import app
print(CliRunner().invoke(app, ["methods"]).output)
"""


def test_a_file_in_a_folder_is_found_by_everything(tmp_path):
    """In a process of its own: what is registered stays registered."""
    files = {
        "synth.methods": METHOD,
        "evaluation.attacks": ATTACK,
        "evaluation.measures": MEASURE,
        "engines.systems": ENGINE,
    }
    for package, text in files.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "mine.py").write_text(text)
    run = subprocess.run(
        [sys.executable, "-c", dedent(USE), str(tmp_path), str(TESTS)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "opened by mine" in run.stdout
    assert "a method in one file" in run.stdout


def test_the_table_of_methods_says_when_to_use_each():
    from understudy.commutes.shared.flow_method import flow_synthesizers
    from understudy.households.shared.family_method import family_synthesizers
    from understudy.synth.shared.method import synthesizers

    guide = (TESTS.parent / "docs" / "guides" / "choosing.md").read_text(encoding="utf-8")
    table = guide.partition("## The method")[2].partition("## How many copies")[0]
    for name in (*synthesizers.names(), *flow_synthesizers.names(), *family_synthesizers.names()):
        assert f"`{name}`" in table, f"{name} is not in the table of methods of docs/guides/choosing.md"
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    told = ("Not ", "Never ", "not ", "baseline")
    assert [row for row in rows if not any(word in row for word in told)] == [], "rows that do not say when not"
