"""Thousands of hostile inputs: refused by an error of ours that says what to do, or accepted; never a crash, never a
confidential value in a message.

Two ways to be hostile. A small fuzzer of our own takes a good file (schema, CSV, release folder, plan, ledger, command
line) and spoils it: nasty values in place of good ones, lines and keys lost, doubled and swapped, bytes flipped, files
cut short. Hypothesis invents questions, formulas and documents from nothing. A few hundred inputs run always; with
FULL=1 more than 10,000. Seeds are fixed, so that what is found can be found again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.core.formula import parse_formula
from understudy.core.questions import parse_question
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import InternalError, UnderstudyError
from understudy.inference.estimands import make_estimand

FULL = os.environ.get("FULL") == "1"
MARKER = "ZQXMARKER"  # stands for a confidential value
SCHEMA = """\
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
label = "Sex at registration"
[[attribute]]
name = "age"
edges = [0, 15, 65, 101]
integer = true
outside = "clip"
missing = true
[[attribute]]
name = "income"
edges = [0.0, 860.5, 16000.0]
special = { -8 = "not applicable" }
[[attribute]]
name = "born"
edges = [1920-01-01, 1980-01-01, 2020-01-01]
missing = true
[[attribute]]
name = "smokes"
levels = ["no", "sometimes", "yes"]
ordered = true
[[impossible]]
age = { below = 15 }
smokes = ["yes"]
[[derived]]
name = "stage"
from = ["age"]
function = "recode"
edges = [0, 15, 65, 101]
levels = ["child", "working age", "older"]
[[derived]]
name = "group"
from = ["sex", "age"]
function = "cross"
cases = [{ when = { age = { below = 15 } }, value = "child" }, { when = { sex = "F" }, value = "woman" }]
default = "man"
[[ignore]]
columns = ["id"]
"""
CSV = "id,sex,age,income,born,smokes\n" + "".join(
    f"{MARKER}{n},{'FM'[n % 2]},{16 + n},{n * 100},19{50 + n}-01-0{1 + n % 9},{('no', 'sometimes', 'yes')[n % 3]}\n"
    for n in range(24)
)
NASTY = (
    "nan", "inf", "-inf", "1e999", "-0.0", "0", "-1", "1" * 400, "1e-400", "true", "false", "null", "''", '""',
    '"\\u0000"', "[]", "{}", "[[]]", "[1, 'a']", "{ a = 1 }", "2020-02-30", "0001-01-01", "9999-12-31", "12:00:00",
    '"' + "x" * 2000 + '"', "'\u202e'", "'🦆'", "'<script>'", "'../../etc/passwd'", "9223372036854775808",
    "-9223372036854775809", "0x10", "'='", "%s", "{0}", "$x$", "\x00", "\ufeff", "\r", "`", "~", "__class__",
    "1_000", "+5", " ", "NaN", "1e400", "'\\n'",
)  # fmt: skip
QUESTION_PARTS = (
    "proportion", "mean", "count", "quantile", "median", "difference", "crosstab", "association", "(", ")", ",",
    "sex", "age", "income", "born", "smokes", "adult", "==", "!=", "<", ">=", "in", "['F','M']", "'F'", "'no'",
    "15", "65", "0.5", "where=", "missing(", "and", "or", "not", "~", "+", "*", ":", "C(", "log(", "poly(", "`",
    "[yes]", "-", "**", "1", "0", "lambda", "x", "...", "'1980-01-01'", "True", "None", "[", "]", "{", "}", "@",
    "1e999", "I(", "^2", "|", "%in%", "#", "\\", "\n", ";",
)  # fmt: skip


class Tried:
    """What happened to hostile inputs: accepted, refused, or a failure with the place where it happened."""

    def __init__(self) -> None:
        self.accepted = self.refused = 0
        self.failures: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def run(self, call: Callable[[], object], told: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call()
        except UnderstudyError as problem:
            self.refused += 1
            if isinstance(problem, InternalError):
                self._fail("internal error", told, problem)
            if MARKER in str(problem):
                self._fail("leak", told, problem)
        except OSError as problem:
            self.refused += 1
            if not problem.strerror or MARKER in str(problem):  # what the command line shows of a refusing system
                self._fail("system error", told, problem)
        except Exception as problem:
            self._fail(type(problem).__name__, told, problem)
        else:
            self.accepted += 1

    def _fail(self, kind: str, told: str, problem: BaseException) -> None:
        frame = problem.__traceback__
        place = ""
        while frame is not None:
            name = frame.tb_frame.f_code.co_filename
            if "understudy/" in name:
                place = f"{name.rpartition('understudy/')[2]}:{frame.tb_lineno}"
            frame = frame.tb_next
        self.failures[f"{kind} at {place}"] += 1
        self.examples.setdefault(f"{kind} at {place}", f"{told[:1500]!r} -> {problem!s:.300}")

    def check(self) -> None:
        assert not self.failures, "\n".join(
            f"{count} x {what}\n    {self.examples[what]}" for what, count in self.failures.items()
        )
        assert self.refused, "a fuzzer that is never refused is not hostile"


def spoil_text(text: str, rng: random.Random) -> str:
    """One to three changes of the kind people and programs make."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        lines = text.split("\n")
        place = rng.randrange(len(lines))
        change = rng.randrange(9)
        if change == 0:
            del lines[place]
        elif change == 1:
            lines.insert(place, lines[rng.randrange(len(lines))])
        elif change == 2 and "=" in lines[place]:
            lines[place] = lines[place].partition("=")[0] + "= " + rng.choice(NASTY)
        elif change == 3:
            words = lines[place].replace(",", " , ").split(" ")
            words[rng.randrange(len(words))] = rng.choice(NASTY)
            lines[place] = " ".join(words)
        elif change == 4:
            cut = rng.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:cut] + rng.choice(NASTY) + lines[place][cut:]
        elif change == 5:
            other = rng.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        elif change == 6:
            lines[place] = rng.choice(("name", "levels", "edges", "special", "missing", "integer", "ordered", "outside",
                                       "version", "label", "[[attribute]]", "[[impossible]]", "[attribute]", "when",
                                       "[[derived]]", "density", "columns")) + " = " + rng.choice(NASTY)  # fmt: skip
        elif change == 7:
            lines = lines[: place + 1]
        else:
            lines[place] = lines[place][::-1]
        text = "\n".join(lines) or "\n"
    return text


def spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if not changed:
            break
        place = rng.randrange(len(changed))
        change = rng.randrange(4)
        if change == 0:
            changed[place] = rng.randrange(256)
        elif change == 1:
            del changed[place : place + rng.randrange(1, 20)]
        elif change == 2:
            changed[place:place] = rng.randbytes(rng.randrange(1, 9))
        else:
            changed[place:] = changed[place : place + 1] * rng.randrange(3)
    return bytes(changed)


def spoil_json(value: object, rng: random.Random, depth: int = 0) -> object:
    """A document with one part replaced, lost or doubled, anywhere inside it."""
    if isinstance(value, dict) and value and (depth == 0 or rng.random() < 0.8):
        key = rng.choice(list(value))
        change = rng.randrange(10)
        copy = dict(value)
        if change == 0:
            del copy[key]
        elif change == 1:
            copy[rng.choice(("extra", "", "version", key.upper()))] = copy[key]
        else:
            copy[key] = spoil_json(value[key], rng, depth + 1)
        return copy
    if isinstance(value, list) and value and rng.random() < 0.8:
        copy = list(value)
        place = rng.randrange(len(copy))
        if rng.random() < 0.2:
            del copy[place]
        else:
            copy[place] = spoil_json(copy[place], rng, depth + 1)
        return copy
    return rng.choice(
        (None, True, -1, 0, 1.5, 10**30, float("nan"), "", "x", "1/0", "1/3", "-1", "nan", "1e9999999", [], [None], {},
         {"a": 1}, [[]], "\x00", "../x", "9" * 5000)
    )  # fmt: skip


def amount(plain: int, full: int) -> int:
    return full if FULL else plain


def test_schemas():
    tried, rng = Tried(), random.Random(1)
    for _ in range(amount(200, 4000)):
        text = spoil_text(SCHEMA, rng)

        def read(text: str = text) -> None:
            schema = parse_schema(text, "people.toml")
            assert schema.cells() > 0
            assert parse_schema(write_schema(schema), "again").fingerprint == schema.fingerprint
            us.plan(schema, method="dirichlet", budget=us.PureDP(epsilon=1), records=10)

        tried.run(read, text)
    tried.check()


def test_csv_files(tmp_path):
    tried, rng = Tried(), random.Random(2)
    schema = parse_schema(SCHEMA, "people.toml")
    path = tmp_path / "people.csv"
    for number in range(amount(60, 1500)):
        data = spoil_text(CSV, rng).encode(errors="surrogatepass")
        if number % 2:
            data = spoil_bytes(data, rng)
        if number % 5 == 0:
            data = data.replace(b"no", f"{MARKER}".encode())
        path.write_bytes(data)

        def count() -> None:
            source = us.open_source(str(path), schema)
            source.count([(name,) for name in schema.names])

        tried.run(count, data.decode(errors="replace"))
    tried.check()


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "people.csv").write_text(CSV)
    source = us.open_source(str(folder / "people.csv"), parse_schema(SCHEMA, "people.toml"))
    ledger = us.Ledger.create(folder / "budget.db")
    ledger.create_account("people", unit=us.Unit(), limit=us.PureDP(epsilon=10))
    us.synthesize(source, method="histogram", budget=us.PureDP(epsilon=1), ledger=folder / "budget.db",
                  account="people", out=folder / "release", csv=True)  # fmt: skip
    return folder


def test_release_folders(released, tmp_path):
    tried, rng = Tried(), random.Random(3)
    original = released / "release"
    names = sorted(path.name for path in original.iterdir())
    for number in range(amount(60, 1500)):
        folder = tmp_path / "release"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        name = rng.choice([*names, "manifest.json", "manifest.json"])
        path = folder / name
        if number % 10 == 0:
            path.unlink()
            if number % 20 == 0:
                path.mkdir()
        elif name == "manifest.json" and number % 3:
            path.write_text(json.dumps(spoil_json(json.loads(path.read_text()), rng)))
        elif path.suffix in (".toml", ".md", ".csv"):
            path.write_text(spoil_text(path.read_text(), rng), errors="surrogatepass")
        else:
            path.write_bytes(spoil_bytes(path.read_bytes(), rng))

        def look(folder: Path = folder) -> None:
            us.verify(folder)
            release = us.read_release(folder)
            release.coded(1)
            us.infer(release, "proportion(sex == 'F')", draws=100)

        tried.run(look, f"{name} {number}")
    tried.check()


def test_plans_and_ledgers(released, tmp_path):
    from understudy.privacy.promise.plan import plan_from_json, read_plan, write_plan

    tried, rng = Tried(), random.Random(4)
    schema = parse_schema(SCHEMA, "people.toml")
    plan = us.plan(schema, method="ipf", budget=us.ApproxDP(epsilon=1, delta="1e-6"))
    document = json.loads(json.dumps(plan.to_json()))
    for _ in range(amount(100, 1500)):
        spoiled = spoil_json(document, rng)
        tried.run(lambda spoiled=spoiled: plan_from_json(spoiled), json.dumps(spoiled))
    good = tmp_path / "plan.toml"
    text = write_plan(plan)
    for _ in range(amount(40, 700)):
        good.write_text(spoil_text(text, rng), errors="surrogatepass")
        tried.run(lambda: read_plan(good), good.read_text(errors="replace"))
    ledger = tmp_path / "budget.db"
    data = (released / "budget.db").read_bytes()
    for _ in range(amount(20, 300)):
        ledger.write_bytes(spoil_bytes(data, rng))

        def show() -> None:
            opened = us.Ledger.open(ledger)
            opened.verify()
            list(opened.accounts())

        tried.run(show, "ledger")
    tried.check()


def test_questions_made_of_their_own_words():
    tried, rng = Tried(), random.Random(5)
    schema = parse_schema(SCHEMA, "people.toml")
    good = (
        "proportion(sex == 'F', where=age < 15)", "mean(age, where=smokes in ['no'])", "crosstab(sex, smokes)",
        "smokes ~ age + C(sex) + income:sex", "quantile(income, 0.9)",
        "proportion(sex == 'F') - proportion(sex == 'M')",
    )  # fmt: skip
    for number in range(amount(600, 6000)):
        if number % 3 == 0:
            text = " ".join(rng.choice(QUESTION_PARTS) for _ in range(rng.randrange(1, 14)))
        else:
            text = rng.choice(good)
            for _ in range(rng.randrange(1, 4)):
                cut = rng.randrange(len(text) + 1)
                text = text[:cut] + rng.choice((*QUESTION_PARTS, *NASTY)) + text[cut + rng.randrange(3) :]

        def ask(text: str = text) -> None:
            make_estimand(parse_question(text, schema), schema)

        tried.run(ask, text)
        tried.run(lambda text=text: parse_formula(text, schema.names), text)
    tried.check()


def hostile(plain: int, full: int) -> settings:
    return settings(
        max_examples=amount(plain, full), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
    )


@hostile(100, 1000)
@given(text=st.text(max_size=60), where=st.none() | st.text(max_size=30), event=st.none() | st.text(max_size=5))
def test_any_text_as_a_question(text, where, event):
    schema = parse_schema(SCHEMA, "people.toml")
    tried = Tried()
    tried.run(lambda: make_estimand(parse_question(text, schema, where=where, event=event), schema), text)
    tried.run(lambda: make_estimand(parse_question(f"smokes ~ {text}", schema), schema), text)
    tried.run(lambda: make_estimand(parse_question(f"proportion({text})", schema), schema), text)
    assert not tried.failures, tried.examples


PARTS = ("name", "levels", "edges", "special", "missing", "integer", "ordered", "outside", "label", "density")
any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@hostile(150, 1500)
@given(
    key=st.sampled_from(PARTS), value=any_value, base=st.sampled_from([{"levels": ["a", "b"]}, {"edges": [0, 1, 2]}])
)
def test_any_value_in_an_attribute(key, value, base):
    """Through Python: what a caller may pass where the schema file would hold a value."""
    tried = Tried()
    tried.run(lambda: us.Attribute(**{"name": "x", **base, key: value}), f"{key} {value!r}")
    assert not tried.failures, tried.examples


WORDS = (
    "plan", "synthesize", "verify", "sample", "export", "infer", "methods", "schema", "ledger", "check",
    "describe", "create", "show", "audit", "calibrate", "resume", "dirichlet", "geometric", "--schema",
    "people.toml", "--epsilon", "1", "0.5", "-1", "1e-390", "--delta", "1e-9", "--rho", "--unit", "replace",
    "add_remove", "--method", "histogram", "--copies", "--rows", "--records", "--cells", "--prior", "--scale",
    "--json", "--out", "new", "release", "budget.db", "people.csv", "--fixed", "sex", "--option", "a=b",
    "--guarantee", "none", "zcdp", "--account", "people", "proportion(sex == 'F')", "--where", "--to", "csv",
    "nothing", "", "\u202e", "nan", "1" * 30, "--unit-id", "id",
)  # fmt: skip
STATED = {0, 2, 3, 4, 5}


def test_command_lines(released, tmp_path, monkeypatch):
    """Words of the command line in any order: a stated exit code, never ours for a bug, no traceback, no value."""
    from typer.testing import CliRunner

    from understudy.cli.main import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    shutil.copy(released / "people.csv", tmp_path)
    rng, wrong = random.Random(6), []
    for _ in range(amount(30, 300)):
        line = [rng.choice(WORDS[:18]), *(rng.choice(WORDS) for _ in range(rng.randrange(9)))]
        result = CliRunner().invoke(app, line)
        shown = f"{result.stdout}{result.stderr}"
        if result.exit_code not in STATED or "Traceback" in shown or MARKER in shown:
            wrong.append((line, result.exit_code, shown[-300:]))
    assert not wrong, "\n".join(map(str, wrong[:5]))
