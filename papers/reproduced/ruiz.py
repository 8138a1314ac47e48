"""Ruiz, Muralidhar and Domingo-Ferrer (2018), On the privacy guarantees of synthetic data.

Table 2 prints one attribute of 20 people with three synthetic versions, and is computed again exactly. Table 1 is the
example of ``reverse_map``: what comes out, Z + (Y - Z), is Y whatever Z is, so its cells are no items. Tables 3 and 4
link people on two attributes, of which the second is not printed: what the text reads off Table 3 is computed from the
printed ranks. The links themselves cannot be: ``consistent_second_attributes`` searches for a second attribute that
gives them, and there is none. The procedure is ``understudy.evaluation.attacks.rank_attribution``.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from papers.harness import CannotComputeError, Computations, Compute, papers, pictures
from understudy.core.arrays import Flags
from understudy.evaluation.attacks.reverse_mapping import reverse_map
from understudy.figures.drawing import BAD, ORIGINAL, QUIET, SYNTHETIC, Canvas, Drawing, house_style

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
# Table 4: the ranks that the intruder identifies for X1 in each of the three sets.
TABLE_4 = (
    ((15, 1), (6,), (14,)), ((12,), (16, 17), (20,)), ((20,), (2, 4), (19, 15)), ((3, 6), (19,), (7, 10)),
    ((12, 11), (13,), (20,)), ((7,), (19, 5), (4, 11)), ((1, 7, 18), (10,), (17,)), ((19,), (2, 4), (9,)),
    ((16,), (8,), (12,)), ((6,), (1, 14), (7, 3)), ((10,), (20,), (5,)), ((18,), (12, 10), (6,)),
    ((8, 2), (3,), (17, 1)), ((17,), (8,), (8,)), ((12,), (17,), (2,)), ((16,), (5,), (4,)),
    ((1,), (15,), (18,)), ((15,), (7,), (16,)), ((9,), (7,), (1, 13)), ((9, 3, 14), (1, 14), (7, 3, 13)),
)  # fmt: skip
RANGES = {2: "rank", 4: "value", 18: "value", 20: "value"}  # people whose range the text gives, and in what


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


PEOPLE = 20
RANKS = np.arange(1, PEOPLE + 1)


def consistent_second_attributes(
    *,
    one: int = 2,
    other: tuple[int, int] = (6, 20),
    nearest: int = 1,
    nearest_in_3: int = 15,
    enough: float = np.inf,
) -> dict[str, int]:
    """How many second attributes are left that agree with three printed cells of synthetic set 1: none.

    Ranks are whole numbers from 1 to 20, each once in each attribute, as Table 2 prints them, and the criterion is the
    sum of differences. The cells: Table 4 links person 17 to the record A of rank 1 in X1, and to no other; it links
    person 1 to A (and to a second record); Table 3 links person 17 to the record B of rank 15 in X3, and to no other.
    ``one`` is the rank of person 1 in X3, ``other`` are the ranks of person 17 in X1 and X3, the last two the printed
    ranks of A and B. Unknown are the ranks u and v of persons 17 and 1 in X2, those of A and B, and everybody else's.

    All u, v, places of A and places of B are tried. The remaining 18 or 19 records need places too: a place is a pair
    of ranks, every rank is given once, and no place may be nearer than the cells allow. Whether that can be done is
    asked of a perfect matching, for ranks in X2 with ranks in X3, and for ranks in X1 with ranks in X2. Both are
    needed and are asked alone, so what is refused is impossible, and nothing possible is refused. The search ends when
    ``enough`` are left: of ranks that exist there are very many, and counting them all takes an hour.
    """
    near_1 = _places_of_the_nearest(one, alone=False)
    near_17 = _places_of_the_nearest(other[1], alone=True)
    alone = both = all_three = 0
    tried = (
        (place, v, u)
        for place in near_1.keys() & near_17.keys()
        for v in near_1[place]
        for u in near_17[place]
        if u != v
    )
    for place, v, u in tried:
        alone += 1
        free = _outside(v, one, place, alone=False) & _outside(u, other[1], place, alone=True)
        if not _fits(_fixed(free, *place)):
            continue
        both += 1
        all_three += _with_third_cell(free, (nearest, *place), int(u), other[0], nearest_in_3)
        if all_three >= enough:
            break
    return {"each cell of Table 4 by itself": alone, "both of them": both, "with the cell of Table 3": all_three}


def _with_third_cell(free: Flags, a: tuple[int, int, int], u: int, of_17: int, b_in_3: int) -> int:
    """How many places of B are left: its ranks in X1 and X2. Of A all three ranks are given, of B that in X3."""
    left = 0
    same = a[2] == b_in_3
    for in_2 in RANKS:
        for in_1 in RANKS:
            if same != (in_2 == a[1]) or same != (in_1 == a[0]):
                continue
            apart = np.abs(RANKS[:, None] - of_17) + np.abs(RANKS[None, :] - u)  # by ranks in X1 and X2
            farther = apart > apart[in_1 - 1, in_2 - 1]
            farther[in_1 - 1, in_2 - 1] = True
            placed = _fixed(_fixed(farther, int(in_1), int(in_2)), a[0], a[1])
            left += _fits(placed) and _fits(_fixed(_fixed(free, a[1], a[2]), int(in_2), b_in_3))
    return left


def _places_of_the_nearest(in_3: int, *, alone: bool) -> dict[tuple[int, int], list[int]]:
    """By the place of A in X2 and X3: which ranks in X2 a person may have whose nearest record A is."""
    found: dict[tuple[int, int], list[int]] = {}
    for in_2 in RANKS:
        for place in product(range(1, PEOPLE + 1), range(1, PEOPLE + 1)):
            if _fits(_fixed(_outside(int(in_2), in_3, place, alone=alone), *place)):
                found.setdefault(place, []).append(int(in_2))
    return found


def _outside(in_2: int, in_3: int, place: tuple[int, int], *, alone: bool) -> Flags:
    """By ranks in X2 and X3: places that are no nearer to a person than A; farther, if A alone is linked."""
    apart = np.abs(RANKS[:, None] - in_2) + np.abs(RANKS[None, :] - in_3)
    least = apart[place[0] - 1, place[1] - 1]
    free: Flags = apart > least if alone else apart >= least
    free[place[0] - 1, place[1] - 1] = True
    return free


def _fixed(free: Flags, row: int, column: int) -> Flags:
    """The same places after one pair of ranks is given away."""
    kept = free.copy()
    kept[row - 1, :], kept[:, column - 1] = False, False
    kept[row - 1, column - 1] = free[row - 1, column - 1]
    return kept


def _fits(free: Flags) -> bool:
    """Whether every rank can be given once: a perfect matching."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if not free.any(axis=0).all() or not free.any(axis=1).all():
        return False
    return bool((maximum_bipartite_matching(csr_matrix(free), perm_type="column") >= 0).all())


def no_second_attribute() -> float:
    raise CannotComputeError(
        "the second attribute, on which people are linked, is not printed; and there is none that gives all printed "
        "links: Table 3 record 17 and Table 4 records 1 and 17 of set 1 contradict each other"
    )


def tables_2_to_4(full: bool) -> Drawing:  # noqa: ARG001 - nothing here takes long
    """Table 2 as original against reverse-mapped values, Tables 3 and 4 as ranges of ranks around the true one."""
    with house_style():
        canvas = Canvas(11.0, 7.4, rows=2, columns=3)
        drawn: list[dict[str, object]] = []
        for copy, axis in enumerate(canvas.axes[0], start=1):
            values, noise, _ = reverse_map(TABLE_2["X"], TABLE_2[f"Y {copy}"], ranks=TABLE_2[f"rank {copy}"])
            axis.plot([30, 72], [30, 72], color=QUIET, linewidth=0.8)
            for record, (x, y, z) in enumerate(zip(TABLE_2["X"], TABLE_2[f"Y {copy}"], values, strict=True), start=1):
                axis.plot([x, x], [y, z], color=QUIET, linewidth=0.8, zorder=1)
                drawn.append(
                    {"table": 2, "record": record, "set": copy, "true": float(x), "low": float(z), "high": float(z),
                     "holds_truth": bool(x == z), "noise": float(noise[record - 1])}
                )  # fmt: skip
            axis.plot(TABLE_2["X"], TABLE_2[f"Y {copy}"], "o", color=SYNTHETIC, markersize=3, label="synthetic")
            axis.plot(TABLE_2["X"], values, "D", color=ORIGINAL, markersize=3, label="reverse-mapped")
            axis.set_title(f"Table 2, set {copy}: noise in grey")
            axis.set_xlabel("X1 of the person with the same number")
        canvas.axes[0, 0].set_ylabel("value")
        tables: tuple[tuple[str, list[tuple[int, Any]], int], ...] = (
            ("Table 3: X3 from X1, X2", [(rank, sets) for _, rank, sets in TABLE_3], 3),
            ("Table 4: X1 from X2, X3", list(zip(TABLE_2["rank"], TABLE_4, strict=True)), 4),
        )
        for axis, (title, rows, table) in zip(canvas.axes[1], tables, strict=False):
            for record, (truth, sets) in enumerate(rows, start=1):
                ranks = [rank for one in sets for rank in one]
                low, high = min(ranks), max(ranks)
                holds = low <= truth <= high
                axis.plot([low, high], [record] * 2, color=SYNTHETIC if holds else QUIET, linewidth=3)
                axis.plot(ranks, [record] * len(ranks), "|", color=BAD, markersize=6)
                axis.plot(truth, record, "D", color=ORIGINAL, markersize=4)
                drawn.append(
                    {"table": table, "record": record, "set": None, "true": float(truth), "low": float(low),
                     "high": float(high), "holds_truth": holds, "noise": None}
                )  # fmt: skip
            axis.set_title(title)
            axis.set_xlabel("rank: true (diamond), of the sets (lines)")
            axis.set_yticks(RANKS)
            axis.tick_params(axis="y", labelsize=6)
            axis.invert_yaxis()
        canvas.axes[1, 0].set_ylabel("person; grey: the range leaves the truth out")
        _bars(canvas.axes[1, 2], drawn)
        canvas.legend_above()
        return canvas.finished(pa.Table.from_pylist(drawn))


def _bars(axis: Any, drawn: list[dict[str, object]]) -> None:
    """For how many people the three sets narrow the range rightly, and for how many wrongly."""
    for place, table in enumerate((3, 4)):
        holds = sum(bool(row["holds_truth"]) for row in drawn if row["table"] == table)
        axis.bar(place, holds, color=SYNTHETIC, width=0.6)
        axis.bar(place, PEOPLE - holds, bottom=holds, color=QUIET, width=0.6)
        axis.text(place, holds / 2, f"{holds}", ha="center", va="center")
        axis.text(place, (holds + PEOPLE) / 2, f"{PEOPLE - holds}", ha="center", va="center")
    axis.set_xticks([0, 1], ["Table 3", "Table 4"])
    axis.set_yticks(range(0, PEOPLE + 1, 5))
    axis.set_title("Ranges that hold the truth")


pictures["ruiz"] = tables_2_to_4


@papers.add
def ruiz() -> Computations:
    computations: dict[tuple[str, str], Compute] = {}
    for record in range(20):
        for copy in (1, 2, 3):
            for part, name in enumerate(("Z", "noise")):
                cell = f"record {record + 1} set {copy} {name}"
                computations["Table 2", cell] = partial(reverse_mapped, part, copy, record)
    for record, kind in RANGES.items():
        for end, name in enumerate(("least", "greatest")):
            computations["Table 3", f"record {record} {name} {kind}"] = partial(bound_of_range, record, end)
    computations["Table 3", "record 1 set 1"] = no_second_attribute
    computations["Table 4", "record 2 set 1"] = no_second_attribute
    return computations
