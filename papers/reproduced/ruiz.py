"""Ruiz, Muralidhar and Domingo-Ferrer (2018), On the privacy guarantees of synthetic data.

Table 2 prints one attribute of 20 people with three synthetic versions, and is computed again exactly. Tables 3 and 4
link people on two attributes, of which the second is not printed: what the text reads off Table 3 is computed from the
printed ranks, and the links themselves cannot be. The procedure is ``understudy.evaluation.attacks.rank_attribution``.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from papers.harness import CannotComputeError, Computations, Compute, papers
from understudy.evaluation.attacks.reverse_mapping import reverse_map

# Table 1: the original data X and the anonymized data Y.
TABLE_1_X = ((13, 135, 3707), (20, 52, 826), (2, 123, -1317), (15, 165, 2419), (29, 160, -1008))
TABLE_1_Y = ((8, 160, 3248), (20, 57, 822), (-1, 122, 248), (18, 135, 597), (29, 164, -1927))
# Table 2, by column: X1 and its rank; of each synthetic set the value, its rank, the reverse-mapped value, the noise.
TABLE_2 = {
    "X": [38, 66, 56, 53, 31, 63, 39, 63, 51, 56, 70, 61, 41, 49, 51, 64, 45, 57, 37, 50],
    "rank": [3, 19, 12, 11, 1, 16, 4, 17, 9, 13, 20, 15, 5, 7, 10, 18, 6, 14, 2, 8],
    "Y 1": [46, 36, 43, 59, 41, 61, 44, 56, 76, 49, 65, 59, 40, 43, 53, 51, 66, 44, 72, 39],
    "rank 1": [9, 1, 5, 14, 4, 16, 7, 13, 20, 10, 17, 15, 3, 6, 12, 11, 18, 8, 19, 2],
    "Z 1": [51, 31, 41, 57, 39, 63, 49, 56, 70, 51, 63, 61, 38, 45, 56, 53, 64, 50, 66, 37],
    "noise 1": [-5, 5, 2, 2, 2, -2, -5, 0, 6, -2, 2, -2, 2, -2, -3, -2, 2, -6, 6, 2],
    "Y 2": [33, 54, 50, 37, 43, 45, 33, 41, 40, 37, 37, 43, 32, 51, 58, 39, 45, 39, 41, 53],
    "rank 2": [2, 19, 16, 6, 13, 15, 3, 11, 9, 5, 4, 12, 1, 17, 20, 8, 14, 7, 10, 18],
    "Z 2": [37, 66, 63, 45, 56, 61, 38, 53, 51, 41, 39, 56, 31, 63, 70, 50, 57, 49, 51, 64],
    "noise 2": [-4, -12, -13, -8, -13, -16, -5, -12, -11, -4, -2, -13, 1, -12, -12, -11, -12, -10, -10, -11],
    "Y 3": [38, 46, 42, 41, 49, 49, 56, 42, 45, 53, 42, 35, 44, 47, 28, 50, 33, 42, 40, 46],
    "rank 3": [4, 14, 8, 6, 16, 17, 20, 9, 12, 19, 7, 3, 11, 15, 1, 18, 2, 10, 5, 13],
    "Z 3": [39, 57, 50, 45, 63, 63, 70, 51, 56, 66, 49, 38, 53, 61, 31, 64, 37, 51, 41, 56],
    "noise 3": [-1, -11, -8, -4, -14, -14, -14, -9, -11, -13, -7, -3, -9, -14, -3, -14, -4, -9, -1, -10],
}  # fmt: skip
# Table 3: X3, its rank, and the ranks that the intruder identifies in each of the three synthetic sets.
TABLE_3 = (
    (2228, 2, ((11,), (9,), (8,))),
    (2299, 4, ((12,), (18,), (4,))),
    (2534, 10, ((1,), (8,), (12, 17))),
    (2526, 9, ((5,), (17,), (11,))),
    (2336, 5, ((16,), (13,), (2,))),
    (2598, 13, ((19,), (19,), (3,))),
    (2736, 16, ((2,), (9,), (8,))),
    (2557, 11, ((12,), (3,), (10, 9))),
    (2704, 15, ((17, 4, 5), (16,), (12, 2))),
    (2513, 8, ((5,), (17,), (13,))),
    (2942, 19, ((17,), (3,), (10,))),
    (2737, 17, ((18,), (7,), (3,))),
    (2559, 12, ((2,), (2,), (8,))),
    (2809, 18, ((8,), (16,), (16,))),
    (2195, 1, ((4, 5), (16,), (11,))),
    (2655, 14, ((6, 19), (11,), (4,))),
    (2963, 20, ((15,), (5,), (15,))),
    (2298, 3, ((3,), (7,), (7,))),
    (2382, 6, ((11,), (9,), (8,))),
    (2428, 7, ((15,), (15,), (3, 14))),
)
RANGES = {2: "rank", 4: "value", 18: "value", 20: "value"}  # people whose range the text gives, and in what


def recomposed(record: int, attribute: int) -> float:
    """Equation (1), Y = P X + E, for one cell of Table 1."""
    values, noise, _ = reverse_map(np.array(TABLE_1_X), np.array(TABLE_1_Y))
    return float(values[record, attribute] + noise[record, attribute])


def reverse_mapped(part: int, copy: int, record: int) -> float:
    """A cell of Table 2: the reverse-mapped value (part 0) or the noise (part 1), from the printed ranks."""
    found = reverse_map(TABLE_2["X"], TABLE_2[f"Y {copy}"], ranks=TABLE_2[f"rank {copy}"])
    return float(found[part][record])


def bound_of_range(record: int, end: int) -> float:
    """An end of the range that the ranks of all three sets span: the rank, or the original value of that rank."""
    ranks = [rank for found in TABLE_3[record - 1][2] for rank in found]
    value_of = {rank: value for value, rank, _ in TABLE_3}
    rank = min(ranks) if end == 0 else max(ranks)
    return float(rank if RANGES[record] == "rank" else value_of[rank])


def not_printed() -> float:
    raise CannotComputeError("the second attribute, on which people are linked, is not printed")


@papers.add
def ruiz() -> Computations:
    computations: dict[tuple[str, str], Compute] = {}
    for record in range(5):
        for attribute in range(3):
            computations["Table 1", f"record {record + 1} Y{attribute + 1}"] = partial(recomposed, record, attribute)
    for record in range(20):
        for copy in (1, 2, 3):
            for part, name in enumerate(("Z", "noise")):
                cell = f"record {record + 1} set {copy} {name}"
                computations["Table 2", cell] = partial(reverse_mapped, part, copy, record)
    for record, kind in RANGES.items():
        for end, name in enumerate(("least", "greatest")):
            computations["Table 3", f"record {record} {name} {kind}"] = partial(bound_of_range, record, end)
    computations["Table 3", "record 1 set 1"] = not_printed
    computations["Table 4", "record 2 set 1"] = not_printed
    return computations
