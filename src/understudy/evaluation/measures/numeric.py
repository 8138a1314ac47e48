"""Numeric and date attributes by their values, not their bins: moments, quantiles, histograms, Kolmogorov-Smirnov."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.bounds import spacing_between
from understudy.core.result import Finding, Section
from understudy.core.schema import Attribute
from understudy.engines.reading.values import as_number, values_of
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
NEAR_ZERO = 0.05  # of the largest bound
HISTOGRAM_BINS = 40
CRITICAL = 1.3581  # Kolmogorov's 95 percent point


def kolmogorov_smirnov(first: Floats, second: Floats) -> float:
    """The largest difference of two empirical distribution functions.

    >>> kolmogorov_smirnov(np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    0.5
    """
    first, second = np.sort(first), np.sort(second)
    both = np.concatenate([first, second])
    below = [np.searchsorted(one, both, side="right") / len(one) for one in (first, second)]
    return float(np.max(np.abs(below[0] - below[1])))


@measures.add
def numeric(comparison: Comparison) -> Section:
    """Means, quantiles, histograms and the Kolmogorov-Smirnov distance of every numeric or date attribute."""
    found = Collected()
    attributes = [attribute for attribute in comparison.schema.attributes if not attribute.levels]
    if not attributes:
        found.omit("numeric", "all of it", "no attribute of the schema is numeric")
        return found.section()
    rows = comparison.original_rows
    summaries: list[dict[str, Any]] = []
    quantiles: list[dict[str, Any]] = []
    histograms: list[dict[str, Any]] = []
    for attribute in attributes:
        name = attribute.name
        original = _present(values_of(rows[name], comparison.original.columns[name], attribute))
        copies = [
            _present(values_of(comparison.release.frame(number)[name], copy.columns[name], attribute))
            for number, copy in enumerate(comparison.copies, start=1)
        ]
        if not len(original) or not all(len(copy) for copy in copies):
            side = "the original" if not len(original) else "a synthetic table"
            found.omit("numeric", name, f"every value is missing or a special code in {side}")
            continue
        summaries.append(_summary(name, original, copies))
        for at in QUANTILES:
            of_copies = [float(np.quantile(copy, at)) for copy in copies]
            value = float(np.quantile(original, at))
            quantiles.append(
                {
                    "attribute": name,
                    "quantile": at,
                    "original": value,
                    "synthetic": float(np.mean(of_copies)),
                    "difference": float(np.mean(of_copies)) - value,
                }
            )
        histograms += _histogram(attribute, original, copies)
    found.frames["numeric"] = frame(summaries)
    found.frames["quantiles"] = frame(quantiles)
    found.frames["histograms"] = frame(histograms)
    if summaries:
        worst = max(summaries, key=lambda row: row["ks"] / row["ks_critical"])
        beyond = worst["ks"] > worst["ks_critical"]
        found.findings.append(
            Finding(
                code="utility.ks",
                title=f"largest Kolmogorov-Smirnov distance for its sample size: {worst['attribute']}"
                f" ({'beyond' if beyond else 'within'} the 5 percent point of two samples)",
                value=worst["ks"],
                severity="warning" if beyond else "good",
            )
        )
    return found.section()


def _present(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _summary(name: str, original: Floats, copies: list[Floats]) -> dict[str, Any]:
    distances = [kolmogorov_smirnov(original, copy) for copy in copies]
    sizes = [np.sqrt((len(original) + len(copy)) / (len(original) * len(copy))) for copy in copies]
    return {
        "attribute": name,
        "mean_original": float(original.mean()),
        "mean_synthetic": float(np.mean([copy.mean() for copy in copies])),
        "sd_original": float(original.std(ddof=1)) if len(original) > 1 else None,
        "sd_synthetic": float(np.mean([copy.std(ddof=1) for copy in copies])) if min(map(len, copies)) > 1 else None,
        "ks": float(np.mean(distances)),
        "ks_critical": CRITICAL * float(np.mean(sizes)),
    }


def _histogram(attribute: Attribute, original: Floats, copies: list[Floats]) -> list[dict[str, Any]]:
    """Shares in equal classes between the public bounds of the schema; of amounts equal on the scale of their grid, and
    with the bins that were found."""
    low, high = as_number(attribute.edges[0]), as_number(attribute.edges[-1])
    edges, scale = np.linspace(low, high, HISTOGRAM_BINS + 1), 0.0
    if _amounts(attribute):
        scale = spacing_between(low, high, heavy_tail=attribute.heavy_tail, scale=attribute.scale).small
        edges = np.sinh(np.linspace(np.arcsinh(low / scale), np.arcsinh(high / scale), HISTOGRAM_BINS + 1)) * scale
        edges[0], edges[-1] = low, high
    found = " ".join(repr(as_number(edge)) for edge in attribute.edges) if attribute.found else ""
    shares = [np.histogram(values, edges)[0] / len(values) for values in (original, *copies)]
    synthetic = np.mean(shares[1:], axis=0)
    return [
        {
            "attribute": attribute.name,
            "kind": attribute.kind,
            "from": float(edges[place]),
            "to": float(edges[place + 1]),
            "original": float(shares[0][place]),
            "synthetic": float(synthetic[place]),
            "scale": scale,
            "found_edges": found,
        }
        for place in range(HISTOGRAM_BINS)
    ]


def _amounts(attribute: Attribute) -> bool:
    """Whether there is a long tail: the schema says so, or most of the bins that were found are near zero."""
    if attribute.heavy_tail or not attribute.found or attribute.kind == "date":
        return attribute.heavy_tail
    ends = np.abs([as_number(edge) for edge in attribute.edges])
    spacing = spacing_between(as_number(attribute.bounds[0]), as_number(attribute.bounds[1]), heavy_tail=False)
    return spacing.long and float(np.median(ends)) < NEAR_ZERO * float(ends.max())
