"""A draft record for the Differential Privacy Deployments Registry (registry.opendp.org), at its top tier.

Names, types and enumerated values are those of the registry's own schema: ``schemas/deployments-schema.yaml`` of
github.com/opendp/deployments-registry-data at commit 3e9c812a924c (15 July 2026), where no other property is allowed.
JSON is YAML, so the file can be submitted once it is filled in. Tier 3 asks for the variant with its data domain and
unprotected quantities, the privacy unit in detail, composition and post-processing, and implementation and security
with the reasons for each choice.

Fields that only the agency can fill (its name, the intended use) say so, and ``administrative.notes`` lists them all.
The date of publication is one of them. So the registry refuses the draft until somebody has worked on it; an invented
date would be accepted. What is not known about tables that somebody else made is left out, not guessed.
"""

from __future__ import annotations

from typing import Any

from understudy.privacy.promise.accountant import compose
from understudy.privacy.promise.definition import NOBODY, NonPrivate
from understudy.release.kind import Summary
from understudy.reporting.promise_in_words import loss_text

TO_FILL_IN = "to be filled in by the agency"
# What this program knows about its own releases and not about those of others.
MADE_BY_OTHERS = ("privacy_loss", "deployment_model", "accounting", "implementation")
# One of Technology, Healthcare, Education, Government, Energy and Finance. Tables of persons are usually published by
# an agency. The notes ask the agency to check it.
SECTOR = "Government"
VARIANTS = {
    "pure": "Pure DP",
    "approx": "Approximate DP",
    "probabilistic": "Custom",
    "zcdp": "Zero-concentrated DP",
}
REASONS = {
    "pure": "Pure differential privacy: a bound on the odds without exceptions, which can be explained in one "
    "sentence.",
    "approx": "Approximate differential privacy: Gaussian noise on many tables composes better, in exchange for "
    "a small delta.",
    "probabilistic": "Probabilistic differential privacy of the raw draw; the account charges the approximate "
    "privacy that it implies.",
    "zcdp": "Zero-concentrated differential privacy: Gaussian noise on many tables composes exactly.",
    "none": "No guarantee is claimed.",
}


def registry_fields(subject: Summary) -> dict[str, Any]:
    """The record: everything that follows from the release; plain values, ready for JSON."""
    statement, provenance = subject.statement, subject.provenance
    guarantee = statement.guarantee
    counts = ", with the noisy counts they were made from" if subject.measured else ""
    record: dict[str, Any] = {
        "basic": {
            "name": subject.title,
            "data_curators": [TO_FILL_IN],
            "description": f"{_count(subject.copies, 'synthetic table')} of {subject.rows:,} rows, "
            f"{' '.join(subject.size)}{counts}.",
            "intended_use": TO_FILL_IN,
            "data_product_type": "Synthetic data",
            "data_product_region": TO_FILL_IN,
            "data_product_sector": SECTOR,
            "publication_date": TO_FILL_IN,
        },
        "dp_variant": {
            **({"variant_name": VARIANTS[guarantee.name]} if guarantee.name in VARIANTS else {}),
            "data_domain": _domain(subject),
            "unprotected_quantities": " ".join(_unprotected(subject)),
        },
        "privacy_loss": {
            "privacy_unit": _unit_level(subject),
            "privacy_unit_details": _unit_details(subject),
            "privacy_parameters": {name: float(getattr(guarantee, name)) for name in guarantee.parameters},
            "privacy_parameters_details": f"{str(guarantee)[:1].upper()}{str(guarantee)[1:]}, for the release as a "
            "whole: all copies, all noisy counts, the manifest.",
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "A trusted curator holds the confidential table and runs the program. Only the "
            "release is published.",
            "actors": "The curator, trusted. Everybody who gets the release: not trusted, and taken to know every "
            "other row, the method, the law of the noise and every earlier release.",
            "release_type": "One release",
            "release_type_details": _account(subject),
            "data_source_type": "Static",
            "access_type": "Non-interactive",
            "access_type_details": "Files; nobody outside can query the data.",
        },
        "accounting": {
            "post_processing": f"Rows: {provenance.rows_drawn or 'as given'}. The fit, the rows and the values "
            f"inside bins come from noisy answers only. {_copies(subject)}",
            "composition": _composition(subject),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Values are coded by a public schema that was written "
            "before the data were opened. " + _plan(subject) + " Uses of the data that are not in the account: "
            f"{TO_FILL_IN}.",
            "mechanisms": _mechanisms(subject),
            "justification": " ".join(
                (
                    REASONS[guarantee.name],
                    _presence(subject),
                    "Integer noise, because floating-point noise and predictable generators can break the guarantee.",
                    f"Why this epsilon and this unit: {TO_FILL_IN}.",
                )
            ),
        },
        "administrative": {"sources": TO_FILL_IN, "registry_authors": [TO_FILL_IN]},
    }  # fmt: skip
    by_others = provenance.plan is None
    if by_others:
        for part in MADE_BY_OTHERS:
            del record[part]
    draft = {"url_slug": TO_FILL_IN, "status": "Draft", "tier": 1 if by_others else 3, "deployment": record}
    record["administrative"]["notes"] = _notes(draft, subject)
    return draft


def _notes(draft: dict[str, Any], subject: Summary) -> str:
    """What the agency must do before the draft can be submitted."""
    told = [
        "DRAFT, not ready to be submitted.",
        f"The agency fills in: {', '.join(to_fill_in(draft))}.",
        f"The sector is assumed to be {SECTOR}. Correct it if it is another.",
        "The registry refuses this file until publication_date is a date (YYYY-MM-DD). Then remove these notes.",
    ]
    if subject.provenance.plan is None:
        told.append(f"Left out, because the tables were not made by understudy: {', '.join(MADE_BY_OTHERS)}.")
    if isinstance(subject.statement.guarantee, NonPrivate):
        told.append(
            "No guarantee is claimed, so no variant is named. The registry is for deployments with a guarantee."
        )
    return " ".join(told)


def to_fill_in(value: Any, name: str = "") -> list[str]:
    """The fields of a draft that the agency must fill in.

    >>> to_fill_in({"name": "People", "sources": TO_FILL_IN, "authors": [TO_FILL_IN]})
    ['sources', 'authors']
    """
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in to_fill_in(one, key)]
    if isinstance(value, list):
        return [found for one in value for found in to_fill_in(one, name)]
    return [name] if isinstance(value, str) and TO_FILL_IN in value else []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _domain(subject: Summary) -> str:
    listed = "; ".join(f"{one['attribute']} ({one['kind']}, {one['values']} values)" for one in subject.domain)
    zeros = f" {subject.structural_zeros} rule(s) say what cannot occur." if subject.structural_zeros else ""
    return f"Tables with the columns of the public schema: {listed}. {subject.cells:,} cells in all.{zeros}"


def _unprotected(subject: Summary) -> list[str]:
    unit, found = subject.statement.unit, []
    if subject.statement.protects_nobody:
        found.append("Everything: no guarantee is claimed.")
    if unit.public_total:
        found.append("The number of rows.")
    found += [f"The attribute {name}, taken as known for everybody." for name in unit.fixed]
    found.append("The schema (possible values, bin edges, what cannot occur), which was public beforehand.")
    return found


def _presence(subject: Summary) -> str:
    if subject.statement.protects_nobody:
        return NOBODY
    if subject.statement.unit.kind == "add_remove":
        return "Whether somebody is in the data is protected too."
    return "The number of rows is public, so whether somebody is in the data is not protected."


def _unit_details(subject: Summary) -> str:
    statement = subject.statement
    said = statement.protected
    return said if statement.protects_nobody else f"{_neighbours(subject)} {said}"


def _unit_level(subject: Summary) -> str:
    if subject.statement.protects_nobody:
        return NOBODY
    rows = subject.statement.unit.rows_per_unit
    return "One row" if rows == 1 else f"One unit with up to {rows} rows"


def _neighbours(subject: Summary) -> str:
    if subject.statement.unit.kind == "replace":
        return "Bounded: adjacent tables have the same number of rows and differ in the rows of one unit."
    return "Unbounded: adjacent tables differ by the rows of one unit, added or removed."


def _account(subject: Summary) -> str:
    ledger = subject.statement.ledger
    if ledger is None:
        return "Not tracked across runs: other releases of the same data are not accounted for."
    return f"Charged to the account '{ledger['account']}', which adds up all releases of these data under one limit."


def _copies(subject: Summary) -> str:
    if subject.copies == 1:
        return ""
    if subject.provenance.copies_share_measurements:
        return "All copies are made from the same noisy counts, at no further cost."
    return "Each copy is a fresh draw with its own part of the budget."


def _plan(subject: Summary) -> str:
    plan = subject.provenance.plan
    return "" if plan is None else f"Method and noise were fixed by the plan {plan.hash[:12]} from public facts."


def _mechanisms(subject: Summary) -> str:
    provenance = subject.provenance
    return (
        f"Method {provenance.method} of understudy {provenance.package_version}"
        f"{': ' + ', '.join(subject.mechanisms) if subject.mechanisms else ''}. Noise on counts in whole numbers by "
        "OpenDP's exact samplers; other draws from an AES-256 counter stream under a fresh key, never written; no "
        "floating-point noise. Time, memory, messages and refusals stay inside the building and are not protected. "
        f"Access control for the confidential data: {TO_FILL_IN}."
    )


def _composition(subject: Summary) -> str:
    events = subject.provenance.events
    if not events:
        return "No event is recorded."
    total = loss_text(compose(events, subject.statement.unit, by=subject.provenance.by))
    return f"Sequential, {_count(len(events), 'recorded event')}, summed in exact fractions: {total}."
