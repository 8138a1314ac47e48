"""All attacks on a release, put together: one table of outcomes, the tables of each attack, findings for a reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import pyarrow as pa

from understudy.core.result import Finding, Section
from understudy.errors import InputError, unknown_name
from understudy.evaluation.board import board_frames
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.person import person_part
from understudy.evaluation.shared.attack import Attack, attacks
from understudy.evaluation.shared.results import ATTACKS, Collected, frame
from understudy.evaluation.shared.success import LEVEL, Z
from understudy.release import Release

NEEDED = {
    "holdout": "a holdout: people of the same kind who are not in the data",
    "keys": "keys: the attributes an intruder knows about a person",
    "synthesizer": "a synthesizer: a callable that makes a synthetic table (in Python only)",
}
NOTABLE = 0.05  # a residual risk above this, with its whole interval above 0, is worth a warning


def evaluate_risk(comparison: Comparison, *, only: Sequence[str] | None = None) -> Section:
    """Attack a release (anyone's) with what an intruder might know, and say who and what is at risk.

    ``only`` names the attacks to run. Every finding and table is internal.

    The table ``attacks`` has a line per attack and subject: success, baseline (the same attack given only the
    release's one-way margins), control (the same attack on the holdout), residual risk with its interval.
    """
    names = chosen_attacks(only)
    _check_people(comparison)
    found = Collected()
    for done, name in enumerate(names):
        attack = attacks[name]
        missing = _missing(attack, comparison)
        if missing:
            if only is not None:
                raise InputError(f"attack '{name}' needs {missing}.")
            found.findings.append(
                Finding(
                    code=f"risk.{name}.not_run", title=f"{attack.summary}: not tried, it needs {missing}", value=None
                )
            )
            continue
        found.add(attack().run(comparison))
        if comparison.progress is not None:
            comparison.progress(done + 1, len(names))
    if only is None:
        found.add(person_part(comparison, found.attacked))
    found.findings = [*_headlines(found.attacked), *_chosen_keys(comparison), *found.findings]
    section = found.section()
    if only is None:
        section = replace(section, frames={**board_frames(section), **section.frames})
    return section if ATTACKS in section.frames else replace(section, frames={**section.frames, ATTACKS: frame([])})


def _check_people(comparison: Comparison) -> None:
    if len(comparison.people) < 2:
        raise InputError("the confidential data have fewer than two records; there is nobody to tell apart.")
    if min(len(table) for table in comparison.tables) < 2:
        raise InputError("a synthetic table has fewer than two records; nothing can be learned about its risk.")
    if comparison.outsiders is not None and len(comparison.outsiders) < 2:
        raise InputError("the holdout has fewer than two records; it is no control.")


def chosen_attacks(only: Sequence[str] | None) -> tuple[str, ...]:
    """The attacks asked for, or all; an unknown name is refused."""
    if only is None:
        return attacks.names()
    for name in only:
        if name not in attacks:
            raise unknown_name("attack", name, attacks.names())
    return tuple(only)


def _missing(attack: type[Attack], comparison: Comparison) -> str:
    has = {
        "holdout": comparison.outsiders is not None,
        "keys": bool(comparison.keys),
        "synthesizer": comparison.synthesizer is not None,
    }
    return " and ".join(NEEDED[need] for need in attack.needs if not has[need])


def _headlines(attacked: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Of each attack the subject with the greatest residual risk."""
    worst: dict[str, Mapping[str, Any]] = {}
    subjects = Counter(row["attack"] for row in attacked)
    for row in attacked:
        before = worst.get(row["attack"])
        if before is None or (row["guesses"] > 0, row["residual_low"]) > (
            before["guesses"] > 0,
            before["residual_low"],
        ):
            worst[row["attack"]] = row
    findings = []
    for name, row in worst.items():
        against = "people not in the data" if row["against"] == "control" else "guessing from margins"
        note = f" ({row['note']})" if row["note"] else ""
        many = f"; the greatest of {subjects[name]} subjects" if subjects[name] > 1 else ""
        if not row["guesses"]:
            title = f"{attacks[name].summary}: no guess could be made{many}{note}"
            findings.append(Finding(code=f"risk.{name}", title=title, value=None))
            continue
        findings.append(
            Finding(
                code=f"risk.{name}",
                title=(
                    f"{attacks[name].summary} [{row['subject']}]: success {row['success']:.3f}, residual risk "
                    f"{row['residual']:.3f} ({row['residual_low']:.3f} to {row['residual_high']:.3f}) over "
                    f"{against}{many}{note}"
                ),
                value=row["residual"],
                # What margins do not tell may be true of the whole population; that is no risk of a person.
                severity="warning"
                if row["personal"] and row["residual"] > NOTABLE and _surely(row, subjects[name])
                else "info",
                reference="residual risk (Giomi et al. 2023), Wilson intervals of 95%",
            )
        )
    return findings


def _chosen_keys(comparison: Comparison) -> list[Finding]:
    if comparison.keys or len(comparison.names) < 2:
        return []
    return [
        Finding(
            code="risk.keys",
            title=(
                f"no keys were given: records are matched on {', '.join(comparison.matching_keys)}, chosen by "
                "the names of the attributes; elsewhere an intruder knows everything but the attribute they want"
            ),
            value=None,
        )
    ]


def _surely(row: Mapping[str, Any], subjects: int) -> bool:
    """Above 0 even after the greatest of so many subjects was picked (Bonferroni)."""
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / subjects) / Z
    return bool(row["residual"] - wider * (row["residual"] - row["residual_low"]) > 0)


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
