"""The verbs, in Python. The command line calls these and nothing else.

One file for each family of verbs. Heavy packages are imported where a verb needs them, so that naming a verb is quick.
"""

from understudy.api.answers import compare_models, infer, print_answers
from understudy.api.budgets import USUAL_EPSILONS, BudgetRow, compare_budgets, read_workload
from understudy.api.evaluations import (
    UNFINISHED,
    attack,
    check_evaluation_target,
    check_protections,
    compare_evaluations,
    evaluate,
    finding_row,
    forget_finished,
    open_for,
    read_synthetic,
    shown_tables,
    synthetic_table,
    write_attack,
    write_evaluation,
    write_finished,
    write_frames,
)
from understudy.api.plans import DEFAULT_METHOD, draw_priors, methods, plan, plan_advice, read_criteria, read_must
from understudy.api.releases import (
    require_replaceable,
    resume,
    sample,
    stated_by_run,
    synthesize,
    verify,
    verify_ledger,
    write_sample,
)
from understudy.api.reports import check_report_target, report_page, report_release
from understudy.api.schemas import check_data, clipped_weights, describe_data, draft_in_parts, draft_privately
from understudy.api.synthesizer import Synthesizer
from understudy.core.result import PARTS
from understudy.engines.opening import open_source
from understudy.privacy.promise.definition import GUARANTEES, UNIT_KINDS, Definition
from understudy.privacy.promise.plan import Option

__all__ = [
    "BudgetRow",
    "DEFAULT_METHOD",
    "GUARANTEES",
    "PARTS",
    "UNFINISHED",
    "UNIT_KINDS",
    "USUAL_EPSILONS",
    "Definition",
    "Option",
    "Synthesizer",
    "attack",
    "check_data",
    "clipped_weights",
    "check_evaluation_target",
    "check_protections",
    "check_report_target",
    "compare_budgets",
    "compare_evaluations",
    "describe_data",
    "draft_in_parts",
    "draft_privately",
    "draw_priors",
    "evaluate",
    "finding_row",
    "forget_finished",
    "infer",
    "methods",
    "open_for",
    "open_source",
    "plan",
    "plan_advice",
    "read_criteria",
    "read_must",
    "read_synthetic",
    "read_workload",
    "report_page",
    "report_release",
    "require_replaceable",
    "resume",
    "sample",
    "shown_tables",
    "stated_by_run",
    "synthesize",
    "synthetic_table",
    "verify",
    "verify_ledger",
    "write_attack",
    "write_evaluation",
    "write_finished",
    "write_frames",
    "write_sample",
    "compare_models",
    "print_answers",
]
