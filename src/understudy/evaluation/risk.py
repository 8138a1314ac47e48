"""All attacks on a release, put together: one table of outcomes, the tables of each attack, findings for a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.result import Estimate, Finding, Section
from understudy.errors import InputError, unknown_name
from understudy.evaluation.inputs.attack_inputs import material_of
from understudy.evaluation.shared.attack import Attack, Material, attacks, columns_of
from understudy.evaluation.shared.success import LEVEL, Outcome, Z
from understudy.release import Release

NEEDED = {
    "holdout": "a holdout: people of the same kind who are not in the data",
    "keys": "keys: the attributes an intruder knows about a person",
    "synthesizer": "a synthesizer: a callable that makes a synthetic table (in Python only)",
}
NOTABLE = 0.05  # a residual risk above this, with its whole interval above 0, is worth a warning


def evaluate_risk(
    release: Release,
    confidential: Any,
    *,
    holdout: Any = None,
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    synthesizer: Callable[[Any], Any] | None = None,
    only: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Section:
    """Attack a release (anyone's) with what an intruder might know, and say who and what is at risk.

    ``confidential`` and ``holdout`` are sources, or anything that can be opened as one. ``keys`` are what an intruder
    knows and ``targets`` what they want to learn; by default each attribute is a target and all others are keys.
    ``synthesizer`` (a callable from an Arrow table to a synthetic one) adds the shadow-model attack; ``only`` names
    the attacks to run. Every finding and table is internal.

    The table ``attacks`` has a line per attack and subject: success, baseline (the same attack given only the
    release's one-way margins), control (the same attack on the holdout), residual risk with its interval.
    """
    names = _chosen(only)
    material = material_of(
        release, confidential, holdout=holdout, keys=keys, targets=targets, synthesizer=synthesizer, seed=seed
    )
    outcomes: list[Outcome] = []
    frames: dict[str, pa.Table] = {}
    findings: list[Finding] = []
    for done, name in enumerate(names):
        attack = attacks[name]
        missing = _missing(attack, material)
        if missing:
            if only is not None:
                raise InputError(f"attack '{name}' needs {missing}.")
            findings.append(
                Finding(
                    code=f"risk.{name}.not_run", title=f"{attack.summary}: not tried, it needs {missing}", value=None
                )
            )
            continue
        found = attack().run(material)
        outcomes += found.outcomes
        findings += found.findings
        frames |= {title: pa.table(dict(columns)) for title, columns in found.frames.items()}
        if progress is not None:
            progress(done + 1, len(names))
    frames["attacks"] = pa.table(columns_of([outcome.row() for outcome in outcomes]))
    return Section(findings=(*_headlines(outcomes), *findings), frames=frames)


def _chosen(only: Sequence[str] | None) -> tuple[str, ...]:
    if only is None:
        return attacks.names()
    for name in only:
        if name not in attacks:
            raise unknown_name("attack", name, attacks.names())
    return tuple(only)


def _missing(attack: type[Attack], material: Material) -> str:
    has = {
        "holdout": material.holdout is not None,
        "keys": bool(material.keys),
        "synthesizer": material.synthesizer is not None,
    }
    return " and ".join(NEEDED[need] for need in attack.needs if not has[need])


def _headlines(outcomes: Sequence[Outcome]) -> list[Finding]:
    """Of each attack the subject with the greatest residual risk."""
    worst: dict[str, Outcome] = {}
    tried = Counter(outcome.attack for outcome in outcomes)
    for outcome in outcomes:
        before = worst.get(outcome.attack)
        if before is None or (outcome.release.guesses > 0, outcome.residual.low) > (
            before.release.guesses > 0,
            before.residual.low,
        ):
            worst[outcome.attack] = outcome
    findings = []
    for name, outcome in worst.items():
        left = outcome.residual
        against = "people not in the data" if outcome.control is not None else "guessing from margins"
        told = f" ({outcome.release.told})" if outcome.release.told else ""
        many = f"; the greatest of {tried[name]} subjects" if tried[name] > 1 else ""
        if not outcome.release.guesses:
            title = f"{attacks[name].summary}: no guess could be made{many}{told}"
            findings.append(Finding(code=f"risk.{name}", title=title, value=None))
            continue
        findings.append(
            Finding(
                code=f"risk.{name}",
                title=(
                    f"{attacks[name].summary} [{outcome.subject}]: success {outcome.release.rate.value:.3f}, "
                    f"residual risk {left.value:.3f} ({left.low:.3f} to {left.high:.3f}) over {against}{many}{told}"
                ),
                value=left.value,
                severity="warning" if left.value > NOTABLE and _surely(left, tried[name]) else "info",
                reference="residual risk (Giomi et al. 2023), Wilson intervals of 95%",
            )
        )
    return findings


def _surely(left: Estimate, subjects: int) -> bool:
    """Above 0 even after the greatest of so many subjects was picked (Bonferroni)."""
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / subjects) / Z
    return left.value - wider * (left.value - left.low) > 0


def risk_against_epsilon(results: Sequence[tuple[str, Release, Section]]) -> pa.Table:
    """Of several releases of the same data: epsilon and the greatest residual risk of each attack (for the figure)."""
    rows = []
    for name, release, section in results:
        stated = release.statement.guarantee
        epsilon = getattr(stated, "epsilon", None)
        worst: dict[str, dict[str, Any]] = {}
        for row in section.frames["attacks"].to_pylist():
            if row["attack"] not in worst or row["residual_low"] > worst[row["attack"]]["residual_low"]:
                worst[row["attack"]] = row
        rows += [
            {
                "release": name,
                "guarantee": str(stated),
                "epsilon": None if epsilon is None else float(epsilon),
                **{key: row[key] for key in ("attack", "subject", "residual", "residual_low", "residual_high")},
            }
            for row in worst.values()
        ]
    return pa.Table.from_pylist(rows)
