"""Verbs that judge a release against the confidential data, and write down what they found. All of it is internal."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.arrays import Progress
from understudy.core.folders import as_path, output_path, publish_folder, release_above
from understudy.core.result import INTERNAL, PARTS, WAYS, Evaluation, EvaluationRequest, Finding, Section, ShownTable
from understudy.core.schema import Schema
from understudy.engines.opening import open_source
from understudy.errors import DisclosureError, InputError, unknown_name

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease


def evaluate(
    release: AnyRelease,
    confidential: Any,
    *,
    holdout: Any = None,
    models: Sequence[str] = (),
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    ways: Sequence[int] = WAYS,
    parts: Sequence[str] = PARTS,
    thorough: bool = False,
    progress: Progress | None = None,
    finished: Callable[[str, Section], None] | None = None,
) -> Evaluation:
    """Measure how useful and how risky a release is, against the confidential data. The findings are internal.

    Without a holdout the plan of the release is run again on random halves of the data, charged to nobody, to tell what
    an intruder gains because somebody took part. A commuting release is compared by distances, flows and jobs; there is
    no risk part.

    Parameters
    ----------
    release
        The release: read by ``read_release``, or anybody's table in ``wrap``.
    confidential
        The confidential data: a source, or whatever ``open_source`` (for commutes ``open_commutes``) opens.
    holdout
        People of the same population who were not used, as a control for attacks.
    models
        Regressions whose coefficients are compared, such as ``income ~ age + sex``.
    keys
        Attributes that an intruder knows; by default all but the target.
    targets
        Attributes that an intruder wants to know; by default each attribute.
    ways
        How many attributes the compared tables have.
    parts
        ``utility``, ``risk`` or both; what is left out is empty.
    thorough
        Whether more people are attacked, and the plan of the release may be run again for 450 CPU seconds. Otherwise it
        is run again for at most 30 CPU seconds.
    progress
        Called while it works, with what is done and what there is to do.
    finished
        Called with the name of each measure and attack and what it found, as soon as it is finished.

    Returns
    -------
    Evaluation
        Findings and tables about utility and risk.

    Raises
    ------
    InputError
        If an argument is not what it should be, or does not go with a release of commutes.
    UnknownNameError
        If a part is unknown.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> copied = us.wrap(make_people(500).select(list(small_schema().names)), small_schema())
    >>> result = us.evaluate(copied, people, parts=["utility"], ways=[2])
    >>> [row["mean_s_pmse"] for row in result.utility.frames["ways"].to_pylist()]     # a copy differs in nothing
    [0.0]
    """
    from understudy.release.kind import kind_of_release

    for name, values in (("models", models), ("keys", keys), ("targets", targets), ("ways", ways), ("parts", parts)):
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InputError(f"{name} must be a list, even with a single entry.")
    for part in parts:
        if part not in PARTS:
            raise unknown_name("part of an evaluation", part, PARTS)
    kind = kind_of_release(release)
    if kind is None:
        raise InputError("evaluate needs a release: read one with read_release, or wrap a synthetic table.")
    asked = EvaluationRequest(
        holdout=holdout,
        models=models,
        keys=keys,
        targets=targets,
        ways=ways,
        parts=parts,
        thorough=thorough,
        progress=progress,
        finished=finished,
    )
    return kind.evaluate(release, confidential, asked)


def attack(
    release: AnyRelease,
    confidential: Any,
    *,
    holdout: Any = None,
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    only: Sequence[str] | None = None,
    beside: Sequence[str] = (),
    rank_weights: Mapping[str, float] | None = None,
    thorough: bool = False,
    progress: Progress | None = None,
    finished: Callable[[str, Section], None] | None = None,
) -> Section:
    """Attack a release, with the confidential data to score the attacks: the risk part of ``evaluate``, or some of it.

    Parameters
    ----------
    release
        The release that is attacked.
    confidential
        The data it was made from: a source, or whatever ``open_source`` opens.
    holdout
        People of the same population who were not used, as a control.
    keys, targets
        What an intruder knows of a person, and wants to learn. By default each attribute is a target once.
    only
        The names of the attacks to play; all of them by default.
    beside
        Other protections, set to about the same utility and attacked in the same way: ``noise``, ``swap``, ``pram``,
        ``microaggregation``, ``ipf``. The table ``beside`` and its figure compare them with the release.
    rank_weights
        How much attributes count where records are linked by ranks, by name; those not named count 1.
    thorough
        Whether more people are attacked, and the plan of the release may be run again for 450 CPU seconds.
    progress
        Called while it works, with what is done and what there is to do.
    finished
        Called with the name of each attack and what it found, as soon as it is finished.

    Returns
    -------
    Section
        Findings, and tables: ``first_screen`` (three sentences), ``person_part`` (what an intruder gains because
        somebody took part) and ``attacks`` (success, baseline, control, residual risk), among others. Internal.

    Raises
    ------
    InputError
        If the release has no table of people, or an attack of ``only`` needs what was not given.
    UnknownNameError
        If a name of ``only`` or ``beside`` is unknown.
    UnsupportedError
        If ``ipf`` cannot be put beside this release.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(300), small_schema())
    >>> copied = us.wrap(make_people(300).select(list(small_schema().names)), small_schema())
    >>> found = us.attack(copied, people, keys=["sex", "age"], targets=["smokes"], only=["matching"])
    >>> found.frames["attacks"].num_rows > 0
    True
    """
    from understudy.evaluation.inputs.comparison import compare
    from understudy.evaluation.inputs.records import with_nulls
    from understudy.evaluation.other_protections import IPF, chosen_protections, compare_beside, margins_of_ipf
    from understudy.evaluation.risk import chosen_attacks, evaluate_risk
    from understudy.evaluation.shared.results import part_of
    from understudy.kinds.tables import opened
    from understudy.release.refitting import refitting, synthesizing
    from understudy.release.table_release import require_table

    chosen_attacks(only)  # an unknown name is refused before anything is read
    others = chosen_protections(beside)
    made = require_table(release, "attack")
    comparison = compare(
        made,
        opened(confidential, made.schema),
        holdout=None if holdout is None else opened(holdout, made.schema),
        keys=keys,
        targets=targets,
        thorough=thorough,
        rank_weights=rank_weights,
        finished=finished,
        **refitting(made),
    )
    synthesize = None
    if IPF in others:  # or a refusal, before the work
        rows = with_nulls(comparison.original, comparison.original_rows)
        synthesize = synthesizing(rows, made.schema, IPF, {"margins": margins_of_ipf(comparison)[0]})
    if not others:
        return evaluate_risk(comparison, only=only, progress=progress)
    section = evaluate_risk(comparison, only=only, progress=part_of(progress, 0.0, 0.5))
    compared = compare_beside(comparison, others, synthesize, progress=part_of(progress, 0.5, 1.0))
    return Section(findings=(*section.findings, *compared.findings), frames={**section.frames, **compared.frames})


def compare_evaluations(results: Sequence[tuple[str, AnyRelease, Evaluation]]) -> dict[str, Any]:
    """Compare several evaluated releases of the same data, by epsilon.

    Parameters
    ----------
    results
        A name, the release and its evaluation, for each release.

    Returns
    -------
    dict
        Arrow tables by name: ``tradeoff`` (utility against epsilon) and, where all were attacked, ``risk_by_epsilon``.
        Empty for fewer than two releases, where they are not of one kind, and for commutes.

    Examples
    --------
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(300), small_schema())
    >>> copied = us.wrap(make_people(300).select(list(small_schema().names)), small_schema())
    >>> judged = us.evaluate(copied, people, parts=["utility"], ways=[2])
    >>> list(us.compare_evaluations([("first", copied, judged), ("second", copied, judged)]))
    ['tradeoff']
    """
    from understudy.release.kind import kind_of_release

    found = [kind_of_release(release) for _, release, _ in results]
    kind = found[0] if found else None
    if kind is None or len(results) < 2 or any(one is None or one.name != kind.name for one in found):
        return {}
    return kind.compared(results)


def synthetic_table(data: Any, schema: Schema, **reading: Any) -> Any:
    """Rows of anybody's synthetic table as an Arrow table, read by the schema, for ``wrap``.

    Impossible combinations are let through: an evaluation counts them.
    """
    from understudy.evaluation.inputs.records import with_nulls

    source: Any = open_source(data, schema.without_rules, **reading)
    return with_nulls(*source.confidential_table())


def read_synthetic(path: str | Path, schema: Schema | None = None, **reading: Any) -> AnyRelease:
    """Read the release in a folder, or a file with anybody's synthetic rows as a release.

    Parameters
    ----------
    path
        A release folder, or a file with synthetic rows.
    schema
        The public schema of the rows in a file. A release folder holds its own.
    **reading
        How the file is written, as for ``open_source``.

    Returns
    -------
    AnyRelease
        The release.

    Raises
    ------
    InputError
        If a file comes without a schema, or a folder with another schema than its own.

    Examples
    --------
    >>> read_synthetic("rows.csv")     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.InputError: rows.csv is not a release folder; to evaluate a file with synthetic rows ...
    """
    from understudy.release import read_release, wrap
    from understudy.release.kind import kind_of_release

    place = as_path(path, "the release")
    if place.is_dir():
        release: AnyRelease = read_release(place)
        kind = kind_of_release(release)
        own = None if kind is None else kind.domain_of(release).fingerprint
        if schema is not None and schema.fingerprint != own:
            raise InputError(f"--schema is not the schema of {path}; leave it out to use the release's own.")
        return release
    if schema is None:
        raise InputError(
            f"{path} is not a release folder; to evaluate a file with synthetic rows give its --schema too."
        )
    return wrap(synthetic_table(str(path), schema, **reading), schema)


def open_for(release: AnyRelease, data: Any, **reading: Any) -> Any:
    """The confidential data a release is compared with, opened as its kind asks for."""
    from understudy.release.kind import kind_of_release

    kind = kind_of_release(release)
    if kind is None:
        raise InputError("data are opened for a release: read one with read_release, or wrap a synthetic table.")
    return kind.open(data, kind.domain_of(release), **reading)


def shown_tables(release: AnyRelease) -> tuple[ShownTable, ...]:
    """The tables of an evaluation of this release that a screen shows, in this order."""
    from understudy.release.kind import kind_of_release

    kind = kind_of_release(release)
    return () if kind is None else kind.shown


def check_protections(names: Sequence[str]) -> None:
    """Refuse an unknown protection, before anything is read."""
    from understudy.evaluation.other_protections import chosen_protections

    chosen_protections(names)


def check_evaluation_target(out: str | Path) -> Path:
    """Where an evaluation may be written, before anything is computed: a new folder, outside every release.

    A release holds nothing that was computed from confidential data.
    """
    inside = release_above(Path(out))
    if inside is not None:
        raise DisclosureError(
            f"{out} lies in the release folder {inside}; an evaluation is internal. Choose a folder outside."
        )
    target = output_path(out)
    if target.exists():
        raise InputError(f"{target} already exists; choose another folder.")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: the folder {target.parent} does not exist; create it first.")
    return target


UNFINISHED = ".unfinished"


def write_finished(out: Path, name: str, section: Section) -> Path:
    """Write what one measure or attack found, while the whole evaluation is still at work.

    The folder has the name of the evaluation's folder with ``.unfinished`` behind it, and lies beside it. Only its
    owner can read it. Files of an
    earlier run that was stopped are replaced; a folder that is not ours is refused.
    """
    place = out.with_name(out.name + UNFINISHED)
    mark = place / "README.txt"
    if place.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8").startswith(INTERNAL)):
        raise InputError(
            f"{place} is in the way. Results are kept there until the evaluation is complete. Move it elsewhere."
        )
    place.mkdir(mode=0o700, exist_ok=True)
    write_internal(place)
    folder = place / name
    folder.mkdir(mode=0o700, exist_ok=True, parents=True)
    write_findings(section.findings, folder)
    write_frames(section.frames, folder)
    return place


def forget_finished(out: Path) -> None:
    """Remove what ``write_finished`` wrote, after the whole evaluation was written."""
    place = out.with_name(out.name + UNFINISHED)
    mark = place / "README.txt"
    if mark.is_file() and mark.read_text(encoding="utf-8").startswith(INTERNAL):
        shutil.rmtree(place)


def write_evaluation(
    evaluations: Evaluation | Mapping[str, Evaluation], out: str | Path, *, together: Mapping[str, Any] | None = None
) -> Path:
    """Write all tables (CSV), findings and figures (SVG) of evaluations into a new folder that is marked internal.

    Parameters
    ----------
    evaluations
        One evaluation, or several by the name of their release: each then gets a folder of its own.
    out
        The folder, which must not exist and must not lie in a release.
    together
        What ``compare_evaluations`` gave.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DisclosureError
        If the folder lies in a release.
    InputError
        If it exists or cannot be made.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> made = us.write_evaluation(us.Evaluation(), tempfile.mkdtemp() + "/evaluation")
    >>> sorted(file.name for file in made.iterdir())
    ['README.txt', 'findings.csv']
    """

    several = evaluations.values() if isinstance(evaluations, Mapping) else (evaluations,)
    if not all(isinstance(one, Evaluation) for one in several):
        raise InputError("write_evaluation needs what evaluate gives: one evaluation, or several by name.")

    def fill(place: Path) -> None:
        write_internal(place)
        if isinstance(evaluations, Evaluation):
            _write_one(place, evaluations)
        else:
            for name, evaluation in evaluations.items():
                _write_one(place / name, evaluation)
        write_frames(together or {}, place)
        draw_frames(together or {}, place)

    target = check_evaluation_target(out)
    publish_folder(target, fill, private=True)
    return target


def write_attack(section: Section, out: str | Path) -> Path:
    """Write what ``attack`` found as ``write_evaluation`` does; every table lies in the folder itself."""

    def fill(place: Path) -> None:
        write_internal(place)
        write_findings(section.findings, place)
        write_frames(section.frames, place)
        draw_frames(section.frames, place / "figures")

    target = check_evaluation_target(out)
    publish_folder(target, fill, private=True)
    return target


def _write_one(place: Path, evaluation: Evaluation) -> None:
    place.mkdir(exist_ok=True)
    write_findings(evaluation.findings, place)
    write_frames(evaluation.utility.frames, place / "utility")
    write_frames(evaluation.risk.frames, place / "risk")
    draw_frames({**evaluation.risk.frames, **evaluation.utility.frames}, place / "figures")


def write_internal(place: Path) -> None:
    """The mark that every folder of internal results has."""
    (place / "README.txt").write_text(f"{INTERNAL}.\n", encoding="utf-8")


def write_findings(findings: Iterable[Finding], place: Path) -> None:
    """All findings as a CSV file."""
    import pyarrow as pa

    from understudy.release.csv_file import write_csv

    write_csv(pa.Table.from_pylist([finding_row(finding) for finding in findings]), place / "findings.csv")


def finding_row(finding: Finding) -> dict[str, Any]:
    """A finding as a line of a table."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "value": None if finding.value is None else str(finding.value),
        "audience": finding.audience,
        "reference": finding.reference,
    }


def write_frames(frames: Mapping[str, Any], place: Path) -> None:
    """Write every table that has columns as CSV. The folder is made only if there is such a table."""
    from understudy.release.csv_file import write_csv

    for title, frame in frames.items():
        if frame.num_columns:
            place.mkdir(exist_ok=True)
            write_csv(frame, place / f"{title}.csv")


def draw_frames(frames: Mapping[str, Any], place: Path) -> None:
    """Every figure that these tables allow, as SVG; without matplotlib a warning says that they were left out."""
    import importlib.util

    from understudy.figures.evaluation_figure import drawable, figures

    names = drawable(frames)
    if names and importlib.util.find_spec("matplotlib") is None:
        warnings.warn(
            "figures were left out, they need matplotlib; install it with: pip install 'understudy[report]'",
            stacklevel=2,
        )
        return
    if names:
        place.mkdir(exist_ok=True)
    for name in names:
        figures[name](frames).save(place / f"{name}.svg")
