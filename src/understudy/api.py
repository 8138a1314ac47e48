"""The verbs, in Python. The command line calls these and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.flows import FlowSource, holds_flows
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.core.result import Evaluation, Section
from understudy.core.schema import Level, Schema
from understudy.engines.opening import DEFAULT_ENGINE, open_source
from understudy.errors import InputError, UntrackedWarning, unknown_name
from understudy.privacy.promise.definition import Definition, Unit, read_unit
from understudy.privacy.promise.plan import Option, Plan

if TYPE_CHECKING:
    from understudy.inference.answer import Answer, Generator
    from understudy.release import Release
    from understudy.release.commutes import CommuteRelease

__all__ = [
    "evaluate",
    "infer",
    "open_source",
    "plan",
    "resume",
    "sample",
    "synthesize",
    "synthetic_table",
    "write_sample",
]

DEFAULT_METHOD = "auto"
PARTS = ("utility", "risk")
WAYS = (1, 2, 3)


def plan(
    schema: Schema | Places,
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
    from understudy.synth.shared.method import Request, configure, make_plan

    if isinstance(schema, Places):
        from understudy.synth.commutes.base import plan_commutes

        name = "commute" if method == DEFAULT_METHOD else method
        return plan_commutes(
            schema, budget=budget, method=name, unit=unit, copies=copies, rows=rows, records=records, options=options
        )
    if not isinstance(schema, Schema):
        raise InputError("plan needs a schema; read one with understudy.read_schema.")
    if not isinstance(budget, Definition):
        raise InputError("budget must be PureDP, ApproxDP, ProbabilisticDP, ZCDP or NonPrivate.")
    request = Request(budget=budget, unit=read_unit(unit), copies=copies, rows=rows, records=records)
    return make_plan(configure(method, options), schema, request)


def synthesize(
    source: Source | FlowSource,
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
) -> Any:
    """Make a release. Either a reviewed ``plan``, or what to plan from; never both.

    The whole plan is charged to the account before the first draw. Without a ledger nothing is tracked across runs,
    and the release says so. With ``out`` the release folder is written too. Commutes (``open_commutes``) give a
    ``CommuteRelease``, everything else a ``Release``.

    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="independent", rows=100)
    >>> release.frame().num_rows, str(release.statement.guarantee)
    (100, 'pure differential privacy (epsilon = 1)')
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.lifecycle import Destination
    from understudy.release.run import start_run

    domain = source.places if holds_flows(source) else cast(Source, source).schema
    asked = {"budget": budget, "method": method, "unit": unit, "copies": copies, "rows": rows, **options}
    given = {name: value for name, value in asked.items() if value is not None}
    if plan is None:
        if budget is None:
            raise InputError("say how much may be spent (budget), for example PureDP(epsilon=1).")
        plan = globals()["plan"](domain, **given)
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
    if holds_flows(source):
        from understudy.release.commute_run import start_commute_run

        return start_commute_run(source, plan, destination, stream=stream or SecureStream(), progress=progress)
    return start_run(cast(Source, source), plan, destination, stream=stream or SecureStream(), progress=progress)


def resume(
    run: str | Path,
    *,
    source: Any = None,
    places: Any = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Any:
    """Finish a run that died after its charge, from its run folder (``...partial-...``).

    Needs neither data nor budget if everything was measured; otherwise give the same data again as ``source``, with
    the same ways of ``reading`` them as were given to ``open_source``. A run of commutes also needs its ``places``.

    >>> resume("no-such-run")     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.InputError: ...no-such-run is not the folder of a run ...
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.run import is_of_commutes, resume_run

    if is_of_commutes(Path(run)):
        from understudy.release.commute_run import resume_commutes

        return resume_commutes(Path(run), source=source, places=places, out=out, progress=progress, **reading)
    if places is not None:
        raise InputError("places go with a run of commutes; this run is of a table.")

    def opened(schema: Schema) -> Source:
        return open_source(source, schema, **reading)

    return resume_run(
        Path(run),
        source=None if source is None else opened,
        out=None if out is None else Path(out),
        stream=SecureStream(),
        progress=progress,
    )


def evaluate(
    release: Release | CommuteRelease,
    confidential: Any,
    *,
    holdout: Any = None,
    models: Sequence[str] = (),
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    ways: Sequence[int] = WAYS,
    parts: Sequence[str] = PARTS,
    progress: Progress | None = None,
) -> Evaluation:
    """How useful and how risky a release is, measured against the confidential data. Its findings are internal.

    ``confidential`` and ``holdout`` (people of the same population who were not used) are sources, or whatever
    ``open_source`` opens. ``models`` are regressions such as "income ~ age + sex"; ``keys`` and ``targets`` name what
    an intruder knows and wants to know; ``ways`` says of how many attributes the compared tables are; ``parts`` leaves
    one of utility and risk out, which is then empty. A commuting release is compared by distances, flows and jobs;
    ``confidential`` is then what ``open_commutes`` opens, and there is no risk part.

    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> copied = us.wrap(make_people(500).select(list(small_schema().names)), small_schema())
    >>> result = us.evaluate(copied, people, parts=["utility"], ways=[2])
    >>> [row["mean_s_pmse"] for row in result.utility.frames["ways"].to_pylist()]     # a copy differs in nothing
    [0.0]
    """
    from understudy.evaluation.inputs.comparison import compare
    from understudy.evaluation.risk import evaluate_risk
    from understudy.evaluation.utility import evaluate_utility
    from understudy.release import Release as KindOfRelease
    from understudy.release.commutes import CommuteRelease as KindOfCommutes

    for part in parts:
        if part not in PARTS:
            raise unknown_name("part of an evaluation", part, PARTS)
    if isinstance(release, KindOfCommutes):
        if holdout is not None or models or keys or targets or tuple(ways) != WAYS or "utility" not in parts:
            raise InputError(
                "holdout, models, keys, targets, ways and the risk part are for tables of people; leave them out for a "
                "release of commutes."
            )
        return _evaluate_commutes(release, confidential)
    if not isinstance(release, KindOfRelease):
        raise InputError("evaluate needs a release: read one with read_release, or wrap a synthetic table.")
    people = _opened(confidential, release.schema)
    others = None if holdout is None else _opened(holdout, release.schema)
    comparison = compare(
        release,
        people,
        holdout=others,
        models=models,
        ways=ways,
        keys=keys,
        targets=targets,
        progress=progress,
    )
    utility = risk = Section()
    if "utility" in parts:
        utility = evaluate_utility(comparison)
    if "risk" in parts:
        risk = evaluate_risk(comparison)
    return Evaluation(utility=utility, risk=risk)


def _evaluate_commutes(release: CommuteRelease, confidential: Any) -> Evaluation:
    """Distances, flows and jobs; attacks are made for tables of people."""
    from understudy.engines.reading.commutes import open_commutes
    from understudy.evaluation.commutes import evaluate_commutes

    source = confidential if holds_flows(confidential) else open_commutes(confidential, places=release.places)
    return Evaluation(utility=evaluate_commutes(release, source))


def infer(
    release: Release,
    question: str,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    level: float = 0.95,
    draws: int | None = None,
    prior: float | None = None,
    synthesis: str | None = None,
    records: int | None = None,
    rule: str | None = None,
    rng: Generator | None = None,
) -> Answer:
    """What may be concluded from a release alone: an estimate with an interval that covers, or a refusal that says why.

    ``question`` is for example "proportion(sex == 'F')", "mean(age, where=region == 'North')", "crosstab(sex, smokes)"
    or a formula "smokes ~ age + sex" (``family``: linear, logit, poisson, multinomial, ordered; ``event``: the level a
    logistic regression is about). ``where`` is a subgroup for any question.

    A release of ours says which law its noise has, and the exact posterior under that law is used. ``prior`` is the
    prior count of each group the question tells apart (by default 1/2 for few groups; for many, several values that
    share the posterior by their evidence). Somebody else's tables need ``synthesis`` ("simple", "posterior" or
    "partial") and ``records``; a combining ``rule`` that is wrong for a release is refused. Draws of the posterior are
    random and protect nobody; ``rng`` makes them repeatable.

    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="histogram")
    >>> answer = us.infer(release, "proportion(sex == 'F')").estimates[0]
    >>> 0 < answer.low < answer.value < answer.high < 1
    True
    """
    from understudy.inference.ask import ask

    return ask(
        release,
        question,
        family=family,
        event=event,
        where=where,
        level=level,
        draws=draws,
        prior=prior,
        synthesis=synthesis,
        records=records,
        rule=rule,
        rng=rng,
    )


def synthetic_table(data: Any, schema: Schema, **reading: Any) -> Any:
    """Rows of anybody's synthetic table as an Arrow table, read by the schema, for ``wrap``.

    Impossible combinations are let through: an evaluation counts them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    source: Any = open_source(data, replace(schema, impossible=()), **reading)
    codes, rows = source.confidential_table()
    columns = {}
    for attribute in schema.attributes:  # what stands for missing in a file is a null from here on
        column = rows[attribute.name].combine_chunks()
        missing = codes.columns[attribute.name] == attribute.missing_code
        columns[attribute.name] = pc.if_else(pa.array(missing), None, column) if missing.any() else column
    return pa.table(columns)


def _opened(data: Any, schema: Schema) -> Source:
    return data if isinstance(data, Source) else open_source(data, schema)


def sample(release: Release, *, rows: int, copies: int = 1) -> Release:
    """More rows from a release's own measurements, without the data and at no cost; refused for ``dirichlet``.

    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="independent")
    >>> us.sample(release, rows=2000).frame().num_rows
    2000
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.sampling import sample_again

    return sample_again(release, rows=rows, copies=copies, stream=SecureStream())


def write_sample(
    release: Release,
    out: str | Path,
    *,
    rows: int,
    copies: int = 1,
    engine: str | None = None,
    master: str | None = None,
    allow_insecure_cluster: bool = False,
    overwrite: bool = False,
    csv: bool = False,
) -> Path:
    """``sample``, written as a release folder block by block: memory does not grow with the rows.

    With ``engine="spark"`` the executors draw and write it, in parts, into a folder that every machine sees: a billion
    rows need no memory here.

    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="independent")
    >>> larger = us.write_sample(release, tempfile.mkdtemp() + "/larger", rows=2000)
    >>> us.read_release(larger).frame().num_rows
    2000
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.sampling import sample_to

    if engine not in (None, DEFAULT_ENGINE, "spark"):
        raise unknown_name("engine", str(engine), (DEFAULT_ENGINE, "spark"))
    if engine != "spark":
        if master is not None or allow_insecure_cluster:
            raise InputError("master and allow_insecure_cluster go with engine 'spark'.")
        return sample_to(
            release, Path(out), rows=rows, copies=copies, stream=SecureStream(), overwrite=overwrite, csv=csv
        )
    from understudy.engines.systems.spark.session import session_for

    if csv:
        raise InputError("engine 'spark' writes Parquet only; leave csv out.")
    session = session_for(master, allow_insecure_cluster=allow_insecure_cluster, jvm_reads=False)
    return sample_to(
        release, Path(out), rows=rows, copies=copies, stream=SecureStream(), session=session, overwrite=overwrite
    )
