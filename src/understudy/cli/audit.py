"""Commands that ask what a mechanism promises, and how much noise a promise needs. They touch no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy import api
from understudy.cli.bundles import Budget, bundled
from understudy.cli.options import AsJson, UnitKind
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.core.exact_numbers import Number, read_exact
from understudy.errors import InputError, UnsupportedError, unknown_name

if TYPE_CHECKING:
    from understudy.auditing.exact_audit import Audit

MECHANISM = "Mechanism"
SHOWN = 12  # rows and columns of a matrix that fit a screen


def _option(help_text: str, metavar: str) -> Any:
    return typer.Option(help=help_text, metavar=metavar, rich_help_panel=MECHANISM, show_default=False)


Name = Annotated[
    str, typer.Argument(metavar="MECHANISM", show_default=False, help="The mechanism, one of those listed above.")
]
Prior = Annotated[str | None, _option("Prior of each cell, or one number with --cells.", "A,B,...")]
Rows = Annotated[int | None, _option("Rows that are drawn.", "N")]
Cells = Annotated[int | None, _option("Cells of the table.", "K")]
Scale = Annotated[str | None, _option("Noise scale.", "S")]
Records = Annotated[int | None, typer.Option(help="Rows of the confidential table (add_remove: at most so many).")]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw a figure into FILE (.svg, .png or .pdf).")
]


def audit(
    mechanism: Name,
    *,
    records: Records = None,
    unit: UnitKind = None,
    epsilon: Annotated[str | None, typer.Option(help="State delta and breach probabilities at this epsilon.")] = None,
    copies: Annotated[int, typer.Option(help="Independent draws released together.")] = 1,
    prior: Prior = None,
    rows: Rows = None,
    cells: Cells = None,
    scale: Scale = None,
    clamped: Annotated[
        bool | None, typer.Option(help="Cut noisy counts to 0..records.", rich_help_panel=MECHANISM)
    ] = None,
    rate: Annotated[float | None, _option("Share of records swapped or sampled.", "R")] = None,
    threshold: Annotated[int | None, _option("Smallest count that is published.", "T")] = None,
    partition: Annotated[str | None, _option("Groups of cell numbers.", "0,1/2")] = None,
    top: Annotated[int | None, _option("Highest cell number that is published.", "K")] = None,
    factors: Annotated[
        str | None,
        _option("Factors with probabilities; '/' parts distributions if theirs is secret.", "0.9:0.5,1.1:0.5"),
    ] = None,
    truth: Annotated[float | None, _option("Probability of a true answer.", "P")] = None,
    trials: Annotated[int | None, _option("Trials of the binomial noise.", "N")] = None,
    probability: Annotated[float | None, _option("Probability of the binomial noise.", "P")] = None,
    matrix: Annotated[Path | None, _option("Probabilities, one row per line, without header.", "CSV")] = None,
    plot: PlotFile = None,
    curve: Annotated[
        Path | None, typer.Option("--plot-curve", metavar="FILE", help="Draw delta against epsilon into FILE.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute exactly what a mechanism promises to one person; no data are used.

    Example: `understudy audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --epsilon 2`

    Mechanisms: dirichlet and posterior_mean (--prior, --rows); geometric, gaussian and laplace (--scale); swapping and
    sampling (--rate); shuffling (--prior); suppression (--threshold); coarsening (--partition); top_coding (--top);
    multiplicative_noise (--factors); randomised_response (--truth); subsample_binomial (--rate, --trials,
    --probability); pram and matrix (--matrix).
    """
    given = {
        "prior": prior,
        "rows": rows,
        "cells": cells,
        "scale": scale,
        "clamped": clamped,
        "rate": rate,
        "threshold": threshold,
        "partition": partition,
        "top": top,
        "factors": factors,
        "truth": truth,
        "trials": trials,
        "probability": probability,
        "matrix": matrix,
    }
    value, extra = make_mechanism(mechanism, {key: item for key, item in given.items() if item is not None})
    if records is None:
        raise InputError("say for how many rows of confidential data: --records 5.")
    level = None if epsilon is None else read_number(epsilon, "epsilon")
    with working("computing"):
        exact = us.audit(value, records=records, unit=unit or "replace", copies=copies, **extra)
        document = describe(exact, level)
    if plot is not None:
        document["plot"] = str(exact.heat_map(level).save(plot))
    if curve is not None:
        document["plot_curve"] = str(exact.curve().save(curve))
    if as_json:
        print_json(document)
    else:
        _show(document)


# What each mechanism needs and may have. Options that it does not know are refused, never ignored.
def _posterior(kind: str) -> Callable[..., object]:
    def make(prior: str, rows: int, cells: int | None = None) -> object:
        parts = [part.strip() for part in prior.split(",")]
        if len(parts) > 1 and cells is not None:
            raise InputError("--cells goes with one number as --prior; several numbers say how many cells there are.")
        return getattr(us, kind)(prior=parts if cells is None else parts[0], rows=rows, cells=cells)

    return make


def _noise(kind: str) -> Callable[..., object]:
    def make(scale: str) -> object:
        return getattr(us, kind)(scale=scale)

    return make


def _matrix(kind: str) -> Callable[..., object]:
    def make(**options: Any) -> object:
        if "partition" in options:
            options["partition"] = _groups(options["partition"])
        return getattr(us.Matrix, kind)(**options)

    return make


def _shuffling(prior: str = "0") -> object:
    return us.Matrix.shuffling(prior=read_number(prior, "prior"))


def _infused(factors: str) -> object:
    try:
        several: list[Mapping[Number, float]] = [
            {factor.strip(): float(chance) for factor, chance in (pair.split(":") for pair in part.split(","))}
            for part in factors.split("/")
        ]
    except ValueError:
        raise InputError(
            f"--factors {factors!r} must look like 0.9:0.5,1.1:0.5: factors, each with its probability."
        ) from None
    return us.Matrix.multiplicative_noise(several)


def _from_file(kind: str | None) -> Callable[..., object]:
    def make(matrix: Path) -> object:
        numbers = read_matrix(matrix)
        return us.Matrix(numbers) if kind is None else us.Matrix.pram(numbers)

    return make


KINDS: dict[str, tuple[Callable[..., object], tuple[str, ...], tuple[str, ...]]] = {
    "dirichlet": (_posterior("DirichletMultinomial"), ("prior", "rows"), ("cells",)),
    "posterior_mean": (_posterior("PosteriorMeanMultinomial"), ("prior", "rows"), ("cells",)),
    "geometric": (_noise("Geometric"), ("scale",), ("cells", "clamped")),
    "gaussian": (_noise("DiscreteGaussian"), ("scale",), ("cells", "clamped")),
    "laplace": (_noise("RoundedLaplace"), ("scale",), ("cells", "clamped")),
    "swapping": (_matrix("swapping"), ("rate",), ()),
    "shuffling": (_shuffling, (), ("prior",)),
    "sampling": (_matrix("sampling"), ("rate",), ("cells",)),
    "suppression": (_matrix("suppression"), ("threshold",), ("cells",)),
    "coarsening": (_matrix("coarsening"), ("partition",), ()),
    "top_coding": (_matrix("top_coding"), ("top",), ("cells",)),
    "multiplicative_noise": (_infused, ("factors",), ("cells",)),
    "randomised_response": (_matrix("randomised_response"), ("truth",), ("cells",)),
    "subsample_binomial": (_matrix("subsample_plus_binomial"), ("rate", "trials", "probability"), ("cells",)),
    "pram": (_from_file("pram"), ("matrix",), ()),
    "matrix": (_from_file(None), ("matrix",), ("cells",)),
}
OF_THE_MECHANISM = {
    "dirichlet": ("cells",),
    "posterior_mean": ("cells",),
    "randomised_response": ("cells",),
    "shuffling": ("prior",),
}


def make_mechanism(name: str, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The mechanism, and what else the audit must know of it."""
    if name not in KINDS:
        raise unknown_name("mechanism", name, KINDS)
    make, needed, allowed = KINDS[name]
    missing = [f"--{option}" for option in needed if option not in given]
    if missing:
        raise InputError(f"mechanism '{name}' needs {' and '.join(missing)}.")
    odd = [f"--{option}" for option in given if option not in (*needed, *allowed)]
    if odd:
        raise InputError(f"mechanism '{name}' does not know {' or '.join(odd)}.")
    own = (*needed, *OF_THE_MECHANISM.get(name, ()))
    value = make(**{option: item for option, item in given.items() if option in own})
    return value, {option: item for option, item in given.items() if option not in own}


def _groups(text: str) -> list[list[int]]:
    try:
        return [[int(cell) for cell in group.split(",")] for group in text.split("/")]
    except ValueError:
        raise InputError(f"--partition {text!r} must look like 0,1/2: groups of cell numbers.") from None


def read_matrix(path: Path) -> list[list[float]]:
    """Numbers of a CSV file without header."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; expected a CSV file of probabilities.")
    try:
        return [[float(value) for value in line.split(",")] for line in path.read_text().splitlines() if line.strip()]
    except ValueError:
        raise InputError(f"{path} must hold numbers only, separated by commas, without a header.") from None


def describe(exact: Audit, epsilon: float | None) -> dict[str, Any]:
    """What an audit found, for people and as JSON; infinite numbers are told as text."""
    document: dict[str, Any] = {
        "mechanism": str(exact.mechanism),
        "records": exact.records,
        "cells": exact.cells,
        "unit": exact.unit.kind,
        "copies": exact.copies,
        "epsilon": _finite(exact.epsilon),
        "epsilon_any_size": _or_none(lambda: _finite(exact.epsilon_any_size)),
        "witness": _or_none(lambda: _witness(exact)),
    }
    if epsilon is not None:
        bounds = exact.delta_bounds(epsilon)
        document["at"] = {
            "epsilon": epsilon,
            "delta": bounds.high,
            "delta_error": bounds.error,
            **_breaches(exact, epsilon),
        }
    measures = _or_none(lambda: exact.row_measures)
    if measures is not None:
        document["rows"] = {"cell_uncertainty": measures.cell_uncertainty, "truth": measures.truth}
    return document


def _witness(exact: Audit) -> dict[str, Any]:
    witness = exact.witness
    if len(witness.likely) > SHOWN:
        return {"loss": _finite(witness.loss)}
    return {
        "likely": list(witness.likely),
        "unlikely": list(witness.unlikely),
        "output": list(witness.output),
        "loss": _finite(witness.loss),
    }


def _breaches(exact: Audit, epsilon: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    worst = _or_none(lambda: exact.breach_probability(epsilon))
    if worst is not None:
        found["definition_6"] = float(worst)
        found["definition_6_is"] = worst.kind
        if not worst.exact:
            found["definition_6_at_least"] = worst.low
    for name, convention in (("abowd_vilhuber", "abowd_vilhuber"), ("prior_averaged", "prior_averaged")):
        value = _or_none(
            lambda convention=convention: exact.breach_probability(epsilon, convention, prior="multinomial")  # type: ignore[misc]
        )
        if value is not None:
            found[name] = float(value)
    return found


def _show(document: dict[str, Any]) -> None:
    say(f"Exact audit: {document['mechanism']}", style="bold")
    show_facts(
        [
            ("tables", f"{document['records']:,} rows, {document['cells']:,} cells, unit {document['unit']}"),
            ("copies", document["copies"]),
            ("epsilon (worst case)", document["epsilon"]),
            ("epsilon, any size", document["epsilon_any_size"] or "no supremum is proved"),
        ]
    )
    witness = document["witness"]
    if witness and "output" in witness:
        say(
            f"Witness: {tuple(witness['likely'])} gives {tuple(witness['output'])} with log odds "
            f"{witness['loss']} against {tuple(witness['unlikely'])}."
        )
    if "at" in document:
        at = document["at"]
        lines = [("exact delta", at["delta"]), ("error of delta", at["delta_error"])]
        if "definition_6" in at:
            lines.append((f"breach probability, Definition 6 ({at['definition_6_is']})", at["definition_6"]))
        if "definition_6_at_least" in at:
            lines.append(("breach probability, Definition 6 (lower bound)", at["definition_6_at_least"]))
        if "abowd_vilhuber" in at:
            lines.append(("breach probability as Abowd and Vilhuber counted it", at["abowd_vilhuber"]))
            lines.append(("breach probability averaged over multinomial tables", at["prior_averaged"]))
        show_table(f"At epsilon = {at['epsilon']:g}", ("measure", "value"), lines, right=("value",))
    if "rows" in document:
        show_facts(
            [
                ("smallest P(cell differs from truth)", document["rows"]["cell_uncertainty"]),
                ("largest P(output is the truth)", document["rows"]["truth"]),
            ]
        )
    for key in ("plot", "plot_curve"):
        if key in document:
            say(f"Figure written to {document[key]}")


def read_number(text: str, name: str) -> float:
    return float(read_exact(text, name))


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "infinite"


def _or_none(compute: Callable[[], Any]) -> Any:
    """What cannot be computed at this size is left out; everything else is an error as ever."""
    try:
        return compute()
    except UnsupportedError:
        return None


@bundled
def calibrate(
    mechanism: Annotated[
        str, typer.Argument(metavar="dirichlet|geometric|gaussian", show_default=False, help="The mechanism.")
    ],
    *,
    amounts: Budget,
    unit: UnitKind = None,
    records: Records = None,
    rows: Rows = None,
    cells: Cells = None,
    margins: Annotated[
        int | None, typer.Option(help="How many noisy tables share the promise (for noise).", show_default="1")
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="exact|theorem|union", help="How the prior is found; theorem means Theorem 4.4.")
    ] = "exact",
    compare: Annotated[bool, typer.Option("--compare", help="Show what every rule asks for (dirichlet).")] = False,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Find the least noise that keeps a promise; no data are used.

    Example: `understudy calibrate dirichlet --epsilon 4.6 --delta 1e-5 --records 15 --rows 15 --cells 233726`

    dirichlet finds the prior of a draw, geometric and gaussian the scale of noise on counts.
    """
    kinds: dict[str, Any] = {
        "dirichlet": us.DirichletMultinomial,
        "geometric": us.Geometric,
        "gaussian": us.DiscreteGaussian,
    }
    if mechanism not in kinds:
        raise unknown_name("mechanism", mechanism, kinds)
    budget = amounts.read()
    extra: dict[str, Any] = {} if margins is None else {"margins": margins}
    with working("computing"):
        found = us.calibrate(
            kinds[mechanism],
            budget,
            records=records,
            rows=rows,
            cells=cells,
            unit=unit or "replace",
            rule=rule,  # type: ignore[arg-type]  # calibrate itself names the known rules
            **extra,
        )
    parameter = "prior" if mechanism == "dirichlet" else "scale"
    document: dict[str, Any] = {
        "mechanism": mechanism,
        "guarantee": budget.to_json(),
        "unit": found.unit.kind,
        parameter: float(found),
        "basis": found.basis,
    }
    if compare or plot is not None:
        document |= _compare(
            mechanism, amounts.epsilon, amounts.delta, records=records, rows=rows, cells=cells, plot=plot
        )
    if as_json:
        print_json(document)
        return
    say(f"Least noise for {budget}", style="bold")
    show_facts([(parameter, float(found)), ("basis", found.basis), ("unit", found.unit.describe())])
    if "compared" in document:
        show_table(
            "What each rule asks for",
            ("rule", "prior per cell", "prior in all", "share of Theorem 4.1"),
            [(line["rule"], line["prior"], line["prior_rows"], line["share"]) for line in document["compared"]],
            right=("prior per cell", "prior in all", "share of Theorem 4.1"),
        )
    if "plot" in document:
        say(f"Figure written to {document['plot']}")


def _compare(
    mechanism: str,
    epsilon: str | None,
    delta: str | None,
    *,
    records: int | None,
    rows: int | None,
    cells: int | None,
    plot: Path | None,
) -> dict[str, Any]:
    if mechanism != "dirichlet" or epsilon is None or delta is None or records != rows or not records or not cells:
        raise InputError(
            "--compare and --plot show priors: dirichlet with --epsilon, --delta and --rows equal to --records."
        )
    table = us.prior_table(read_number(epsilon, "epsilon"), read_number(delta, "delta"), records=records, cells=cells)
    found: dict[str, Any] = {"compared": table.to_pylist()}
    if plot is not None:
        title = f"epsilon {epsilon}, delta {delta}, {records:,} records, {cells:,} cells"
        found["plot"] = str(api.draw_priors(table, title=title).save(plot))
    return found
