"""The command for analysts outside: a question to a release, an answer with an interval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import understudy as us
from understudy.cli.audit import PlotFile
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.errors import InputError, UnsupportedError

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
        list[str] | None,
        typer.Argument(metavar="QUESTION...", help="For example: proportion(sex == 'F')", show_default=False),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="What can be asked; with names of attributes, what about them.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", rich_help_panel=MODEL, help="Two formulas: whether the larger one says more."),
    ] = False,
    by: Annotated[
        list[str] | None, typer.Option(metavar="ATTRIBUTE", help="The quantity in each group; may be repeated.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="text|latex|html|csv", help="Print tables as analysts do.")
    ] = None,
    plot: PlotFile = None,
    before: Annotated[
        Path | None,
        typer.Option(metavar="RELEASE", help="Commutes: the change since this release.", show_default=False),
    ] = None,
    where: Annotated[str | None, typer.Option(metavar="CONDITION", help="Only people who meet a condition.")] = None,
    level: Annotated[float, typer.Option(help="Probability of the interval.")] = LEVEL,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="linear|logit|probit|poisson|multinomial|ordered", rich_help_panel=MODEL, help="Of the outcome."
        ),
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
    weighted: Annotated[
        bool | None,
        typer.Option(
            "--weighted/--unweighted",
            help="About the population, or about the sample.",
            show_default="weighted if the schema has a weight",
        ),
    ] = None,
    by_weight: Annotated[
        str | None,
        typer.Option(
            "--weight", metavar="COLUMN", help="Another weight than the main one; of households: member, child."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", rich_help_panel=MODEL, help="Whether the release supports the model and it fits.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Answer questions from a release alone, with intervals that account for its noise.

    Example: `understudy infer release/ 'proportion(sex == "F")' --json`

    What can be asked: `understudy infer release/ --list`

    Questions: proportion, count, sum, mean, std, variance, quantile, median, gini, poverty_rate, correlation,
    crosstab, association (each with where=...; most with by=...), differences and ratios of two, and formulas such as
    'smokes ~ age + sex'. What the release cannot tell is refused, with the reason. Several questions share their draws.
    """
    release = us.read_release(folder)
    asked = tuple(question or ())
    if listed:
        _list(release, asked, as_json=as_json)
        return
    if not asked:
        raise InputError("ask a question, such as proportion(sex == 'F'), or see what can be asked with --list.")
    if check or compare:
        idle = {"draws": draws, "prior": prior, "synthesis": synthesis, "records": records, "rule": rule, "by": by,
                "format": form, "plot": plot, "weighted": weighted, "weight": by_weight}  # fmt: skip
        given = [f"--{name}" for name, value in idle.items() if value is not None]
        if level != LEVEL:
            given.append("--level")
        word = "--compare" if compare else "--check"
        if given:
            raise InputError(f"{word} looks at the model and computes no interval; leave out {', '.join(given)}.")
        if len(asked) != (2 if compare else 1):
            raise InputError(f"{word} takes {'two formulas, the smaller first' if compare else 'one formula'}.")
        if compare:
            _compare(release, asked, family=family, event=event, where=where, as_json=as_json)
        else:
            _check(release, asked[0], family=family, event=event, where=where, as_json=as_json)
        return
    if plot is not None and len(asked) != 1:
        raise InputError("--plot draws the estimates of one question.")
    if by_weight is not None and weighted is False:
        raise InputError("--weight names a weight, and --unweighted says to use none; leave one of them out.")
    refused: dict[str, str] = {}
    with working("computing"):
        answers = us.infer(
            release,
            asked,
            refused=refused if len(asked) > 1 else None,
            where=where,
            by=by,
            level=level,
            family=family,
            event=event,
            draws=draws,
            prior=prior,
            synthesis=synthesis,
            records=records,
            rule=rule,
            weighted=weighted if by_weight is None else by_weight,
            before=None if before is None else us.read_release(before),
        )
    if as_json:
        left_over = [{"question": one, "refused": reason} for one, reason in refused.items()]
        found = [*(answer.to_json() for answer in answers), *left_over]
        print_json(found[0] if len(asked) == 1 else found)
    elif form is not None and answers:
        typer.echo(us.print_answers(answers, form))
    else:
        for answer in answers:
            _show(answer)
    if plot is not None:
        answers[0].plot().save(plot)
        say(f"Figure written to {plot}")
    if refused:  # the others have their answers
        reasons = "".join(f"\n{one}: {reason}" for one, reason in refused.items())
        raise UnsupportedError(f"{len(refused)} of {len(asked)} questions could not be answered.{reasons}")


def _list(release: AnyRelease, names: tuple[str, ...], *, as_json: bool) -> None:
    found = us.questions(release, *names)
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(found.summary())


def _compare(
    release: AnyRelease,
    models: tuple[str, ...],
    *,
    family: str | None,
    event: str | None,
    where: str | None,
    as_json: bool,
) -> None:
    smaller, larger = models
    with working("comparing"):
        compared = us.compare_models(release, smaller, larger, family=family, event=event, where=where)
    if as_json:
        print_json({"smaller": smaller, "larger": larger, "added": compared.added, **asdict(compared.test)})
    else:
        say(compared.summary())


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
            (name, *texts, answer.information_text(place))
            for place, (name, texts) in enumerate(zip(answer.names, answer.rounded(), strict=True))
        ],
        right=("estimate", "std. error", f"{level} from", "to"),
    )
