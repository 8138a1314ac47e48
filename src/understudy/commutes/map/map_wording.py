"""What a map says about the promise behind it, in words for everybody."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from html import escape

from understudy.core.exact_numbers import show_up
from understudy.core.places import DESTINATION
from understudy.privacy.promise.definition import ZCDP, Definition, NonPrivate, Unit
from understudy.release.statement import Statement

SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
PUBLIC_SIZES = (
    "The number of jobs at every workplace is published as it is. Where that is confidential, make the release with "
    "--unit replace or add_remove; commute_tree then has 6.0 instead of 4.7 percent of jobs in the wrong pair of "
    "tracts, and mean commutes of workplaces are 3 to 34 percent farther off (Rhode Island, epsilon 2, two runs each)."
)
PUBLIC_SEGMENTS = (
    "Not protected beside the number of jobs at each workplace: how many of them are in each segment of {names}. It is "
    "published as it is; leave {names} out of --fixed where that is confidential, and they are measured with noise."
)
NO_PERSON = "No dot is a person: every dot is a synthetic job, drawn at random."


def public_segments(unit: Unit) -> tuple[str, ...]:
    """The warning that partitions into segments are fixed, where they are."""
    names = [name for name in unit.fixed if name != DESTINATION]
    return (PUBLIC_SEGMENTS.format(names=" and ".join(names)),) if names else ()


def promise_text(statement: Statement) -> str:
    """One line: the guarantee and who it protects."""
    return f"{guarantee_text(statement.guarantee)}; {unit_text(statement)}"


def guarantee_text(guarantee: Definition) -> str:
    """The guarantee with its numbers: "ε = 2, δ = 0.00001 (approximate differential privacy)"."""
    numbers = numbers_text(guarantee)
    return f"{numbers} ({guarantee.title})" if numbers else guarantee.title


def numbers_text(guarantee: Definition) -> str:
    return ", ".join(f"{SYMBOLS[name]} = {show_up(getattr(guarantee, name))}" for name in guarantee.parameters)


def unit_text(statement: Statement) -> str:
    """Who is protected, in few words."""
    if statement.protects_nobody:
        return "protects nobody"
    unit = statement.unit
    who = "any one job" if unit.rows_per_unit == 1 else f"any {unit.rows_per_unit} jobs of one person"
    if DESTINATION in unit.fixed:
        return f"protects the home behind {who}"
    return f"protects home and workplace of {who}"


def part_words(within: str | None) -> str:
    """What a map of a part says first."""
    return f"Only jobs at workplaces in {within} are shown. " if within else ""


def plain_words(statements: Mapping[str, Statement]) -> str:
    """What the numbers mean, in words that are always on the screen; the keys tell several releases apart."""
    said = {key: _odds(statement.guarantee, statement.unit) for key, statement in statements.items()}
    if len(set(said.values())) == 1:
        return f"{NO_PERSON} {next(iter(said.values()))}"
    return " ".join([NO_PERSON, *(f"{key}: {text}" for key, text in said.items())])


def _odds(guarantee: Definition, unit: Unit) -> str:
    """How far the odds can change for somebody who knows everything else.

    Under ``add_remove`` the promise is about a job that is there or not. Another home is then one job removed and
    another added: two steps.
    """
    if isinstance(guarantee, NonPrivate):
        return "There is no privacy guarantee: treat the map as if it were confidential."
    if isinstance(guarantee, ZCDP):
        return "The map tells hardly more about any one worker than if that worker's data were different."
    epsilon: Fraction = getattr(guarantee, "epsilon")  # noqa: B009 - every other guarantee has one
    delta: Fraction | None = getattr(guarantee, "delta", None)
    allowance = f", except for a probability of {show_up(delta)} (delta)" if delta else ""
    between = "between two homes of one worker" if DESTINATION in unit.fixed else "between two values of one worker"
    if unit.kind == "replace":
        what = f"{between} at most {_factor(float(epsilon))}-fold"
    else:
        what = (
            f"that a worker is in the data at most {_factor(float(epsilon))}-fold, and {between} at most "
            f"{_factor(2 * float(epsilon))}-fold"
        )
    return f"For somebody who knows everything else, the map changes the odds {what}{allowance}."


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up to two digits: a promise is never made to look better than it is.

    >>> _factor(4.6), _factor(0.1), _factor(30.0)
    ('100', '1.2', 'e^30')
    """
    if epsilon > 14:
        return f"e^{epsilon:g}"
    factor = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(factor)) - 1)
    return f"{math.ceil(factor / unit) * unit:,.{1 if unit < 1 else 0}f}"


def promise_html(statement: Statement, key: str) -> str:
    """The promise of one release for the head of the page, warnings under it."""
    mark = f'<span class="key">{escape(key)}</span>' if key else ""
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in statement.warnings)
    return (
        f'<p class="promise">{mark}<b>{escape(numbers_text(statement.guarantee) or statement.guarantee.title)}</b> '
        f'<span class="unit">{escape(unit_text(statement))}</span></p>{warnings}'
    )


def caution_html(statements: list[Statement]) -> str:
    """What is not protected, in one line that is always on the screen."""
    if not any(DESTINATION in one.unit.fixed and not one.protects_nobody for one in statements):
        return ""
    names = sorted({name for one in statements for name in one.unit.fixed} - {DESTINATION})
    which = f", and how many are in each segment of {escape(' and '.join(names))}" if names else ""
    return (
        f'<p class="caution">Not protected: how many jobs there are at each workplace{which}. That is public here.</p>'
    )


def explanation_html(statements: list[Statement], methods: list[str], most_dots: int) -> str:
    """The longer explanation behind "What this means"."""
    lines = [
        *([PUBLIC_SIZES] if any(DESTINATION in one.unit.fixed for one in statements) else []),
        "Synthetic jobs are drawn at random and follow the real jobs only loosely. The pattern as a whole can be "
        "trusted far more than any single dot, line or small count.",
        "Small counts are uncertain, and that is on purpose: it is what protects people. The range beside a count says "
        "where the real count is likely to lie. A zero does not mean that nobody commutes there.",
        "Where a dot lies within its place means nothing: the dots of a place are scattered around its coordinates. "
        f"At most {most_dots:,} dots are drawn; beyond that only every k-th job gets a dot, and the legend says so. "
        "Numbers always count all synthetic jobs.",
        "This file holds synthetic data only. It works without a network and sends nothing to anybody.",
    ]
    for number, (statement, method) in enumerate(zip(statements, methods, strict=True)):
        key = f"{'AB'[number]}: " if len(statements) > 1 else ""
        lines.append(f"{key}made by the method {method}. {' '.join(statement.lines())}")
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
