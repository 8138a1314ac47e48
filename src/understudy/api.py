"""The verbs, in Python. The command line calls these and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.counts import Source
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UntrackedWarning
from understudy.privacy.definition import Definition, Unit, read_unit
from understudy.privacy.plan import Option, Plan

if TYPE_CHECKING:
    from understudy.release import Release

Progress = Callable[[int, int | None], None]
DEFAULT_METHOD = "histogram"


def plan(
    schema: Schema,
    *,
    budget: Definition,
    method: str = DEFAULT_METHOD,
    unit: Unit | str = "replace",
    copies: int = 1,
    rows: int | None = None,
    records: int | None = None,
    **options: Option,
) -> Plan:
    """What a release will do and cost, from public facts only. Never touches data.

    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),
    ...                                us.Attribute(name="smokes", levels=("no", "yes"), missing=True)))
    >>> plan = us.plan(schema, method="histogram", budget=us.PureDP(epsilon=1))
    >>> [(step.label, step.cells, round(step.standard_deviation, 2)) for step in plan.steps]
    [('full cross-tabulation', 6, 2.8)]
    """
    from understudy.synth.base import Request, configure

    if not isinstance(schema, Schema):
        raise InputError("plan needs a schema; read one with understudy.read_schema.")
    if not isinstance(budget, Definition):
        raise InputError("budget must be PureDP, ApproxDP, ProbabilisticDP, ZCDP or NonPrivate.")
    request = Request(budget=budget, unit=read_unit(unit), copies=copies, rows=rows, records=records)
    return configure(method, options).plan(schema, request)


def synthesize(
    source: Source,
    *,
    budget: Definition | None = None,
    method: str | None = None,
    unit: Unit | str | None = None,
    copies: int | None = None,
    rows: int | None = None,
    ledger: str | Path | None = None,
    account: str | None = None,
    plan: Plan | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    csv: bool = False,
    stream: Stream | None = None,
    progress: Progress | None = None,
    **options: Option,
) -> Release:
    """Make a release. Either a reviewed ``plan``, or what to plan from; never both.

    The whole plan is charged to the account before the first draw. Without a ledger nothing is tracked across runs,
    and the release says so. With ``out`` the release folder is written too.
    """
    from understudy.privacy.streams import SecureStream
    from understudy.release.run import Destination, start_run

    asked = {"budget": budget, "method": method, "unit": unit, "copies": copies, "rows": rows, **options}
    given = {name: value for name, value in asked.items() if value is not None}
    if plan is None:
        if budget is None:
            raise InputError("say how much may be spent (budget), for example PureDP(epsilon=1).")
        plan = globals()["plan"](source.schema, **given)
    elif given:
        raise InputError(f"a plan settles everything; leave out {', '.join(sorted(given))}.")
    destination = Destination(
        out=None if out is None else Path(out),
        overwrite=overwrite,
        csv=csv,
        ledger=None if ledger is None else Path(ledger),
        account=account,
    )
    if ledger is None:
        warnings.warn(
            "no ledger is given: what this run spends is not tracked across runs.", UntrackedWarning, stacklevel=2
        )
    return start_run(source, plan, destination, stream=stream or SecureStream(), progress=progress)


def resume(
    run: str | Path,
    *,
    source: Any = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Release:
    """Finish a run that died after its charge, from its run folder (``...partial-...``).

    Needs neither data nor budget if everything was measured; otherwise give the same data again as ``source``, with
    the same ways of ``reading`` them as were given to ``open_source``.
    """
    from understudy.privacy.streams import SecureStream
    from understudy.release.run import resume_run

    def opened(schema: Schema) -> Source:
        return open_source(source, schema, **reading)

    return resume_run(
        Path(run),
        source=None if source is None else opened,
        out=None if out is None else Path(out),
        stream=SecureStream(),
        progress=progress,
    )


def open_source(data: Any, schema: Schema, **reading: Any) -> Source:
    """Open a confidential table by its schema: CSV, Parquet, globs, DuckDB, or anything that speaks Arrow."""
    from understudy.engines.inputs import open_source as open_by_kind

    return open_by_kind(data, schema, **reading)
