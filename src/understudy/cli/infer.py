"""The command for analysts outside: a question to a release, an answer with an interval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import understudy as us
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.inference.answer import Answer
    from understudy.release.kind import AnyRelease

LEVEL = 0.95
MODEL = "Regressions"
OTHERS = "Tables that do not say how they were made"


def infer(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="For example: proportion(sex == 'F')", show_default=False)
    ],
    where: Annotated[str | None, typer.Option(metavar="CONDITION", help="Only people who meet a condition.")] = None,
    level: Annotated[float, typer.Option(help="Probability of the interval.")] = LEVEL,
    family: Annotated[
        str | None,
        typer.Option(metavar="linear|logit|poisson|multinomial|ordered", rich_help_panel=MODEL, help="Of the outcome."),
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="LEVEL", rich_help_panel=MODEL, help="The level that is the event.")
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Posterior draws.", show_default="4000, regressions 1500")] = None,
    prior: Annotated[
        float | None, typer.Option(help="Prior count of each group.", show_default="1/2, or by evidence")
    ] = None,
    synthesis: Annotated[
        str | None, typer.Option(metavar="simple|posterior|partial", rich_help_panel=OTHERS, help="How they were made.")
    ] = None,
    records: Annotated[int | None, typer.Option(rich_help_panel=OTHERS, help="How many records they are of.")] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="RULE", rich_help_panel=OTHERS, help="T_f, T_f*, T_p, T_s or T_s_posterior.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", rich_help_panel=MODEL, help="Whether the release supports the model and it fits.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question from a release alone, with an interval that accounts for its noise.

    Example: `understudy infer release/ 'proportion(sex == "F")' --json`

    Questions: proportion, count, mean, quantile, median, difference, crosstab, association (each with where=...), and
    formulas such as 'smokes ~ age + sex'. What the release cannot tell is refused, with the reason.
    """
    release = us.read_release(folder)
    if check:
        idle = {"draws": draws, "prior": prior, "synthesis": synthesis, "records": records, "rule": rule}
        given = [f"--{name}" for name, value in idle.items() if value is not None]
        if level != LEVEL:
            given.append("--level")
        if given:
            raise InputError(f"--check looks at the model and computes no interval; leave out {', '.join(given)}.")
        _check(release, question, family=family, event=event, where=where, as_json=as_json)
        return
    with working("computing"):
        answer = us.infer(
            release,
            question,
            where=where,
            level=level,
            family=family,
            event=event,
            draws=draws,
            prior=prior,
            synthesis=synthesis,
            records=records,
            rule=rule,
        )
    if as_json:
        print_json(answer.to_json())
    else:
        _show(answer)


def _check(
    release: AnyRelease, model: str, *, family: str | None, event: str | None, where: str | None, as_json: bool
) -> None:
    with working("checking"):
        checked = us.check_model(release, model, family=family, event=event, where=where)
    if as_json:
        print_json(asdict(checked))
    else:
        say(checked.summary())


def _show(answer: Answer) -> None:
    say(answer.question, style="bold")
    show_facts(
        [
            ("method", answer.method),
            ("validity", answer.validity),
            ("records", "not public" if answer.records is None else answer.records),
            *((f"note {number}", f"{text}.") for number, text in enumerate(answer.warnings, start=1)),
        ]
    )
    level = f"{100 * answer.estimates[0].level:g}%"
    show_table(
        "Answer",
        ("quantity", "estimate", "std. error", f"{level} from", "to", "information"),
        [
            (name, one.value, error, one.low, one.high, answer.information_text(place))
            for place, (name, one, error) in enumerate(
                zip(answer.names, answer.estimates, answer.standard_errors, strict=True)
            )
        ],
        right=("estimate", "std. error", f"{level} from", "to"),
    )
