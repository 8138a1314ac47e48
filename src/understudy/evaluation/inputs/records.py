"""Rows of a table as an attacker sees them: codes of the schema, positions on a line, and what chance alone makes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.values import as_number, values_of
from understudy.errors import InputError
from understudy.evaluation.shared.neighbours import numbers_of

FALSE_ALARM = 1e-4  # how rarely a holdout that shares nobody with the data may be refused
FITTING_ROUNDS = 30  # of the law of possible rows
RULES_IN_A_WORD = 62  # bits of a whole number
PUBLIC_TRIES = 100  # of public values for a row; it keeps its own if the schema allows none of them
FITTING_ROWS = 20_000
MOST_TRIED, TRIED_PER_ROW = 1_000_000, 500  # rows drawn at most, for all that are wanted
USUAL = re.compile(
    r"age|birth|born|sex|gender|region|area|county|district|municipal|town|city|zip|post|country|nation|citizen|race|"
    r"ethnic|marital|married|household|occupation|education|school|degree|urban|place|state",
    re.IGNORECASE,
)
MOST_USUAL = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """Rows of a table twice over: as codes of the schema, and as positions on a line.

    The position of a number or date is its value, of a level its place in the schema (the stated order of a nominal
    attribute); special codes and the missing value stand above all values, one range apart.
    """

    codes: Integers
    """The codes, rows by attributes."""
    positions: Floats
    """The positions, rows by attributes."""

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Integers) -> Records:
        """Take some of the rows.

        Parameters
        ----------
        rows
            Their numbers.

        Returns
        -------
        Records
            These rows, in this order.
        """
        return Records(codes=self.codes[rows], positions=self.positions[rows])


def with_nulls(coded: CodedTable, rows: pa.Table) -> pa.Table:
    """The rows with a null for every missing value, whatever stands for it in a file."""
    import pyarrow.compute as pc

    columns = {}
    for attribute in coded.schema.attributes:
        column = rows[attribute.name].combine_chunks()
        missing = coded.columns[attribute.name] == attribute.missing_code
        columns[attribute.name] = pc.if_else(pa.array(missing), None, column) if missing.any() else column
    return pa.table(columns)


def records_of(coded: CodedTable, frame: pa.Table, schema: Schema) -> Records:
    codes = np.column_stack([coded.columns[name].astype(np.int64) for name in schema.names])
    positions = np.column_stack(
        [
            codes[:, place].astype(np.float64)
            if attribute.levels
            else _positions(attribute, frame.column(attribute.name), codes[:, place])
            for place, attribute in enumerate(schema.attributes)
        ]
    )
    return Records(codes=codes, positions=positions)


def _positions(attribute: Attribute, column: pa.ChunkedArray, codes: Integers) -> Floats:
    """Numbers, or dates as days; special codes and the missing value above the range, one range apart."""
    beyond = as_number(attribute.edges[-1]) + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(codes < attribute.bins, values_of(column, codes, attribute), beyond)
    return positions


def span_of(attribute: Attribute) -> float:
    """The length of an attribute's range of positions."""
    if attribute.kind == "levels":
        return 1.0 if not attribute.ordered else float(max(attribute.bins - 1, 1))
    return as_number(attribute.edges[-1]) - as_number(attribute.edges[0])


def null_copies(
    schema: Schema, copies: tuple[Records, ...], seed: int, public: Sequence[int] = ()
) -> tuple[Records, ...]:
    """Tables of the same sizes that know the release's one-way margins and what is public, and nothing else.

    Without structural zeros the attributes are independent draws from the margins. With them the law is the one of
    greatest entropy that has these margins and no impossible row. Values are uniform in their bins. Columns that are
    ``public`` of everybody stand together as they do in the release, which has them from everybody.
    """
    codes = np.concatenate([copy.codes for copy in copies])
    generator = np.random.default_rng([seed, *b"null"])
    draw = _possible_rows(schema, codes, generator) if schema.zeros else _independent_rows(codes, generator)
    made = []
    for copy in copies:
        drawn = _with_public(schema, draw(len(copy)), codes, list(public), generator)
        positions = np.column_stack(
            [_within_bins(attribute, drawn[:, j], generator) for j, attribute in enumerate(schema.attributes)]
        )
        made.append(Records(codes=drawn, positions=positions))
    return tuple(made)


def _with_public(
    schema: Schema, drawn: Integers, codes: Integers, public: list[int], generator: np.random.Generator
) -> Integers:
    """The rows with the public values of random rows of the release, wherever the schema allows them together.

    It is a step of a Gibbs sampler: public values by their law, given the others and the structural zeros.
    """
    left = np.arange(len(drawn)) if len(public) > 1 else np.empty(0, np.int64)
    for _ in range(PUBLIC_TRIES):
        if not len(left):
            break
        proposed = drawn[left]
        proposed[:, public] = codes[generator.integers(0, len(codes), len(left))][:, public]
        taken = possible(schema, proposed)
        drawn[left[taken]] = proposed[taken]
        left = left[~taken]
    return drawn


def _independent_rows(codes: Integers, generator: np.random.Generator) -> Callable[[int], Integers]:
    def draw(rows: int) -> Integers:
        chosen = generator.integers(0, len(codes), (rows, codes.shape[1]))
        drawn: Integers = codes[chosen, np.arange(codes.shape[1])]
        return drawn

    return draw


def _possible_rows(schema: Schema, codes: Integers, generator: np.random.Generator) -> Callable[[int], Integers]:
    """Rows with probability proportional to a product of one factor per attribute, on possible rows only.

    The factors are fitted by iterative proportional fitting, with the margins of simulated rows: such a law has the
    greatest entropy among all that have the margins (Csiszár 1975). Its margins are right to about one percent.
    """
    wanted = [np.bincount(codes[:, j], minlength=size) / len(codes) for j, size in enumerate(schema.shape())]
    factors = [shares.copy() for shares in wanted]
    driver, allowed = _pairs_ruled_out(schema)

    def attempt(rows: int) -> Integers:
        """Rows that meet the driver's rules with one other attribute by construction, and the other rules by chance.

        The driver's value is drawn by its factor times what it leaves of every other factor. The other values are drawn
        from what is left. This gives the product law on rows that meet these rules. Rejecting the other impossible rows
        gives the law wanted. Otherwise children, who must differ from adults in six answers, would hardly be drawn.
        """
        law = factors[driver].copy()
        for j, open_to in allowed.items():
            law *= open_to @ factors[j]
        if not law.any():
            return np.empty((0, len(factors)), np.int64)
        drawn = np.empty((rows, len(factors)), np.int64)
        drawn[:, driver] = np.sort(_drawn(law, rows, generator))
        begins = np.searchsorted(drawn[:, driver], np.arange(len(law) + 1))
        for j, factor in enumerate(factors):
            if j == driver:
                continue
            if j not in allowed:
                drawn[:, j] = _drawn(factor, rows, generator)
                continue
            for value in np.flatnonzero(np.diff(begins)):
                begin, end = begins[value], begins[value + 1]
                drawn[begin:end, j] = _drawn(factor * allowed[j][value], end - begin, generator)
        drawn = drawn[generator.permutation(rows)]  # the same rows as by shuffle(), which moves them one by one
        return drawn[possible(schema, drawn)]

    for _ in range(FITTING_ROUNDS):
        kept = attempt(FITTING_ROWS)
        if not len(kept):
            break
        for j, shares in enumerate(wanted):
            found = np.bincount(kept[:, j], minlength=len(shares)) / len(kept)
            seen = found > 0
            factors[j][seen] *= (shares[seen] / found[seen]) ** 0.5  # half a step: the shares are simulated

    def draw(rows: int) -> Integers:
        parts: list[Integers] = []
        left, tried = rows, 0
        size = FITTING_ROWS
        while left and tried < MOST_TRIED + TRIED_PER_ROW * rows:
            kept = attempt(size)
            tried += size
            parts.append(kept[:left])
            left -= len(parts[-1])
            size = int(min(max(1.2 * left * size / max(len(kept), 1), 1_000), 500_000))
        if left:
            raise InputError(
                "the structural zeros of the schema leave hardly any row that its one-way margins allow; there is no "
                "baseline for attacks on such a release."
            )
        return np.concatenate(parts)

    return draw


def _drawn(law: Floats, rows: int, generator: np.random.Generator) -> Integers:
    """Codes with probabilities proportional to ``law``."""
    upto = np.cumsum(law)
    found = np.searchsorted(upto, generator.uniform(0, upto[-1], rows), side="right")
    codes: Integers = np.minimum(found, np.flatnonzero(law)[-1])
    return codes


def _pairs_ruled_out(schema: Schema) -> tuple[int, dict[int, Floats]]:
    """The attribute in most rules about two attributes (the driver), and its possible pairs with each other one."""
    place = {name: j for j, name in enumerate(schema.names)}
    pairs = [dict(rule.codes(schema)) for rule in schema.zeros if len(rule.attributes) == 2]
    times = Counter(name for rule in pairs for name in rule)
    driver = place[times.most_common(1)[0][0]] if times else 0
    allowed: dict[int, Floats] = {}
    for rule in pairs:
        by_column = {place[name]: np.asarray(chosen) for name, chosen in rule.items()}
        if driver not in by_column:
            continue
        other = next(column for column in by_column if column != driver)
        shape = schema.shape()[driver], schema.shape()[other]
        table = allowed.setdefault(other, np.ones(shape))
        table[np.ix_(by_column[driver], by_column[other])] = 0.0
    return driver, allowed


def possible(schema: Schema, codes: Integers) -> Flags:
    """Which rows of codes no structural zero of the schema rules out."""
    place = {name: j for j, name in enumerate(schema.names)}
    allowed = np.ones(len(codes), bool)
    for rule in schema.zeros:
        conditions = rule.codes(schema).items()
        allowed &= ~np.logical_and.reduce([np.isin(codes[:, place[name]], chosen) for name, chosen in conditions])
    return allowed


def decided_by_schema(schema: Schema, codes: Integers, target: str, known: Iterable[str]) -> Flags:
    """For each row, whether the structural zeros leave one value of the target, given the known attributes alone.

    Rules are followed through attributes that are not known: if a known age excludes work, and there is no wage without
    work, then the age decides the wage.
    """
    place = {name: j for j, name in enumerate(schema.names)}
    given = set(known) - {target}
    rules = [dict(rule.codes(schema)) for rule in schema.zeros]
    open_names = {target}
    while more := {name for rule in rules if open_names & set(rule) for name in rule} - given - open_names:
        open_names |= more
    rules = [rule for rule in rules if open_names & set(rule)]
    if not rules:
        return np.full(len(codes), schema[target].size <= 1)
    # People for whom the same rules are left have the same values left. A bit says whether a rule is.
    words = np.zeros((len(codes), -(-len(rules) // RULES_IN_A_WORD)), np.int64)
    for number, rule in enumerate(rules):
        applies = np.ones(len(codes), bool)
        for name in given & set(rule):
            applies &= np.isin(codes[:, place[name]], rule[name])
        word, bit = divmod(number, RULES_IN_A_WORD)
        words[:, word] |= applies.astype(np.int64) << bit
    if words.shape[1] == 1:
        found_words, kind_of = np.unique(words[:, 0], return_inverse=True)
        kinds = found_words[:, None]
    else:
        kinds, kind_of = np.unique(words, axis=0, return_inverse=True)
    decided = np.zeros(len(kinds), bool)
    for number, kind in enumerate(kinds):
        excluded = [
            {name: frozenset(rule[name]) for name in open_names & set(rule)}
            for j, rule in enumerate(rules)
            if kind[j // RULES_IN_A_WORD] >> j % RULES_IN_A_WORD & 1
        ]
        left = 0
        for code in range(schema[target].size):
            left += _can_be(schema, excluded, target, code)
            if left > 1:
                break
        decided[number] = left <= 1
    found: Flags = decided[np.ravel(kind_of)]
    return found


def _can_be(schema: Schema, excluded: Sequence[Mapping[str, frozenset[int]]], name: str, code: int) -> bool:
    """Whether a value of an attribute can occur together with some values of the other attributes of the rules.

    A rule excludes rows that have one of its values in each of its attributes.
    """
    rest = [{other: values for other, values in rule.items() if other != name} for rule in excluded
            if name not in rule or code in rule[name]]  # fmt: skip
    if not all(rest):
        return False
    if not rest:
        return True
    following = next(iter(rest[0]))
    # Values that meet the same rules are alike; fewer are better, and a value that meets none leaves most open.
    alike = {tuple(value in rule.get(following, ()) for rule in rest): value for value in range(schema[following].size)}
    return any(_can_be(schema, rest, following, alike[met]) for met in sorted(alike, key=sum))


def places_by_marginality(schema: Schema, codes: Integers) -> dict[int, Floats]:
    """By column with a tree or distances: the place of each code, from the least marginal level on.

    Equally marginal levels stand in the order of the schema, and the missing value last.
    """
    found = {}
    for column, attribute in enumerate(schema.attributes):
        if not attribute.tree and not attribute.distances:
            continue
        counts = np.bincount(codes[:, column], minlength=attribute.size)[: attribute.bins]
        away = np.array(attribute.apart()) @ counts
        places = np.empty(attribute.size)
        places[np.argsort(away, kind="stable")] = np.arange(attribute.bins)
        places[attribute.bins :] = np.arange(attribute.bins, attribute.size)
        found[column] = places
    return found


def usual_keys(schema: Schema, public: Sequence[str] = ()) -> tuple[str, ...]:
    """What others usually know of a person, by the names and labels of attributes; else the first few attributes.

    At least one attribute is left to be learned.

    >>> from understudy.core.schema import Attribute
    >>> names = ("income", "sex", "age", "smokes")
    >>> usual_keys(Schema(attributes=tuple(Attribute(name=name, levels=("a", "b")) for name in names)))
    ('sex', 'age')
    """
    most = min(MOST_USUAL, len(schema.names) - 1)
    named = [one.name for one in schema.attributes if one.name in public or USUAL.search(f"{one.name} {one.label}")]
    return schema.margin((named or list(schema.names[:3]))[:most])


def _within_bins(attribute: Attribute, codes: Integers, generator: np.random.Generator) -> Floats:
    if attribute.levels:
        return codes.astype(np.float64)
    edges = np.array([as_number(edge) for edge in attribute.edges])
    inside = codes < attribute.bins
    bins = np.where(inside, codes, 0)
    values = edges[bins] + (edges[bins + 1] - edges[bins]) * generator.uniform(size=len(codes))
    if attribute.integer or attribute.kind == "date":
        values = np.floor(values)
    beyond = edges[-1] + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(inside, values, beyond)
    return positions


def refuse_overlap(original: Records, holdout: Records) -> None:
    """Refuse a holdout that shares people with the data, as far as equal rows can show it.

    If the holdout is another sample of the same population, which of the pooled records fall into it is a matter of
    chance. Two signs against that, each a false alarm with probability ``FALSE_ALARM`` at most: among values that
    occur exactly twice in the pool, too many pairs have one record on each side; or the holdout lies wholly within
    the data, cell by cell, although by chance it hardly could. Data with few distinct rows show nothing.
    """
    from scipy.stats import binom

    (people, others), cells = numbers_of([original.positions, holdout.positions])
    here, there = np.bincount(people, minlength=cells), np.bincount(others, minlength=cells)
    total, n, h = here + there, len(original), len(holdout)
    pairs = total == 2
    chance = 2 * n * h / ((n + h) * (n + h - 1))
    split = int((here[pairs] == 1).sum())
    crossed = split > 0 and binom.sf(split - 1, int(pairs.sum()), chance) < FALSE_ALARM
    inside = False
    if np.all(there <= here):
        sizes, times = np.unique(total, return_counts=True)
        log_chance = float(np.sum(times * binom.logcdf(sizes // 2, sizes, h / (n + h))))
        inside = log_chance < np.log(FALSE_ALARM) or (n == h and bool(np.all(here == there)))
    if crossed or inside:
        raise InputError(
            "the holdout overlaps the confidential data: far more of its records equal records of the data than chance "
            "allows. A control group must be people whose data were not used; take them out before synthesis."
        )
