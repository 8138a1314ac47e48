"""What one column of confidential data looks like, gathered in one pass.

For the draft of a schema and nothing else.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.clock import CLOCKS, DAY_SECONDS, clock_number, clock_text
from understudy.core.schema import Attribute
from understudy.engines.reading.drafted_edges import round_edges, rounded_down
from understudy.engines.reading.values import (
    EPOCH,
    canonical_texts,
    check_type,
    is_text,
    iso_day_number,
    on_clock,
    plain,
    readable_column,
)
from understudy.errors import SchemaError

MOST_DISTINCT = 20_000  # values told apart in one column; more are no levels of anything
MOST_WORDS = 6  # different texts beside numbers; with more of them a column is one of texts
LONGEST_WORD = 16  # letters of such a text
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
LEADING_ZERO = re.compile(r"\s*[+-]?0\d.*")
LEAST_CODE, MANY_ROWS, OFTEN = 9990, 10, 0.005  # such a number, rows and share of the rows: no amount is so frequent
APART = 10.0  # times as large as all others is a round number that stands for something else
PANEL = 100  # units at least of a panel
QUARTERS = 4
UNEVEN = 1.5  # times as many rows for a number in one quarter of the range as in another
LONG_RANGE = 300  # different whole numbers without a gap; ages and years have fewer
COMMA_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d{3})*,\d+\s*")  # 1234,50 and 1.234,50
OTHER_DAY = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})( .*)?|\d{4}[./]\d{1,2}[./]\d{1,2}( .*)?")
CODE = re.compile(r"9{2,}|9+[678]|-[1-9]|-9{2,}|-9+[678]")  # 99, 999, 99998, -8, -99: how surveys write "no answer"


@dataclass(slots=True, kw_only=True)
class Profile:
    """Counts and ranges of one column. ``counts`` is None once there are too many different values to keep."""

    name: str
    rows: int = 0
    missing: int = 0
    readable: bool = True
    boolean: bool = False
    counts: Counter[str] | None = field(default_factory=Counter)
    distinct_seen: int = 0  # different values when counting stopped
    rows_seen: int = 0  # rows when counting stopped
    span_seen: float = math.inf  # of the numbers when counting stopped
    numbers: bool = True  # every text is a number, but for a few words
    words: Counter[str] = field(default_factory=Counter)  # texts beside numbers: "N", "NA", "refused"
    whole: bool = True
    plain_integers: bool = True  # every text is the one way to write its whole number
    finite: bool = True
    low: float = math.inf  # of values that do not look like codes
    high: float = -math.inf
    total: float = 0.0
    codes: Counter[float] = field(default_factory=Counter)
    spread: Counter[float] = field(default_factory=Counter)  # values rounded to a 64th of their size
    divisor: int = 0  # of all whole numbers
    digits: set[int] = field(default_factory=set)  # numbers of digits of whole numbers
    decimals: int = 0  # most digits behind the point
    commas: int = 0  # rows with a number that is written with a decimal comma
    other_days: int = 0  # rows with a day that is not written 2026-11-17
    dates: bool = True
    first: datetime.date = datetime.date.max
    last: datetime.date = datetime.date.min
    times: int = 0  # rows with a time such as 8:30
    seconds: bool = False  # whether a time has seconds
    latest: int = 0  # of the times, in seconds
    letters: int = 0
    longest: int = 0

    @property
    def filled(self) -> int:
        return self.rows - self.missing

    @property
    def nearly_distinct(self) -> bool:
        """Whether nearly every row has a value of its own."""
        if self.counts is None:
            return self.distinct_seen >= 0.9 * self.rows_seen
        return self.filled >= 20 and len(self.counts) >= 0.9 * self.filled

    def add(self, array: pa.Array, *, missing_text: str | None) -> None:
        """Takes in one batch of the column."""
        self.rows += len(array)
        array = plain(array)
        if pa.types.is_time(array.type) or pa.types.is_duration(array.type):
            seconds = on_clock(array, "seconds").to_pylist()
            array = pa.array([None if one is None else clock_text(one, "seconds") for one in seconds], pa.string())
        try:
            check_type(array.type, self.name)
        except SchemaError:
            self.readable = False
            return
        if pa.types.is_dictionary(array.type):
            array = plain(array.dictionary_decode())
        if pa.types.is_null(array.type):
            self.missing += len(array)
            return
        typed_date = pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)
        self.boolean |= pa.types.is_boolean(array.type)
        text = is_text(array.type)
        with readable_column(self.name):
            array.validate(full=True)
            texts = canonical_texts(array)
        for found in pc.value_counts(texts).to_pylist():
            value, rows = found["values"], found["counts"]
            if value is None or (text and missing_text is not None and value in (missing_text, "")):
                self.missing += rows
            else:
                self._take(value, rows, typed_date=typed_date)

    def _take(self, value: str, rows: int, *, typed_date: bool) -> None:
        if self.counts is not None:
            self.counts[value] += rows
            if len(self.counts) > MOST_DISTINCT:
                self.distinct_seen, self.rows_seen = len(self.counts), self.counts.total()
                self.span_seen = self.high - self.low
                self.counts = None
        self.letters += rows * len(value)
        self.longest = max(self.longest, len(value))
        self._take_date(value)
        if (time := clock_number(value, "seconds")) is not None:
            self.times += rows
            self.seconds |= time % 60 > 0
            self.latest = max(self.latest, time)
        self.commas += rows * bool(COMMA_NUMBER.fullmatch(value))
        self.other_days += rows * bool(OTHER_DAY.fullmatch(value))
        if typed_date:
            self.numbers = False
        if self.numbers:
            self._take_number(value, rows)

    def _take_number(self, text: str, rows: int) -> None:
        if text in ("inf", "-inf"):
            self.finite = False
            return
        if LEADING_ZERO.fullmatch(text) and "." not in text:
            self.numbers = False
            return
        if not NUMBER.fullmatch(text):
            self.words[text.strip()] += rows
            self.numbers = len(self.words) <= MOST_WORDS and len(text.strip()) <= LONGEST_WORD and bool(text.strip())
            return
        number = float(text)
        if math.isinf(number):
            self.finite = False
            return
        self.whole &= number == int(number)
        self.plain_integers &= abs(number) <= 2**53 and text == str(int(number))
        if (number == int(number) and CODE.fullmatch(str(int(number)))) or _fills_digits(number):
            self.codes[number] += rows
            return
        self.low, self.high = min(self.low, number), max(self.high, number)
        self.spread[rounded_down(number)] += rows
        self.total += number * rows
        if self.whole:
            self.divisor = math.gcd(self.divisor, int(number))
            self.digits.add(len(str(abs(int(number)))))
        else:
            self.decimals = max(self.decimals, len(text.strip().partition(".")[2]))

    def _take_date(self, text: str) -> None:
        if not self.dates:
            return
        number = iso_day_number(text)
        if number is None or text != text.strip():
            self.dates = False
        else:
            day = EPOCH + datetime.timedelta(days=number)
            self.first, self.last = min(self.first, day), max(self.last, day)

    def probable_codes(self) -> list[float]:
        """Values that look like codes and lie apart from the others; the rest of the look-alikes are ordinary."""
        if self.low > self.high:
            return []
        negative = [code for code in self.codes if code < 0]
        apart = sorted(negative) if self.low >= 0 and len(negative) <= 5 else []
        top = max([self.high, *(code for code in self.codes if 0 < code < 1.5 * self.high)])
        above = {code for code in self.codes if code > APART * top and self.high > 0}
        plainly = {code: rows for code, rows in self.codes.items() if not _fills_digits(code)}
        above |= {code for code in plainly if code > 0 and code > 1.5 * top and self.high > 0}
        # 999999 above every other number, in many rows: a code also where the others reach close to it.
        above |= {
            code
            for code, rows in plainly.items()
            if code >= LEAST_CODE and code > self.high > 0 and rows >= max(MANY_ROWS, OFTEN * self.filled)
        }
        # 99998 inside the range, in more rows than all numbers around it together.
        often = max(MANY_ROWS, OFTEN * self.filled)
        above |= {
            code
            for code, rows in plainly.items()
            if code >= LEAST_CODE and rows >= often and rows > self.spread.get(rounded_down(code), 0)
        }
        return apart + sorted(above)

    @property
    def has_numbers(self) -> bool:
        return self.numbers and self.low <= self.high

    @property
    def mean(self) -> float | None:
        """The mean of the numbers that do not look like codes."""
        rows = self.spread.total()
        return self.total / rows if rows else None

    def range_without(self, codes: list[float]) -> tuple[float, float]:
        """Lowest and highest value, without some codes."""
        ordinary = [code for code in self.codes if code not in codes]
        return min([self.low, *ordinary]), max([self.high, *ordinary])

    @property
    def beside_numbers(self) -> set[str]:
        """The texts of a column that otherwise has numbers."""
        return set(self.words) if self.numbers and self.low <= self.high else set()

    @property
    def different(self) -> int:
        """How many different values there are, or were when counting stopped."""
        return self.distinct_seen if self.counts is None else len(self.counts)

    @property
    def rows_of_a_value(self) -> float:
        """In how many rows a value occurs on average."""
        rows = self.rows_seen if self.counts is None else self.filled
        return rows / max(self.different, 1)

    @property
    def serial(self) -> bool:
        """Whether the numbers are 1, 2, 3, ...: nearly every whole number of a long range occurs."""
        span = self.span_seen if self.counts is None else self.high - self.low
        return self.whole and self.different >= LONG_RANGE and self.different >= 0.9 * (span + 1)

    @property
    def balanced(self) -> bool:
        """Whether many whole numbers have the same few rows each, as no answer of people does: the key of a panel."""
        if not (self.numbers and self.whole and self.counts) or self.different < PANEL:
            return False
        return 1 < min(self.counts.values()) == max(self.counts.values()) < 10

    @property
    def evenly_spread(self) -> bool:
        """Whether large numbers have as many rows as small and middle ones: a key does, a score or an age does not."""
        if self.counts is None:
            return True
        rows = [count for _, count in sorted((float(text), count) for text, count in self.counts.items())]
        size = -(-len(rows) // QUARTERS)
        parts = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
        means = [sum(part) / len(part) for part in parts]
        return max(means) < UNEVEN * min(means)

    def spikes(self) -> list[float]:
        """Numbers that a quarter of the rows have: zero hours, forty hours, a top code."""
        common = (self.counts or Counter()).most_common(3)
        texts = [text for text, rows in common if 4 * rows > self.filled]
        zero = [0.0] if self.counts is None and 4 * self.spread[0.0] > self.filled else []  # only 0 is rounded to 0
        return [*zero, *(float(text) for text in texts if NUMBER.fullmatch(text))]

    def without_codes(self, codes: list[float]) -> dict[float, int]:
        """Rows by rounded value: the ordinary values, and the look-alikes of codes that are none."""
        rows = Counter(self.spread)
        for code, found in self.codes.items():
            if code not in codes:
                rows[rounded_down(code)] += found
        return dict(rows)


def _fills_digits(number: float) -> bool:
    """Whether a number is a power of ten or just below, as 999999.375 is: what a field of six digits holds at most.

    >>> _fills_digits(1_000_000), _fills_digits(999999.375), _fills_digits(999_999), _fills_digits(1.7e308)
    (True, True, False, False)
    """
    if not LEAST_CODE <= number <= 2**53:
        return False
    power = 10.0 ** math.ceil(math.log10(number))
    return power - 1 < number <= power


def discover_lines(name: str) -> str:
    """Lines of a schema that leave it to the release to find the frequent codes of a column."""
    return f'[[attribute]]\nname = {json.dumps(name, ensure_ascii=False)}\nlevels = "discover"'


def clock_attribute(profile: Profile, label: str) -> tuple[Attribute, tuple[str, ...]] | None:
    """A column of times of day or of durations, with remarks; None if it holds anything else."""
    if not profile.times or profile.times < profile.filled:
        return None
    clock: Literal["minutes", "seconds"] = "seconds" if profile.seconds else "minutes"
    day = profile.latest < DAY_SECONDS
    most = DAY_SECONDS // CLOCKS[clock] - 1
    if not day:
        most = int(round_edges(0, profile.latest // CLOCKS[clock], whole=True)[-1])
    attribute = Attribute(
        name=profile.name, label=label, clock=clock, bounds=(0, most), missing=profile.missing > 0,
    )  # fmt: skip
    remark = (
        "times of day (if they are durations, give bounds that everybody could know)."
        if day
        else "durations; the upper bound was seen in the data and rounded: replace it with a public one."
    )
    return attribute, (remark,)


def spellings_among(levels: Iterable[str]) -> list[list[str]]:
    """Levels that differ only in upper and lower case, spaces, hyphens or full stops."""
    alike: dict[str, list[str]] = {}
    for level in levels:
        alike.setdefault(re.sub(r"[\s._-]+", "", level).casefold(), []).append(level)
    return [group for group in alike.values() if len(group) > 1]


def abbreviations_among(levels: Iterable[str]) -> list[tuple[str, str]]:
    """Levels of one or two letters with which exactly one longer level begins: F and female."""
    listed = list(levels)
    found = []
    for short in listed:
        if len(short) <= 2 and short.isalpha():
            longer = [one for one in listed if len(one) > 3 and one.casefold().startswith(short.casefold())]
            if len(longer) == 1:
                found.append((short, longer[0]))
    return found
