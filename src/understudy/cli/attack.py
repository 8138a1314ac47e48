"""The command that attacks a release before an intruder does. What it prints and writes is internal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.cli.bundles import Reading, bundled
from understudy.cli.internal import document, kept_when_stopped, show_findings, show_first_screen
from understudy.cli.options import (
    AsJson,
    Confidential,
    Details,
    Holdout,
    Keys,
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

SHOWN = 20
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
    show_first_screen(section, most=SHOWN)
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
    more = f" (the greatest {SHOWN} of {len(rows)})" if len(rows) > SHOWN else ""
    if rows:
        show_table(
            f"Attacks: residual risk with its interval of 95%{more}",
            COLUMNS,
            [tuple(_shown(row, name) for name in COLUMNS) for row in rows[:SHOWN]],
            right=COLUMNS[2:],
        )
    show_findings("Findings", section)


def _shown(row: dict[str, Any], name: str) -> Any:
    """A value of the table; where no guess could be made there is no rate."""
    value = row[name]
    if isinstance(value, float):
        return round(value, 3) if row["guesses"] else None
    return value
