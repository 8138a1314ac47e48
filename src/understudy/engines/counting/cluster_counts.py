"""Counts of clusters: each row with the next one of its cluster in a random order, and how large clusters are.

The order comes from one word for each row, which does not depend on the data. So taking a row away leaves the order of
the others as it was, and a row is in at most two pairs, however large its cluster is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.counts import ClusterCounts
from understudy.core.mechanism import Words

PURPOSE = "order in clusters"


def cluster_counts(
    clusters: Integers, codes: Mapping[str, Integers], classes: Mapping[str, Sequence[int]], *, largest: int,
    stream: Words,
) -> ClusterCounts:  # fmt: skip
    """The counts, from the number of the cluster of every row and its codes."""
    words = _words(len(clusters), stream)
    order = np.lexsort((words, clusters))
    sizes = np.bincount(clusters) if len(clusters) else np.zeros(0, np.int64)
    sizes = sizes[sizes > 0]
    ends = np.cumsum(sizes)
    following = np.arange(1, len(order) + 1)
    following[ends - 1] = ends - sizes  # the last row of a cluster is followed by its first
    paired = np.repeat(sizes > 1, sizes)
    first, second = order[paired], order[following[paired]]
    neighbours = {}
    for name, groups in classes.items():
        size = max(groups) + 1
        own = np.asarray(groups, np.int64)[codes[name]]
        neighbours[name] = np.bincount(own[first] * size + own[second], minlength=size * size)
    most = np.minimum(sizes, largest).astype(np.int64)
    return ClusterCounts(
        neighbours=neighbours, sizes=np.array([int((most * (most - 1)).sum()), len(clusters)], np.int64)
    )


def _words(rows: int, stream: Words) -> np.ndarray:
    """One word for each row; drawn again if two are equal, so that every order is equally likely."""
    attempt = 0
    while True:
        words = stream.words(rows, PURPOSE, attempt)
        if len(np.unique(words)) == rows:
            return words
        attempt += 1
