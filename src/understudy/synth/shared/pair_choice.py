"""What methods that choose pairs share: which pairs there are, one-way margins first, and what independence expects."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.errors import UnsupportedError
from understudy.models.fit import Tracker, structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Step
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.expected_error import BINS, OF_EMPTY, crossed, powers
from understudy.synth.shared.margin_methods import (
    TOTAL_SHARE,
    Margin,
    is_public,
    known_margins,
    margin_step,
    shares_by_cells,
)
from understudy.synth.shared.strata import Strata, known_inside

MOST_PAIRS = 5_000_000  # all are counted
LEAST_EVEN = 0.01  # as a share of all records: noisy shares cannot prove that fewer records can differ
PRIOR = 100.0  # prior strength in records while only one-way margins are known
# The same while tables are chosen by a model. A fixed number is too weak for many records: the fit between two choices
# would not end (near-deterministic sequences of 100,000 records: 100 left 15.9, 1,000 left 11.0).
PRIOR_SHARE = 0.01


def one_way_margins(strata: Strata, unit: Unit) -> list[Margin]:
    """The one-way margins inside strata that are not public."""
    margins = strata.joined_all([(name,) for name in strata.inner])
    return [margin for margin in margins if not is_public(strata.schema, margin, unit)]


def one_way_steps(
    schema: Schema, ones: Sequence[Margin], unit: Unit, currency: Currency, amount: Fraction
) -> list[Step]:
    """One-way margins, larger ones with larger shares; the number of rows where it is not public."""
    margins = list(ones)
    shares = shares_by_cells(schema, margins, least_variance_power(currency))
    if not unit.public_total:
        margins, shares = [*margins, ()], [*(one * (1 - TOTAL_SHARE) for one in shares), TOTAL_SHARE]
    return [
        margin_step(schema, margin, unit, currency.noise(amount * part, schema, margin, unit))
        for margin, part in zip(margins, shares, strict=True)
    ]


def least_variance_power(currency: Currency) -> Fraction:
    """Shares in proportion to cells to this power have the least total variance (docs/theory/margins.md)."""
    return Fraction(1, 2) if currency.concentrated else Fraction(1, 3)


def prior_while_choosing(total: float) -> float:
    """The prior strength towards independence, in records, of the model that tables are chosen by."""
    return max(PRIOR, total * PRIOR_SHARE)


def kept_together(strata: Strata, unit: Unit) -> list[Margin]:
    """Groups of attributes that structural zeros and fixed attributes put into every model."""
    always = [*structural_groups(strata.schema), strata.schema.margin(unit.fixed)]
    return [strata.inside(group) for group in always]


def possible_pairs(strata: Strata, unit: Unit, model_cells: int) -> list[Margin]:
    """Pairs that a model could hold, beside what structural zeros and fixed attributes put into it anyway.

    An attribute of one level depends on nothing. It would only join others without saying how they depend.
    """
    schema = strata.parts[0].schema
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    groups = kept_together(strata, unit)
    alone = tree_cells(sizes, groups) if any(len(group) > 1 for group in groups) else 0

    def holds(pair: Margin) -> bool:
        if not alone:
            return sizes[pair[0]] * sizes[pair[1]] <= model_cells
        return tree_cells(sizes, [pair, *groups]) <= model_cells

    names = [name for name in strata.inner if sizes[name] > 1]
    if comb(len(names), 2) > MOST_PAIRS:
        raise UnsupportedError(
            f"{len(names):,} attributes have {comb(len(names), 2):,} pairs, and at most {MOST_PAIRS:,} are compared. "
            "Leave columns out ([[ignore]]), or use the method 'independent'."
        )
    return [
        pair
        for pair in combinations(names, 2)
        if not is_public(strata.schema, strata.joined(pair), unit) and holds(pair)
    ]


class Independence:
    """Expected counts of pairs when nothing but the one-way margins and structural zeros is known, in all strata."""

    def __init__(self, strata: Strata, gate: Gate, measured: Sequence[Measurement], total: float) -> None:
        self._strata = strata
        known = known_margins(strata.schema, gate, gate.unit)
        sizes = strata.sizes(measured, total)
        self._models = [
            Tracker(part.schema, strata.measured_in(part, measured), known=inside, total=max(float(size), 1.0),
                    prior=PRIOR).model
            for (part, inside), size in zip(known_inside(strata, known), sizes, strict=True)
        ]  # fmt: skip
        self._single = [{name: model.project((name,)) for name in strata.inner} for model in self._models]
        self._linked = [set(clique) for model in self._models for clique in model.tree.cliques if len(clique) > 1]

    def counts(self, edge: Margin) -> np.ndarray:
        """One axis per attribute of the measured margin, in the order of the schema."""
        strata = self._strata
        margin = strata.joined(edge)
        table = np.zeros(strata.schema.shape(margin))
        # Only attributes that some clique links with others can depend on one another in these models.
        apart = sum(any(name in group for group in self._linked) for name in edge) < len(edge)
        for part, model, single in zip(strata.parts, self._models, self._single, strict=True):
            place = dict(zip(strata.names, part.codes, strict=True))
            index = tuple(place[name] if name in place else slice(None) for name in margin)
            if apart:
                table[index] = np.outer(single[edge[0]], single[edge[1]]) / model.total
            else:
                table[index] = model.project(edge)
        return table

    def powers(self, edges: Sequence[Margin]) -> tuple[Floats, Floats]:
        """How many cells of each attribute's table, and of each pair's, expect how many people (``powers``)."""
        place = {name: number for number, name in enumerate(self._strata.inner)}
        ones, pairs = np.zeros((len(place), BINS)), np.zeros((len(edges), BINS))
        for model, single in zip(self._models, self._single, strict=True):
            alone = np.array([powers(single[name]) for name in place])
            ones += alone
            pairs += [crossed(alone[place[a]], alone[place[b]], model.total) for a, b in edges]
        return ones, pairs

    def one_way_error(self, name: str, mean_noise: float) -> float:
        """About how far noise moves a one-way margin from the truth (L1), no level by much more than it holds.

        Levels that seem to be empty have noise too: a part of it is left after all noise is made to add up.
        """
        left = OF_EMPTY * mean_noise
        return float(sum(np.minimum(mean_noise, single[name] + left).sum() for single in self._single))

    def evenness(self, edge: Margin) -> float:
        """How many records can differ from independence in a pair: few where nearly everybody has one level."""
        found = 0.0
        for model, single in zip(self._models, self._single, strict=True):
            part = 1.0
            for name in edge:
                share = single[name] / max(float(single[name].sum()), 1e-9)
                part *= (1.0 - float((share**2).sum())) * share.size / max(share.size - 1, 1)
            found += model.total * min(max(part, LEAST_EVEN), 1.0)
        return found

    def largest_departure(self, edge: Margin) -> float:
        """About how far a pair with these one-way margins can be from independence (L1): one determines the other."""
        far = 0.0
        for model, single in zip(self._models, self._single, strict=True):
            shares = [single[name] / max(float(single[name].sum()), 1e-9) for name in edge]
            far += 2.0 * model.total * min(1.0 - float((share**2).sum()) for share in shares)
        return far
