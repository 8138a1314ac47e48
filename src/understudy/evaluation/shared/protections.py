"""Other protections at like utility: noise, rank swapping and PRAM, attacked in the same way (Ruiz et al.).

Each protection gives every value of a record the value of some record: noise moves ranks by a normal amount and maps
back to original values (the noise left over protects nobody), rank swapping exchanges values whose ranks are close,
PRAM keeps a value or draws it anew from its margin. The strength is set so that two-way tables are as far from the
original's as the synthetic table's are; what is left to compare is the risk.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Integers
from understudy.core.counts import Source
from understudy.engines.opening import open_source
from understudy.errors import InputError, unknown_name
from understudy.evaluation.attacks.rank_attribution import attack_attribute
from understudy.evaluation.attacks.rank_linkage import mutual
from understudy.evaluation.inputs.comparison import Comparison, compare
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene
from understudy.evaluation.shared.rank_linking import link
from understudy.evaluation.shared.ranks import mid_rank_matrix, order_ranks, same_size
from understudy.release import Release

PROTECTIONS = ("noise", "rank swapping", "PRAM")
STEPS = 12  # of the bisection: the strength to 1 in 4,096


def protect(records: Records, protection: str, strength: float, seed: int) -> Records:
    """A protected table whose record i comes from original record i; strength 0 changes nothing, 1 hides most."""
    if protection not in PROTECTIONS:
        raise unknown_name("protection", protection, PROTECTIONS)
    generator = np.random.default_rng([seed, *protection.encode()])
    n, width = records.codes.shape
    taken = np.empty((n, width), np.int64)
    for j in range(width):
        order = np.argsort(records.positions[:, j], kind="stable")
        ranks = order_ranks(records.positions[:, j])
        if protection == "noise":
            moved = ranks + generator.normal(0, strength * n, n) if strength else ranks.astype(np.float64)
            taken[:, j] = order[order_ranks(moved) - 1]
        elif protection == "rank swapping":
            taken[order, j] = order[_swapped(n, strength, generator)]
        else:
            anew = generator.uniform(size=n) < strength
            taken[:, j] = np.where(anew, generator.integers(0, n, n), np.arange(n))
    columns = np.arange(width)
    return Records(codes=records.codes[taken, columns], positions=records.positions[taken, columns])


def _swapped(n: int, strength: float, generator: np.random.Generator) -> Integers:
    """A permutation that exchanges each rank with another at most ``strength`` n away, each at most once."""
    partner = np.arange(n)
    free = np.ones(n, bool)
    window = round(strength * n)
    steps = generator.integers(1, window + 1, n) if window else np.zeros(n, np.int64)
    for place in range(n):
        other = place + int(steps[place])
        if window and free[place] and other < n and free[other]:
            partner[place], partner[other] = other, place
            free[place] = free[other] = False
    return partner


def two_way_distance(comparison: Comparison, copy: Records) -> float:
    """The mean total variation distance of all two-way tables to the original's."""
    shape = comparison.schema.shape()
    distances = []
    for one, other in combinations(range(len(shape)), 2):
        shares = []
        for records in (comparison.people, copy):
            flat = records.codes[:, one] * shape[other] + records.codes[:, other]
            shares.append(np.bincount(flat, minlength=shape[one] * shape[other]) / len(records))
        distances.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(distances))


def strength_for(comparison: Comparison, protection: str, distance: float) -> float:
    """The strength at which a protection moves two-way tables as far as asked for, by bisection; 1 if none does."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        made = protect(comparison.people, protection, middle, comparison.seed)
        low, high = (middle, high) if two_way_distance(comparison, made) < distance else (low, middle)
    return high


def compare_protections(release: Release, confidential: Any, *, target: str, seed: int = 0) -> pa.Table:
    """The release's first copy and the three protections at its utility: identity and attribute disclosure of each.

    ``true_links``: the share of records whose only nearest record is their own protected one (a synthetic table has no
    such record). ``clones``: mutual nearest. ``hit``: the true value of the target is among the linked records'.
    """
    source = confidential if isinstance(confidential, Source) else open_source(confidential, release.schema)
    comparison = compare(release, source, targets=(target,), seed=seed)
    if len(comparison.names) < 2:
        raise InputError(f"'{target}' is the only attribute; protections are compared by what others tell about it.")
    copy = comparison.tables[0].take(same_size(len(comparison.tables[0]), len(comparison.people), seed))
    distance = two_way_distance(comparison, copy)
    tables = {"synthetic": (None, copy)} | {
        name: (strength, protect(comparison.people, name, strength, seed))
        for name in PROTECTIONS
        for strength in (strength_for(comparison, name, distance),)
    }
    rows = []
    people = mid_rank_matrix(comparison.people.positions)
    for name, (strength, made) in tables.items():
        ranks = mid_rank_matrix(made.positions)
        forth = link(people, ranks)
        guess = attack_attribute(comparison, Scene(people=comparison.people, tables=(made,)), target)
        summary = guess.summary()
        own = None if strength is None else int(np.sum(forth.single() == np.arange(len(people))))
        rows.append(
            {
                "protection": name,
                "strength": strength,
                "two_way_distance": two_way_distance(comparison, made),
                "clones": mutual(people, ranks) / len(people),
                "true_links": None if own is None else own / len(people),
                "target": target,
                "hit": summary["hit_one_copy"],
                "right_guess": float(np.mean(guess.value == guess.true_code)),
                "claims_correct": summary["correct"] / summary["people"],
                "claims_false": summary["false"] / summary["people"],
            }
        )
    return pa.Table.from_pylist(rows)
