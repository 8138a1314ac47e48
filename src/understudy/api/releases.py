"""Verbs that make a release: plan it, run it, finish it after a crash, draw more rows from it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from understudy.api.plans import plan as make_plan
from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.flows import FlowSource
from understudy.core.folders import as_path
from understudy.core.linked_schema import LinkedSchema
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.core.schema import Schema
from understudy.engines.opening import DEFAULT_ENGINE
from understudy.errors import InputError, UntrackedWarning, unknown_name
from understudy.privacy.promise.definition import Definition, Unit
from understudy.privacy.promise.plan import Option, Plan

if TYPE_CHECKING:
    from understudy.commutes.commute_release import CommuteRelease
    from understudy.households.household_release import HouseholdRelease
    from understudy.privacy.ledger.ledger import Verification
    from understudy.release import Check, Release
    from understudy.release.kind import AnyRelease
    from understudy.release.run import Destination


@overload
def synthesize(data: Source, **how: Any) -> Release: ...
@overload
def synthesize(data: FlowSource, **how: Any) -> CommuteRelease: ...
@overload
def synthesize(data: Any, *, schema: Schema, **how: Any) -> Release: ...
@overload
def synthesize(data: Any, *, schema: Places, **how: Any) -> CommuteRelease: ...
@overload
def synthesize(data: Any, *, schema: LinkedSchema, **how: Any) -> HouseholdRelease: ...
def synthesize(
    data: Source | FlowSource | Any,
    *,
    schema: Schema | LinkedSchema | Places | None = None,
    reading: Mapping[str, Any] | None = None,
    budget: Definition | None = None,
    method: str | None = None,
    unit: Unit | str | None = None,
    copies: int | None = None,
    rows: int | Literal["population"] | None = None,
    ledger: str | Path | None = None,
    account: str | None = None,
    plan: Plan | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    csv: bool = False,
    stream: Stream | None = None,
    progress: Progress | None = None,
    i_know: bool = False,
    must: str | Sequence[str] | None = None,
    **options: Option,
) -> Release | CommuteRelease | HouseholdRelease:
    """Make a release, either from a reviewed plan or from a budget, a method and its options.

    The whole plan is charged to the account before the first draw. Without a ledger nothing is tracked across runs, and
    the release says so.

    Parameters
    ----------
    data
        The confidential data: what ``open_source`` or ``open_commutes`` gives, or with ``schema`` whatever they open: a
        file, a pandas or polars frame.
    schema
        The public schema (of linked tables for households, places for commutes), if the data are not opened yet.
    reading
        How the data are to be read, as in ``open_source``, if they are not opened yet.
    budget
        The guarantee of the whole release, copies and strata included.
    method
        The method of synthesis; by default ``auto``, and ``commute`` for commutes.
    unit
        Who is protected: ``replace``, ``add_remove`` or a ``Unit``. The default is ``replace``. For linked tables also
        ``household`` (the same as ``replace``) and ``person``.
    copies
        How many synthetic tables. For measured methods copies share one set of noisy measurements and cost nothing
        more; for ``dirichlet`` and ``commute`` each is a fresh draw, and the budget is split.
    rows
        Rows of each synthetic table; by default the method chooses. ``"population"``, for a schema with a survey weight
        and the public size of the population: what is returned has one row for each person of the population and no
        weight, as ``understudy.population`` draws it. A folder in ``out`` has the release with the weights, whose noisy
        tables ``infer`` needs.
    ledger
        The file of the ledger that the run is charged to.
    account
        The name of the account in the ledger.
    plan
        A reviewed plan. It settles budget, method, unit, copies, rows and options.
    out
        Write the release into this new folder. The run can then be resumed if it dies.
    overwrite
        Replace an earlier release in ``out``.
    csv
        Write CSV files too.
    stream
        A stream with a seed, for tests. The release then has no guarantee and says so.
    progress
        Called while it works, with what is done and what there is to do.
    i_know
        Allow a budget that protects next to nobody; see ``plan``.
    must
        What must be answerable, for tables: questions such as ``crosstab(sex, age)``, ``smokes ~ age + sex`` or
        ``predict(income)``, as a list or as a text with one on each line. They come on top of what the schema asks for.
    **options
        Options of the method, as ``understudy methods NAME`` lists them.

    Returns
    -------
    Release, CommuteRelease or HouseholdRelease
        The release: a ``CommuteRelease`` for commutes, a ``HouseholdRelease`` for linked tables, otherwise a
        ``Release``.

    Raises
    ------
    InputError
        If there is neither a budget nor a plan, or both; or if the data do not fit the schema. Nothing is charged then.
    BudgetError
        If the account does not allow the run. Nothing is charged or drawn then.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people, public = make_people(500), small_schema()
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, schema=public, budget=us.PureDP(epsilon=1), method="independent", rows=100)
    >>> release.frame().num_rows, str(release.statement.guarantee)
    (100, 'pure differential privacy (epsilon = 1)')
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.population import population, population_size
    from understudy.release.run import Destination, start_run

    domain = _domain(data, schema, reading)
    people = None
    if rows == "population":
        people, rows = population_size(domain), None
    asked = {"budget": budget, "method": method, "unit": unit, "copies": copies, "rows": rows, "must": must, **options}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    destination = Destination(
        out=None if out is None else as_path(out, "the release folder"),
        overwrite=overwrite,
        csv=csv,
        ledger=None if ledger is None else as_path(ledger, "the ledger"),
        account=account,
    )
    stream = stream or SecureStream()
    agreed, source = plan, data
    if agreed is None:
        if budget is None:
            raise InputError("say how much may be spent (budget), for example PureDP(epsilon=1).")
        agreed = make_plan(domain, i_know=i_know, **given)  # what it refuses is refused before the data are opened
        if schema is not None:
            source = _opened(data, domain, {"unit_id": agreed.unit.unit_id, **(reading or {})})
        allowed = partial(_require_room, destination, agreed, stream)
        if (records := _public_records(source, domain, method, agreed.unit, allowed)) is not None:
            agreed = make_plan(domain, i_know=i_know, records=records, **given)
    elif not isinstance(agreed, Plan):
        raise InputError("plan must be a plan: us.plan makes one, us.read_plan reads one from a file.")
    elif given:
        raise InputError(f"a plan settles everything; leave out {', '.join(sorted(given))}.")
    elif schema is not None:
        source = _opened(data, domain, {"unit_id": agreed.unit.unit_id, **(reading or {})})
    if ledger is None:
        warnings.warn(
            "no ledger is given: what this run spends is not tracked across runs.", UntrackedWarning, stacklevel=2
        )
    how: dict[str, Any] = {"stream": stream, "progress": progress, "reviewed": plan is not None}
    release: Release | CommuteRelease | HouseholdRelease = start_run(source, agreed, destination, i_know=i_know, **how)
    return release if people is None else population(release, rows=people, stream=stream)  # type: ignore[arg-type]


def _domain(data: Any, schema: Any, reading: Mapping[str, Any] | None) -> Any:
    """What is public about the data: the schema or places given, or those of a source."""
    from understudy.release.kind import kind_of_domain, kind_of_source

    try:
        own = kind_of_source(data).domain_of(data)
    except AttributeError:  # a file, or a frame
        own = None
    if kind_of_domain(own) is not None:  # an Arrow table has another schema
        if schema is not None or reading:
            raise InputError("these data were opened already; leave schema and reading out.")
        return own
    if reading is not None and not isinstance(reading, Mapping):
        raise InputError('reading must be a mapping of options of open_source, such as {"missing_text": "NA"}.')
    if schema is not None and kind_of_domain(schema) is None:
        raise InputError(
            f"schema (a value of type {type(schema).__name__}) must be a schema that was read: "
            'synthesize(data, schema=read_schema("people.toml"), ...).'
        )
    if schema is None:
        raise InputError(
            f"these data ({type(data).__name__}) were not opened, so they need their schema: synthesize(data, "
            'schema=read_schema("people.toml"), ...).'
        )
    return schema


def _public_records(
    source: Any, domain: Any, method: str | None, unit: Unit, allowed: Callable[[], None]
) -> int | None:
    """How many records there are, for the plan of this very run, where the method uses it and the unit makes it public.

    ``allowed`` raises what would refuse the run before the data are touched.
    """
    from understudy.release.kind import kind_of_domain

    kind = kind_of_domain(domain)
    if kind is None or not kind.plans_by_records(method, unit):
        return None
    allowed()
    return int(source.total()) or None  # an empty table is refused later, by name


def _require_room(destination: Destination, plan: Plan, stream: Stream) -> None:
    """Refuses what the folder or the ledger would refuse."""
    from understudy.release.run import open_ledger

    destination.check_free()
    open_ledger(destination, unit=plan.unit, cost=plan.budget, stream=stream)


def _opened(data: Any, domain: Any, reading: Mapping[str, Any]) -> Any:
    from understudy.release.kind import kind_of_domain

    kind = kind_of_domain(domain)
    assert kind is not None  # noqa: S101 - seen in _domain
    return kind.open(data, domain, **reading)


def verify(release: AnyRelease | str | Path, *, key: str | Path | None = None) -> tuple[Check, ...]:
    """Check a release: its files and hashes, that the recorded events add up to the stated guarantee, its signature.

    Parameters
    ----------
    release
        The release folder, or a release in memory, which is checked as it would be written.
    key
        The file of a public key. A release without a signature then fails.

    Returns
    -------
    tuple[Check, ...]
        The checks. All must pass.

    Raises
    ------
    InputError
        If the folder is no release folder, or a key is given for a release in memory, which has no signature.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(make_people(500), schema=small_schema(), budget=us.PureDP(epsilon=1))
    >>> all(check.passed for check in us.verify(release))
    True
    """
    from understudy.release.checks import verify as verify_folder
    from understudy.release.kind import kind_of_release

    if isinstance(release, str | Path) or kind_of_release(release) is None:
        return verify_folder(release, key=key)  # type: ignore[arg-type]  # which refuses what is no folder
    if key is not None:
        raise InputError("a release in memory has no signature; write it, sign it, and give its folder.")
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        return verify_folder(release.write(Path(folder) / "release"))


def require_replaceable(folder: Path) -> None:
    """Refuses to have a folder replaced that holds anything but a release."""
    from understudy.release.folder import require_replaceable as require

    require(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedByRun:
    """What the folder of a run that died says about it."""

    out: Path | None
    unit_id: str | None


def stated_by_run(run: str | Path) -> StatedByRun:
    """Where a run was to write its release, and the column that identifies its unit."""
    from understudy.privacy.gate.journal import Journal

    header = Journal.open(Path(run)).header
    try:
        out, unit_id = header["destination"]["out"], header["plan"]["unit"]["unit_id"]
    except (KeyError, TypeError):
        raise InputError(f"{run} is not the folder of a run of understudy.") from None
    return StatedByRun(out=None if out is None else Path(out), unit_id=unit_id)


def resume(
    run: str | Path,
    *,
    source: Any = None,
    places: Any = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Release | CommuteRelease:
    """Finish a run that died after its charge, from its run folder (``...partial-...``).

    If everything was measured, neither data nor budget are needed. Otherwise give the same data again, read in the same
    way.

    Parameters
    ----------
    run
        The run folder.
    source
        The same data again.
    places
        The same places again, for a run of commutes.
    out
        Where the release goes; by default where the run was to write it.
    progress
        Called while it works, with what is done and what there is to do.
    **reading
        How the data are to be read, as in ``open_source``.

    Returns
    -------
    Release or CommuteRelease
        The release.

    Raises
    ------
    InputError
        If the folder is not that of a run, or the data are not the same.
    BudgetError
        If the ledger does not have the charge of the run.

    Examples
    --------
    >>> resume("no-such-run")     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.InputError: ...no-such-run is not the folder of a run ...
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.run import resume_run

    release: Release | CommuteRelease = resume_run(
        as_path(run, "the run"),
        source=source,
        domain=places,
        out=None if out is None else Path(out),
        stream=SecureStream(),
        progress=progress,
        **reading,
    )
    return release


def sample(release: Release, *, rows: int, copies: int = 1) -> Release:
    """Draw more rows from a release's own measurements, without the data and at no cost.

    Parameters
    ----------
    release
        A release whose model or noisy tables are public.
    rows
        Rows of each new table; of a release of households, how many households.
    copies
        How many tables.

    Returns
    -------
    Release
        The larger release, with the same promise.

    Raises
    ------
    UnsupportedError
        If the rows were drawn from the data themselves (``dirichlet``). Another draw would then be another charge.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="independent")
    >>> us.sample(release, rows=2000).frame().num_rows
    2000
    """
    from understudy.privacy.randomness.streams import SecureStream
    from understudy.release.kind import kind_of_release
    from understudy.release.table_release import require_table

    kind = kind_of_release(release)
    if kind is None:
        return require_table(release, "sample")  # says what is wrong with it
    larger: Release = kind.sample_again(release, rows=rows, copies=copies, stream=SecureStream())
    return larger


def write_sample(
    release: AnyRelease,
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
    """Draw more rows like ``sample``, and write them block by block as a release folder. Memory does not grow with the
    rows.

    Parameters
    ----------
    release
        A release whose model or noisy tables are public.
    out
        The new release folder.
    rows
        Rows of each new table.
    copies
        How many tables.
    engine
        What draws: ``local`` (the default) or ``spark``, whose executors write in parts into a folder that every
        machine sees.
    master
        Where Spark is (``local[*]``, ``spark://host:7077``); left out in a running session and under spark-submit.
    allow_insecure_cluster
        Let keys and rows travel over a cluster without encryption.
    overwrite
        Replace an earlier release in ``out``.
    csv
        Write CSV files too; not with Spark.

    Returns
    -------
    Path
        Where the folder is.

    Raises
    ------
    UnknownNameError
        If there is no such engine.
    InputError
        If options do not go with the engine, or the folder cannot be written.

    Examples
    --------
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
    from understudy.release.kind import kind_of_release
    from understudy.release.sampling import sample_to

    if engine not in (None, DEFAULT_ENGINE, "spark"):
        raise unknown_name("engine", str(engine), (DEFAULT_ENGINE, "spark"))
    kind = kind_of_release(release)
    if kind is not None and not kind.draws_in_blocks and engine != "spark":
        larger = kind.sample_again(release, rows=rows, copies=copies, stream=SecureStream())
        return Path(larger.write(out, overwrite=overwrite, csv=csv))
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


# The verb that checks a ledger; everything else about ledgers is a method of ``Ledger``.


def verify_ledger(ledger: str | Path, *, against: str | Path | None = None) -> Verification:
    """Compute the chain of entries again; with a release also that its charge is still there, and for what it says.

    Parameters
    ----------
    ledger
        The ledger file.
    against
        The folder of a release that was charged to it.

    Returns
    -------
    Verification
        Whether the ledger is in order, its entries, its head, and what is wrong.

    Raises
    ------
    InputError
        If the file is no ledger, or the release was made without one.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> file = tempfile.mkdtemp() + "/budget.db"
    >>> _ = us.Ledger.create(file)
    >>> us.verify_ledger(file).ok
    True
    """
    from understudy.privacy.ledger.ledger import Ledger
    from understudy.release import read_release
    from understudy.release.checks import charges_are_there

    opened = Ledger.open(ledger, writable=False)
    return opened.verify() if against is None else charges_are_there(opened, read_release(against), str(against))
