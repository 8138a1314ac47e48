"""What replay costs: CPU seconds of its parts, how many quantities were compared, and how near they came to the charge.

Run: python benchmarks/bench_replay.py (about five minutes; ``all`` for every combination as well).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "replay"))

from replaying import tables
from replaying.cases import Case, all_cases, gaussian_cases
from replaying.choosing import cover, pairs, parts
from replaying.replay import replay
from replaying.tight import measure_mu
from replaying.verdict import Tally

QUICK = 6  # neighbours in every test run


def measured(name: str, cases: Sequence[Case], neighbours: int | None) -> None:
    replay(cases[0], at_most=1)  # loops are compiled before the clock starts
    tally, start = Tally(), time.process_time()
    found = sum(len(replay(case, at_most=neighbours, tally=tally)) for case in cases)
    seconds = time.process_time() - start
    print(f"| {name} | {len(cases)} | {tally.compared:,} | {found} | {seconds:.0f} |", flush=True)


def main() -> None:
    print("| part | cases | quantities compared | found | CPU seconds |\n|---|---|---|---|---|")
    cases = all_cases()
    always = cover(cases, parts)
    more = cover(cases, pairs, always)
    measured("every test run", always, QUICK)
    measured("with FULL=1, beside it", more, None)
    if "all" in sys.argv[1:]:
        seen = {case.id for case in (*always, *more)}
        measured("with `make prove`, beside these", [case for case in cases if case.id not in seen], None)
    audited = [case for case in gaussian_cases() if not case.of_commutes]
    start = time.process_time()
    shares = [measure_mu(case, tables.tiny_neighbour()).share for case in audited]
    wrong = sum(not 0.95 <= share <= 1.0302 for share in shares)
    print(f"| tight audit | {len(audited)} | {len(shares)} | {wrong} | {time.process_time() - start:.0f} |")


if __name__ == "__main__":
    main()
