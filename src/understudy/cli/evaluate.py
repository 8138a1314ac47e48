"""Commands that measure a release against the confidential data, and attack it before an intruder does.

What they print and write is internal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.api import UNFINISHED, finding_row, forget_finished, write_finished
from understudy.cli.bundles import Reading, bundled
from understudy.cli.failures import was_interrupted
from understudy.cli.options import (
    AsJson,
    Confidential,
    Details,
    Holdout,
    Keys,
    Models,
    OneRelease,
    ReleaseSchema,
    Targets,
    Thorough,
    files_of,
    read_names,
)
from understudy.cli.output import print_json, say, show_table, working
from understudy.core.result import INTERNAL, Evaluation, Section
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease

    Evaluated = tuple[str, AnyRelease, Evaluation]

SHOWN = 8
IN_SHORT = 3


@bundled
def evaluate(
    *,
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE",
            help="Release folders, or (with --schema) files with anybody's synthetic table.",
            show_default=False,
        ),
    ],
    confidential: Confidential,
    schema: ReleaseSchema = None,
    holdout: Holdout = None,
    model: Models = None,
    keys: Keys = "",
    targets: Targets = "",
    ways: Annotated[str, typer.Option(metavar="1,2,3", help="How many attributes the tables have.")] = "1,2,3",
    part: Annotated[
        list[str] | None, typer.Option(metavar="|".join(api.PARTS), help="Only this part.", show_default="both")
    ] = None,
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for all tables (CSV) and figures (SVG); never in a release.")
    ] = None,
    thorough: Thorough = False,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Measure how useful and how risky a release is, against the confidential data. Keep the result inside.

    Example: `understudy evaluate release/ --confidential people.parquet --model "income ~ age + sex" --out evaluation/`

    Several releases of the same data are compared by epsilon. The data are read by the schema of the release.
    """
    folder = None if out is None else api.check_evaluation_target(out)
    how = reading.options()
    named = _named(releases)
    public = None if schema is None else us.read_schema(schema)
    results: list[Evaluated] = []
    with kept_when_stopped(folder) as finished:
        for name, path in named.items():
            release = us.read_synthetic(path, public, **how)
            with working(f"evaluating {name}") as progress:
                people = _opened(release, confidential, how)
                others = _opened(release, holdout, how) if holdout else None
                evaluation = us.evaluate(
                    release,
                    people,
                    holdout=others,
                    models=model or (),
                    keys=read_names(keys),
                    targets=read_names(targets),
                    ways=read_ways(ways),
                    parts=part or api.PARTS,
                    thorough=thorough,
                    progress=progress,
                    finished=finished if len(named) == 1 else partial(_of, name, finished),
                )
            results.append((name, release, evaluation))
        together = us.compare_evaluations(results)
        if folder is not None:
            with working("writing"):
                judged = {name: evaluation for name, _, evaluation in results}
                us.write_evaluation(results[0][2] if len(results) == 1 else judged, folder, together=together)
    if as_json:
        documents = [document(name, evaluation) for name, _, evaluation in results]
        compared = {name: plain_rows(frame) for name, frame in together.items()}
        print_json({"releases": documents, **compared} if compared else documents[0])
        return
    say(INTERNAL, style="bold red")
    for name, release, evaluation in results:
        if details:
            show_evaluation(name, release, evaluation)
        elif len(results) == 1:
            show_in_short(name, release, evaluation, written=folder is not None)
        else:
            first = evaluation.risk.frames.get("first_screen")
            for row in [] if first is None else first.to_pylist()[:1]:
                say(f"{name}. {row['title']}: {row['sentence']}")
    if "tradeoff" in together:
        columns = ("release", "guarantee", "epsilon", "s_pmse_2", "s_pmse_3", "k_marginal_2", "k_marginal_3")
        _show_frame("Utility against epsilon", together["tradeoff"], columns, len(results))
    if folder is not None:
        say(f"All tables and figures are in {folder}")


def _of(release: str, finished: Callable[[str, Section], None], name: str, section: Section) -> None:
    finished(f"{release}/{name}", section)


def _opened(release: AnyRelease, files: Sequence[str], how: Mapping[str, Any]) -> Any:
    return api.open_for(release, files_of(files), **how)


def _named(releases: Sequence[Path]) -> dict[str, Path]:
    names = [path.resolve().name if path.is_dir() else path.stem for path in releases]
    if len(set(names)) < len(names):
        names = [f"{number}_{name}" for number, name in enumerate(names, start=1)]
    return dict(zip(names, releases, strict=True))


def read_ways(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 3 for part in parts):
        raise InputError(f"--ways ({text!r}) must be whole numbers such as 1,2,3.")
    return tuple(int(part) for part in parts)


def show_in_short(name: str, release: AnyRelease, evaluation: Evaluation, *, written: bool) -> None:
    """One screen: how useful, the three sentences about risk, what warns. The rest is in files and with --details."""
    utility, risk = evaluation.utility, evaluation.risk
    say(f"\n{name}: how useful", style="bold")
    for table in api.shown_tables(release):
        if table.in_short and table.name in utility.frames:
            _show_frame(table.heading, utility.frames[table.name], table.columns, IN_SHORT)
    for line in _useful(utility)[: 2 * IN_SHORT]:
        say(line)
    show_first_screen(risk, most=IN_SHORT)
    warned = [one for one in (*risk.findings, *utility.findings) if one.severity in ("problem", "warning")]
    for finding in sorted(warned, key=lambda one: one.severity)[:IN_SHORT]:
        say(f"{finding.severity}: {finding.title}")
    left = len(warned) - IN_SHORT
    rest = f"{left} more warnings, and all" if left > 0 else "All"
    say(f"{rest} tables and findings: --details{'' if written else ', or --out FOLDER'}.")


def _useful(utility: Section) -> list[str]:
    lines = [
        f"Tables of {row['way']} {'attribute' if row['way'] == 1 else 'attributes'}: {row['good']:,} good, "
        f"{row['usable']:,} usable, {row['poor']:,} poor; "
        f"mean S_pMSE {row['mean_s_pmse']:.3g} (1 is a correct model, below 10 good), worst {row['worst_table']} "
        f"({row['worst_s_pmse']:.3g})"
        for row in (utility.frames["ways"].to_pylist() if "ways" in utility.frames else ())
    ]
    models = utility.frames["regression_models"].to_pylist() if "regression_models" in utility.frames else ()
    return lines + [
        f"Regression {row['model']}: mean overlap of intervals {row['mean_overlap']:.3g} (1 is the same)"
        for row in models
        if row["mean_overlap"] is not None
    ]


def show_evaluation(name: str, release: AnyRelease, evaluation: Evaluation) -> None:
    """All telling tables of an evaluation, and its findings."""
    utility = evaluation.utility
    whose = f"{name}: "  # said once, above the first table
    for table in api.shown_tables(release):
        frame = utility.frames.get(table.name)
        if frame is not None and frame.num_rows:
            frame = frame.sort_by([(table.worst, "descending")]) if table.worst else frame
            _show_frame(f"{whose}{table.heading}", frame, table.columns, SHOWN)
            whose = ""
    show_first_screen(evaluation.risk, most=20)
    for heading, section in (("Utility: findings", utility), ("Risk: findings", evaluation.risk)):
        show_findings(heading, section)
    if "omissions" in utility.frames:
        _show_frame("Not computed", utility.frames["omissions"], ("measure", "what", "reason"), 2 * SHOWN)


def _show_frame(heading: str, frame: Any, columns: Sequence[str], most: int) -> None:
    rows = frame.select(list(columns)).to_pylist()
    right = [name for name in columns if any(isinstance(row[name], int | float) for row in rows)]
    more = f" (first {most} of {len(rows)})" if len(rows) > most else ""
    show_table(f"{heading}{more}", columns, [tuple(row.values()) for row in rows[:most]], right=right)


ATTACKS_SHOWN = 20
COLUMNS = (
    "attack",
    "subject",
    "guesses",
    "success",
    "baseline",
    "control",
    "residual",
    "residual_low",
    "residual_high",
)


@bundled
def attack(
    *,
    release: OneRelease,
    confidential: Confidential,
    schema: ReleaseSchema = None,
    holdout: Holdout = None,
    keys: Keys = "",
    targets: Targets = "",
    only: Annotated[str, typer.Option(metavar="ATTACK,...", help="Only these attacks.", show_default="all")] = "",
    beside: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Other protections of similar utility, attacked alike: noise, swap, pram, microaggregation, ipf.",
            show_default="none",
        ),
    ] = "",
    rank_weights: Annotated[
        str,
        typer.Option(
            metavar="NAME=WEIGHT,...", help="How much attributes count in links by ranks.", show_default="1 for each"
        ),
    ] = "",
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for all tables (CSV) and figures (SVG); never in a release.")
    ] = None,
    thorough: Thorough = False,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Attack a release with the confidential data in hand: who and what is at risk. Keep the result inside.

    Example: `understudy attack release/ --confidential people.parquet --keys region,sex,age --targets income`

    What counts is what an intruder gains because somebody took part. It is measured on a holdout, or by running the
    plan of the release again on random halves of the data, inside and charged to nobody.
    """
    folder = None if out is None else api.check_evaluation_target(out)
    api.check_protections(read_names(beside))
    how = reading.options()
    made = us.read_synthetic(release, None if schema is None else us.read_schema(schema), **how)
    weights = read_weights(rank_weights)
    with kept_when_stopped(folder) as finished, working("attacking") as progress:
        section = us.attack(
            made,
            api.open_for(made, files_of(confidential), **how),
            holdout=api.open_for(made, files_of(holdout), **how) if holdout else None,
            keys=read_names(keys),
            targets=read_names(targets),
            only=read_names(only) or None,
            beside=read_names(beside),
            rank_weights=weights,
            thorough=thorough,
            progress=progress,
            finished=finished,
        )
        if folder is not None:
            api.write_attack(section, folder)
    if as_json:
        whole = document(release.resolve().name, Evaluation(risk=section))
        print_json({"audience": whole["audience"], "release": whole["release"], **whole["risk"]})
        return
    say(INTERNAL, style="bold red")
    show_first_screen(section, most=ATTACKS_SHOWN)
    if beside:
        _show_beside(section, details=details)
    if details or only:
        _show(section)
    else:
        show_findings("Warnings", section, only=("problem", "warning"))
        say("--details shows the tables of all attacks under their names in the literature, and all findings.")
    if folder is not None:
        say(f"All tables and figures are in {folder}")


def read_weights(text: str) -> dict[str, float]:
    """Weights of attributes.

    >>> read_weights("income=2, age=0.5")
    {'income': 2.0, 'age': 0.5}
    """
    weights = {}
    for part in read_names(text):
        name, separator, value = part.rpartition("=")
        try:
            weights[name.strip()] = float(value)
        except ValueError:
            separator = ""
        if not separator or not name.strip():
            raise InputError(f"--rank-weights {part!r} must look like name=weight, such as income=2.")
    return weights


def _show_beside(section: Section, *, details: bool) -> None:
    """Each protection at like utility, and with details at every strength that was tried."""
    rows = [row for row in section.frames["beside"].to_pylist() if details or row["like_utility"] or row["note"]]
    names = ("method", "strength", "mean_s_pmse", "guessed_right", "own_record", "claims_right", "claims_false")
    shares = names[3:]
    show_table(
        f"Beside other protections, of 1,000 people (guessed: {rows[0]['targets']})",
        [name.replace("_", " ") for name in names],
        [
            tuple(
                None if row[name] is None else round(1000 * row[name]) if name in shares
                else f"{row[name]:.3g}" if isinstance(row[name], float) else row[name]
                for name in names
            )
            for row in rows
        ],
        right=[name.replace("_", " ") for name in names[1:]],
    )  # fmt: skip
    for note in dict.fromkeys(f"{row['method']}: {row['note']}." for row in rows if row["note"]):
        say(note)


def _show(section: Section) -> None:
    """The greatest residual risks first."""
    rows: list[dict[str, Any]] = section.frames["attacks"].to_pylist()
    rows.sort(key=lambda row: -row["residual_low"])
    more = f" (the greatest {ATTACKS_SHOWN} of {len(rows)})" if len(rows) > ATTACKS_SHOWN else ""
    if rows:
        show_table(
            f"Attacks: residual risk with its interval of 95%{more}",
            COLUMNS,
            [tuple(_shown(row, name) for name in COLUMNS) for row in rows[:ATTACKS_SHOWN]],
            right=COLUMNS[2:],
        )
    show_findings("Findings", section)


def _shown(row: dict[str, Any], name: str) -> Any:
    """A value of the table; where no guess could be made there is no rate."""
    value = row[name]
    if isinstance(value, float):
        return round(value, 3) if row["guesses"] else None
    return value


def document(name: str, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "audience": "internal",
        "release": name,
        **{
            part: {
                "findings": [{**finding_row(finding), "value": _plain(finding.value)} for finding in section.findings],
                "frames": {title: plain_rows(frame) for title, frame in section.frames.items()},
            }
            for part, section in (("utility", evaluation.utility), ("risk", evaluation.risk))
        },
    }


def plain_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as JSON can hold them."""
    return [{key: _plain(value) for key, value in row.items()} for row in frame.to_pylist()]


def _plain(value: Any) -> Any:
    """JSON has no NaN and no dates."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool | list) else str(value)


@contextmanager
def kept_when_stopped(folder: Path | None) -> Iterator[Callable[[str, Section], None]]:
    """Keeps what is finished: tables are written as they come, and Ctrl-C tells what there is.

    Tables go to a folder beside ``folder``, which is removed when the whole has been written there.
    """
    done: list[tuple[str, Section]] = []

    def finished(name: str, section: Section) -> None:
        if was_interrupted():  # this part took it for a failure of its own, and says that it could not be done
            raise KeyboardInterrupt
        done.append((name, section))
        if folder is not None:
            write_finished(folder, name, section)

    try:
        yield finished
    except BaseException as problem:
        # A library that is stopped in the middle may say so in an error of its own.
        if done and (isinstance(problem, KeyboardInterrupt) or was_interrupted()):
            say(INTERNAL, style="bold red")
            say(f"Stopped. Finished before: {', '.join(name.replace('_', ' ') for name, _ in done)}.")
            for _, section in done:
                for finding in section.findings:
                    if finding.severity in ("problem", "warning"):
                        say(f"{finding.severity}: {finding.title}")
            if folder is not None:
                say(f"Their tables are in {folder}{UNFINISHED}")
            else:
                say("Their tables are kept with --out FOLDER.")
        raise
    if folder is not None:
        forget_finished(folder)


LIGHTS = {"red": "red", "amber": "yellow", "green": "green"}
# Columns of the line of an attack, by headings so short that its words have room on a screen of 80 characters.
LINE = {
    "light": "light", "attack": "what an intruder tries", "in_the_data": "in", "not_in_the_data": "out", "more": "more",
    "most_allowed": "limit", "told_false": "false",
}  # fmt: skip
GROUPS = ("first", "second", "third")
DOTS = 50  # of 20 people each


def show_first_screen(section: Section, *, most: int) -> None:
    """Three sentences with small pictures, then a line for each attack in everyday words, the lights first."""
    if "first_screen" not in section.frames:
        return
    for row in section.frames["first_screen"].to_pylist():
        say(f"\n{row['title']}", style="bold")
        say(row["sentence"])
        if row["of_1000"] is not None:
            say(_dots(row))
    lines = section.frames["in_everyday_words"].to_pylist()
    more = f" (first {most} of {len(lines)}; --details shows all)" if len(lines) > most else ""
    show_table(
        f"Every attack: of 1,000 people, right about so many in the data and out of it{more}",
        list(LINE.values()),
        [tuple(_light(row[name]) if name == "light" else row[name] for name in LINE) for row in lines[:most]],
        right=list(LINE.values())[2:],
    )
    say("more: because they took part. limit: what the guarantee allows. false: told something false.")
    if "not measured" in {row["light"] for row in lines[:most]}:
        say(
            "Not measured: too few people, or neither a --holdout nor a release that can be made again tells what "
            "taking part adds."
        )


def _light(light: str) -> Any:
    from rich.text import Text

    return Text(light, style=LIGHTS.get(light, "dim"))


def _dots(row: Mapping[str, Any]) -> str:
    """Fifty signs for a thousand people, and what the signs mean."""
    groups = [(sign, row[name], row[f"{name}_means"]) for sign, name in zip("#+o", GROUPS, strict=True)]
    drawn = "".join(sign * (count and max(1, round(count * DOTS / 1000))) for sign, count, _ in groups)
    legend = ", ".join(f"{sign} {meaning}" for sign, count, meaning in groups if count)
    return f"{drawn[:DOTS]:.<{DOTS}}  {legend}".rstrip()


def show_findings(
    heading: str, section: Section, *, only: tuple[str, ...] = ("problem", "warning", "info", "good")
) -> None:
    wanted = [finding for finding in section.findings if finding.severity in only]
    listed = sorted(wanted, key=lambda finding: only.index(finding.severity))
    if listed:
        show_table(
            heading,
            ("severity", "finding", "value"),
            [(finding.severity, finding.title, finding.value) for finding in listed],
            right=("value",),
        )
