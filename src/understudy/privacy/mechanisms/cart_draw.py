"""Sequential classification trees (synthpop's default, Nowok, Raab and Dibben 2016): synthesis without protection.

Law: the first attribute of each row is that of a record drawn at random. Every further attribute is drawn from the
records that fall into the same leaf of a tree, which was grown on the confidential records to predict that attribute
from the earlier ones. A row that the schema rules out is drawn anew. There is no guarantee: leaves are groups of real
people, and rare people are repeated. It charges an infinite loss, as it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.domain import Domain
from understudy.core.mechanism import Stream
from understudy.errors import InputError, UnsupportedError, missing_extra
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.event import Event, NoNoise
from understudy.privacy.randomness.draws import uniform_below, uniform_below_each, uniform_possible

NO_SPLIT = 1e9  # no split lowers an impurity by as much
MOST_ROUNDS = 50  # in which rows that the schema rules out are drawn anew


@dataclass(frozen=True, slots=True, kw_only=True)
class CartDraw:
    """Rows drawn attribute by attribute from the leaves of trees. No guarantee."""

    rows: int
    smallest_leaf: int
    name: ClassVar[str] = "cart"
    covers: ClassVar[str] = "whole_domain"

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise InputError(f"rows ({self.rows}) must not be negative.")
        if self.smallest_leaf < 1:
            raise InputError(f"smallest_leaf ({self.smallest_leaf}) must be at least 1.")

    def event_for(self, facts: TableFacts) -> Event:  # noqa: ARG002 - no guarantee, whatever is drawn
        return NoNoise()

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        if not counts.sum():  # nobody to draw from: every possible row is alike
            return np.unique(uniform_possible(domain, self.rows, stream, *purpose), return_counts=True)
        shape = domain.schema.shape(domain.margin)
        codes = np.array(np.unravel_index(cells, shape), dtype=np.int64)
        # Levels without an order are columns of 0 and 1; everything else is split by its order in the schema.
        attributes = [domain.schema[name] for name in domain.margin]
        levels = tuple(one.size if one.levels and not one.ordered else 0 for one in attributes)
        seed = int(stream.words(1, *purpose, "trees")[0] % 2**31)
        trees = _grown(codes, counts, levels, self.smallest_leaf, seed)
        drawn = np.empty(0, dtype=np.int64)
        for attempt in range(MOST_ROUNDS):
            wanted = self.rows - len(drawn)
            if not wanted:
                return np.unique(drawn, return_counts=True)
            rows = _walked(codes, counts, levels, trees, wanted, stream, *purpose, attempt)
            found = np.ravel_multi_index(tuple(rows), shape).astype(np.int64)
            drawn = np.concatenate([drawn, found[domain.is_possible(found)]])
        raise UnsupportedError(
            f"{self.rows - len(drawn):,} of {self.rows:,} rows broke a structural zero in all {MOST_ROUNDS} rounds. "
            "Trees do not know the schema's rules; use fewer of them, or another method."
        )

    def to_json(self) -> dict[str, str]:
        return {"mechanism": self.name, "rows": str(self.rows), "smallest_leaf": str(self.smallest_leaf)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tree:
    """One tree, and the people in its leaves: in ``order`` the cells stand leaf by leaf.

    ``reached`` counts people along that order. A leaf has ``people`` of them, after the ``before`` of earlier leaves.
    """

    tree: Any
    order: Integers
    reached: Integers
    before: Integers
    people: Integers


def _grown(codes: Integers, counts: Integers, levels: tuple[int, ...], smallest_leaf: int, seed: int) -> list[_Tree]:
    """A tree for each attribute after the first, grown on the earlier ones."""
    try:
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise missing_extra("the method cart", "scikit-learn", "evaluate") from None
    trees, share = [], smallest_leaf / int(counts.sum())
    for place in range(1, len(codes)):
        tree = DecisionTreeClassifier(
            # By weight, because one cell may hold several people.
            min_weight_fraction_leaf=min(0.5, share),
            min_impurity_decrease=0.0 if share <= 0.5 else NO_SPLIT,
            random_state=seed,
        )
        earlier = _columns(codes[:place], levels)
        tree.fit(earlier, codes[place], sample_weight=counts.astype(np.float64))
        leaf = tree.apply(earlier).astype(np.int64)
        order = np.argsort(leaf, kind="stable")
        people = np.bincount(leaf, weights=counts, minlength=tree.tree_.node_count).astype(np.int64)
        trees.append(
            _Tree(
                tree=tree, order=order, reached=np.cumsum(counts[order]), before=np.cumsum(people) - people,
                people=people,
            )
        )  # fmt: skip
    return trees


def _walked(  # noqa: PLR0917 - a purpose has any number of parts
    codes: Integers, counts: Integers, levels: tuple[int, ...], trees: list[_Tree], rows: int, stream: Stream,
    *purpose: str | int,
) -> Integers:  # fmt: skip
    """Rows, one attribute after another; whoever gives a value is drawn with exactly equal probabilities."""
    found = np.empty((len(codes), rows), dtype=np.int64)
    person = uniform_below(stream, int(counts.sum()), rows, *purpose, 0)
    found[0] = codes[0][np.searchsorted(np.cumsum(counts), person, side="right")]
    for place, grown in enumerate(trees, start=1):
        leaf = grown.tree.apply(_columns(found[:place], levels)).astype(np.int64)
        inside = uniform_below_each(stream, grown.people[leaf].astype(np.uint64), *purpose, place).astype(np.int64)
        giver = np.searchsorted(grown.reached, grown.before[leaf] + inside, side="right")
        found[place] = codes[place][grown.order[giver]]
    return found


def _columns(codes: Integers, levels: tuple[int, ...]) -> Floats:
    """What a tree splits by: a column for each attribute, or one for each of its levels where they have no order."""
    parts = [
        (values[:, None] == np.arange(count)).astype(np.float32) if count else values[:, None].astype(np.float32)
        for values, count in zip(codes, levels, strict=False)
    ]
    return np.concatenate(parts, axis=1)
