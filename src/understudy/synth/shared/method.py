"""What every synthesizer is: a frozen configuration that plans from public facts and runs through the gate."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import Any, ClassVar, Protocol, get_type_hints, runtime_checkable

from understudy.core.measurement import Draw, Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.core.registry import Registry
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import GuaranteeNotOfferedError, InputError, unknown_name
from understudy.models.published_model import Fitted
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.plan import Option, Plan, Step

MAX_ROWS = 500_000_000
MAX_COPIES = 1000
SMALLEST_ASKED = 1e-300  # far below any budget that a noise scale of 2^40 allows, and still a float


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the steward asks for. Public facts only.

    Raises
    ------
    InputError
        If a number is out of range, or ``records`` is given where it is not public.
    """

    budget: Definition
    """The guarantee of the whole release."""
    unit: Unit
    """Who is protected."""
    copies: int = 1
    """How many synthetic tables."""
    rows: int | None = None
    """Rows of each table; ``None``: the method chooses."""
    records: int | None = None
    """The exact number of confidential rows, if it is public and known."""

    def __post_init__(self) -> None:
        for name, least, most in (("copies", 1, MAX_COPIES), ("rows", 1, MAX_ROWS), ("records", 0, 2**62)):
            value = getattr(self, name)
            if value is None and name != "copies":
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name} ({value!r}) must be a whole number.")
            if not least <= value <= most:
                raise InputError(f"{name} ({value}) must be between {least} and {most}.")
        if self.records is not None and not self.unit.public_total:
            raise InputError(
                "records is the exact number of rows, which is not public under add_remove; leave it out, or use "
                'unit="replace".'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """What a synthesizer hands back."""

    tables: tuple[CodedTable, ...]
    """The synthetic tables, as codes."""
    measurements: tuple[Measurement, ...] = ()
    """The noisy counts behind them."""
    draws: tuple[Draw, ...] = ()
    """Tables that were drawn straight from the data."""
    rows_drawn: str = ""
    """How rows were drawn, in words."""
    copies_share_measurements: bool = False
    """Whether all copies rest on one set of measurements."""
    notes: tuple[str, ...] = ()
    """Remarks for the manifest."""
    warnings: tuple[str, ...] = ()
    """What everybody who is handed the release must be told."""
    fitted: Fitted | None = None
    """The model behind all copies, to draw more rows from later."""
    found: Schema | None = None
    """The schema with what was found, where the declared one leaves something open."""
    finding: tuple[Measurement, ...] = ()
    """The noisy counts by which it was found."""


class Synthesizer(Protocol):
    """One method of synthesis: a frozen dataclass. Its fields are its options, checked when it is made."""

    name: ClassVar[str]
    """The name of the method."""
    summary: ClassVar[str]
    """One line that says what it does and for what."""
    guarantees: ClassVar[tuple[str, ...]]
    """The guarantees it can give: ``pure``, ``approx``, ``probabilistic``, ``zcdp``, ``none``."""
    inference: ClassVar[str]
    """What ``infer`` may call its answers at best: ``valid`` (what is measured was fixed before anybody looked),
    ``selection not modelled`` (it was chosen by noisy looks at the records), ``refused`` (no interval follows)."""

    def plan(self, schema: Schema, request: Request) -> Plan:
        """Plan everything that the run will do, from public facts only.

        Parameters
        ----------
        schema
            The public schema.
        request
            What the steward asks for.

        Returns
        -------
        Plan
            The plan.

        Raises
        ------
        InputError
            If the request cannot be met.
        """
        ...

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        """Make the tables exactly as planned. Data are touched through the gate only.

        Parameters
        ----------
        plan
            The plan that was charged.
        schema
            The public schema.
        gate
            The only way to the data.
        stream
            The source of randomness for everything that protects nobody.

        Returns
        -------
        Synthesis
            The tables, and the public values behind them.
        """
        ...


@runtime_checkable
class Redrawing(Protocol):
    """A method whose rows follow from measurements alone, so that more of them can be drawn from a release."""

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Make tables from the measurements of an earlier run. This is post-processing: it costs no privacy.

        Parameters
        ----------
        plan
            The plan of that run, with as many rows and copies as are wanted now.
        schema
            The public schema.
        measured
            What was measured.
        records
            The number of records where it is public.
        stream
            Where randomness comes from.

        Returns
        -------
        Synthesis
            The tables.
        """
        ...


synthesizers: Registry[type[Synthesizer]] = Registry("method", "understudy.synth.methods")


def configure(method: str, options: Mapping[str, Option]) -> Synthesizer:
    """The synthesizer of a name with its options, given as values or as the text of a command line."""
    made: Synthesizer = configure_from(synthesizers, method, options)
    return made


def configure_from(registry: Registry[Any], method: str, options: Mapping[str, Option]) -> Any:
    """The same for a registry of methods of another kind."""
    kind: Any = registry[method]
    hints = get_type_hints(kind)
    known = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            raise unknown_name(f"option of {method}:", name, known)
        values[name] = _read_option(method, name, value, known[name])
    return kind(**values)


def options_of(kind: type[Any]) -> list[dict[str, Any]]:
    """The options of a method: the fields of its class, each with its default and the text under it.

    Parameters
    ----------
    kind
        The class of the method, as the registry gives it.

    Returns
    -------
    list[dict[str, Any]]
        For every option its ``name``, its ``default`` (``None``: the method chooses) and its ``description``.
    """
    texts = field_docs(kind)
    return [
        {
            "name": field.name,
            "default": None if field.default is dataclasses.MISSING else field.default,
            "description": texts.get(field.name, ""),
        }
        for field in dataclasses.fields(kind)
    ]


def _read_option(method: str, name: str, value: Option, kind: Any) -> Option:
    if kind is bool and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise InputError(f"option {name} of {method} ({value!r}) must be true or false.")
        return value.lower() == "true"
    if kind is int and isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise InputError(f"option {name} of {method} ({value!r}) must be a whole number.") from None
    if kind is str and isinstance(value, list | tuple):
        return ",".join(map(str, value))  # strata=["region", "sex"], as Python writes a list of names
    if kind is str and not isinstance(value, str):
        return str(value)
    if kind in (int, bool) and type(value) is not kind:
        raise InputError(
            f"option {name} of {method} ({value!r}) must be {'true or false' if kind is bool else 'a whole number'}."
        )
    return value


def count_text(count: int) -> str:
    """A number of cells for people to read, however large it is."""
    return f"{count:,}" if count < 10**15 else f"about 10^{int(log10(count))}"


def check_request(kind: type[Synthesizer], schema: Schema, request: Request) -> None:
    """Refusals shared by all methods, made before anything is planned."""
    if request.budget.name not in kind.guarantees:
        raise GuaranteeNotOfferedError(
            f"method '{kind.name}' does not offer the guarantee '{request.budget.name}'; it offers "
            f"{', '.join(kind.guarantees)}."
        )
    for name in request.unit.fixed:
        schema[name]


def make_plan(synthesizer: Synthesizer, schema: Schema, request: Request) -> Plan:
    """The plan of a method; a budget too small for it is refused with what would be enough."""
    try:
        return synthesizer.plan(schema, request)
    except InputError as problem:
        needed = _enough(synthesizer, schema, request) if type(problem) is InputError else None
        if needed is None:
            raise
        raise InputError(f"{problem} This plan needs about {needed}, or more.") from None


def _enough(synthesizer: Synthesizer, schema: Schema, request: Request) -> Definition | None:
    """About the least budget of the same kind that the method can plan with, if the budget is what was wrong."""
    budget = request.budget
    if not isinstance(budget, PureDP | ApproxDP | ProbabilisticDP | ZCDP):
        return None
    name = "rho" if isinstance(budget, ZCDP) else "epsilon"
    low, high = max(float(getattr(budget, name)), SMALLEST_ASKED), 1.0  # 1e-390 is 0 as a float: no middle above it

    def enough(amount: float) -> bool:
        try:
            synthesizer.plan(schema, dataclasses.replace(request, budget=larger(amount)))
        except InputError:
            return False
        return True

    def larger(amount: float) -> Definition:
        kind: Any = type(budget)
        kept = {one: getattr(budget, one) for one in budget.parameters if one != name}
        made: Definition = kind(**kept, **{name: f"{amount:.2g}"})
        return made

    if low >= high or not enough(high):
        return None
    while high > 1.02 * low:
        middle = low**0.5 * high**0.5  # their product may be too small for a float
        low, high = (low, middle) if enough(middle) else (middle, high)
    return larger(1.01 * high)


def planned(
    domain: Schema | Places,
    request: Request,
    *,
    method: str,
    steps: tuple[Step, ...],
    options: Mapping[str, Option],
    budget: Definition | None = None,
    adaptive: bool = False,
    read_by: Bound = "concentrated",
    notes: tuple[str, ...] = (),
) -> Plan:
    """The plan that answers a request; ``budget`` if the plan promises a smaller loss than was asked for."""
    return Plan(
        schema_fingerprint=domain.fingerprint,
        method=method,
        budget=request.budget if budget is None else budget,
        unit=request.unit,
        copies=request.copies,
        rows=request.rows,
        records=request.records,
        steps=steps,
        options=dict(options),
        adaptive=adaptive,
        read_by=read_by,
        notes=notes,
    )


def renamed(plan: Plan, method: str, options: Mapping[str, Option]) -> Plan:
    """A plan under the name of the method that used another method to make it."""
    return dataclasses.replace(plan, method=method, options=dict(options))


# What a class says in its source under each of its fields: the one description of a field or an option.
#
# Python keeps no text that stands under a field, so it is read from the source file, as documentation tools do.


def field_docs(kind: type) -> dict[str, str]:
    """The text under each field of a class, its parent classes included.

    Parameters
    ----------
    kind
        The class. A class without a source file (typed at a prompt) has no texts.

    Returns
    -------
    dict[str, str]
        The text of every field that has one, on one line.

    Examples
    --------
    >>> from understudy.synth.shared.method import field_docs
    >>> from understudy.synth.methods.ipf import Ipf
    >>> field_docs(Ipf)["split"][:40]
    'How the budget is divided over the table'
    """
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__ in ("builtins", "typing", "abc"):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError):
            continue
        body = getattr(tree.body[0], "body", [])
        for field, below in pairwise(body):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found
