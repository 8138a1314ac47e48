"""Rules that hold in every row of some data: candidates for the draft of a schema and nothing else.

Whether it is a rule only a person can say. A draft shows what to write.

A column that is never filled where another has a certain value is usually so by design: women are asked about births,
people of working age about their job. The schema can say it with ``asked_if``. A column of survey weights is known by
its name; the schema declares it with ``[weight]``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.arrays import Flags, Floats
from understudy.core.rules import Order, steps_of
from understudy.core.schema import Attribute, level_text
from understudy.engines.reading.drafted_edges import near, round_edges
from understudy.engines.reading.encode import Encoder
from understudy.engines.reading.rule_values import in_steps
from understudy.engines.reading.values import as_numpy, canonical_texts, on_clock, parse_numbers, plain, values_of

MOST_ROWS = 100_000  # rows looked at; a rule of the questionnaire shows in fewer
MOST_LEVELS = 12  # of a column that decides who is asked
LEAST_ROWS = 30  # rows that a rule must speak of
# weight, pweight, fnlwgt, PWGTP, pspwght, perwt, WTMEC2YR, pw; as German, French, Spanish and Italian files say it; and
# the codes of EU-SILC (DB080, DB090, RB050, RB060-RB064, PB040-PB060)
WEIGHT_NAME = re.compile(
    r"(.*[_ .-])?([a-z]*weights?|[a-z]*wgh?t[a-z]?|[a-z]*wt|wt[a-z]*\d*[a-z]*|pw|\w*gewicht|hochrechnung\w*|"
    r"poids\w*|pond[eé]r\w*|peso|factor_?exp\w*|db0[89]0|rb0(50|6[0-4])|pb0[456]0)\d*",
    re.IGNORECASE,
)
OF_A_BODY = re.compile(
    r"\b(kilo(gram)?s?|kgs?|pounds?|lbs?|grams?|ounces?|body|birth)\b", re.IGNORECASE
)  # in its label
# strata, stratum, SDMVSTRA; psu, SDMVPSU, cluster; as files in other languages say it; DB050 and DB060 of EU-SILC
STRATA_NAME = re.compile(
    r"(.*[_ .-])?([a-z]*strat(a|um|ums)?([_ .-]?id)?|sdmvstra|schicht|estrato|strate|db050)\d*", re.IGNORECASE
)
CLUSTER_NAME = re.compile(
    r"(.*[_ .-])?([a-z]*psu([_ .-]?id)?|clus(ter)?s?([_ .-]?id)?|klumpen|conglomerado|grappe|db060)\d*", re.IGNORECASE
)
SCALED = 0.002  # how near one the mean of weights is that were scaled to the number of rows and then rounded
EXPLAINS = 0.3  # of the rows without a value; others did not answer
MOST_CONDITIONS = 3  # of one rule
STILL_MISSING = 0.4  # at most, among those who are asked: then 30 empty rows in one group are no chance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Where a column is never filled, in words, and who is asked as a line of the schema."""

    of: str  # the column that decides
    never: Flags
    words: str
    condition: str


def skip_patterns(
    batches: Iterable[pa.RecordBatch], attributes: Mapping[str, Attribute], unfilled: Mapping[str, set[str]]
) -> dict[str, str]:
    """A remark for each column that is never filled where one other column has a certain value.

    ``unfilled`` gives for each column the texts that are no value, beside nulls.
    """
    columns: dict[str, list[pa.Array]] = {name: [] for name in attributes}
    rows = 0
    for batch in batches:
        for name, parts in columns.items():
            parts.append(canonical_texts(_decoded(batch.column(name))))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    texts = {name: pa.chunked_array(parts, pa.large_string()).combine_chunks() for name, parts in columns.items()}
    texts |= {name: on_clock(texts[name], one.clock) for name, one in attributes.items() if one.clock}
    empty = {name: _is_empty(texts[name], unfilled[name]) for name in attributes}
    asked = {name: flags for name, flags in empty.items() if LEAST_ROWS <= flags.sum() <= rows - LEAST_ROWS}
    found: dict[str, str] = {}
    for name, flags in asked.items():
        others = {other: (one, texts[other], empty[other]) for other, one in attributes.items() if other != name}
        if rules := _rules_about(flags, others):
            found[name] = (
                f"never filled where {', nor where '.join(rule.words for rule in rules)}. "
                f"If the questionnaire says so, write:\n[[rule]]\nasked = {json.dumps([name], ensure_ascii=False)}\n"
                f"asked_if = {{ {', '.join(rule.condition for rule in rules)} }}"
                + not_asked(attributes[name])
                + _if_missing(flags, [empty[rule.of] for rule in rules])
            )
    return found


def _if_missing(flags: Flags, unknown: list[Flags]) -> str:
    """The line of a rule that says that nobody is asked of whom a condition is not known; none if it is not so."""
    return '\nif_missing = "not asked"' if _silent(np.logical_or.reduce(unknown), flags).any() else ""


def _silent(unknown: Flags, flags: Flags) -> Flags:
    """The rows of which a condition is not known, if they are many and none of them is filled."""
    return unknown if unknown.sum() >= LEAST_ROWS and flags[unknown].all() else np.zeros(len(flags), bool)


def _rules_about(flags: Flags, others: Mapping[str, tuple[Attribute, pa.Array, Flags]]) -> list[_Rule]:
    """What explains why a column is not filled: the best rule, and then others among the rows that it leaves open."""
    found: list[_Rule] = []
    left, rest = np.ones(len(flags), bool), dict(others)
    while len(found) < MOST_CONDITIONS:
        rules = {
            name: rule
            for name, (attribute, texts, empty) in rest.items()
            if (rule := _rule(attribute, texts.filter(pa.array(left)), empty[left], flags[left])) is not None
        }
        if not rules:
            break
        # Whose value is not known there counts too, if none of them is asked; a level says more than a bound.
        silent = {name: rule.never | _silent(rest[name][2][left], flags[left]) for name, rule in rules.items()}
        best = max(rules, key=lambda name: (silent[name].sum(), bool(rest[name][0].levels)))
        found.append(rules[best])
        left[np.flatnonzero(left)[silent[best]]] = False
        del rest[best]
    return found


def not_asked(attribute: Attribute) -> str:
    """The line of a rule that says what people have who were not asked; none if their value is missing.

    >>> not_asked(Attribute(name="births", edges=(0, 1, 9), special={"N": "not asked"}))
    '\\notherwise = "not asked"'
    """
    meanings = [meaning for code, meaning in attribute.special if isinstance(code, str)]
    return f"\notherwise = {json.dumps(meanings[0], ensure_ascii=False)}" if meanings and not attribute.missing else ""


def weight_remarks(name: str, low: float, high: float, mean: float | None = None, *, label: str = "") -> list[str]:
    """How a column is declared that, by its name, may hold survey weights; with bounds that hold what was seen.

    ``mean``: of all rows. Weights that add up to the number of rows were scaled to it.

    >>> print(weight_remarks("PWGTP", 12, 1830)[0].splitlines()[-1])
    bounds = [10, 2000]
    >>> print(weight_remarks("weight", 0.05, 12, 1.0)[0].splitlines()[-1])
    sums_to = "sample"
    >>> weight_remarks("width", 1, 2), weight_remarks("wt71", 36.2, 169.2, label="Weight in kilograms in 1971")
    ([], [])
    """
    if not WEIGHT_NAME.fullmatch(name) or low == high or OF_A_BODY.search(label):
        return []
    if low <= 0:
        return ["may be a survey weight by its name; but a weight is positive, and not every value here is."]
    step = 10.0 ** math.floor(math.log10(low))
    first, last = math.floor(low / step) * step, round_edges(0, high, whole=high > 1)[-1]
    scaled = mean is not None and abs(mean - 1) < SCALED
    return [
        "looks like a survey weight"
        + (", scaled so that the weights add up to the number of rows" if scaled else "")
        + ". If it is one, remove this attribute; with bounds that the design gives, write:\n"
        f"[weight]\ncolumn = {json.dumps(name, ensure_ascii=False)}\nbounds = [{first:.12g}, {last}]"
        + ('\nsums_to = "sample"' if scaled else "")
    ]


def design_remarks(name: str) -> list[str]:
    """How a column is declared that, by its name, may say how a sample was drawn.

    >>> design_remarks("SDMVPSU")[0].split(":")[0]
    'by its name it may be the clusters of the sample'
    >>> design_remarks("status")
    []
    """
    written = json.dumps(name, ensure_ascii=False)
    if CLUSTER_NAME.fullmatch(name):
        return [
            "by its name it may be the clusters of the sample: if so, remove this attribute and say "
            f"clusters = {written} under [design]."
        ]
    if STRATA_NAME.fullmatch(name):
        return [
            f"by its name it may be the strata of the sample: if so, say sampling_strata = {written} under [design]."
        ]
    return []


def _rule(attribute: Attribute, texts: pa.Array, empty: Flags, flags: Flags) -> _Rule | None:
    if attribute.levels:
        return _by_level(attribute, texts, flags) if attribute.bins <= MOST_LEVELS else None
    return _by_bound(attribute, texts, empty, flags) if attribute.kind == "numeric" else None


def _by_level(attribute: Attribute, texts: pa.Array, flags: Flags) -> _Rule | None:
    never = np.zeros(len(flags), bool)
    levels = []
    for level in attribute.levels:
        here = as_numpy(pc.fill_null(pc.equal(texts, level_text(level)), False))
        if here.sum() >= LEAST_ROWS and flags[here].all():
            never |= here
            levels.append(level_text(level))
    if not levels or len(levels) == attribute.bins or not _convinces(never, flags):
        return None
    asked = [level_text(level) for level in attribute.levels if level_text(level) not in levels]
    return _Rule(
        of=attribute.name,
        never=never,
        words=f"{attribute.name} is {', '.join(levels)}",
        condition=f"{_key(attribute.name)} = {json.dumps(asked, ensure_ascii=False)}",
    )


def _by_bound(attribute: Attribute, texts: pa.Array, empty: Flags, flags: Flags) -> _Rule | None:
    numbers = np.full(len(flags), np.nan)
    numbers[~empty] = as_numpy(parse_numbers(texts.filter(pa.array(~empty))))
    numbers[np.isin(numbers, [float(code) for code, _ in attribute.special if isinstance(code, int | float)])] = np.nan
    filled = numbers[~flags & ~np.isnan(numbers)]
    if not len(filled):
        return None
    low, high = filled.min(), filled.max()
    under, over = numbers < low, numbers > high
    least = _between(numbers[under].max(initial=-np.inf), low, low, attribute)
    most = _between(high, numbers[over].min(initial=np.inf), numbers[over].min(initial=np.inf), attribute)
    for never, words, condition in (
        (under, f"is below {least:g}", f"{_key(attribute.name)} = {{ above = {least:.12g} }}"),
        (over, f"is {most:g} or more", f"{_key(attribute.name)} = {{ below = {most:.12g} }}"),
    ):
        if _convinces(never, flags):
            return _Rule(of=attribute.name, never=never, words=f"{attribute.name} {words}", condition=condition)
    return None


def _between(low: float, high: float, usual: float, attribute: Attribute) -> float:
    """A round number above the first and at most the second, so that a rule names the value of nobody.

    >>> _between(0, 238.35, 238.35, Attribute(name="wage", edges=(0, 9999)))
    200.0
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return usual
    found = float(near((low + high) / 2, (high - low) / 2, whole=attribute.integer))
    return found if low < found <= high else usual


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _convinces(never: Flags, flags: Flags) -> bool:
    """Whether the rule speaks of many rows and explains many that are not filled."""
    asked = ~never
    return bool(
        never.sum() >= LEAST_ROWS
        and asked.sum() >= LEAST_ROWS
        and never.sum() >= EXPLAINS * flags.sum()
        and flags[asked].mean() <= STILL_MISSING
    )


def _decoded(array: pa.Array) -> pa.Array:
    array = plain(array)
    return plain(array.dictionary_decode()) if pa.types.is_dictionary(array.type) else array


def _is_empty(texts: pa.Array, unfilled: set[str]) -> Flags:
    listed = pa.array(sorted(unfilled), pa.large_string())
    flags: Flags = as_numpy(texts.is_null()) | as_numpy(pc.is_in(pc.utf8_trim_whitespace(texts), listed))
    return flags


# Sums, differences and orders that hold in every row of some data: candidates for rules, for a draft and nothing
# else.
#
# Only a person can say whether it is a rule. A draft shows what to write, commented out.


MOST_COLUMNS = 40  # numbers and dates that are compared with each other
LEAST_COMPARED = 50  # with a value in both
MOST_PARTS = 4  # of a sum
OFTEN_WRONG = 0.05  # of pairs of rows of different people, at least: otherwise ranges alone make an order
NEAR, SOME = 0.02, 0.005  # of the range of the middle of the numbers; and of the rows, that come so near to equality
PAIRED_NAMES = tuple(
    (re.compile(rf"(^|[_ .-]|\b)({first})", re.IGNORECASE), re.compile(rf"(^|[_ .-]|\b)({last})", re.IGNORECASE))
    for first, last in (
        ("start|begin|from|entry|admi|open|onset|birth|born", "end|stop|to|exit|disch|clos|death|died"),
        ("min|low", "max|high|upp"), ("part|net|sub", "total|gross|sum"), ("eintritt|beginn|von", "austritt|ende|bis"),
    )
)  # fmt: skip
OVERLAP = 0.2  # of the rows must have values that two columns share, or an order says nothing


def rule_candidates(batches: Iterable[pa.RecordBatch], attributes: Mapping[str, Attribute]) -> list[str]:
    """The lines of a schema for each rule that holds in all rows, each after a remark that says so."""
    chosen = dict(list(_comparable(attributes).items())[:MOST_COLUMNS])
    columns = _numbers(batches, chosen)
    totals = _sums({name: columns[name] for name, one in chosen.items() if one.kind == "numeric"}, chosen)
    found = [
        f"{total} = {' + '.join(parts)} in every row. If this is so by definition, leave out the attribute {total} and "
        f'write:\n[[derived]]\nname = {_quoted(total)}\nfrom = [{", ".join(map(_quoted, parts))}]\nfunction = "sum"'
        for total, parts in totals.items()
    ]
    for small, large in _orders(columns, chosen):
        if not any({small, large} <= {total, *parts} for total, parts in totals.items()):
            rule = Order(attributes=(small, large))
            found.append(
                f"{rule.describe()} in every row. If this must always hold, write:\n[[rule]]\n"
                f"order = [{_quoted(small)}, {_quoted(large)}]"
            )
    return found


def _comparable(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    return {
        name: one
        for name, one in attributes.items()
        if one.kind == "date" or (one.kind == "numeric" and (one.integer or one.decimals is not None))
    }


def _numbers(batches: Iterable[pa.RecordBatch], chosen: Mapping[str, Attribute]) -> dict[str, Floats]:
    from understudy.core.schema import Schema

    if not chosen:
        return {}
    schema = Schema(attributes=tuple(chosen.values()))
    parts: dict[str, list[Floats]] = {name: [] for name in chosen}
    encoder, rows = Encoder(schema, missing_text=""), 0
    for batch in batches:
        codes = encoder.encode(batch)
        for name, one in chosen.items():
            parts[name].append(in_steps(values_of(batch.column(name), codes[name], one), 10 ** steps_of(one)))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    return {name: np.concatenate(found) if found else np.empty(0) for name, found in parts.items()}


def _sums(columns: Mapping[str, Floats], chosen: Mapping[str, Attribute]) -> dict[str, tuple[str, ...]]:
    """Columns that are, in every row, the sum of two to four others with the same decimals."""
    found: dict[str, tuple[str, ...]] = {}
    for total, amounts in columns.items():
        others = [
            name
            for name in columns
            if name != total and name not in found and steps_of(chosen[name]) == steps_of(chosen[total])
        ]
        parts = next(
            (
                some
                for size in range(2, min(MOST_PARTS, len(others)) + 1)
                for some in combinations(others[: 12 if size > 2 else MOST_COLUMNS], size)
                if _adds_up(amounts, [columns[name] for name in some])
            ),
            None,
        )
        if parts is not None and not any(total in before for before in found.values()):
            found[total] = parts
    return found


def _adds_up(total: Floats, parts: list[Floats]) -> bool:
    known = ~np.isnan(total)
    for part in parts:
        if (known != ~np.isnan(part)).any() or not (part[known] != 0).any():
            return False
    head = np.flatnonzero(known)[:20]  # most candidates fail at once
    if len(head) < 20 or not np.array_equal(sum(part[head] for part in parts), total[head]):
        return False
    several = (np.column_stack([part[known] for part in parts]) != 0).sum(axis=1) > 1
    return bool(several.sum() >= 10 and np.array_equal(sum(part[known] for part in parts), total[known]))


def _orders(columns: Mapping[str, Floats], chosen: Mapping[str, Attribute]) -> list[tuple[str, str]]:
    """Pairs of dates, or of numbers with the same decimals and overlapping ranges: one is never above the other."""
    found = []
    for one, other in combinations(columns, 2):
        if chosen[one].kind != chosen[other].kind:
            continue
        both = ~np.isnan(columns[one]) & ~np.isnan(columns[other])
        if both.sum() < LEAST_COMPARED:
            continue
        first, second = columns[one][both], columns[other][both]
        overlap = (first >= second.min()) & (first <= second.max())
        if overlap.mean() < OVERLAP or not _alike(chosen[one], chosen[other]):
            continue
        if (first <= second).all() and _is_no_chance(first, second, named=_named_so(one, other)):
            found.append((one, other))
        elif (second <= first).all() and _is_no_chance(second, first, named=_named_so(other, one)):
            found.append((other, one))
    implied = {(a, d) for a, b in found for c, d in found if b == c}
    return [pair for pair in found if pair not in implied]


def _is_no_chance(small: Floats, large: Floats, *, named: bool) -> bool:
    """Whether an order that holds in all rows is more than one column of small and one of large numbers.

    Rows of strangers would break it often, and some rows come close to breaking it. What is called start and end needs
    no more than to hold.
    """
    if not (small < large).any():
        return False
    if named:
        return True
    strangers = float(
        (np.sort(small)[:, None][:: len(small) // 200 + 1] > large[None, :: len(large) // 200 + 1]).mean()
    )
    middle = float(np.subtract(*np.quantile(large, [0.9, 0.1])))
    return strangers >= OFTEN_WRONG and float((large - small <= NEAR * middle).mean()) >= SOME


def _named_so(small: str, large: str) -> bool:
    return any(first.search(small) and last.search(large) for first, last in PAIRED_NAMES)


def _alike(one: Attribute, other: Attribute) -> bool:
    """Whether two columns may measure the same: dates, or amounts with the same digits after the point."""
    return one.kind == "date" or steps_of(one) == steps_of(other)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
