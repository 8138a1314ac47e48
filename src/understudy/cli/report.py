"""The command that writes a report for a review board (internal) or for everybody (public)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import api
from understudy.cli.bundles import Reading, bundled
from understudy.cli.internal import read_synthetic
from understudy.cli.options import (
    AsJson,
    Holdout,
    Keys,
    Models,
    OneRelease,
    ReleaseSchema,
    Targets,
    files_of,
    read_names,
)
from understudy.cli.output import print_json, say, working
from understudy.core.result import INTERNAL
from understudy.core.schema_file import read_schema
from understudy.errors import DisclosureError, InputError


@bundled
def report(
    *,
    release: OneRelease,
    to: Annotated[Path, typer.Option("--to", metavar="FILE.html", help="Where to write it.", show_default=False)],
    audience: Annotated[
        str,
        typer.Option(
            metavar="internal|public", help="Who may see it.", show_default="internal with --confidential, else public"
        ),
    ] = "",
    confidential: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="The confidential data to compare with; makes it internal; may be repeated."),
    ] = None,
    schema: ReleaseSchema = None,
    holdout: Holdout = None,
    model: Models = None,
    keys: Keys = "",
    targets: Targets = "",
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help='A question to answer by infer, such as "mean(age)"; may be repeated.'),
    ] = None,
    title: Annotated[str, typer.Option(help="The heading.", show_default="from the schema")] = "",
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file about a release: promise, noise, utility, risk, inference. No network, printable.

    Examples: `understudy report release/ --to report.html`,
    `understudy report release/ --confidential people.parquet --ask "mean(age)" --to board.html`

    Without --confidential it is public: release facts only, with the fields of the Deployments Registry beside it as
    JSON. With it the release is evaluated first, and the report is internal: marked on every page, never in a release.
    """
    from understudy.release import Release
    from understudy.reporting.build import AUDIENCES, check_target
    from understudy.reporting.build import report as write_report

    wanted = audience or ("internal" if confidential else "public")
    if wanted not in AUDIENCES:
        raise InputError(f"--audience ({audience}) must be internal or public.")
    if confidential is None and (holdout or model or keys or targets):
        raise InputError("--holdout, --model, --keys and --targets belong to --confidential: give it too.")
    if confidential and wanted == "public":
        raise DisclosureError("a public report holds release facts only; leave --confidential out.")
    check_target(to, wanted)  # type: ignore[arg-type]
    how = reading.options()
    if release.is_dir() and not confidential and reading != Reading():
        raise InputError("how data are written was said, and no data were named; name them with --confidential.")
    made = read_synthetic(release, None if schema is None else read_schema(schema), how)
    answers, given = [], []
    if confidential or ask:
        if not isinstance(made, Release):
            raise InputError("a release of commutes is reported as it is: leave --confidential and --ask out.")
        answers = [api.infer(made, question) for question in ask or ()]
        if confidential:
            with working("evaluating") as progress:
                given.append(
                    api.evaluate(
                        made,
                        api.open_source(files_of(confidential), made.schema, **how),
                        holdout=api.open_source(files_of(holdout), made.schema, **how) if holdout else None,
                        models=model or (),
                        keys=read_names(keys),
                        targets=read_names(targets),
                        progress=progress,
                    )
                )
    with working("writing"):
        place = write_report(made, *given, *answers, audience=wanted, to=to, title=title)  # type: ignore[arg-type]
    registry = place.with_name(f"{place.stem}-registry.json") if wanted == "public" else None
    if as_json:
        print_json({"report": str(place), "audience": wanted, "registry": None if registry is None else str(registry)})
        return
    if wanted == "internal":
        say(INTERNAL, style="bold red")
    say(f"Report written to {place}")
    if registry is not None:
        say(f"Draft record for the Deployments Registry written to {registry}")
