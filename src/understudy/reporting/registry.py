"""The fields of the top tier of the Differential Privacy Deployments Registry, for a release.

Tier 3 asks for the flavour with its data domain and unprotected quantities, the privacy unit in detail, the parameters,
composition and post-processing, the deployment model, and implementation and security with the reasons for each choice
(registry.opendp.org/transparency-tiers). What only the agency can say (its name, the intended use) is left for it to
fill in, and says so.
"""

from __future__ import annotations

from typing import Any

from understudy.core.exact import to_text
from understudy.privacy.accountant import compose
from understudy.privacy.definition import NonPrivate
from understudy.reporting.subject import Subject

TO_FILL_IN = "to be filled in by the agency"
REASONS = {
    "pure": "pure differential privacy: a bound on the odds without an allowance, so it can be said in one sentence",
    "approx": "approximate differential privacy: many tables with Gaussian noise compose better, at an allowance delta",
    "probabilistic": "probabilistic differential privacy of the raw draw; accounted as the approximate one it implies",
    "zcdp": "zero-concentrated differential privacy: Gaussian noise on many tables composes exactly in it",
    "none": "none is claimed",
}


def registry_fields(subject: Subject) -> dict[str, Any]:
    """Every field of the top tier that follows from the release; plain values, ready for JSON."""
    statement, provenance = subject.statement, subject.provenance
    guarantee, unit = statement.guarantee, statement.unit
    return {
        "tier": 3,
        "deployment": {
            "curator": TO_FILL_IN,
            "intended_use": TO_FILL_IN,
            "publication_date": TO_FILL_IN,
            "data_product": f"{subject.copies} synthetic table(s) of {subject.rows} rows, {' '.join(subject.size)}"
            f"{', with their noisy counts' * bool(subject.measured)}",
        },
        "flavour": {
            "name": guarantee.title,
            "reason": REASONS[guarantee.name],
            "data_domain": [{key: one[key] for key in ("attribute", "values", "kind")} for one in subject.domain],
            "cells": str(subject.cells),
            "structural_zeros": subject.structural_zeros,
            "neighbours": unit.kind,
            "unprotected_quantities": _unprotected(subject),
        },
        "privacy_unit": {
            "name": "one person",
            "detail": unit.describe(),
            "rows_per_unit": unit.rows_per_unit,
            "bound_enforced": unit.enforced,
            "reason": "presence is protected too"
            if unit.kind == "add_remove"
            else "the number of rows is public, so presence needs no protection",
        },
        "parameters": {
            **{name: to_text(getattr(guarantee, name)) for name in guarantee.parameters},
            "covers": "the release as a whole: all copies, all noisy counts, the manifest",
        },
        "accounting": {
            "composition": _composition(subject),
            "events": len(provenance.events),
            "account": None if statement.ledger is None else statement.ledger["account"],
            "post_processing": provenance.rows_drawn or "as given",
            "copies": "made from the same noisy counts, at no further cost"
            if provenance.copies_share_measurements
            else "each a fresh draw with its own part of the budget",
        },
        "deployment_model": {
            "model": "central",
            "reason": "a trusted curator holds the confidential table and runs the program inside the building",
            "interaction": "one release, not interactive",
        },
        "implementation": {
            "library": f"understudy {provenance.package_version}",
            "mechanisms": list(subject.mechanisms),
            "noise": "whole numbers by OpenDP's exact samplers, or an AES-256 counter stream under a fresh key; no "
            "floating-point noise",
            "reason": "floating-point noise and predictable generators undo the promise",
            "side_channels": "time, memory, standard error and refusals are inside the building and not protected",
            "method": provenance.method,
            "plan": None if provenance.plan is None else provenance.plan.hash,
        },
    }  # fmt: skip


def _unprotected(subject: Subject) -> list[str]:
    unit, found = subject.statement.unit, []
    if isinstance(subject.statement.guarantee, NonPrivate):
        found.append("everything: no guarantee is claimed")
    if unit.public_total:
        found.append("the number of rows")
    found += [f"attribute {name}, taken as known for everybody" for name in unit.fixed]
    found.append("the schema: possible values, bin edges, structural zeros")
    return found


def _composition(subject: Subject) -> str:
    if not subject.provenance.events:
        return "no event is recorded"
    loss = compose(subject.provenance.events, subject.statement.unit)
    if loss.unbounded:
        return "without bound"
    parts = []
    if loss.epsilon:
        parts.append(f"pure epsilon {float(loss.epsilon):.6g}")
    if loss.rho:
        parts.append(f"zCDP rho {float(loss.rho):.6g}")
    if loss.approx_delta or loss.approx_epsilon:
        parts.append(f"(epsilon {float(loss.approx_epsilon):.6g}, delta {float(loss.approx_delta):.3g})")
    return "sums over events, in exact fractions: " + ", ".join(parts)
