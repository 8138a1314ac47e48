"""A release beside other protections at like utility: the attacker's success against usefulness (Ruiz et al.).

Four protections replace each value of a person by some person's value. *Noise* moves ranks by a normal amount and maps
back to original values (the noise left over protects nobody). *Swap* exchanges values whose ranks are close. *PRAM*
keeps a value or draws it anew from its margin. *Microaggregation* gives small groups of people who are alike the middle
of their group. The fifth, *ipf*, is synthetic: Raab's noisy two-way tables, fitted together. The strength of each is
searched for until the mean S_pMSE of all two-way tables is that of the release; what is left to compare is the risk.

Group sizes of microaggregation need not be whole: for size 2.3, 30 percent of the groups have at least three
people and the others at least two. Groups are made by halving at the median of the attribute with the widest ranks
(LeFevre, DeWitt and Ramakrishnan 2006), which takes n log n steps where the usual MDAV takes n^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers, Progress
from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.errors import InputError, unknown_name
from understudy.evaluation.attacks.rank_attribution import attack_attributes
from understudy.evaluation.attacks.rank_linkage import mutual
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.inputs.records import Records, records_of
from understudy.evaluation.shared.attack import Scene
from understudy.evaluation.shared.attack_success import Tally
from understudy.evaluation.shared.rank_linking import link
from understudy.evaluation.shared.ranks import mid_rank_matrix, order_ranks, same_size
from understudy.evaluation.shared.results import Collected, frame
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.models.fit import MAX_CELLS, structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.release import Release

BESIDE = "beside"
IPF = "ipf"
STRENGTHS = {
    "noise": "standard deviation of the noise, as a share of all ranks",
    "swap": "ranks that a value may move, as a share of all",
    "pram": "share of values that are drawn anew",
    "microaggregation": "people in a group, on average at least",
    IPF: "1 / epsilon",
}
PROTECTIONS = tuple(STRENGTHS)
LIKE = 0.05  # a utility is called like the release's up to this relative distance
ON_A_CURVE = 0.2  # the same for the other points of a curve
CURVE = (1.0, 0.5, 2.0, 0.25, 4.0)  # its points, in multiples of the release's mean S_pMSE
MOST_STEPS = 16  # of the search for a strength
MOST_PEOPLE = 2_000  # attacked in each table
MOST_TARGETS = 3  # attributes guessed: those that the release tells best
WEAKEST = 1e-4
FURTHER = 4.0  # how much stronger or weaker is tried next, until two strengths enclose the wanted utility
EPSILONS = (1e-3, 1e3)
IPF_CELLS = 200_000  # of the model of ``ipf`` where not all pairs fit: many such models are fitted

Synthesize = Callable[[str, float], Release]  # a release by a method's name at an epsilon, charged to nobody


def chosen_protections(names: Sequence[str]) -> tuple[str, ...]:
    """The protections asked for; an unknown name is refused.

    >>> chosen_protections(["noise", "swap", "noise"])
    ('noise', 'swap')
    """
    if isinstance(names, str):
        raise InputError(f"beside ({names!r}) must be a list, also if it is only one.")
    for name in names:
        if name not in PROTECTIONS:
            raise unknown_name("protection", str(name), PROTECTIONS)
    return tuple(dict.fromkeys(names))


def compare_beside(
    comparison: Comparison,
    names: Sequence[str],
    synthesize: Synthesize | None = None,
    *,
    progress: Progress | None = None,
) -> Section:
    """The release and other protections, attacked in the same way; each at several strengths, one at like utility.

    The frame ``beside`` has a line for each table that was attacked. ``guessed_right``: the share of people whose
    target is guessed right from the nearest records in ranks, mean over the targets. ``own_record``: the chance to pick
    a person's own record among the nearest; a synthetic table has no such record. ``double``: a person and a record
    are each other's only nearest. ``synthesize`` makes tables by ``ipf``.
    """
    chosen = chosen_protections(names)
    if len(comparison.names) < 2:
        raise InputError("there is one attribute only; protections are compared by what others tell about it.")
    if IPF in chosen and synthesize is None:
        raise InputError("'ipf' needs a way to synthesize tables; leave it out.")
    wanted = mean_s_pmse(comparison, comparison.copies)
    attack = _Attack.on(comparison)
    told = {IPF: margins_of_ipf(comparison)[1]} if IPF in chosen else {}
    rows = [attack.row(comparison.tables[:1], method="the release, one copy", mean_s_pmse=wanted, like=True)]
    if len(comparison.tables) > 1:
        several = f"the release, {len(comparison.tables)} copies"
        rows.append(attack.row(comparison.tables, method=several, mean_s_pmse=wanted, like=True))
    total = len(chosen) * len(CURVE)
    for done, name in enumerate(chosen):
        make = _maker(comparison, name, synthesize)
        search = _Search(comparison=comparison, make=make, ends=_ends(name, comparison))
        for point, multiple in enumerate(CURVE):
            strength = search.strength(multiple * wanted, LIKE if multiple == 1 else ON_A_CURVE)
            found = search.visited[strength]
            like = abs(found / wanted - 1) <= LIKE if wanted else found == 0
            near = abs(found / (multiple * wanted) - 1) <= ON_A_CURVE if wanted else like
            if like or near or multiple == 1:  # a curve ends where the protection cannot be as useful, or as useless
                notes = ["" if like else "no strength makes it as useful as the release; the nearest one"]
                note = "; ".join(filter(None, [told.get(name, ""), *notes])) if multiple == 1 else ""
                made = make(strength)
                rows.append(
                    attack.row(
                        made, method=name, strength=strength, mean_s_pmse=found, like=like, own=name != IPF, note=note
                    )
                )
            if progress is not None:
                progress(done * len(CURVE) + point + 1, total)
    found_all = Collected(frames={BESIDE: frame(_distinct(rows))})
    found_all.findings.append(_finding(rows, wanted, comparison.knows(*attack.targets), attack.targets))
    return found_all.section()


def margins_of_ipf(comparison: Comparison) -> tuple[str, str]:
    """The tables that ``ipf`` measures, as its option says them, and a note: all pairs, or as many as a model holds.

    Where not all fit, those come first whose answers depend on each other most in the release, which is public.
    """
    schema, pairs = comparison.schema, list(combinations(comparison.names, 2))
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    zeros = structural_groups(schema)
    if tree_cells(sizes, [*pairs, *zeros]) <= MAX_CELLS:
        return "2", ""
    kept: list[tuple[str, ...]] = []
    small = [pair for pair in pairs if schema.cells(pair) <= IPF_CELLS]
    for pair in sorted(small, key=_dependence(comparison.copies[0], small).__getitem__, reverse=True):
        if tree_cells(sizes, [*kept, pair, *zeros]) <= IPF_CELLS:
            kept.append(pair)
    alone = set(schema.names).difference(*kept)
    note = f"{len(kept)} of {len(pairs)} two-way tables are measured, as a model of all is too large"
    return ", ".join("+".join(margin) for margin in [*kept, *((name,) for name in schema.names if name in alone)]), note


def _dependence(table: CodedTable, pairs: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], float]:
    """For each pair: how far its table is from that of independent answers, as a share of the rows."""
    apart = {}
    for pair, flat, _ in count_together(table, (), pairs):
        shares = flat.reshape([table.schema[name].size for name in pair]) / table.rows
        apart[pair] = float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum() / 2)
    return apart


def protect(records: Records, protection: str, strength: float, seed: int, nominal: Flags | None = None) -> Records:
    """A protected table whose record i comes from original record i; the least strength changes nothing.

    ``nominal`` says which attributes have no order: microaggregation takes their most frequent level.
    """
    if protection not in PROTECTIONS or protection == IPF:
        raise unknown_name("protection", protection, tuple(name for name in PROTECTIONS if name != IPF))
    generator = np.random.default_rng([seed, *protection.encode()])
    n, width = records.codes.shape
    if protection == "microaggregation":
        taken = _aggregated(records, strength, generator, np.zeros(width, bool) if nominal is None else nominal)
        return _taken(records, taken)
    taken = np.empty((n, width), np.int64)
    for j in range(width):
        order = np.argsort(records.positions[:, j], kind="stable")
        ranks = order_ranks(records.positions[:, j])
        if protection == "noise":
            moved = ranks + strength * n * generator.normal(size=n)
            taken[:, j] = order[order_ranks(moved) - 1]
        elif protection == "swap":
            taken[order, j] = order[_swapped(n, strength, generator)]
        else:
            anew = generator.uniform(size=n) < strength
            taken[:, j] = np.where(anew, generator.integers(0, n, n), np.arange(n))
    return _taken(records, taken)


def _taken(records: Records, taken: Integers) -> Records:
    columns = np.arange(taken.shape[1])
    return Records(codes=records.codes[taken, columns], positions=records.positions[taken, columns])


def _swapped(n: int, strength: float, generator: np.random.Generator) -> Integers:
    """A permutation that exchanges each rank with another at most ``strength`` n away, each at most once."""
    partner = np.arange(n)
    free = np.ones(n, bool)
    # A window that is not whole is rounded up with the probability of its fraction, and else down.
    window = strength * n
    steps = np.ceil(generator.uniform(size=n) * window).astype(np.int64)
    steps[generator.uniform(size=n) > window] = 0
    for place in np.flatnonzero(steps):
        other = int(place + steps[place])
        if free[place] and other < n and free[other]:
            partner[place], partner[other] = other, place
            free[place] = free[other] = False
    return partner


def _aggregated(records: Records, size: float, generator: np.random.Generator, nominal: Flags) -> Integers:
    """By attribute, whose value each person gets: the middle of their group, or one with its most frequent level."""
    group = _groups(mid_rank_matrix(records.positions), size, generator)
    n, width = records.codes.shape
    taken = np.empty((n, width), np.int64)
    for j in range(width):
        if nominal[j]:
            cell, first, count = np.unique(
                group * (int(records.codes[:, j].max()) + 1) + records.codes[:, j],
                return_index=True,
                return_counts=True,
            )
            best = np.lexsort((cell, -count, group[first]))
            middle = first[best][np.r_[True, np.diff(group[first][best]) > 0]]
        else:
            order = np.lexsort((records.positions[:, j], group))
            sizes = np.bincount(group)
            middle = order[np.cumsum(sizes) - sizes + (sizes - 1) // 2]
        taken[:, j] = middle[group]
    return taken


def _groups(ranks: Floats, size: float, generator: np.random.Generator) -> Integers:
    """Groups of people who are alike, numbered from 0; all are halved at the same time until the halves are too small.

    A group may be halved if each half has the least size. Each group draws its least size, with mean ``size``.
    """
    n = len(ranks)
    coins = generator.uniform(size=2 ** (math.ceil(math.log2(max(n, 2))) + 2))
    number = np.ones(n, np.int64)  # of the group in a binary tree: the halves of g are 2 g and 2 g + 1
    order = np.arange(n)
    while True:
        starts = np.flatnonzero(np.r_[True, np.diff(number[order]) != 0])
        sizes = np.diff(np.r_[starts, n])
        ordered = ranks[order]
        spread = np.maximum.reduceat(ordered, starts) - np.minimum.reduceat(ordered, starts)
        widest = spread.argmax(axis=1)
        least = np.floor(size) + (coins[number[order[starts]]] < size % 1)
        halved = (sizes >= 2 * least) & (spread.max(axis=1) > 0) & (sizes > 1)
        if not halved.any():
            return np.unique(number, return_inverse=True)[1].astype(np.int64)
        group = np.repeat(np.arange(len(starts)), sizes)
        value = np.where(halved[group], ordered[np.arange(n), widest[group]], 0.0)
        order = order[np.lexsort((value, group))]
        place = np.arange(n) - starts[group]
        upper = halved[group] & (place >= (sizes // 2)[group])
        number[order] = np.where(halved[group], 2 * number[order] + upper, number[order])
        if number.max() >= len(coins):
            return np.unique(number, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(number, kind="stable")


def mean_s_pmse(comparison: Comparison, tables: Sequence[CodedTable]) -> float:
    """The mean S_pMSE of all two-way tables, over all copies, as in the two-way line of ``evaluate``."""
    pairs = list(combinations(comparison.names, 2))
    return float(
        np.mean(
            [
                [s_pmse(original, copy) for copy in copies]
                for _, original, copies in count_together(comparison.original, tables, pairs)
            ]
        )
    )


def _utility(comparison: Comparison, made: tuple[Records, ...]) -> float:
    coded = [
        CodedTable(
            schema=comparison.schema,
            columns={name: table.codes[:, j] for j, name in enumerate(comparison.names)},
        )
        for table in made
    ]
    return mean_s_pmse(comparison, coded)


def _maker(comparison: Comparison, name: str, synthesize: Synthesize | None) -> Callable[[float], tuple[Records, ...]]:
    """Makes the table of a protection at a strength."""
    nominal = comparison.nominal(list(range(len(comparison.names))))

    def by_ipf(strength: float) -> tuple[Records, ...]:
        assert synthesize is not None  # noqa: S101 - asked before
        made = synthesize(IPF, 1 / strength)
        return (records_of(made.coded(1), made.frame(1), comparison.schema),)

    def masked(strength: float) -> tuple[Records, ...]:
        return (protect(comparison.people, name, strength, comparison.seed, nominal),)

    return by_ipf if name == IPF else masked


def _ends(name: str, comparison: Comparison) -> tuple[float, float, float]:
    """The first, the weakest and the strongest strength that are tried."""
    if name == IPF:
        return 1.0, 1 / EPSILONS[1], 1 / EPSILONS[0]
    return (2.0, 1.0, float(len(comparison.people))) if name == "microaggregation" else (0.1, WEAKEST, 1.0)


@dataclass(slots=True)
class _Search:
    """Strengths by the utility they leave; what was tried is kept, because every try makes a table."""

    comparison: Comparison
    make: Callable[[float], tuple[Records, ...]]
    ends: tuple[float, float, float]
    visited: dict[float, float] = field(default_factory=dict)

    def strength(self, wanted: float, tolerance: float) -> float:
        """The strength that leaves a mean S_pMSE nearest to the one wanted, between two that enclose it.

        Utility falls with strength, except for chance. On a log scale, bisection and linear interpolation between the
        two enclosing points take turns: a curve that is nearly straight needs few steps.
        """
        first, weakest, strongest = self.ends
        self._try(first)
        for step in range(MOST_STEPS):
            best = min(self.visited, key=lambda one: self._apart(one, wanted))
            if self._apart(best, wanted) <= math.log1p(tolerance / 2):
                return best
            low = max((one for one, found in self.visited.items() if found < wanted), default=None)
            high = min(
                (one for one, found in self.visited.items() if found >= wanted and one > (low or 0)), default=None
            )
            if low is None:
                following = max(min(self.visited) / FURTHER, weakest)
            elif high is None:
                following = min(max(self.visited) * FURTHER, strongest)
            else:
                following = self._between(low, high, wanted, halve=step % 2 == 1)
            if following in self.visited:  # the end, or no number is left between the two
                return best
            self._try(following)
        return min(self.visited, key=lambda one: self._apart(one, wanted))

    def _between(self, low: float, high: float, wanted: float, *, halve: bool) -> float:
        at, to = self.visited[low], self.visited[high]
        share = 0.5 if halve or not 0 < at < to else min(max(math.log(wanted / at) / math.log(to / at), 0.05), 0.95)
        return float(low * (high / low) ** share)

    def _try(self, strength: float) -> None:
        if strength not in self.visited:
            self.visited[strength] = _utility(self.comparison, self.make(strength))

    def _apart(self, strength: float, wanted: float) -> float:
        found = self.visited[strength]
        if not found or not wanted:
            return 0.0 if found == wanted else math.inf
        return abs(math.log(found / wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attack:
    """The attacks that every table gets: the same people, the same targets."""

    comparison: Comparison
    people: Integers
    ranks: Floats  # of everybody
    targets: tuple[str, ...]
    by_margins: float  # guessed right from tables with the release's margins alone

    @classmethod
    def on(cls, comparison: Comparison) -> _Attack:
        candidates = [name for name in comparison.attacked if comparison.known(name)]
        told = _guessed(comparison, comparison.tables[:1], candidates)
        chance = _guessed(comparison, comparison.independent_tables[:1], candidates)
        open_ones = [name for name in candidates if told[name] is not None]
        if not open_ones:
            raise InputError("the public schema decides every target; there is nothing to compare.")
        best = sorted(open_ones, key=lambda name: chance[name][0] - told[name][0])[:MOST_TARGETS]  # type: ignore[index]
        return cls(
            comparison=comparison,
            people=comparison.some_people(len(comparison.people), MOST_PEOPLE, BESIDE),
            ranks=mid_rank_matrix(comparison.people.positions),
            targets=comparison.schema.margin(best),
            by_margins=float(np.mean([chance[name][0] for name in best])),  # type: ignore[index]
        )

    def row(
        self,
        tables: tuple[Records, ...],
        *,
        method: str,
        mean_s_pmse: float,
        like: bool,
        strength: float | None = None,
        own: bool = False,
        note: str = "",
    ) -> dict[str, Any]:
        """What the attacks achieve on one table, or on several copies together."""
        found = _guessed(self.comparison, tables, self.targets).values()
        right, claimed, false = (float(np.mean([one[part] for one in found if one is not None])) for part in range(3))
        people = len(self.people)
        rate = Tally(successes=round(right * people), guesses=people).rate
        everybody = len(self.ranks)
        first = tables[0].take(same_size(len(tables[0]), everybody, self.comparison.seed))
        ranks = mid_rank_matrix(first.positions)
        return {
            "method": method,
            "strength": strength,
            "strength_is": STRENGTHS.get(method, ""),
            "mean_s_pmse": mean_s_pmse,
            "like_utility": like,
            "guessed_right": right,
            "low": rate.low,
            "high": rate.high,
            "from_margins": self.by_margins,
            "claims_right": claimed,
            "claims_false": false,
            "own_record": _own_record(self.ranks, ranks, self.people) if own else None,
            "double": mutual(self.ranks, ranks, chosen=self.people) / people,
            "people": people,
            "targets": ", ".join(self.targets),
            "note": note,
        }


def _guessed(
    comparison: Comparison, tables: tuple[Records, ...], targets: Sequence[str]
) -> dict[str, tuple[float, float, float] | None]:
    """Shares of people: guessed right, claimed rightly, claimed falsely; none if the schema decides the target."""
    scene = Scene(people=comparison.people, tables=tables)
    shares: dict[str, tuple[float, float, float] | None] = {}
    for target, guess in attack_attributes(comparison, scene, targets, most=MOST_PEOPLE).items():
        told = (guess.value == guess.true_code, guess.right, guess.claims & ~guess.right)
        right, claimed, false = (float(one.mean()) if len(one) else 0.0 for one in told)
        shares[target] = (right, claimed, false) if len(guess.people) else None
    return shares


def _own_record(people: Floats, protected: Floats, chosen: Integers) -> float:
    """The mean chance to hit a person's own record by picking one of the nearest."""
    links = link(people[chosen], protected)
    own = np.abs(people[chosen] - protected[chosen]).sum(axis=1) == links.distances
    return float(np.mean(own / links.sizes()))


def _distinct(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The release first, then each protection from the most useful to the least."""
    seen: dict[tuple[str, float | None], dict[str, Any]] = {}
    for row in rows:
        seen.setdefault((row["method"], row["strength"]), row)
    places = {name: place for place, name in enumerate(dict.fromkeys(row["method"] for row in rows))}
    return sorted(seen.values(), key=lambda row: (places[row["method"]], row["mean_s_pmse"]))


def _finding(rows: Sequence[dict[str, Any]], wanted: float, knows: str, targets: Sequence[str]) -> Finding:
    said = [f"{row['method']} {1000 * row['guessed_right']:.0f}" for row in rows if row["like_utility"]]
    return Finding(
        code="risk.beside",
        title=(
            f"at the utility of the release (mean S_pMSE of pairs {wanted:.3g}, within 5 percent) an intruder who "
            f"knows {knows} guesses {', '.join(targets)} right, of 1,000 people on average: "
            f"{'; '.join(said)}; from margins alone {1000 * rows[0]['from_margins']:.0f}"
        ),
        value=rows[0]["guessed_right"],
        reference="Ruiz, Muralidhar and Domingo-Ferrer 2018: synthetic and other data, attacked alike",
    )
