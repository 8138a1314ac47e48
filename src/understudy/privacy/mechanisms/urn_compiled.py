"""The urns of commuting patterns as loops that numba compiles: whole numbers only, one destination after the other.

Each destination reads words from its own substream. A loop that runs out of words says so, and the caller runs that
destination again with more words of the same substream: the outcome does not depend on how many were given at first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled
from understudy.privacy.mechanisms.place_tree_compiled import band_of, bands_around

DONE, MORE_WORDS = 0, 1


@compiled
def _record(prefix: NDArray[Any], begin: int, end: int, number: int) -> int:
    """The pair that holds a record, by the summed jobs of the pairs."""
    low, high = begin, end
    while high - low > 1:
        middle = (low + high) // 2
        if prefix[middle] - prefix[begin] <= number:
            low = middle
        else:
            high = middle
    return low


@compiled
def urns(  # noqa: PLR0917  (numba passes arguments by position)
    starts: NDArray[Any],
    cells: NDArray[Any],
    prefix: NDArray[Any],
    domains: NDArray[Any],
    weights: NDArray[Any],
    shifts: NDArray[Any],
    rows: NDArray[Any],
    row_starts: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    word_counts: NDArray[Any],
    drawn: NDArray[Any],
    states: NDArray[Any],
) -> None:
    """Dirichlet-multinomial draws over ``domains[d]`` cells with prior weights[d] / 2^shifts[d] in each.

    ``cells`` is the cell of each pair, ``prefix`` the summed jobs before it. One whole number per row decides: below
    domain * weight a ball of the prior, below that plus records << shift one of a record, else one of an earlier row.
    """
    for d in range(len(rows)):
        if states[d] == DONE:
            continue
        states[d] = MORE_WORDS
        weight, shift = np.uint64(weights[d]), np.uint64(shifts[d])
        begin, end = starts[d], starts[d + 1]
        of_prior = np.uint64(domains[d]) * weight
        first = of_prior + (np.uint64(prefix[end] - prefix[begin]) << shift)
        at, last = word_starts[d], word_starts[d] + word_counts[d]
        base = row_starts[d]
        row = 0
        while row < rows[d] and at < last:
            bound = first + (np.uint64(row) << shift)
            word = words[at]
            at += 1
            if word > ~bound and word > ~((np.uint64(0) - bound) % bound):
                continue  # of the incomplete last run of ``bound`` words
            ball = word % bound
            if ball < of_prior:
                drawn[base + row] = ball // weight
            elif ball < first:
                number = np.int64((ball - of_prior) >> shift)
                drawn[base + row] = cells[_record(prefix, begin, end, number)]
            else:
                drawn[base + row] = drawn[base + np.int64((ball - first) >> shift)]
            row += 1
        if row == rows[d]:
            states[d] = DONE
            drawn[base : base + row].sort()


@compiled
def answers(  # noqa: PLR0917
    starts: NDArray[Any],
    cells: NDArray[Any],
    jobs: NDArray[Any],
    domains: NDArray[Any],
    weight: np.uint64,
    shift: np.uint64,
    row_starts: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    word_counts: NDArray[Any],
    drawn: NDArray[Any],
    states: NDArray[Any],
) -> None:
    """One row for each job, from an urn of its own: one ball of the job beside weight / 2^shift in every cell."""
    for d in range(len(domains)):
        if states[d] == DONE:
            continue
        states[d] = MORE_WORDS
        of_prior = np.uint64(domains[d]) * weight
        bound = of_prior + (np.uint64(1) << shift)
        at, last = word_starts[d], word_starts[d] + word_counts[d]
        row, end = row_starts[d], row_starts[d + 1]
        for pair in range(starts[d], starts[d + 1]):
            left = jobs[pair]
            while left > 0 and at < last:
                word = words[at]
                at += 1
                if word > ~bound and word > ~((np.uint64(0) - bound) % bound):
                    continue  # of the incomplete last run of ``bound`` words
                ball = word % bound
                drawn[row] = np.int64(ball // weight) if ball < of_prior else cells[pair]
                row += 1
                left -= 1
        if row == end:
            states[d] = DONE
            drawn[row_starts[d] : end].sort()


@compiled
def _binomial(count: int, word_at: int, words: NDArray[np.uint64], tables: NDArray[Any], bounds: NDArray[Any]) -> int:
    """How many of ``count`` empty places are retained: one table for each binary digit of the count."""
    total, digit = 0, 0
    while count:
        if count & 1:
            low, high = bounds[digit, 0], bounds[digit, 1]
            first = low
            word = words[word_at]
            word_at += 1
            while low < high:
                middle = (low + high) // 2
                if word < tables[middle]:
                    high = middle
                else:
                    low = middle + 1
            total += bounds[digit, 2] + (low - first)
        count >>= 1
        digit += 1
    return total


@compiled
def _by_band(  # noqa: PLR0917
    used: int, lows: NDArray[Any], highs: NDArray[Any], band_at: NDArray[Any],
    sizes: NDArray[Any], parts: NDArray[Any], firsts: NDArray[Any], ends: NDArray[Any],
) -> None:  # fmt: skip
    """Ranges sorted by band: those of a band lie at parts[band]:parts[band + 1], each with its first position and with
    the number of places of the band up to its end. ``sizes`` are the places of each band."""
    sizes[:] = 0
    parts[:] = 0
    for number in range(used):
        parts[band_at[number] + 1] += 1
    for band in range(len(sizes)):
        parts[band + 1] += parts[band]
    for number in range(used):
        band = band_at[number]
        where = parts[band]
        parts[band] += 1
        sizes[band] += highs[number] - lows[number]
        firsts[where], ends[where] = lows[number], sizes[band]
    for band in range(len(sizes), 0, -1):
        parts[band] = parts[band - 1]
    parts[0] = 0


@compiled
def _position(number: int, first: int, last: int, firsts: NDArray[Any], ends: NDArray[Any]) -> int:
    """The position of a place by its number in a band, whose ranges lie at first:last."""
    low, high, begin = first, last - 1, first
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= number:
            low = middle + 1
        else:
            high = middle
    before = ends[low - 1] if low > begin else 0
    return firsts[low] + number - before  # type: ignore[no-any-return]


@compiled
def shrunk_urns(  # noqa: PLR0917
    starts: NDArray[Any],
    cells: NDArray[Any],
    prefix: NDArray[Any],
    destinations: NDArray[Any],
    points: NDArray[Any],
    edges: NDArray[Any],
    tree_order: NDArray[Any],
    tree_points: NDArray[Any],
    tree_boxes: NDArray[Any],
    inside: NDArray[np.bool_],
    tables: NDArray[np.uint64],
    bounds: NDArray[Any],
    extra: int,
    weights: NDArray[Any],
    shifts: NDArray[Any],
    rows: NDArray[Any],
    row_starts: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    word_counts: NDArray[Any],
    drawn: NDArray[Any],
    states: NDArray[Any],
) -> None:
    """Algorithm 2 and then Algorithm 1 of Machanavajjhala et al. 2008, without ever making the retained domain.

    First the number of retained empty places of each band is drawn. The urn holds the balls of the places with records,
    of ``elsewhere`` (``extra``), and of that many nameless places. A nameless place gets its name when it is first
    drawn: uniform among the empty places of its band that have none yet, by their number in the ranges of the band.
    """
    places, bands = len(points), len(edges) + 1
    retained, sizes = np.empty(bands, np.int64), np.empty(bands, np.int64)
    room = 1024
    lows, highs, band_at = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    firsts, ends, parts = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(bands + 1, np.int64)
    for d in range(len(rows)):
        if states[d] == DONE:
            continue
        states[d] = MORE_WORDS
        weight, shift = np.uint64(weights[d]), np.uint64(shifts[d])
        begin, end = starts[d], starts[d + 1]
        filled = end - begin
        at, last = word_starts[d], word_starts[d] + word_counts[d]
        base = row_starts[d]
        here = points[destinations[d]]
        x, y, z = here[0], here[1], here[2]
        used = bands_around(here, tree_points, tree_boxes, edges, lows, highs, band_at)
        while used < 0:
            room *= 2
            lows, highs, band_at = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
            firsts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
            used = bands_around(here, tree_points, tree_boxes, edges, lows, highs, band_at)
        _by_band(used, lows, highs, band_at, sizes, parts, firsts, ends)
        for band in range(bands):
            retained[band] = sizes[band]
        for pair in range(begin, end):
            if cells[pair] < places and used == 1:  # all places are in one band: no distance need be looked up
                retained[band_at[0]] -= 1
            elif cells[pair] < places:
                there = points[cells[pair]]
                retained[band_of((there[0] - x) ** 2 + (there[1] - y) ** 2 + (there[2] - z) ** 2, edges)] -= 1
            else:
                filled -= 1  # elsewhere, which is counted as extra
        total = 0
        for band in range(bands):
            if inside[band]:
                retained[band] = _binomial(retained[band], at, words, tables[band], bounds[band])
                at += bounds.shape[1]
                total += retained[band]
        sure = np.int64(filled + extra)
        of_prior = np.uint64(sure + total) * weight
        first = of_prior + (np.uint64(prefix[end] - prefix[begin]) << shift)
        names, numbers, named = np.empty(rows[d], np.int64), np.empty(rows[d], np.int64), 0
        row = 0
        while row < rows[d] and at < last:
            bound = first + (np.uint64(row) << shift)
            word = words[at]
            at += 1
            if word > ~bound and word > ~((np.uint64(0) - bound) % bound):
                continue
            ball = word % bound
            if ball >= of_prior:
                if ball < first:
                    number = np.int64((ball - of_prior) >> shift)
                    drawn[base + row] = cells[_record(prefix, begin, end, number)]
                else:
                    drawn[base + row] = drawn[base + np.int64((ball - first) >> shift)]
                row += 1
                continue
            number = np.int64(ball // weight)
            if number < sure:
                # Places with records come first in their order, elsewhere last: it has the largest code.
                drawn[base + row] = cells[begin + number] if number < filled else places
                row += 1
                continue
            number -= sure
            cell = -1
            for known in range(named):
                if numbers[known] == number:
                    cell = names[known]
                    break
            if cell < 0:
                band, before = 0, 0
                while not inside[band] or number >= before + retained[band]:
                    if inside[band]:
                        before += retained[band]
                    band += 1
                while at < last:
                    word = words[at]
                    at += 1
                    whole = np.uint64(sizes[band])
                    if word > ~whole and word > ~((np.uint64(0) - whole) % whole):
                        continue
                    place = np.int64(word % whole)  # the place itself if all are in one band
                    if used > 1:
                        found = _position(place, parts[band], parts[band + 1], firsts, ends)
                        place = np.int64(tree_order[found])
                    taken = False
                    for known in range(named):
                        if names[known] == place:
                            taken = True
                            break
                    for pair in range(begin, end):
                        if cells[pair] == place:
                            taken = True
                            break
                    if not taken:
                        cell = place  # type: ignore[assignment]
                        break
                if cell < 0:
                    break  # out of words
                names[named], numbers[named] = cell, number
                named += 1
            drawn[base + row] = cell
            row += 1
        if row == rows[d]:
            states[d] = DONE
            drawn[base : base + row].sort()
