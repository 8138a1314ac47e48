"""Orders, ratios, sums and differences: checked in data, and exact in every value that is drawn."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import understudy as us
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import decode
from understudy.engines.reading.encode import encode_table
from understudy.errors import SchemaError
from understudy.privacy.randomness.streams import SeededStream

ORDER = us.Schema(
    attributes=(
        us.Attribute(name="start", edges=(0, 4, 8), integer=True),
        us.Attribute(name="end", edges=(0, 4, 9), integer=True, missing=True),
    ),
    rules=(us.Order(attributes=("start", "end")),),
)


def drawn(schema, rows, seed=1, **codes):
    columns = {name: np.full(rows, codes[name], np.uint8) for name in schema.names}
    return decode(CodedTable(schema=schema, columns=columns), SeededStream(seed), "decode", 1)


def test_values_in_one_bin_have_the_law_of_independent_ones_given_the_rule():
    table = drawn(ORDER, 30_000, start=0, end=0)
    pairs = Counter(zip(*table.to_pydict().values(), strict=True))
    possible = [(a, b) for a in range(4) for b in range(4) if a <= b]
    assert set(pairs) <= set(possible)
    seen = [pairs[pair] for pair in possible]
    assert chisquare(seen).pvalue > 1e-4
    other = np.array([1.25 if a == b else 1.0 for a, b in possible])  # as if rows were swapped into order
    assert chisquare(seen, other / other.sum() * sum(seen)).pvalue < 1e-4


def test_bins_that_hardly_overlap():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="a", edges=(0, 1_000_000), integer=True),
            us.Attribute(name="b", edges=(0, 3, 2_000_000), integer=True),
            us.Attribute(name="c", edges=(0, 2, 2_000_000), integer=True),
        ),
        rules=(us.Order(attributes=("a", "b", "c")),),
    )
    table = drawn(schema, 500, a=0, b=0, c=0).to_pydict()
    assert all(a <= b <= c <= 1 for a, b, c in zip(*table.values(), strict=True))
    assert {*table["a"]} == {*table["b"]} | {0} == {0, 1}


def test_narrow_ratios_with_digits():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="tax", edges=(0, 40, 500), decimals=2),
            us.Attribute(name="pay", edges=(0, 100, 2000), integer=True),
        ),
        rules=(us.Ratio(attributes=("tax", "pay"), at_least=0.2, at_most=0.2001),),
    )
    allowed = schema.allowed()
    assert allowed[0, 0]
    assert not allowed[1, 0]
    for tax, pay in np.argwhere(allowed):
        table = drawn(schema, 200, tax=tax, pay=pay).to_pydict()
        for one, other in zip(table["tax"], table["pay"], strict=True):
            assert 0.2 * other * 10_000 <= round(one * 100) * 100 + 1e-6
            assert round(one * 100) * 100 <= 0.2001 * other * 10_000 + 1e-6
        assert encode_table(drawn(schema, 200, tax=tax, pay=pay), schema).rows == 200


def test_dates_and_what_is_missing():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="born", edges=(datetime.date(2000, 1, 1), datetime.date(2001, 1, 1))),
            us.Attribute(name="died", edges=(datetime.date(2000, 1, 1), datetime.date(2001, 6, 1)), missing=True),
        ),
        rules=(us.Order(attributes=("born", "died")),),
    )
    table = drawn(schema, 2000, born=0, died=0).to_pydict()
    assert all(born <= died for born, died in zip(*table.values(), strict=True))
    assert drawn(schema, 5, born=0, died=1)["died"].null_count == 5


def test_found_bins_keep_an_order():
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=name, bounds=(0, 1000), integer=True) for name in ("low", "high")),
        rules=(us.Order(attributes=("low", "high")),),
    )
    rng = np.random.default_rng(4)
    low = rng.integers(0, 900, 2000)
    people = pa.table({"low": low, "high": low + rng.integers(0, 100, 2000)})
    with pytest.warns(UserWarning, match="ledger"):
        release = us.synthesize(us.open_source(people, schema), budget=us.PureDP(epsilon=4), method="ipf")
    table = release.frame().to_pydict()
    assert all(a <= b for a, b in zip(*table.values(), strict=True))
    with pytest.raises(SchemaError, match=r"against the rule \(low <= high\): 3 rows"):
        us.open_source(pa.table({"low": [5, 6, 7, 8], "high": [1, 2, 3, 9]}), schema).count([("low",)])


def test_data_against_a_rule_are_counted_and_not_shown():
    data = pa.table({"start": [1, 7, 5, 5], "end": [2, 3, 4, None]})
    with pytest.raises(SchemaError, match=r"against the rule \(start <= end\): 2 rows") as caught:
        encode_table(data, ORDER)
    assert "7" not in str(caught.value)
    asked = us.Schema(
        attributes=(
            us.Attribute(name="works", levels=("no", "yes")),
            us.Attribute(name="hours", edges=(0, 60), integer=True, missing=True),
        ),
        rules=(us.Asked(attributes="hours", conditions={"works": us.Condition(levels=("yes",))}),),
    )
    with pytest.raises(SchemaError, match=r"hours asked only if works in \(yes\)\): 1 row"):
        encode_table(pa.table({"works": ["no", "no", "yes"], "hours": [40, None, None]}), asked)


AMOUNTS = us.Schema(
    attributes=(
        us.Attribute(name="wage", edges=(0, 1000, 5000), decimals=2),
        us.Attribute(name="bonus", edges=(0, 100, 900), decimals=1),
        us.Attribute(name="tax", edges=(0, 800), integer=True, missing=True),
    ),
    derived=(
        us.Derived(name="gross", function="sum", sources=("wage", "bonus")),
        us.Derived(name="net", function="difference", sources=("wage", "tax")),
    ),
)


def test_sums_and_differences_are_exact():
    rng = np.random.default_rng(5)
    codes = {name: rng.integers(0, AMOUNTS[name].size, 3000).astype(np.uint8) for name in AMOUNTS.names}
    table = decode(CodedTable(schema=AMOUNTS, columns=codes), SeededStream(2), "decode", 1).to_pydict()
    for wage, bonus, tax, gross, net in zip(*table.values(), strict=True):
        assert round(gross * 100) == round(wage * 100) + round(bonus * 100)
        assert gross == round(gross, 2)
        assert net is None if tax is None else round(net * 100) == round(wage * 100) - 100 * tax


def test_a_sum_of_decimals_in_the_data_is_checked_exactly():
    rows = {"wage": [0.1, 0.3], "bonus": [0.2, 0.3], "tax": [0, None], "gross": [0.3, 0.6], "net": [0.1, None]}
    assert encode_table(pa.table(rows), AMOUNTS).rows == 2
    rows["gross"] = [0.3, 0.61]
    with pytest.raises(SchemaError, match="gross: 1 row with a value that disagrees"):
        encode_table(pa.table(rows), AMOUNTS)
