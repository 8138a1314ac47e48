"""Which cases run when: a few in every test run, more with FULL=1, all with PROVE=1.

Each part is a cover: every method and every unit, budget and option at least once; with FULL every method with each of
these, and with each unit under each budget. What is covered is counted from the cases, so that a new method or option
is covered too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence

from replaying.cases import Case, offered

# Of two cases that show as much the quicker one is taken; these fit models.
SLOW = ("aim", "mst", "ipf", "auto", "independent")


def _options(case: Case) -> tuple[tuple[str, str], ...]:
    return (*case.options.items(), ("copies", str(case.copies)))


def parts(case: Case) -> set[Hashable]:
    """What a case shows, taken one by one."""
    return {
        ("method", case.method),
        ("unit", case.of_commutes, case.unit_name),
        ("budget", case.of_commutes, case.budget_name),
        *(("option", case.of_commutes, option) for option in _options(case)),
    }


def pairs(case: Case) -> set[Hashable]:
    """The same, each together with the method; and its units with its budgets."""
    together = ("unit and budget", case.unit_name, case.budget_name)
    return {(case.method, case.world, part) for part in (*parts(case), together)}


def cover(cases: Sequence[Case], shows: Callable[[Case], set[Hashable]], chosen: Iterable[Case] = ()) -> list[Case]:
    """Offered cases that together show all there is to show, beside those chosen: always the one that adds most.

    Whether a case is offered is asked only when it would be taken. What no offered case shows is left out.
    """
    shown = [shows(case) for case in cases]
    missing = set().union(*shown) - set().union(*map(shows, chosen))

    def rank(number: int) -> tuple[int, bool, int]:
        return -len(shown[number] & missing), cases[number].method in SLOW, number

    # A case never adds more than it once did, so the first whose rank is still true is the best of all.
    queue = [rank(number) for number in range(len(cases))]
    heapq.heapify(queue)
    found = []
    while missing and queue:
        first = heapq.heappop(queue)
        number = first[-1]
        if (now := rank(number)) != first:
            heapq.heappush(queue, now)
        elif not shown[number] & missing:
            break
        elif offered(cases[number]):
            found.append(cases[number])
            missing -= shown[number]
    return found
