"""How large a junction tree would become with each of many margins, as a loop that numba compiles.

The same elimination as in ``junction_tree``, which an adaptive method needs for every candidate in every round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def cells_with_each(joined: NDArray[Any], levels: NDArray[Any], margins: NDArray[Any]) -> NDArray[Any]:
    """Cells of the tree of a graph (``joined``: who interacts with whom) when one margin (a row of flags) is added.

    Cells are floating-point numbers, exact up to 2^53 and far beyond any limit from there on.
    """
    count = len(levels)
    found = np.zeros(len(margins))
    for candidate in range(len(margins)):
        around = joined.copy()
        for one in range(count):
            for other in range(count):
                if margins[candidate, one] and margins[candidate, other]:
                    around[one, other] = True
        cells = np.ones(count)
        for one in range(count):
            around[one, one] = True
            for other in range(count):
                if around[one, other]:
                    cells[one] *= levels[other]
        left = np.ones(count, np.bool_)
        cliques = np.zeros((count, count), np.bool_)
        many = 0
        for _ in range(count):
            chosen = -1
            for one in range(count):
                if left[one] and (chosen < 0 or cells[one] < cells[chosen]):
                    chosen = one
            clique = around[chosen]
            inside = False
            for earlier in range(many):
                inside = True
                for one in range(count):
                    if clique[one] and not cliques[earlier, one]:
                        inside = False
                        break
                if inside:
                    break
            if not inside:
                cliques[many] = clique
                many += 1
                found[candidate] += cells[chosen]
            left[chosen] = False
            for one in range(count):
                if clique[one] and one != chosen:
                    around[one, chosen] = False
                    cells[one] /= levels[chosen]
                    for other in range(count):
                        if clique[other] and other != chosen and not around[one, other]:
                            around[one, other] = True
                            cells[one] *= levels[other]
    return found
