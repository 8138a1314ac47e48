"""Values from codes and back: types, laws, and the round trip."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import arrow_schema, decode, restore_types
from understudy.engines.reading.encode import encode_table
from understudy.errors import SchemaError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.csv_file import write_csv

ALARM = 1e-5  # false-alarm probability of every statistical test here; seeds are fixed


def coded(attribute, codes):
    return CodedTable(schema=Schema(attributes=(attribute,)), columns={attribute.name: np.asarray(codes)})


def drawn(attribute, codes, seed=1):
    return decode(coded(attribute, codes), SeededStream(seed), "test").column(0)


@st.composite
def attributes(draw):
    kind = draw(st.sampled_from(["text", "whole", "boolean", "real", "integer", "date"]))
    common = {"name": kind, "missing": draw(st.booleans()), "ordered": draw(st.booleans())}
    if kind in ("text", "whole", "boolean"):
        values = {
            "text": st.text(max_size=4).filter(lambda t: t != "<missing>"),
            "whole": st.integers(-(2**63), 2**63 - 1),
        }
        levels = draw(st.lists(values.get(kind, st.booleans()), min_size=1, max_size=5, unique=True))
        return Attribute(**common, levels=tuple(levels))
    numbers = {
        "real": st.floats(-1e300, 1e300) | st.integers(-1000, 1000),
        "integer": st.integers(-(2**53), 2**53) | st.integers(-5, 5),
        "date": st.dates(),
    }[kind]
    edges = sorted(draw(st.lists(numbers, min_size=2, max_size=6, unique_by=lambda v: v or 0)))
    codes = draw(st.lists(numbers, max_size=2, unique_by=lambda v: v or 0))
    if kind != "real" and edges[0] in codes:
        codes = []  # a bin of one value must not be all special; tested on its own below
    positive = kind != "date" and edges[0] > 0
    return Attribute(
        **common,
        edges=tuple(edges),
        integer=kind == "integer",
        special=tuple((code, f"special {i}") for i, code in enumerate(codes)),
        density=draw(st.sampled_from(["uniform", "log"])) if positive else "uniform",
    )


@given(attributes(), st.integers(0, 10), st.data())
@settings(max_examples=250, deadline=None)
def test_every_value_has_the_code_it_came_from(attribute, seed, data):
    codes = data.draw(st.lists(st.integers(0, attribute.size - 1), max_size=20))
    table = coded(attribute, np.array(codes, np.uint8))
    try:
        values = decode(table, SeededStream(seed), "test")
    except SchemaError:
        reject()  # a bin without any value that is not special; tested below
    again = encode_table(values, table.schema)
    np.testing.assert_array_equal(again.columns[attribute.name], codes)
    assert again.columns[attribute.name].dtype == np.min_scalar_type(attribute.size - 1)
    assert values.column(0).null_count == (0 if attribute.missing_code is None else codes.count(attribute.missing_code))


def test_types_and_labels():
    schema = Schema(
        attributes=(
            Attribute(name="t", levels=("b", "a", "z"), ordered=True, label="Letters", level_labels=("B", "A", "Z")),
            Attribute(name="w", levels=(3, 1), missing=True),
            Attribute(name="f", levels=(False, True)),
            Attribute(name="i", edges=(0, 5), integer=True, special=((-8, "none"),), missing=True),
            Attribute(name="r", edges=(0, 5), label="Real"),
            Attribute(name="d", edges=(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))),
        )
    )
    columns = {name: np.zeros(3, np.uint8) for name in schema.names} | {
        "w": np.array([2, 1, 0]),
        "i": np.array([1, 2, 1]),
    }
    table = decode(CodedTable(schema=schema, columns=columns), SeededStream(1), "test")
    assert table.schema.types == [
        pa.dictionary(pa.int32(), pa.string(), ordered=True),
        pa.dictionary(pa.int32(), pa.int64()),
        pa.dictionary(pa.int32(), pa.bool_()),
        *(pa.int64(), pa.float64(), pa.date32()),
    ]
    assert table.field("t").metadata[b"label"] == b"Letters"
    assert json.loads(table.field("t").metadata[b"level_labels"]) == ["B", "A", "Z"]
    assert table.field("r").metadata == {b"label": b"Real"}
    assert table.field("i").metadata is None
    assert table["w"].to_pylist() == [None, 1, 3]
    assert table["i"].to_pylist() == [-8, None, -8]
    frame = table.to_pandas()
    assert frame["t"].dtype == pd.CategoricalDtype(["b", "a", "z"], ordered=True)
    assert list(frame["w"].cat.categories) == [3, 1]
    assert not frame["w"].cat.ordered
    assert list(frame["f"].cat.categories) == [False, True]


def test_types_survive_a_file(tmp_path):
    schema = Schema(
        attributes=(
            Attribute(name="w", levels=(3, 1, 2), missing=True, ordered=True, label="W"),
            Attribute(name="f", levels=(True, False), missing=True),
            Attribute(name="t", levels=("b", "a")),
            Attribute(name="r", edges=(0, 5)),
        )
    )
    codes = np.array([0, 1, 1, 0])
    table = decode(
        CodedTable(schema=schema, columns={**dict.fromkeys(schema.names, codes), "w": codes + 2, "f": codes + 1}),
        SeededStream(1),
    )
    pq.write_table(table, tmp_path / "a.parquet")
    again = restore_types(pq.read_table(tmp_path / "a.parquet"), schema)
    assert again.schema.equals(table.schema, check_metadata=True)
    assert again.to_pydict() == table.to_pydict()
    assert again["w"].combine_chunks().dictionary.to_pylist() == [3, 1, 2]


def uniform_p_value(values, possible):
    counts = np.array([np.count_nonzero(values == value) for value in possible])
    assert counts.sum() == len(values)  # nothing outside
    return stats.chisquare(counts).pvalue


def test_integers_are_uniform_over_their_bin_and_the_last_edge_is_included():
    attribute = Attribute(name="age", edges=(16, 28, 42), integer=True)
    low = drawn(attribute, np.zeros(20_000, int)).to_numpy()
    high = drawn(attribute, np.ones(20_000, int)).to_numpy()
    assert uniform_p_value(low, range(16, 28)) > ALARM
    assert uniform_p_value(high, range(28, 43)) > ALARM
    shaped = np.where(high == 42, 41, high)  # the test must notice a missing last edge
    assert stats.chisquare([np.count_nonzero(shaped == v) for v in range(28, 43)]).pvalue < ALARM


def test_declared_decimals_are_those_of_every_value(tmp_path):
    pay = Attribute(name="pay", edges=(0, 0.01, 0.05), decimals=2, special=((0.02, "two"),), missing=True)
    found = drawn(pay, np.repeat([0, 1, 2, 3], 4000))
    values = found.to_pylist()
    assert set(values[:4000]) == {0.0}
    assert set(values[8000:12000]) == {0.02}
    assert set(values[12000:]) == {None}
    seen = [values[4000:8000].count(cents / 100) for cents in (1, 3, 4, 5)]  # the special code is not drawn
    assert sum(seen) == 4000
    assert stats.chisquare(seen).pvalue > ALARM
    write_csv(pa.table({"pay": found}).cast(arrow_schema(Schema(attributes=(pay,)))), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[1:2] == ["0.00"]
    beside = Attribute(name="pay", edges=(0, 1.5), decimals=1, special=(("N", "none"),))
    assert all(text == "N" or len(text) == 3 for text in drawn(beside, [0, 1] * 50).to_pylist())


@pytest.mark.parametrize(
    "options",
    [
        {"edges": (0, 0.015), "decimals": 2},
        {"edges": (0, 1), "decimals": 1, "integer": True},
        {"levels": ("a",), "decimals": 1},
        {"edges": (0, 1), "decimals": -1},
        {"edges": (0, 1), "decimals": True},
        {"edges": (0, 1e15), "decimals": 3},
        {"edges": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), "decimals": 0},
    ],
)
def test_decimals_that_cannot_be(options):
    with pytest.raises(SchemaError, match="decimals"):
        Attribute(name="a", **options)


def test_special_codes_inside_a_bin_are_not_drawn():
    attribute = Attribute(name="x", edges=(-10, 0, 5), integer=True, special=((-8, "a"), (-1, "b"), (5, "c")))
    assert (
        uniform_p_value(drawn(attribute, np.zeros(16_000, int)).to_numpy(), [-10, -9, -7, -6, -5, -4, -3, -2]) > ALARM
    )
    assert uniform_p_value(drawn(attribute, np.ones(10_000, int)).to_numpy(), range(5)) > ALARM


def test_a_bin_of_special_codes_only_is_refused():
    attribute = Attribute(name="x", edges=(0, 1, 5), integer=True, special=((0, "none"),))
    with pytest.raises(SchemaError, match="attribute 'x': every value of the bin from 0"):
        drawn(attribute, [0])
    tiny = Attribute(name="x", edges=(5e-324, 1e-323, 1), special=((5e-324, "none"),))
    with pytest.raises(SchemaError, match="attribute 'x': every value of the bin from 5e-324"):
        drawn(tiny, [0])


def test_dates_are_uniform_over_days():
    first, last = datetime.date(2024, 2, 20), datetime.date(2024, 3, 5)
    attribute = Attribute(name="d", edges=(first, datetime.date(2024, 3, 1), last))
    february = np.array(drawn(attribute, np.zeros(10_000, int)).to_pylist())
    march = np.array(drawn(attribute, np.ones(10_000, int)).to_pylist())
    assert uniform_p_value(february, [datetime.date(2024, 2, day) for day in range(20, 30)]) > ALARM
    assert uniform_p_value(march, [datetime.date(2024, 3, day) for day in range(1, 6)]) > ALARM


@pytest.mark.parametrize(
    ("density", "law", "other"),
    [
        ("uniform", stats.uniform(2, 6), stats.loguniform(2, 8)),
        ("log", stats.loguniform(2, 8), stats.uniform(2, 6)),
    ],
)
def test_reals_follow_the_stated_density(density, law, other):
    attribute = Attribute(name="r", edges=(1, 2, 8), density=density)
    values = drawn(attribute, np.ones(5_000, int)).to_numpy()
    assert stats.kstest(values, law.cdf).pvalue > ALARM
    assert stats.kstest(values, other.cdf).pvalue < ALARM
    assert values.min() >= 2


def test_integers_with_log_density():
    attribute = Attribute(name="n", edges=(1, 4), integer=True, density="log")
    values = drawn(attribute, np.zeros(20_000, int)).to_numpy()
    shares = np.log([2, 1.5, 4 / 3, 1.25]) / np.log(5)
    counts = [np.count_nonzero(values == v) for v in (1, 2, 3, 4)]
    assert stats.chisquare(counts, shares * 20_000).pvalue > ALARM
    assert stats.chisquare(counts).pvalue < ALARM


class Extremes:
    """All words 0, or all as large as can be: the ends of every bin."""

    secure = False

    def __init__(self, word):
        self.word = word

    def words(self, count, *purpose):
        return np.full(count, self.word, np.uint64)

    def discrete_laplace(self, scale: Fraction, size: int):
        raise AssertionError("decoding draws no noise")


@pytest.mark.parametrize("edges", [(0.1, 0.3, 0.7), (-1e300, 0.0, 1e300), (5e-324, 1e-323, 1.5e-323), (1, 2, 3)])
@pytest.mark.parametrize("density", ["uniform", "log"])
@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_ends_of_a_bin_belong_to_it(edges, density, word):
    if density == "log" and edges[0] <= 0:
        density = "uniform"
    attribute = Attribute(name="r", edges=edges, density=density)
    table = coded(attribute, [0, 1])
    values = decode(table, Extremes(word))
    assert encode_table(values, table.schema).columns["r"].tolist() == [0, 1]


def test_substreams_are_named_by_purpose_and_attribute():
    attribute = Attribute(name="r", edges=(0, 1))
    table = coded(attribute, np.zeros(5, int))
    first, other, again = (decode(table, SeededStream(3), "copy", n).column(0).to_pylist() for n in (1, 2, 1))
    assert first == again
    assert first != other
    assert len(set(first)) == 5


def test_empty_tables():
    schema = Schema(attributes=(Attribute(name="a", levels=("x",)), Attribute(name="r", edges=(0, 1), missing=True)))
    empty = decode(CodedTable(schema=schema, columns={"a": np.empty(0, int), "r": np.empty(0, int)}), SeededStream(1))
    assert empty.num_rows == 0
    assert encode_table(empty, schema).rows == 0
