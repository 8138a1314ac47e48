"""Models of somebody else's package, fitted to posterior copies: how often their intervals hold the population's value.

    python benchmarks/proving/outside.py [--releases 40] [--seed 1]

``infer`` has neither a negative binomial regression nor a Cox regression; statsmodels has. Each release measures the
table of the question with noise and is drawn as 25 copies with ``draws=posterior``. Two ways of reading them:

- ``T_f*``: a fit to each copy (five times as many rows as records), combined by the rule for such copies;
- ``mixture``: the downstream posterior of each copy, here its normal approximation, mixed with equal weights (Raisa,
  Jalko and Honkela 2025). The mixture tends to the posterior given the release as copies get more rows.

Beside them the fit to one copy as if it were the records. Truth is the same model fitted to the whole population.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import understudy as us
from understudy.inference.combining import combine
from understudy.privacy.randomness.streams import SeededStream

PEOPLE, RECORDS, COPIES, TIMES = 40_000, 1000, 25, 5
Z = 1.959964
Fit = Callable[[dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]  # coded columns: estimates and their variances


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A model of another package, the attributes it reads and how people come by them."""

    name: str
    sizes: dict[str, int]
    people: Callable[[np.random.Generator], dict[str, np.ndarray]]
    fit: Fit


def visits(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Numbers of visits that vary more than Poisson counts do."""
    sex, age = rng.integers(2, size=PEOPLE), rng.choice(3, PEOPLE, p=[0.3, 0.4, 0.3])
    rate = np.exp(-0.1 + 0.4 * sex + 0.25 * age) * rng.gamma(1 / 0.6, 0.6, PEOPLE)
    return {"sex": sex, "age": age, "visits": np.minimum(rng.poisson(rate), 6)}


def negative_binomial(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    from statsmodels.discrete.discrete_model import NegativeBinomial

    design = np.column_stack([np.ones(len(rows["sex"])), rows["sex"], rows["age"]])
    found = NegativeBinomial(rows["visits"], design).fit(disp=0, maxiter=100, method="bfgs", gtol=1e-4)
    return np.asarray(found.params)[:3], np.diag(np.asarray(found.cov_params()))[:3]


def durations(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pairs of months until something happens, of which some people's are cut off."""
    group, old = rng.integers(2, size=PEOPLE), (rng.random(PEOPLE) < 0.4).astype(int)
    hazard = 0.12 * np.exp(0.5 * group - 0.4 * old)
    time_to, gone = rng.exponential(1 / hazard), rng.exponential(12, PEOPLE)
    month = np.minimum(np.minimum(time_to, gone).astype(int) // 2, 4)
    return {"group": group, "old": old, "month": month, "event": ((time_to <= gone) & (time_to < 10)).astype(int)}


def cox(rows: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    from statsmodels.duration.hazard_regression import PHReg

    design = np.column_stack([rows["group"], rows["old"]]).astype(float)
    found = PHReg(rows["month"] + 1.0, design, status=rows["event"], ties="efron").fit()
    return np.asarray(found.params), np.diag(np.asarray(found.cov_params()))


MODELS = (
    Outside(name="negative binomial", sizes={"sex": 2, "age": 3, "visits": 7}, people=visits, fit=negative_binomial),
    Outside(name="Cox", sizes={"group": 2, "old": 2, "month": 5, "event": 2}, people=durations, fit=cox),
)


def schema_of(model: Outside) -> us.Schema:
    return us.Schema(
        attributes=tuple(
            us.Attribute(name=name, levels=tuple(str(code) for code in range(size)))
            for name, size in model.sizes.items()
        )
    )


def released(model: Outside, people: dict[str, np.ndarray], rng: np.random.Generator, epsilon: float) -> us.Release:
    """A release of a sample, with posterior copies of a table of all attributes."""
    import pyarrow as pa

    picked = rng.integers(PEOPLE, size=RECORDS)
    table = pa.table({name: column[picked].astype(str) for name, column in people.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(
            us.open_source(table, schema_of(model)),
            method="ipf",
            margins="+".join(model.sizes),
            draws="posterior",
            budget=us.PureDP(epsilon=epsilon),
            copies=COPIES,
            rows=TIMES * RECORDS,
            stream=SeededStream(int(rng.integers(2**62))),
        )


def intervals(
    model: Outside, release: us.Release, rng: np.random.Generator
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The three readings of a release, as ends of 95 percent intervals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [model.fit(dict(release.coded(copy).columns)) for copy in range(1, release.copies + 1)]
    q, v = (np.array([one[part] for one in fits]) for part in (0, 1))
    mixed = (q[:, None, :] + rng.standard_normal((len(q), 400, q.shape[1])) * np.sqrt(v)[:, None, :]).reshape(
        -1, q.shape[1]
    )
    low, high = np.quantile(mixed, [0.025, 0.975], axis=0)
    half = Z * np.sqrt(v[0] * TIMES)  # as if the first copy were the records
    return {
        "T_f*": combine(q, v, rule="T_f*", kappa=float(TIMES)).interval(),
        "mixture": (low, high),
        "one copy as records": (q[0] - half, q[0] + half),
    }


def measure(model: Outside, releases: int, seed: int, epsilon: float) -> dict[str, tuple[float, float]]:
    """For each reading the share of intervals that held, and their mean width."""
    rng = np.random.default_rng([seed, len(model.name)])
    people = model.people(rng)
    true = model.fit(people)[0]
    held: dict[str, list[float]] = {}
    widths: dict[str, list[float]] = {}
    for _ in range(releases):
        release = released(model, people, rng, epsilon)
        for name, (low, high) in intervals(model, release, rng).items():
            held.setdefault(name, []).append(float(np.mean((low <= true) & (true <= high))))
            widths.setdefault(name, []).append(float(np.mean(high - low)))
    return {name: (float(np.mean(held[name])), float(np.mean(widths[name]))) for name in held}


def main() -> int:
    parser = argparse.ArgumentParser(prog="outside", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| model | epsilon | reading | held | width |\n|---|---|---|---|---|")
    for model in MODELS:
        for epsilon in (1.0, 4.0):
            began = time.process_time()
            for name, (share, width) in measure(model, given.releases, given.seed, epsilon).items():
                print(f"| {model.name} | {epsilon:g} | {name} | {share:.3f} | {width:.3f} |", flush=True)
            print(f"<!-- {time.process_time() - began:.0f} s -->")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
