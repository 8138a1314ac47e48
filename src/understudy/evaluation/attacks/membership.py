"""Membership inference with a holdout: was this person in the data?

There are two scores, both from the nearest synthetic records of all copies (Gower distance). *Nearest distance*: the
closer, the likelier a member. *Density ratio*: how much closer the three nearest synthetic records are than those of a
reference sample of the same population (half of the holdout; van Breugel et al. 2023). It tells a copy from a person
who is merely ordinary.

The implied epsilon is the one-run bound of Steinke, Nasr and Jagielski (2023). It supposes that who is in the data and
who in the holdout was decided by chance; it is a lower bound on what the release gives away, for the add-remove unit.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared import roc
from understudy.evaluation.shared.attack import attacks, section_of
from understudy.evaluation.shared.attack_success import Believed, Outcome, Tally
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.results import frame
from understudy.privacy.exact.epsilon_lower_bounds import one_run_lower_bound

NEIGHBOURS = 3
SOFTENER = 1e-3  # a thousandth of one attribute's range: exact copies are near, not infinitely near
POINTS = 200  # of the drawn curve
ALPHA = 0.05


@attacks.add
class Membership:
    """Members told from a holdout: advantage, area under the curve, true positives at few false ones, epsilon."""

    name: ClassVar[str] = "membership"
    summary: ClassVar[str] = "who was in the data, by nearest distance and density ratio"
    needs: ClassVar[tuple[str, ...]] = ("holdout",)
    question: ClassVar[str] = "Say of a person that they were in the data"
    believed_by: ClassVar[str] = "whoever thinks that a synthetic row nearby shows who took part"

    def run(self, comparison: Comparison) -> Section:
        assert comparison.outsiders is not None  # noqa: S101 - needs says so
        rows: list[dict[str, Any]] = []
        points: list[dict[str, Any]] = []
        outcomes = []
        findings = []
        real, null = (scores(comparison, copies) for copies in (comparison.tables, comparison.independent_tables))
        for score, (members, others) in real.items():
            generator = comparison.generator(f"membership {score}")
            found, base = (
                roc.guess(*_equal(groups, generator), generator) for groups in ((members, others), null[score])
            )
            epsilon = _epsilon(found, comparison.claimed)
            auc = roc.area(members, others)
            rows.append({
                "score": score, "members": len(members), "others": len(others),
                "auc": auc.value, "auc_low": auc.low, "auc_high": auc.high, "advantage": found.advantage,
                **roc.few_false(members, others),
                "epsilon_low": epsilon,
                "epsilon_claimed": None if comparison.claimed is None else comparison.claimed[0],
            })  # fmt: skip
            false, true = roc.curve(members, others)
            at = np.linspace(0, 1, POINTS)
            points += [
                {"score": score, "false_positive_rate": float(x), "true_positive_rate": float(y)}
                for x, y in zip(at, np.interp(at, false, true), strict=True)
            ]
            outcomes.append(
                Outcome(attack=self.name, subject=score, release=_tally(found), baseline=_tally(base), personal=True)
            )
            findings.append(_finding(score, auc.value, epsilon, comparison.claimed))
        return section_of(
            outcomes=tuple(outcomes),
            frames={"membership": frame(rows), "membership_curve": frame(points)},
            findings=tuple(findings),
        )


def scores(comparison: Comparison, copies: tuple[Records, ...]) -> dict[str, tuple[Floats, Floats]]:
    """Greater means likelier a member: of the people in the data and of the holdout."""
    assert comparison.outsiders is not None  # noqa: S101
    columns = list(range(len(comparison.names)))
    space: dict[str, Any] = {"nominal": comparison.nominal(columns), "weights": comparison.spans(columns)}
    synthetic = Neighbours(np.concatenate([copy.positions for copy in copies]), **space)
    order = comparison.generator("reference").permutation(len(comparison.outsiders))
    half = len(order) // 2
    reference, tested = comparison.outsiders.take(order[:half]), comparison.outsiders.take(order[half:])
    near = {
        name: synthetic.k_nearest(people.positions, NEIGHBOURS)
        for name, people in (("members", comparison.people), ("others", tested), ("reference", reference))
    }
    closest = (-near["members"][:, 0], -np.concatenate([near["others"][:, 0], near["reference"][:, 0]]))
    found = {"nearest distance": closest}
    if half >= NEIGHBOURS:
        base = Neighbours(reference.positions, **space)
        ratio = [
            _log_ratio(base.k_nearest(people.positions, NEIGHBOURS), near[name])
            for name, people in (("members", comparison.people), ("others", tested))
        ]
        found["density ratio"] = (ratio[0], ratio[1])
    return found


def _log_ratio(reference: Floats, synthetic: Floats) -> Floats:
    """How much nearer the synthetic neighbours are than the reference ones: the mean over the first few of the log."""
    there = np.isfinite(synthetic) & np.isfinite(reference)  # a tiny release may have fewer neighbours
    logs = np.zeros(synthetic.shape)
    logs[there] = np.log((reference[there] + SOFTENER) / (synthetic[there] + SOFTENER))
    ratio: Floats = logs.mean(axis=1)
    return ratio


def _equal(groups: tuple[Floats, Floats], generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Equal numbers of members and others, as if by fair coins."""
    size = min(len(group) for group in groups)
    one, other = (group[generator.permutation(len(group))[:size]] for group in groups)
    return one, other


def _tally(found: roc.Guessing) -> Tally:
    named = found.true_positives + found.false_positives
    return Tally(
        successes=found.right,
        guesses=found.guesses,
        note="right guesses, member or not; a coin gets half",
        believed=Believed(made=named, right=found.true_positives, people=found.guesses),
    )


def _epsilon(found: roc.Guessing, claimed: tuple[float, float] | None) -> float:
    delta = 0.0 if claimed is None else claimed[1]
    return one_run_lower_bound(found.guesses, found.guesses, found.right, delta=delta, alpha=ALPHA)


def _finding(score: str, auc: float, epsilon: float, claimed: tuple[float, float] | None) -> Finding:
    beside = "no epsilon is claimed" if claimed is None else f"claimed is {claimed[0]:g}"
    broken = claimed is not None and epsilon > claimed[0]
    return Finding(
        code=f"risk.membership.{score.replace(' ', '_')}",
        title=f"membership by {score}: area {auc:.3f} (a coin: 0.5); implied epsilon at least {epsilon:.3f}, {beside}",
        value=auc,
        severity="problem" if broken else "info",
        reference="Steinke, Nasr and Jagielski 2023, if data and holdout were split by chance",
    )
