"""The draft for the Deployments Registry has the shape of the registry's published schema, and says what is missing.

The shape below was written from ``schemas/deployments-schema.yaml`` of opendp/deployments-registry-data at commit
3e9c812a924c (15 July 2026): which properties there are (no others are allowed), their types and enumerated values.
"""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.places import make_places
from understudy.reporting.build import summary_of
from understudy.reporting.deployments_registry import TO_FILL_IN, registry_fields

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")

TEXTS, DATE = "list of texts", "date"
BASIC = {
    "name": str,
    "data_curators": TEXTS,
    "intended_use": str,
    "data_product_type": {
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries",
    },
    "data_product_region": str,
    "description": str,
    "publication_date": DATE,
    "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
}  # fmt: skip
DEPLOYMENT = {
    "basic": BASIC,
    "dp_variant": {
        "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
        "data_domain": str,
        "unprotected_quantities": str,
    },
    "privacy_loss": {
        "privacy_unit": str,
        "privacy_unit_details": str,
        "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
        "privacy_parameters_details": str,
    },
    "deployment_model": {
        "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
        "model_name_details": str,
        "actors": str,
        "release_type": {"One release", "Many releases"},
        "release_type_details": str,
        "data_source_type": {"Static", "Dynamic"},
        "data_source_type_details": str,
        "access_type": {"Interactive", "Non-interactive"},
        "access_type_details": str,
    },
    "accounting": {"post_processing": str, "composition": str},
    "implementation": {"preprocessing_and_hyperparameter_tuning": str, "mechanisms": str, "justification": str},
    "administrative": {"sources": str, "notes": str, "registry_authors": TEXTS},
}
RECORD = {
    "url_slug": str,
    "status": {
        "Converted", "Draft", "Pending", "Changes Required", "Approved", "Approved (Update Requested)",
        "Approved (Pending)",
    },
    "tier": int,
    "deployment": DEPLOYMENT,
}  # fmt: skip
REQUIRED = {
    "": set(RECORD),
    "deployment": {"basic"},
    "basic": set(BASIC) - {"data_product_sector"},
    "administrative": {"registry_authors"},
}


def violations(value, shape, name=""):
    """Where a value is not what the registry's schema allows."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{name}: not an object"]
        wrong = [f"{name}: lacks {missing}" for missing in REQUIRED.get(name, set()) - set(value)]
        wrong += [f"{name}: unknown {key}" for key in set(value) - set(shape)]
        return wrong + [found for key in set(value) & set(shape) for found in violations(value[key], shape[key], key)]
    if shape == TEXTS:
        good = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    elif shape == DATE:
        good = isinstance(value, str) and _is_date(value)
    elif isinstance(shape, set):
        good = value in shape
    else:
        good = isinstance(value, shape) and not isinstance(value, bool)
    return [] if good else [f"{name}: {value!r}"]


def _is_date(text):
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def filled_in(value, name=""):
    """What a steward makes of a draft."""
    if isinstance(value, dict):
        return {key: filled_in(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [filled_in(one, name) for one in value]
    if isinstance(value, str) and TO_FILL_IN in value:
        return "2026-11-17" if name == "publication_date" else value.replace(TO_FILL_IN, "said by the agency")
    return value


SCHEMA = us.Schema(
    attributes=(us.Attribute(name="sex", levels=("F", "M")), us.Attribute(name="smokes", levels=("no", "yes")))
)
TABLE = pa.table({"sex": ["F", "M"] * 60, "smokes": ["no", "yes", "no"] * 40})
KINDS = [
    ("histogram", us.PureDP(epsilon=1), {}),
    ("histogram", us.ZCDP(rho="0.1"), {"unit": "add_remove"}),
    ("ipf", us.ApproxDP(epsilon=1, delta="1e-6"), {"copies": 2}),
    ("dirichlet", us.PureDP(epsilon=20), {"unit": us.Unit(kind="replace", fixed=("sex",))}),
    ("reverse_mapped", us.NonPrivate(), {}),
]


def drafts():
    source = us.open_source(TABLE, SCHEMA)
    for method, budget, more in KINDS:
        yield f"{method} {budget.name}", us.synthesize(source, method=method, budget=budget, **more)
    number = np.arange(12)
    places = make_places([f"p{n:02d}" for n in number], 41 + 0.03 * (number // 4), -71 + 0.05 * (number % 4))
    trips = pa.table({"origin": ["p01", "p05"], "destination": ["p03", "p03"], "jobs": [30, 10]})
    commutes = us.open_commutes(trips, places=places)
    yield "commutes", us.synthesize(commutes, method="commute", budget=us.PureDP(epsilon=8))
    yield "somebody else's", us.wrap(TABLE, SCHEMA)


@pytest.fixture(scope="module")
def records():
    return {name: json.loads(json.dumps(registry_fields(summary_of(release)))) for name, release in drafts()}


def test_a_draft_has_the_registrys_shape_but_for_the_date(records):
    assert len(records) == 7
    for name, record in records.items():
        assert violations(record, RECORD) == [f"publication_date: {TO_FILL_IN!r}"], name


def test_a_draft_that_was_filled_in_fits_the_schema(records):
    for name, record in records.items():
        assert violations(filled_in(record), RECORD) == [], name


def test_the_shape_can_refuse(records):
    """The faults that drafts had: curators as objects, and placeholders where the registry has a list of values."""
    record = filled_in(records["commutes"])
    basic = record["deployment"]["basic"]
    basic["data_curators"] = [{"data_curator_name": "us"}]
    basic["data_product_sector"] = TO_FILL_IN
    basic["more"] = ""
    del record["tier"]
    assert sorted(problem.partition(":")[0] for problem in violations(record, RECORD)) == [
        "", "basic", "data_curators", "data_product_sector",
    ]  # fmt: skip


def test_a_draft_says_what_has_to_be_filled_in(records):
    for record in records.values():
        notes = record["deployment"]["administrative"]["notes"]
        assert notes.startswith("DRAFT, not ready")
        for name in ("url_slug", "data_curators", "intended_use", "publication_date", "registry_authors"):
            assert name in notes
        assert TO_FILL_IN not in notes
    assert "access control" in records["commutes"]["deployment"]["implementation"]["mechanisms"].lower()


def test_nothing_is_guessed(records):
    outside = records["somebody else's"]
    assert outside["tier"] == 1
    assert set(outside["deployment"]) == {"basic", "dp_variant", "administrative"}
    assert "not made by understudy" in outside["deployment"]["administrative"]["notes"]
    for name in ("somebody else's", "reverse_mapped none"):
        assert "variant_name" not in records[name]["deployment"]["dp_variant"]
        assert "No guarantee is claimed" in records[name]["deployment"]["administrative"]["notes"]
    assert records["ipf approx"]["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"
    assert records["ipf approx"]["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
