"""Weighted estimates and standard errors by R's package ``survey``, for tests/unit/inference/test_weighting.py.

``python tests/golden/make_survey.py`` needs Rscript with the package; it writes ``survey.json``.
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Names of designs, and what R is told of each.
DESIGNS = {
    "weights": "svydesign(ids=~1, weights=~w, data=d)",
    "clusters": "svydesign(ids=~cluster, weights=~w, data=d)",
    "strata": "svydesign(ids=~1, strata=~region, weights=~w, data=d)",
    "finite": "svydesign(ids=~1, weights=~w, fpc=~n, data=d)",
}


def people(n: int = 4000, seed: int = 11) -> dict[str, np.ndarray]:
    """A sample of three regions with very different shares, of clusters of four people."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n // 4), 4)
    region = np.array(["N", "M", "S"])[np.sort(rng.choice(3, n // 4, p=(0.5, 0.3, 0.2)))][cluster]
    w = np.array([1.0, 3.0, 10.0])[rng.integers(0, 3, n // 4)][cluster]
    base = rng.normal(0, 1, n // 4)[cluster] + np.select([region == "N", region == "M"], [-1.0, 0.0], 1.5)
    poor = (base + rng.normal(0, 1, n) + 0.2 * np.log(w)) > 0.5
    score = np.clip(np.floor(5 + 1.2 * base + rng.normal(0, 1, n)), 0, 9).astype(int)
    return {"region": region, "poor": np.where(poor, "yes", "no"), "score": score, "w": w, "cluster": cluster}


def script() -> str:
    asked = []
    for name, design in DESIGNS.items():
        asked.append(f"s <- {design}")
        questions = {
            "proportion(poor == 'yes')": "p <- svymean(~poor, s); v <- p['pooryes']; e <- SE(p)['pooryes']",
            "mean(score)": "p <- svymean(~score, s); v <- coef(p); e <- SE(p)",
            "count(poor == 'yes')": "p <- svytotal(~poor, s); v <- p['pooryes']; e <- SE(p)['pooryes']",
            "proportion(region == 'S')": "p <- svymean(~region, s); v <- p['regionS']; e <- SE(p)['regionS']",
        }
        for question, code in questions.items():
            asked.append(f'{code}; cat("{name}", "{question}", v, e, sep=\'|\', fill=10000)')
        asked.append(
            "m <- svyglm(I(poor == 'yes') ~ region, s, family=quasibinomial()); "
            f'cat("{name}", "poor ~ region", coef(m), sqrt(diag(vcov(m))), sep=\'|\', fill=10000)'
        )
    return "\n".join(
        ["suppressMessages(library(survey)); options(digits=12)",
         "d <- read.csv(commandArgs(TRUE)[1], stringsAsFactors=TRUE); d$n <- 2 * nrow(d)",
         "d$region <- factor(d$region, levels=c('N', 'M', 'S'))", *asked]
    )  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, code = Path(folder, "d.csv"), Path(folder, "s.R")
        columns = people()
        with data.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        code.write_text(script(), encoding="utf-8")
        told = subprocess.run(
            ["Rscript", str(code), str(data)],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    found: dict[str, dict[str, list[list[float]]]] = {}
    for line in told.splitlines():
        design, question, *numbers = line.split("|")
        half = len(numbers) // 2
        found.setdefault(design, {})[question] = [
            [float(value), float(error)] for value, error in zip(numbers[:half], numbers[half:], strict=True)
        ]
    (HERE / "survey.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
