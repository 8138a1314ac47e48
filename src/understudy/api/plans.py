"""Verbs before a release: the methods there are, the plan, and what a steward should know before signing it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.folders import as_path
from understudy.core.linked_schema import LinkedSchema
from understudy.core.places import Places
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.promise.definition import Definition, Unit
from understudy.privacy.promise.plan import Option, Plan, checked_criteria

if TYPE_CHECKING:
    import pyarrow

    from understudy.figures.drawing import Drawing

DEFAULT_METHOD = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of synthesis: its name, the forms of guarantee it offers, what it does and its options."""

    name: str
    """Its name, for the argument ``method`` of ``plan`` and ``synthesize``."""
    guarantees: tuple[str, ...]
    """The forms of guarantee it can give."""
    summary: str
    """What it does, in one sentence."""
    options: tuple[dict[str, Any], ...] = ()
    """The ``name``, ``default`` and ``description`` of each of its options."""


def methods() -> tuple[Method, ...]:
    """The methods of synthesis, for tables, commutes and households, also those that other packages registered.

    Returns
    -------
    tuple of Method
        In the order of their names; those for commutes and households come last.

    Examples
    --------
    >>> import understudy as us
    >>> [method.name for method in us.methods() if "approx" in method.guarantees][:3]
    ['aim', 'auto', 'dirichlet']
    """
    from understudy.release.kind import every_kind
    from understudy.synth.shared.method import options_of

    known = (kind.methods()[name] for kind in every_kind() for name in kind.methods())
    return tuple(
        Method(name=one.name, guarantees=tuple(one.guarantees), summary=one.summary, options=tuple(options_of(one)))
        for one in known
    )


def plan(
    schema: Schema | LinkedSchema | Places,
    *,
    budget: Definition,
    method: str = DEFAULT_METHOD,
    unit: Unit | str = "replace",
    copies: int = 1,
    rows: int | None = None,
    records: int | None = None,
    i_know: bool = False,
    must: str | Sequence[str] | None = None,
    criteria: Mapping[str, float] | None = None,
    **options: Option,
) -> Plan:
    """Plan a release: what it will do and cost, from public facts only. No data are touched.

    Parameters
    ----------
    schema
        The public schema, of one table or of linked tables; for commutes the public places.
    budget
        The guarantee of the whole release, copies and strata included.
    method
        The method of synthesis; ``auto`` picks one by public facts and says why.
    unit
        Who is protected: ``replace``, ``add_remove`` or a ``Unit``; for linked tables also ``household`` or ``person``.
    copies
        How many synthetic tables. For measured methods copies share one set of noisy measurements and cost nothing
        more; for ``dirichlet`` and ``commute`` each is a fresh draw, and the budget is split.
    rows
        Rows of each synthetic table; by default the method chooses.
    records
        The exact number of confidential rows, if it is public and known.
    i_know
        Allow an epsilon above 20, a rho above 5, or a delta above 1e-3 or above 1 divided by ``records``.
    must
        What must be answerable, for tables: questions such as ``crosstab(sex, age)``, ``smokes ~ age + sex`` or
        ``predict(income)``, as a list or as a text with one on each line. They come on top of what the schema asks for.
    criteria
        What you demand of the release, by name, such as ``{"epsilon_at_most": 1, "pairs_poor_percent_at_most": 5}``.
        A report says of each whether it is met.
    **options
        Options of the method, as ``understudy methods NAME`` lists them.

    Returns
    -------
    Plan
        The plan: every step with its cost and its noise.

    Raises
    ------
    InputError
        If an argument is not what it should be, or the budget is too small for the method; then the message says what
        would be enough.
    BudgetError
        If the budget protects next to nobody and ``i_know`` is not given.
    UnsupportedError
        If the method does not offer the guarantee.

    Examples
    --------
    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),
    ...                                us.Attribute(name="smokes", levels=("no", "yes"), missing=True)))
    >>> plan = us.plan(schema, method="histogram", budget=us.PureDP(epsilon=1))
    >>> [(step.label, step.cells, round(step.standard_deviation, 2)) for step in plan.steps]
    [('full cross-tabulation', 6, 2.8)]
    """
    from understudy.privacy.promise.definition import require_sane
    from understudy.release.kind import kind_of_domain

    if not isinstance(budget, Definition):
        raise InputError("budget must be PureDP, ApproxDP, ProbabilisticDP, ZCDP or NonPrivate.")
    if not i_know:
        require_sane(budget)
    kind = kind_of_domain(schema)
    if kind is None:
        raise InputError("plan needs a schema; read one with understudy.read_schema.")
    if must is not None:
        options = {**options, "must": as_lines(must)}
    demanded = checked_criteria(criteria or {})
    asked = {"budget": budget, "unit": unit, "copies": copies, "rows": rows, "records": records}
    made = kind.make_plan(schema, None if method == DEFAULT_METHOD else method, asked, options, i_know=i_know)
    return replace(made, criteria=demanded) if demanded else made


def read_criteria(path: str | Path) -> dict[str, float]:
    """Read what is demanded of a release from a TOML file, with one name and number on each line.

    Parameters
    ----------
    path
        The file. Its lines may stand under ``[criteria]``.

    Returns
    -------
    dict of str to float
        The criteria, as ``plan`` takes them.

    Raises
    ------
    InputError
        If the file cannot be read, or a name or number is not one of a criterion.
    """
    place = as_path(path, "the file of criteria")
    try:
        document = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{place} cannot be read; give a TOML file with lines such as epsilon_at_most = 1.") from None
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{place} is not valid TOML: {problem}.") from None
    found = checked_criteria(document.get("criteria", document))
    if not found:
        raise InputError(f"{place} names no criterion; give lines such as epsilon_at_most = 1.")
    return found


def as_lines(must: str | Sequence[str]) -> str:
    """What must be answerable as one text, with one question on each line."""
    from understudy.core.workload import lines_of

    if not isinstance(must, Sequence) or not all(isinstance(one, str) for one in must):
        raise InputError('must is a list of questions such as "crosstab(sex, age)", or a text with one on each line.')
    lines = lines_of(must if isinstance(must, str) else "\n".join(must))
    if not lines:
        raise InputError("must names nothing; give questions such as crosstab(sex, age), or leave it out.")
    return "\n".join(lines)


def read_must(path: str | Path) -> str:
    """Read the questions in a file: one on each line; ``#`` begins a remark.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    str
        Its text, as ``must`` of ``plan`` and ``synthesize`` takes it.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    place = as_path(path, "the file of questions")
    try:
        return place.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{place} is not UTF-8 text; save it as UTF-8.") from None
    except OSError:
        raise InputError(f"{place} cannot be read; give a file with one question on a line.") from None


def plan_advice(plan: Plan, schema: Schema | LinkedSchema | Places) -> tuple[str, ...]:
    """What a steward should know before signing a plan; from public facts only.

    Parameters
    ----------
    plan
        A plan for a table.
    schema
        The schema it was made for.

    Returns
    -------
    tuple of str
        Sentences. One says so where a tiny delta would make the noise of a pure plan much smaller, with both numbers.

    Examples
    --------
    >>> import understudy as us
    >>> wide = us.Schema(attributes=tuple(us.Attribute(name=f"a{n}", levels=("x", "y")) for n in range(12)))
    >>> plan = us.plan(wide, method="ipf", budget=us.PureDP(epsilon=1))
    >>> [advice[:33] for advice in us.plan_advice(plan, wide)]
    ['Pure protection costs noise here:']
    """
    from understudy.release.kind import kind_of_domain

    kind = kind_of_domain(schema)
    return () if kind is None else kind.advice(schema, plan)


def draw_priors(table: pyarrow.Table, *, title: str = "") -> Drawing:
    """What ``prior_table`` gave, as bars."""
    from understudy.figures.promise import prior_bars

    return prior_bars(table, title=title)
