"""Differentially private synthetic data: make it, prove what it promises, attack it, measure it, infer from it.

Importing this package is light: every name below is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from understudy.api import Synthesizer as Synthesizer
    from understudy.api import attack as attack
    from understudy.api import check_data as check_data
    from understudy.api import clipped_weights as clipped_weights
    from understudy.api import compare_evaluations as compare_evaluations
    from understudy.api import compare_models as compare_models
    from understudy.api import describe_data as describe_data
    from understudy.api import draft_privately as draft_privately
    from understudy.api import evaluate as evaluate
    from understudy.api import infer as infer
    from understudy.api import methods as methods
    from understudy.api import plan as plan
    from understudy.api import plan_advice as plan_advice
    from understudy.api import print_answers as print_answers
    from understudy.api import read_synthetic as read_synthetic
    from understudy.api import report_release as report_release
    from understudy.api import resume as resume
    from understudy.api import sample as sample
    from understudy.api import synthesize as synthesize
    from understudy.api import verify as verify
    from understudy.api import verify_ledger as verify_ledger
    from understudy.api import write_evaluation as write_evaluation
    from understudy.api import write_sample as write_sample
    from understudy.api.answers import questions as questions
    from understudy.api.exports import export as export
    from understudy.auditing.audit_only_laws import RoundedLaplace as RoundedLaplace
    from understudy.auditing.calibration import calibrate as calibrate
    from understudy.auditing.calibration import prior_table as prior_table
    from understudy.auditing.exact_audit import audit as audit
    from understudy.auditing.transition_matrix import Matrix as Matrix
    from understudy.commutes.map.commute_map import commute_map as commute_map
    from understudy.commutes.source.local import open_commutes as open_commutes
    from understudy.commutes.source.places_file import read_places as read_places
    from understudy.core.derived_attributes import Case as Case
    from understudy.core.derived_attributes import Derived as Derived
    from understudy.core.file_format import ColumnFormat as ColumnFormat
    from understudy.core.file_format import FileFormat as FileFormat
    from understudy.core.household_roles import HouseholdDerived as HouseholdDerived
    from understudy.core.household_roles import Roles as Roles
    from understudy.core.identifiers import Identifier as Identifier
    from understudy.core.linked_schema import LinkedSchema as LinkedSchema
    from understudy.core.linked_schema_file import read_any_schema as read_any_schema
    from understudy.core.linked_schema_file import read_linked_schema as read_linked_schema
    from understudy.core.linked_schema_file import write_linked_schema as write_linked_schema
    from understudy.core.result import Estimate as Estimate
    from understudy.core.result import Evaluation as Evaluation
    from understudy.core.result import Finding as Finding
    from understudy.core.rules import Asked as Asked
    from understudy.core.rules import Order as Order
    from understudy.core.rules import Ratio as Ratio
    from understudy.core.schema import Attribute as Attribute
    from understudy.core.schema import Schema as Schema
    from understudy.core.schema_file import read_schema as read_schema
    from understudy.core.schema_file import write_schema as write_schema
    from understudy.core.structural_zeros import Condition as Condition
    from understudy.core.structural_zeros import Impossible as Impossible
    from understudy.core.survey_design import Design as Design
    from understudy.core.survey_design import Total as Total
    from understudy.core.survey_design import Weight as Weight
    from understudy.engines.opening import open_source as open_source
    from understudy.engines.reading.draft import draft_schema as draft_schema
    from understudy.explore.advise import advise as advise
    from understudy.explore.tradeoff import tradeoff as tradeoff
    from understudy.households.drafting import draft_linked_schema as draft_linked_schema
    from understudy.households.source import open_households as open_households
    from understudy.inference.model_check import check_model as check_model
    from understudy.privacy.ledger.ledger import Ledger as Ledger
    from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial as DirichletMultinomial
    from understudy.privacy.mechanisms.dirichlet_law import PosteriorMeanMultinomial as PosteriorMeanMultinomial
    from understudy.privacy.mechanisms.noise import DiscreteGaussian as DiscreteGaussian
    from understudy.privacy.mechanisms.noise import Geometric as Geometric
    from understudy.privacy.promise.definition import ZCDP as ZCDP
    from understudy.privacy.promise.definition import ApproxDP as ApproxDP
    from understudy.privacy.promise.definition import NonPrivate as NonPrivate
    from understudy.privacy.promise.definition import ProbabilisticDP as ProbabilisticDP
    from understudy.privacy.promise.definition import PureDP as PureDP
    from understudy.privacy.promise.definition import Unit as Unit
    from understudy.privacy.promise.plan import Plan as Plan
    from understudy.privacy.promise.plan import read_plan as read_plan
    from understudy.privacy.promise.plan import write_plan as write_plan
    from understudy.release import Release as Release
    from understudy.release import make_signing_key as make_signing_key
    from understudy.release import read_release as read_release
    from understudy.release import sign as sign
    from understudy.release import wrap as wrap
    from understudy.release.manifest import read_manifest as read_manifest
    from understudy.release.population import population as population
    from understudy.reporting.build import report as report
    from understudy.serving.client import ServedAnswer as ServedAnswer
    from understudy.serving.client import Server as Server
    from understudy.serving.client import connect as connect

_HOME = {
    "understudy.api": (
        "Synthesizer",
        "attack",
        "check_data",
        "clipped_weights",
        "compare_evaluations",
        "compare_models",
        "describe_data",
        "draft_privately",
        "evaluate",
        "infer",
        "methods",
        "plan",
        "plan_advice",
        "print_answers",
        "read_synthetic",
        "report_release",
        "resume",
        "sample",
        "synthesize",
        "verify",
        "verify_ledger",
        "write_evaluation",
        "write_sample",
    ),
    "understudy.api.answers": ("questions",),
    "understudy.auditing.calibration": ("calibrate", "prior_table"),
    "understudy.auditing.exact_audit": ("audit",),
    "understudy.core.derived_attributes": ("Case", "Derived"),
    "understudy.core.file_format": ("ColumnFormat", "FileFormat"),
    "understudy.core.rules": ("Asked", "Order", "Ratio"),
    "understudy.core.identifiers": ("Identifier",),
    "understudy.core.household_roles": ("HouseholdDerived", "Roles"),
    "understudy.core.linked_schema": ("LinkedSchema",),
    "understudy.core.linked_schema_file": ("read_any_schema", "read_linked_schema", "write_linked_schema"),
    "understudy.core.result": ("Estimate", "Evaluation", "Finding"),
    "understudy.core.schema": ("Attribute", "Schema"),
    "understudy.core.schema_file": ("read_schema", "write_schema"),
    "understudy.core.structural_zeros": ("Condition", "Impossible"),
    "understudy.core.survey_design": ("Design", "Total", "Weight"),
    "understudy.commutes.source.local": ("open_commutes",),
    "understudy.engines.reading.draft": ("draft_schema",),
    "understudy.households.drafting": ("draft_linked_schema",),
    "understudy.engines.opening": ("open_source",),
    "understudy.commutes.source.places_file": ("read_places",),
    "understudy.errors": ("UnderstudyError",),
    "understudy.explore.advise": ("advise",),
    "understudy.explore.tradeoff": ("tradeoff",),
    "understudy.households.source": ("open_households",),
    "understudy.inference.model_check": ("check_model",),
    "understudy.privacy.promise.definition": ("ApproxDP", "NonPrivate", "ProbabilisticDP", "PureDP", "Unit", "ZCDP"),
    "understudy.privacy.mechanisms.dirichlet_law": ("DirichletMultinomial", "PosteriorMeanMultinomial"),
    "understudy.auditing.audit_only_laws": ("RoundedLaplace",),
    "understudy.privacy.ledger.ledger": ("Ledger",),
    "understudy.auditing.transition_matrix": ("Matrix",),
    "understudy.privacy.mechanisms.noise": ("DiscreteGaussian", "Geometric"),
    "understudy.privacy.promise.plan": ("Plan", "read_plan", "write_plan"),
    "understudy.api.exports": ("export",),
    "understudy.release.manifest": ("read_manifest",),
    "understudy.release.population": ("population",),
    "understudy.reporting.build": ("report",),
    "understudy.serving.client": ("ServedAnswer", "Server", "connect"),
    "understudy.commutes.map.commute_map": ("commute_map",),
    "understudy.release": ("Release", "make_signing_key", "read_release", "sign", "wrap"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__"] + sorted(_WHERE)  # noqa: PLE0605, RUF005 - names are kept in one list, above


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'understudy' has no attribute '{name}'")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
