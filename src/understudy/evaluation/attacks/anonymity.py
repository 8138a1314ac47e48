"""k-anonymity, l-diversity and t-closeness of the synthetic tables themselves.

They describe the release as if its rows were people. A synthetic table may fail them and harm nobody, or pass them and
copy its data: they are here because stewards are asked for them, not because they measure the risk of synthesis.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.result import Section
from understudy.core.schema import Attribute
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import attacks, section_of
from understudy.evaluation.shared.neighbours import cell_numbers
from understudy.evaluation.shared.results import frame


@attacks.add
class Anonymity:
    """Sizes of key classes, and how diverse and how typical the target is within them."""

    name: ClassVar[str] = "anonymity"
    summary: ClassVar[str] = "k-anonymity, l-diversity and t-closeness of the synthetic tables"
    needs: ClassVar[tuple[str, ...]] = ()

    def run(self, comparison: Comparison) -> Section:
        shape = comparison.schema.shape()
        rows: list[dict[str, Any]] = []
        for number, copy in enumerate(comparison.tables, start=1):
            for target in comparison.attacked:
                keys = comparison.known(target)
                if not keys:
                    continue
                (classes,), _ = cell_numbers([copy.codes], comparison.columns(keys), shape)
                values = copy.codes[:, comparison.names.index(target)]
                rows.append({
                    "copy": number, "keys": " x ".join(keys), "target": target,
                    **anonymity(classes, values, comparison.schema[target]),
                })  # fmt: skip
        return section_of(frames={"anonymity": frame(rows)})


def anonymity(classes: Integers, values: Integers, attribute: Attribute) -> dict[str, float]:
    """Three measures of the classes of equal keys.

    k: the smallest class. l: the fewest values in a class, distinct and by entropy. t: the largest distance between
    a class's distribution of the target and the whole table's (ordered values: the earth mover's; else half the L1).

    >>> sex = Attribute(name="sex", levels=("F", "M"))
    >>> anonymity(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 0]), sex)
    {'k': 2, 'below_5': 100.0, 'l_distinct': 1, 'l_entropy': 1.0, 't': 0.25}
    """
    _, place, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    levels = attribute.size
    cells, counts = np.unique(place * levels + values, return_counts=True)
    of_class, level = cells // levels, cells % levels
    shares = counts / sizes[of_class]
    entropy = np.bincount(of_class, weights=-shares * np.log(shares), minlength=len(sizes))
    whole = np.bincount(values, minlength=levels) / len(values)
    if attribute.kind == "levels" and not attribute.ordered:
        present = np.bincount(of_class, weights=np.abs(shares - whole[level]) - whole[level], minlength=len(sizes))
        distance = (present + 1) / 2
    else:  # the sum over cut points of the difference of cumulative shares; 1 is the whole range
        distance = np.zeros(len(sizes))
        below = np.zeros(len(sizes))
        for code in range(levels - 1):
            here = level == code
            np.add.at(below, of_class[here], shares[here])
            distance += np.abs(below - whole[: code + 1].sum())
        distance /= max(levels - 1, 1)
    return {
        "k": int(sizes.min()),
        "below_5": 100 * float(np.sum(sizes[sizes < 5])) / len(values),
        "l_distinct": int(np.bincount(of_class).min()),
        "l_entropy": float(np.exp(max(entropy.min(), 0.0))),
        "t": float(distance.max()),
    }
