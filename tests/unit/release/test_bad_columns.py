"""Columns that nobody should have: each is refused with its name and no value, or released; nothing is spent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import understudy as us
from understudy.core.schema_file import parse_schema

BUDGET = us.ApproxDP(epsilon=2, delta="1e-6")
START = 'version = 1\n[[attribute]]\nname = "income"\n'


def schema(**given) -> us.Schema:
    return us.Schema(attributes=(us.Attribute(name="income", **{"bounds": (0, 1000), **given}),))


def made(frame, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(frame, schema=schema(**given), budget=BUDGET, method="independent")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bounds = [1000, 0]", "higher one"),
        ("bounds = [5, 5]", "higher one"),
        ("bounds = [0, inf]", "finite"),
        ("bounds = [nan, 5]", "finite"),
        ("bounds = [0, 1e308]", "between"),
        ("bounds = [0, 5e-324]", "decimals"),
        ("bounds = [0, 10]\nspikes = [11]", "within the bounds"),
        ("bounds = [0, 10]\nheavy_tail = true\nscale = 5e-324", "larger scale"),
        ("bounds = [5e-324, 10]\nheavy_tail = true", "larger scale"),
        ('levels = "discover"\nlongest_code = -1', "longest_code"),
        ('levels = "discover"\nmost_codes = 0', "most_codes"),
        ('levels = "discover"\nmost_codes = 99999', "most_codes"),
        ('levels = "discover"\nlongest_code = 10000', "longest_code"),
        ('levels = "discover"\nprefixes = [2, 1]', "increasing"),
        ('levels = "discover"\nprefixes = [99]', "prefixes"),
        ('levels = "discover"\nordered = true', "ordered"),
        ('levels = "discover"\nedges = [0, 1]', "codes are not numbers"),
        ('levels = "discover"\namong = ["a"]', "2 to"),
        ('levels = "discover"\namong = ["a", "other"]', "other"),
        ('levels = "discover"\namong = ["a", "b"]\nparents = ["b", "a"]', "circle"),
        ('levels = "discover"\namong = ["a", "b"]\nparents = ["c", ""]', "not in the list"),
        ('levels = "discover"\namong = "nowhere.csv"', "does not exist"),
        ('levels = ["a"]\nmost_codes = 5', "list the levels"),
        ('levels = ["a", "b"]\nprefixes = [1]', "go with"),
        ('levels = "discovr"', "must be a list"),
    ],
)
def test_a_schema_that_cannot_be_meant(text, said):
    with pytest.raises(us.errors.SchemaError, match=said):
        parse_schema(START + text)


@pytest.mark.parametrize("value", [1e308, -1e308, np.inf, -np.inf, 1000.5], ids=str)
def test_a_number_outside_is_an_error_that_names_the_column_alone(value):
    frame = pd.DataFrame({"income": [1.0] * 500 + [value]})
    with pytest.raises(us.errors.SchemaError, match="income") as refused:
        made(frame)
    assert "308" not in str(refused.value)
    assert "1000.5" not in str(refused.value)


@pytest.mark.parametrize("text", ["inf", "-Infinity", "1e999", "12a"])
def test_a_text_that_is_no_amount(tmp_path, text):
    (tmp_path / "data.csv").write_text("income\n" + "5\n" * 500 + text + "\n")
    with pytest.raises(us.errors.SchemaError, match="income") as refused:
        made(tmp_path / "data.csv")
    assert text not in str(refused.value)


def test_the_least_numbers_there_are_fall_into_a_cell():
    frame = pd.DataFrame({"income": [5e-324, 2.2e-308, -0.0, 0.0, 999.999] * 300})
    values = made(frame).to_pandas().income
    assert values.between(0, 1000).all()
    assert np.isfinite(values).all()


def test_nothing_but_missing_values():
    frame = pd.DataFrame({"income": [np.nan] * 800})
    assert made(frame, missing=True).to_pandas().income.isna().mean() > 0.8
    with pytest.raises(us.errors.SchemaError, match="income"):
        made(frame)
