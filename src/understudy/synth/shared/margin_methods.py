"""What the margin-based synthesizers share: which tables to measure, how to divide the budget, rows from the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.models.fit import MAX_CELLS, Known, Report, build_tree, fit, structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.models.model import Model
from understudy.models.posterior import posterior_models
from understudy.models.published_model import Fitted, FittedPart
from understudy.models.sample import DESCRIPTIONS, ROWS_BY
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import Noise, measure_step
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import Definition, Unit
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared.method import MAX_ROWS, Synthesis, count_text

Margin = tuple[str, ...]
# A budget, sensitivities, shares of the budget and numbers of cells of several tables: the noise on each.
NoisesFor = Callable[[Definition, Sequence[Sensitivity], Sequence[Fraction], Sequence[int]], Sequence[Noise]]
TOTAL = "number of rows"
TOTAL_SHARE = Fraction(1, 50)
LARGEST_MARGIN = 10_000_000
MOST_MARGINS = 50_000  # the most margins of a number of ways; no model holds so many, and listing them takes minutes
MOST_DIGITS = 9
LEAST_VARIANCE = 1e-12  # noise that is almost surely 0 must not make an infinite precision
DRAWS = ("fit", "posterior")


def margin_label(margin: Margin) -> str:
    return " x ".join(margin)


def read_margins(schema: Schema, text: str) -> list[Margin]:
    """Margins as a user writes them: ``2`` for all pairs, or ``sex+age, age+income``."""
    ways = whole_number(text)
    if ways is not None:
        return _all_ways(schema, ways)
    margins = [schema.margin(name.strip() for name in part.split("+")) for part in text.split(",") if part.strip()]
    if not margins:
        raise InputError('margins must be a number of ways, such as 2, or a list such as "sex+age, age+income".')
    if len(set(margins)) != len(margins):
        raise InputError("a margin is listed twice.")
    return margins


def whole_number(text: str) -> int | None:
    """The whole number in a text, if there is one; digits that are not decimal (a superscript 2) do not count."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def _all_ways(schema: Schema, ways: int) -> list[Margin]:
    if ways < 1:
        raise InputError(f"margins ({ways}) must be at least 1.")
    ways = min(ways, len(schema.names))
    count = comb(len(schema.names), ways)
    if count > MOST_MARGINS:
        raise UnsupportedError(
            f"all {ways}-way margins of {len(schema.names)} attributes are {count_text(count)}; at most "
            f"{MOST_MARGINS:,} are measured. Use fewer ways, list the margins you need, or a method that chooses them "
            "(aim, mst)."
        )
    return list(combinations(schema.names, ways))


def combinations_up_to(names: Sequence[str], ways: int) -> list[Margin]:
    """All margins of two to ``ways`` attributes."""
    return [margin for size in range(2, ways + 1) for margin in combinations(names, size)]


def check_margin_sizes(schema: Schema, margins: Iterable[Margin]) -> None:
    for margin in margins:
        if schema.cells(margin) > LARGEST_MARGIN:
            raise UnsupportedError(
                f"the margin {margin_label(margin)} has {count_text(schema.cells(margin))} cells; at most "
                f"{LARGEST_MARGIN:,} are measured. Use wider bins or leave it out."
            )


def check_model_size(schema: Schema, margins: Sequence[Margin], always: Sequence[Margin] = ()) -> None:
    """Refuses margins that no model in memory could hold together, naming the first that is too much.

    ``always``: groups of attributes that are in the model anyway, beside those of structural zeros.
    """
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    base = [*always, *structural_groups(schema)]

    def cells(count: int) -> int:
        return tree_cells(sizes, [*base, *margins[:count]])

    if cells(0) > MAX_CELLS:
        build_tree(schema, list(always))  # refuses, naming the rule
    needed = cells(len(margins))
    if needed <= MAX_CELLS:
        return
    fits, too_many = 0, len(margins)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if cells(middle) <= MAX_CELLS else (fits, middle)
    raise UnsupportedError(
        f"the model of all {len(margins):,} margins needs tables with {count_text(needed)} cells, above the limit of "
        f"{MAX_CELLS:,}; the first {fits:,} fit, and {margin_label(margins[fits])} is the first that does not. Leave "
        "margins out, use wider bins, or a method that chooses margins (aim, mst)."
    )


def shares_by_cells(schema: Schema, margins: Sequence[Margin], power: Fraction) -> list[Fraction]:
    """Shares of a budget in proportion to cells^power, as exact fractions that add to one."""
    weights = [max(1, round(1000 * schema.cells(margin) ** float(power))) for margin in margins]
    return [Fraction(weight, sum(weights)) for weight in weights]


def power_of_answers(schema: Schema, power: Fraction) -> Fraction:
    """The power of the cells by which tables for answers share their budget: the usual one without a survey weight.

    Shares by the least total variance over all cells leave little for an attribute of two levels. A weighted answer
    about it sums few cells, each with its full noise, so that tables with a weight share more evenly.
    """
    return power if schema.weight is None else power / 2


def measure_steps(
    schema: Schema, margins: Sequence[Margin], unit: Unit, budget: Definition, split: str, *, with_total: bool = True,
    required: Sequence[Margin] = (), set_aside: Fraction = Fraction(0), extra: Sequence[Margin] = (),
    noises_for: NoisesFor = noise_for,
) -> tuple[Step, ...]:  # fmt: skip
    """Steps that measure every margin, and under ``add_remove`` the number of rows (``with_total``), in one budget.

    ``noises_for`` gives the noise on several tables within one budget. ``set_aside`` is the share that the ``required``
    margins have to themselves; they have a part of the rest too, unless they are ``extra``.

    ``split``: ``equal``, or ``optimal``: the least total variance over all cells. Noise of variance proportional to
    1/share^2 (geometric, pure budgets) wants shares in proportion to cells^(1/3), of 1/share (Gaussian) to cells^(1/2).
    """
    movable = [margin for margin in margins if not is_public(schema, margin, unit)]
    if not movable:
        raise UnsupportedError("no unit can change any of these margins; nothing is left to protect.")
    power = Fraction(0) if split == "equal" else Fraction(1, 3) if budget.name == "pure" else Fraction(1, 2)
    shares = _shares(schema, movable, power, required=required, set_aside=set_aside, extra=extra)
    sensitivities = [margin_sensitivity(schema, margin, unit) for margin in movable]
    cells = [int(schema.allowed(margin).sum()) for margin in movable]
    noises = noises_for(budget, sensitivities, shares, cells)
    queries = list(movable)
    if with_total and not unit.public_total:
        # The sums of the noisy tables estimate the number of rows too. It is measured by itself only if that is better.
        total = margin_sensitivity(schema, (), unit)
        apart = noises_for(
            budget,
            [*sensitivities, total],
            [*(share * (1 - TOTAL_SHARE) for share in shares), TOTAL_SHARE],
            [*cells, 1],
        )
        by_sums = 1.0 / sum(
            1.0 / (count * max(noise.variance, LEAST_VARIANCE)) for count, noise in zip(cells, noises, strict=True)
        )
        if apart[-1].variance < by_sums:
            queries, noises, cells, sensitivities = [*queries, ()], apart, [*cells, 1], [*sensitivities, total]
    return tuple(
        measure_step(
            label=margin_label(margin) or TOTAL, margin=margin, noise=noise, sensitivity=sensitivity, cells=count
        )
        for margin, noise, sensitivity, count in zip(queries, noises, sensitivities, cells, strict=True)
    )


def _shares(
    schema: Schema, margins: Sequence[Margin], power: Fraction, *, required: Sequence[Margin],
    set_aside: Fraction, extra: Sequence[Margin],
) -> list[Fraction]:  # fmt: skip
    """Shares that add to one: what is set aside goes to the required margins, the rest to all that are not extra."""
    if not set_aside:
        return shares_by_cells(schema, margins, power)
    wanted = [margin for margin in margins if margin in required]
    others = [margin for margin in margins if margin not in extra]
    aside = set_aside if others else Fraction(1)
    shares = dict.fromkeys(margins, Fraction(0))
    for part, group, own in ((aside, wanted, power_of_answers(schema, power)), (1 - aside, others, power)):
        for margin, share in zip(group, shares_by_cells(schema, group, own) if group else (), strict=True):
            shares[margin] += part * share
    return [shares[margin] for margin in margins]


def margin_step(schema: Schema, margin: Margin, unit: Unit, noise: Geometric | DiscreteGaussian) -> Step:
    """One step that measures a margin, or the number of rows."""
    return measure_step(
        label=margin_label(margin) or TOTAL,
        margin=margin,
        noise=noise,
        sensitivity=margin_sensitivity(schema, margin, unit),
        cells=int(schema.allowed(margin).sum()) if margin else 1,
    )


def is_public(schema: Schema, margin: Margin, unit: Unit) -> bool:
    """Whether no unit can move a margin: its attributes are fixed, or have one level."""
    return margin_sensitivity(schema, margin, unit).l1 == 0


def known_margins(schema: Schema, gate: Gate, unit: Unit) -> dict[Margin, NDArray[np.int64]]:
    """The counts over the fixed attributes, which are public."""
    fixed = schema.margin(unit.fixed)
    return {fixed: gate.public(fixed)} if fixed and schema.cells(fixed) <= LARGEST_MARGIN else {}


def public_records(plan: Plan, gate: Gate) -> int | None:
    """The number of records where it is public."""
    return gate.records if plan.unit.public_total else None


def total_of(schema: Schema, records: int | None, measured: Sequence[Measurement]) -> float:
    """The number of records: public under ``replace``, else every noisy estimate of it, averaged by precision."""
    if records is not None:
        return float(records)
    precisions = _total_precisions(schema, measured)
    weighted = sum(one * float(table.values.sum()) for one, table in zip(precisions, measured, strict=True))
    return weighted / sum(precisions)


def total_variance(schema: Schema, measured: Sequence[Measurement]) -> float:
    """The variance of that estimate."""
    return 1.0 / sum(_total_precisions(schema, measured))


def _total_precisions(schema: Schema, measured: Sequence[Measurement]) -> list[float]:
    cells = [int(schema.allowed(one.margin).sum()) if one.margin else 1 for one in measured]
    noise = [max(one.mechanism.variance, LEAST_VARIANCE) for one in measured]
    return [1.0 / (count * variance) for count, variance in zip(cells, noise, strict=True)]


def check_rows(draws: str, rows_by: str | None) -> None:
    """How copies differ, and how rows are drawn: both known, and fitting together."""
    if draws not in DRAWS:
        raise unknown_name("draws", draws, DRAWS)
    if rows_by is not None and rows_by not in ROWS_BY:
        raise unknown_name("rows_by", rows_by, ROWS_BY)
    if draws == "posterior" and rows_by == "rounding":
        raise InputError(
            "draws = posterior needs multinomial rows: the rule that reads its copies subtracts the sampling variance "
            "of rows, which rounded rows do not have. Leave rows_by out."
        )


def check_copies(draws: str, copies: int) -> None:
    """Draws of the posterior are read by their differences."""
    if draws == "posterior" and copies < 2:
        raise InputError(
            f"draws = posterior needs at least two copies (there is {copies}); 25, of five times as many rows as "
            "records, are best."
        )


def rows_law(draws: str, rows_by: str | None) -> str:
    """How rows are drawn where nothing was said."""
    return rows_by or ("multinomial" if draws == "posterior" else "rounding")


def drawn_option(draws: str) -> dict[str, Option]:
    """What a plan records of it: nothing where copies are drawn from the fitted model."""
    return {} if draws == "fit" else {"draws": draws}


def synthesis_from(
    plan: Plan, schema: Schema, measured: Sequence[Measurement], *, total: float, rows_by: str, stream: Stream,
    known: Known, notes: tuple[str, ...] = (), draws: str = "fit",
) -> tuple[Synthesis, Report]:  # fmt: skip
    """Fit the model to everything measured and draw the copies: from it, or each from a draw of the posterior."""
    model, report = fit(schema, measured, total=max(total, 1.0), stream=stream, known=known)
    rows = plan.rows if plan.rows is not None else min(max(round(total), 0), MAX_ROWS)
    models = [model] * plan.copies
    if draws == "posterior":
        models, how = posterior_models(
            schema, measured, total=max(total, 1.0), public_total=plan.unit.public_total, copies=plan.copies,
            stream=stream, known=known, prior=report.prior, fitted=model,
        )  # fmt: skip
        notes = (*notes, how)
    tables = tuple(one.draw(schema, rows, rows_by, stream, "rows", copy) for copy, one in enumerate(models, start=1))
    fitted = (
        f"The model was fitted in {report.iterations} iterations. Each noisy table was shrunk towards independence by "
        f"a prior worth {report.prior:g} records (median over tables). The largest remaining error is "
        f"{report.residual:.2g} standard deviations of the noise. The model has {report.cells:,} cells."
    )
    return Synthesis(
        tables=tables,
        measurements=tuple(measured),
        rows_drawn=DESCRIPTIONS[rows_by],
        copies_share_measurements=True,
        notes=(*notes, fitted, *report.notes),
        warnings=report.warnings,
        fitted=fitted_model(model, rows_by) if draws == "fit" else None,
    ), report


def fitted_model(model: Model, rows_by: str) -> Fitted:
    """One model for the whole table, as it is published."""
    return Fitted(rows_by=rows_by, parts=(FittedPart(codes=(), size=model.total, model=model),))
