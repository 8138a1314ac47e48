"""Abowd and Vilhuber, and Machanavajjhala et al.: every printed number comes out, or the reason is told."""

from __future__ import annotations

from collections import Counter

from papers.harness import run


def test_abowd_and_vilhuber():
    outcomes = run(["av"])
    assert Counter(outcome.verdict for outcome in outcomes) == {"pass": 134, "differs": 5}
    figures = Counter(outcome.item for outcome in outcomes if outcome.item.startswith("Fig"))
    assert figures == {"Fig. 1": 36, "Fig. 2": 30, "Fig. 3": 36, "Fig. 4": 30}
    assert all(abs(outcome.error) <= 5e-7 for outcome in outcomes if outcome.item.startswith("Fig"))


def test_the_map():
    outcomes = {(outcome.item, outcome.cell): outcome for outcome in run(["map"])}
    assert Counter(outcome.verdict for outcome in outcomes.values()) == {
        "pass": 10,
        "misprint": 1,
        "differs": 1,
        "cannot": 8,
    }
    assert "0.032 to 0.040" in outcomes["Section VI", "min prior, experiment 1"].reason
    assert outcomes["Section IV-A", "log probability of the worst case"].published == -249
