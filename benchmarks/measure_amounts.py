"""Amounts by their bounds alone: single columns and pairs, beside dpmm's private binning and bins made by looking.

    python benchmarks/measure_amounts.py run RESULTS.csv [RUNS]        # goes on where it stopped
    python benchmarks/measure_amounts.py show RESULTS.csv

``UNDERSTUDY_DATA`` names the folder with eusilc/ and sdnist/; without it generated columns alone are measured.
``PEER_PYTHON`` names the Python of an environment with dpmm; without it dpmm is left out. Generated columns are drawn
anew in every run, noise is secure randomness. "Looked" are 24 bins at quantiles of the data (every twentieth, and finer
in the upper tail; zero and 12,000 apart, if many have them), which no private method could know. Values inside these
bins are uniform, and the whole budget counts them.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import understudy as us

ROWS = 15_000
HIGH = 500_000
BUDGETS = {"(1, 1e-9)": us.ApproxDP(epsilon=1, delta="1e-9"), "epsilon 1": us.PureDP(epsilon=1)}
TAIL = (0.975, 0.99, 0.995, 0.999)
FIELDS = ("case", "budget", "contender", "run", "mean", "gini", "q99", "wasserstein", "ranks", "values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One column or two, with what is public about them."""

    name: str
    frame: pd.DataFrame
    attributes: tuple[us.Attribute, ...]


def amount(name: str, low: float = 0, high: float = HIGH, *, spikes: tuple[int, ...] = ()) -> us.Attribute:
    return us.Attribute(name=name, bounds=(low, high), heavy_tail=True, decimals=2, spikes=spikes)


def generated(draw: np.random.Generator) -> Iterator[Case]:
    """Fresh draws."""
    income = np.exp(draw.normal(9.7, 0.8, ROWS)).round(2).clip(0, HIGH)
    spiked = np.where(draw.random(ROWS) < 0.3, 0, np.where(draw.random(ROWS) < 0.1, 12_000, income))
    rounded = np.where(draw.random(ROWS) < 0.5, income.round(-3), income)
    yield Case(name="log-normal", frame=pd.DataFrame({"x": income}), attributes=(amount("x"),))
    yield Case(
        name="mixture, spike named", frame=pd.DataFrame({"x": spiked}), attributes=(amount("x", spikes=(12_000,)),)
    )
    yield Case(name="mixture, spike not named", frame=pd.DataFrame({"x": spiked}), attributes=(amount("x"),))
    yield Case(name="half rounded to 1,000", frame=pd.DataFrame({"x": rounded}), attributes=(amount("x"),))
    normal = draw.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], ROWS)
    both = tuple(us.Attribute(name=name, bounds=(-6, 6)) for name in "xy")
    yield Case(name="normal pair", frame=pd.DataFrame(normal.clip(-6, 6), columns=list("xy")), attributes=both)
    skewed = np.exp(9.7 + 0.8 * normal).round(2).clip(0, HIGH)
    yield Case(
        name="log-normal pair",
        frame=pd.DataFrame(skewed, columns=list("xy")),
        attributes=(amount("x"), amount("y")),
    )


def real(folder: Path) -> Iterator[Case]:
    """Columns of EU-SILC and of the SDNist excerpt."""
    silc = pd.read_parquet(folder / "eusilc" / "eusilc.parquet")
    for name in ("eqIncome", "py010n", "hy050n", "hy090n", "py090n"):
        told = silc[[name]].dropna().round(2)
        yield Case(name=name, frame=told, attributes=(amount(name),))
    people = pd.read_parquet(folder / "sdnist" / "ma2019.parquet")
    earned = pd.to_numeric(people["PINCP"], errors="coerce").dropna()
    yield Case(name="PINCP", frame=earned.to_frame(), attributes=(amount("PINCP", -20_000, 1_500_000),))
    age = us.Attribute(name="age", bounds=(0, 97), integer=True)
    silc["age"] = silc["age"].clip(0, 97).astype(int)
    adults = silc.dropna(subset=["py010n"])
    yield Case(name="eqIncome, age", frame=silc[["eqIncome", "age"]].round(2), attributes=(amount("eqIncome"), age))
    yield Case(name="py010n, age", frame=adults[["py010n", "age"]].round(2), attributes=(amount("py010n"), age))
    for one, other in (("eqIncome", "hy090n"), ("eqIncome", "py010n")):
        yield Case(
            name=f"{one}, {other}",
            frame=silc[[one, other]].dropna().round(2),
            attributes=(amount(one), amount(other)),
        )


def measured(true: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Of the first column: relative errors of mean and 99th percentile, error of the Gini coefficient, Wasserstein
    distance over the mean (of absolute values, if some are negative). Of two columns: errors of the correlations of
    ranks and of values."""
    name = true.columns[0]
    one, other = np.sort(true[name].to_numpy(float)), np.sort(made[name].to_numpy(float))
    same = np.quantile(other, (np.arange(len(one)) + 0.5) / len(one))
    scale = np.abs(one).mean() if true.shape[1] == 1 else one.std()
    found = {
        "mean": (other.mean() - one.mean()) / scale,
        "gini": gini(other) - gini(one),
        "q99": (np.quantile(other, 0.99) - np.quantile(one, 0.99)) / abs(np.quantile(one, 0.99)),
        "wasserstein": float(np.abs(same - one).mean() / scale),
    }
    if true.shape[1] == 2:
        numbers = made.astype(float)
        found["ranks"] = numbers.corr(method="spearman").iloc[0, 1] - true.corr(method="spearman").iloc[0, 1]
        found["values"] = numbers.corr().iloc[0, 1] - true.corr().iloc[0, 1]
    return {key: round(float(value), 6) for key, value in found.items()}


def gini(values: np.ndarray) -> float:
    places = np.arange(1, len(values) + 1)
    return float((2 * places - len(values) - 1) @ values / (len(values) * values.sum()))


def by_bounds(case: Case, budget: str) -> pd.DataFrame:
    method = "independent" if case.frame.shape[1] == 1 else "auto"
    return us.synthesize(
        case.frame, schema=us.Schema(attributes=case.attributes), budget=BUDGETS[budget], method=method
    ).to_pandas()


def by_looking(case: Case, budget: str) -> pd.DataFrame:
    """Bins at quantiles, from the smallest to the largest value: what nobody may know."""
    attributes = []
    for one in case.attributes:
        values = case.frame[one.name]
        found = {float(cut) for cut in np.quantile(values, (*np.linspace(0, 1, 21), *TAIL))}
        for spike in (0.0, 12_000.0):
            if (values == spike).mean() > 0.02:
                found |= {spike, spike + 0.01}
        cuts = sorted(found)
        attributes.append(us.Attribute(name=one.name, edges=tuple(cuts)))
    method = "independent" if case.frame.shape[1] == 1 else "auto"
    schema = us.Schema(attributes=tuple(attributes))
    return us.synthesize(case.frame, schema=schema, budget=BUDGETS[budget], method=method).to_pandas()


def by_dpmm(case: Case, budget: str) -> pd.DataFrame:
    if budget == "epsilon 1":
        raise LookupError("dpmm's MST has a delta")
    low, high = case.attributes[0].bounds
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.csv", Path(folder) / "out.csv"
        case.frame.to_csv(data, index=False)
        peer = Path(__file__).with_name("amount_peer.py")
        subprocess.run(
            [os.environ["PEER_PYTHON"], str(peer), str(data), str(low), str(high), "1", "1e-9", str(out)],
            check=True, capture_output=True,
        )  # fmt: skip
        return pd.read_csv(out)


def run(results: Path, runs: int) -> None:
    contenders = {"bounds": by_bounds, "looked": by_looking}
    if "PEER_PYTHON" in os.environ:
        contenders["dpmm"] = by_dpmm
    folder = os.environ.get("UNDERSTUDY_DATA")

    def cases(number: int) -> list[Case]:
        return [*generated(np.random.default_rng([2026, 11, number])), *(real(Path(folder)) if folder else ())]

    measure(results, runs, cases, contenders)


def measure(
    results: Path,
    runs: int,
    cases: Callable[[int], list[Case]],
    contenders: Mapping[str, Callable[[Case, str], pd.DataFrame]],
) -> None:
    """Every contender on every case, in so many runs, but for what the file of results has already."""
    done = set()
    if results.exists():
        with results.open() as file:
            done = {(row["case"], row["budget"], row["contender"], row["run"]) for row in csv.DictReader(file)}
    else:
        results.write_text(",".join(FIELDS) + "\n")
    for number in range(runs):
        for case in cases(number):
            for budget in BUDGETS:
                for contender, make in contenders.items():
                    if (case.name, budget, contender, str(number)) in done:
                        continue
                    two = case.frame.shape[1] == 2
                    if contender == "dpmm" and (budget == "epsilon 1" or two):
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = measured(case.frame, make(case, budget))
                    row = {"case": case.name, "budget": budget, "contender": contender, "run": number, **found}
                    with results.open("a") as file:
                        csv.DictWriter(file, FIELDS).writerow(row)


def show(results: Path) -> None:
    """Worst and median errors of each, and Wasserstein distances beside those of the others."""
    table = pd.read_csv(results)
    print("| columns | budget | runs | mean, median / worst | within 1% | Gini, worst | q99, worst | Wasserstein | "
          "/ dpmm | / looked | ranks, mean / worst | values, mean / worst |")  # fmt: skip
    print("|" + "---|" * 12)
    for (case, budget), part in table.groupby(["case", "budget"], sort=False):
        of = dict(iter(part.groupby("contender")))
        own = of.get("bounds")
        if own is None:
            continue
        far = own["mean"].abs()
        middle = {name: one["wasserstein"].median() for name, one in of.items()}
        beside = [f"{middle['bounds'] / middle[name]:.2f}" if name in middle else "" for name in ("dpmm", "looked")]
        together = ["", ""]
        if own["ranks"].notna().any():
            together = [f"{own[what].mean():+.3f} / {own[what].abs().max():.3f}" for what in ("ranks", "values")]
        print(
            f"| {case} | {budget} | {len(own)} | {far.median():.2%} / {far.max():.2%} | {(far < 0.01).sum()} | "
            f"{own['gini'].abs().max():.4f} | {own['q99'].abs().max():.1%} | {middle['bounds']:.4f} | "
            f"{' | '.join(beside)} | {' | '.join(together)} |"
        )


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 10)
    else:
        show(Path(sys.argv[2]))
