"""A shadow-model attack: run the synthesizer many times with and without one person, and tell the outputs apart.

The intruder knows everybody else's records and the synthesizer (Stadler, Oprisanu and Troncoso 2022). In every run one
person's record is replaced by another person's, or not. Features of the output: exact copies of the target, how many
records agree with the target in each attribute and in all but one, the distance to the closest record. A linear score
is fitted on half of the runs and tested on the rest. Runs are independent, so the implied epsilon is the
Clopper-Pearson bound for the replace unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Floats, Integers
from understudy.core.result import Finding, Section
from understudy.engines.reading.encode import encode_table
from understudy.errors import InputError
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared import roc
from understudy.evaluation.shared.attack import attacks, section_of
from understudy.evaluation.shared.attack_success import Believed, Outcome, Tally
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.results import frame
from understudy.privacy.exact.epsilon_lower_bounds import epsilon_lower_bound

RUNS = 64  # with the target, and as many without
VICTIMS = 2
ALPHA = 0.05


@attacks.add
class ShadowModels:
    """Outliers attacked by repeated synthesis, given a callable that synthesizes a table."""

    name: ClassVar[str] = "shadow_models"
    summary: ClassVar[str] = "one person told by running the synthesizer with and without them"
    needs: ClassVar[tuple[str, ...]] = ("synthesizer",)
    question: ClassVar[str] = "Tell whether one unusual person was in the data, by making the release many times"
    believed_by: ClassVar[str] = "whoever can run the same program on data of the same kind"

    def run(self, comparison: Comparison) -> Section:
        assert comparison.synthesizer is not None  # noqa: S101 - needs says so
        rows, outcomes, findings = [], [], []
        for victim in victims(comparison):
            found = shadow_attack(comparison, comparison.synthesizer, int(victim), runs=RUNS)
            rows.append({"record": int(victim), **found["row"]})
            guesses = found["guesses"]
            outcomes.append(
                Outcome(
                    attack=self.name,
                    subject=f"record {victim}",
                    release=Tally(
                        successes=found["right"],
                        guesses=guesses,
                        note="right guesses; a coin gets half",
                        believed=Believed(made=found["named"], right=found["named_rightly"], people=0),
                    ),
                    baseline=Tally(successes=guesses // 2, guesses=guesses, note="a coin"),
                    personal=True,
                )
            )
            findings.append(
                Finding(
                    code="risk.shadow_models.outlier",
                    title=(
                        f"shadow models on one outlier: area {found['row']['auc']:.3f}; "
                        f"implied epsilon at least {found['row']['epsilon_low']:.3f}"
                    ),
                    value=found["row"]["auc"],
                    severity="info",
                )
            )
        return section_of(outcomes=tuple(outcomes), frames={"shadow_models": frame(rows)}, findings=tuple(findings))


def victims(comparison: Comparison) -> Integers:
    """The people farthest from company: they leak first."""
    columns = list(range(len(comparison.names)))
    tree = Neighbours(
        comparison.people.positions, nominal=comparison.nominal(columns), weights=comparison.spans(columns)
    )
    company = tree.k_nearest(comparison.people.positions, 1, themselves=True)[:, 0]
    return np.argsort(-company, kind="stable")[:VICTIMS]


def shadow_attack(
    comparison: Comparison, synthesizer: Callable[[Any], Any], victim: int, *, runs: int = RUNS
) -> dict[str, Any]:
    """``synthesizer(table)`` makes a synthetic table (or a release) of a confidential Arrow table, afresh each time."""
    table: pa.Table = comparison.original_rows
    n = table.num_rows
    others = np.delete(np.arange(n), victim)
    generator = comparison.generator(f"shadow {victim}")
    target = comparison.people.codes[victim]
    features: list[list[Floats]] = [[], []]
    for run in range(2 * runs):
        stand_in = int(generator.choice(others))
        chosen = np.append(others, victim if run % 2 == 0 else stand_in)
        made = synthesizer(table.take(pa.array(np.sort(chosen))))
        frame = made.frame(1) if hasattr(made, "frame") else made
        if not hasattr(frame, "__arrow_c_stream__"):
            raise InputError("the synthesizer must return a table that speaks Arrow, or a release.")
        features[run % 2].append(_features(comparison, pa.table(frame), target))
    inside, outside = (np.array(side) for side in features)
    fit = runs // 2
    score = _linear(inside[:fit], outside[:fit])
    members, rest = inside[fit:] @ score, outside[fit:] @ score
    threshold = float((inside[:fit] @ score).mean() + (outside[:fit] @ score).mean()) / 2
    true, false = int(np.sum(members > threshold)), int(np.sum(rest > threshold))
    auc = roc.area(members, rest)
    found = roc.Guessing(true_positives=true, members=len(members), false_positives=false, others=len(rest))
    delta = comparison.claimed[1] if comparison.claimed else 0.0
    epsilon = epsilon_lower_bound(true, len(members), false, len(rest), delta=delta, alpha=ALPHA)
    row = {
        "runs": 2 * runs, "auc": auc.value, "auc_low": auc.low, "auc_high": auc.high,
        "advantage": found.advantage,
        **roc.few_false(members, rest),
        "epsilon_low": epsilon, "epsilon_claimed": None if comparison.claimed is None else comparison.claimed[0],
    }  # fmt: skip
    named = {"named": true + false, "named_rightly": true}
    return {"row": row, "right": found.right, "guesses": found.guesses, **named}


def _features(comparison: Comparison, frame: pa.Table, target: Integers) -> Floats:
    absent = [name for name in comparison.names if name not in frame.column_names]
    if absent:
        raise InputError(
            f"the synthesizer returned a table without the column '{absent[0]}'; it needs every attribute."
        )
    coded = encode_table(frame.select(list(comparison.names)), comparison.schema)
    same = np.column_stack([coded.columns[name] == code for name, code in zip(comparison.names, target, strict=True)])
    agree = same.sum(axis=1)
    width = same.shape[1]
    counts = [same[:, j].sum() for j in range(width)]
    return np.array([*counts, np.sum(agree == width), np.sum(agree >= width - 1), agree.max()], np.float64)


def _linear(inside: Floats, outside: Floats) -> Floats:
    """Fisher's discriminant with a ridge, on features brought to unit variance."""
    both = np.concatenate([inside, outside])
    scale = both.std(axis=0)
    scale[scale == 0] = 1.0
    a, b = inside / scale, outside / scale
    within = (np.cov(a.T, ddof=0) + np.cov(b.T, ddof=0)) / 2 + 0.5 * np.eye(a.shape[1])
    direction: Floats = np.linalg.solve(within, a.mean(axis=0) - b.mean(axis=0)) / scale
    return direction
