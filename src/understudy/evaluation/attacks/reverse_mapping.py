"""Multiple reverse mapping: a synthetic table as a permutation of the original plus noise (Ruiz et al., section 3.1).

Law: the value of rank k of a synthetic attribute becomes the original value of rank k, so Y = P X + E with P a
permutation and E too small to change a rank. The noise loses information without protecting anybody; what protects is
the permutation. The attack says how much of the distance between a synthetic record and the original record nearest to
it is permutation and how much is noise, attribute by attribute.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.result import Section
from understudy.errors import InputError
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import attacks, section_of
from understudy.evaluation.shared.rank_linking import link
from understudy.evaluation.shared.ranks import mid_rank_matrix, order_ranks, same_size
from understudy.evaluation.shared.results import frame

MOST_RECORDS = 2_000  # synthetic records whose distance is taken apart


class ReverseMapped(NamedTuple):
    """``values`` = ``original[permutation]`` and ``synthetic`` = ``values`` + ``noise``, column by column."""

    values: NDArray[Any]
    noise: NDArray[Any]
    permutation: Integers


def reverse_map(
    original: ArrayLike, synthetic: ArrayLike, *, ranks: ArrayLike | None = None, seed: int = 0
) -> ReverseMapped:
    """Express synthetic values as a permutation of original values plus noise.

    One attribute (vectors) or several (matrices, one row per record). Numbers of rows that differ are made equal by
    the paper's sub- or super-sampling of the synthetic rows. Equal values are ranked in the order of their records,
    unless ``ranks`` (1 to n, of the synthetic values) says how they were ranked.

    Table 1 of the paper: five people, what they say (X) and the masked table (Y) without their numbers.

    >>> x = np.array([[13, 135, 3707], [20, 52, 826], [2, 123, -1317], [15, 165, 2419], [29, 160, -1008]])
    >>> y = np.array([[8, 160, 3248], [20, 57, 822], [-1, 122, 248], [18, 135, 597], [29, 164, -1927]])
    >>> z, noise, permutation = reverse_map(x, y)
    >>> z.tolist()
    [[13, 160, 3707], [20, 52, 2419], [2, 123, -1008], [15, 135, 826], [29, 165, -1317]]
    >>> bool(np.all(z + noise == y)), bool(np.all(np.take_along_axis(x, permutation, axis=0) == z))
    (True, True)
    """
    x, y = _signed(original), _signed(synthetic)
    if x.ndim != y.ndim or x.ndim not in (1, 2) or x.shape[1:] != y.shape[1:]:
        raise InputError(f"original {x.shape} and synthetic {y.shape} must have the same attributes.")
    for name, table in (("original", x), ("synthetic", y)):
        if not np.issubdtype(table.dtype, np.number) or len(table) == 0:
            raise InputError(f"{name} must hold numbers (positions of levels, if need be), and at least one record.")
        if not np.all(np.isfinite(table)):
            raise InputError(f"{name} must hold finite numbers only.")
    if ranks is None:
        y = y[same_size(len(y), len(x), seed)]
        k = order_ranks(y) if y.ndim == 1 else np.column_stack([order_ranks(column) for column in y.T])
    else:
        k = np.asarray(ranks)
        wanted = np.arange(1, len(x) + 1).reshape((-1,) + (1,) * (x.ndim - 1))
        if k.shape != x.shape or y.shape != x.shape or not np.all(np.sort(k, axis=0) == wanted):
            raise InputError("ranks must be the numbers 1 to n, each once, one for each synthetic value.")
        k = k.astype(np.int64)
    order = np.argsort(x, axis=0, kind="stable")
    permutation = np.take_along_axis(order, k - 1, axis=0)
    values = np.take_along_axis(x, permutation, axis=0)
    return ReverseMapped(values=values, noise=y - values, permutation=permutation.astype(np.int64))


def _signed(values: ArrayLike) -> NDArray[Any]:
    """Numbers that have negatives: a difference of unsigned ones would wrap around."""
    array = np.asarray(values)
    return array.astype(np.int64) if array.dtype.kind == "u" else array


@attacks.add
class ReverseMapping:
    """How much of the distance between synthetic and original records is permutation, and how much is noise."""

    name: ClassVar[str] = "reverse_mapping"
    summary: ClassVar[str] = "each copy as a permutation of the original plus noise, and the share of either"
    needs: ClassVar[tuple[str, ...]] = ()

    def run(self, comparison: Comparison) -> Section:
        rows: list[dict[str, Any]] = []
        for number, copy in enumerate(comparison.tables, start=1):
            rows += [{"copy": number, **row} for row in shares(comparison, copy)]
        return section_of(frames={"permutation_and_noise": frame(rows)})


def shares(comparison: Comparison, copy: Records) -> list[dict[str, Any]]:
    """By attribute: mean |z - x| (permutation) and mean |y - z| (noise), x the value of the nearest original record.

    For a nominal attribute a difference is 1, for others it is in units of the attribute's range. Of several nearest
    original records the first stands for all.
    """
    people = comparison.people
    copy = copy.take(same_size(len(copy), len(people), comparison.seed))
    mapped = reverse_map(people.positions, copy.positions)
    chosen = comparison.affordable_people(
        len(people), MOST_RECORDS, "reverse_mapping", differences=people.positions.size
    )
    ranks, own = (mid_rank_matrix(comparison.in_rank_order(one)) for one in (copy, people))
    links = link(ranks[chosen], own)
    vectors = np.unique(links.vector_of)
    first = np.array([links.synthetic.records[links.synthetic.offsets[links.vectors(int(v))[0]]] for v in vectors])
    nearest = people.positions[first[links.vector_of]]
    y, z = copy.positions[chosen], mapped.values[chosen]
    columns = list(range(len(comparison.names)))
    nominal, weights = comparison.nominal(columns), comparison.spans(columns)

    def apart(one: Floats, other: Floats) -> Floats:
        mean: Floats = np.where(nominal, one != other, np.abs(one - other) * weights).mean(axis=0)
        return mean

    moved, noise = apart(z, nearest), apart(y, z)
    return [
        {
            "attribute": name,
            "permutation": float(moved[j]),
            "noise": float(noise[j]),
            "permutation_share": float(moved[j] / (moved[j] + noise[j])) if moved[j] + noise[j] else None,
            "records": len(chosen),
        }
        for j, name in enumerate(comparison.names)
    ]
