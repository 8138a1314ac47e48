"""Can a classifier tell synthetic rows from original ones? Propensity scores by CART, by logit and by boosting.

General pMSE = mean of (p - c)^2 over all N rows. S_pMSE divides it by what a correct model would give:

- formula (logit): (p - 1) c (1-c)^2 / N with p - 1 coefficients beside the intercept (Snoke et al. 2018);
- permutation (CART, boosting): (1-c) times the mean pMSE after the labels are shuffled. Shuffling varies both sides,
  a correct model only the synthetic one, hence (1-c);
- copies: 8 (c (1-c))^2 times the mean pMSE between pairs of copies, by the same argument.

Numeric attributes enter by their bins; ``numeric`` measures what happens within bins. Boosting is cross-fitted in
two halves, so its scores are out of sample; the tree's are in sample and its permutations make up for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.errors import missing_extra
from understudy.evaluation.inputs.comparison import Comparison, shuffled
from understudy.evaluation.shared.classifier_columns import Features, dummy_features, tree_features
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame
from understudy.evaluation.shared.table_measures import SEVERITY_OF_BAND, band
from understudy.models.coded_regression import fit_logit, probabilities

Labels = NDArray[np.bool_]
GOOD_AREA, USABLE_AREA = 0.6, 0.75
LEAF = 20  # rows of the smallest leaf
MOST_COLUMNS = 800  # of a logit; beyond it the interactions, and then the logit itself, are left out
HISTOGRAM_BINS = 25
MOST_PAIRS = 10
SNOKE = "Snoke et al. (2018), JRSS A 181"


@dataclass(slots=True)
class _Scores:
    """What one classifier found on one pair of tables."""

    scores: Floats
    coefficients: int | None = None
    importance: dict[str, float] = field(default_factory=dict)
    form: str = ""


Classifier = Callable[[Comparison, CodedTable, CodedTable, int | None], _Scores | None]


def score_measures(scores: Floats, synthetic: Labels) -> dict[str, float]:
    """pMSE, SPECKS, PO50, U and the area under the curve of propensity scores.

    >>> found = score_measures(np.array([0.2, 0.8]), np.array([False, True]))
    >>> found["specks"], found["po50"], found["mann_whitney"]
    (1.0, 50.0, 1.0)
    """
    c = float(synthetic.mean())
    values, place = np.unique(scores, return_inverse=True)
    s = np.bincount(place[synthetic], minlength=len(values)).astype(np.float64)
    d = np.bincount(place[~synthetic], minlength=len(values)).astype(np.float64)
    u = float(np.sum(s * (np.cumsum(d) - d / 2)))
    right = float(s[values > c].sum() + d[values <= c].sum())
    return {
        "pmse": float(np.mean((scores - c) ** 2)),
        "specks": float(np.max(np.abs(np.cumsum(s) / s.sum() - np.cumsum(d) / d.sum()))),
        "po50": 100 * right / len(scores) - 50,
        "mann_whitney": u,
        "auc": u / (s.sum() * d.sum()),
    }


@measures.add
def propensity(comparison: Comparison) -> Section:
    """Propensity scores by CART, logit and boosting: pMSE, S_pMSE, SPECKS, PO50, U; what gives synthetic rows away."""
    _need_scikit_learn()
    found = Collected()
    if comparison.original.rows < 2 * LEAF or min(copy.rows for copy in comparison.copies) < 2 * LEAF:
        found.omit("propensity", "all of it", f"a classifier needs {2 * LEAF} rows on each side")
        return found.section()
    rows: list[dict[str, Any]] = []
    histograms: list[dict[str, Any]] = []
    with _one_thread():
        for name, classify in CLASSIFIERS.items():
            row = _one(comparison, name, classify, found, histograms)
            if row is not None:
                rows.append(row)
                found.findings += _findings(row)
    found.frames["propensity"] = frame(rows)
    found.frames["propensity_histogram"] = frame(histograms)
    return found.section()


def _one(
    comparison: Comparison, name: str, classify: Classifier, found: Collected, histograms: list[dict[str, Any]]
) -> dict[str, Any] | None:
    fitted: list[_Scores] = []
    measured: list[dict[str, float]] = []
    for copy in comparison.copies:
        result = classify(comparison, comparison.original, copy, None)
        if result is None:
            found.omit("propensity", name, f"it would need more than {MOST_COLUMNS} coefficients")
            return None
        labels = _labels(comparison, comparison.original, copy)
        fitted.append(result)
        measured.append(score_measures(result.scores, labels))
        if len(fitted) == 1:
            histograms += _histogram(name, result.scores, labels)
    null, expected, shuffled_importance, by_chance = _null(comparison, classify, fitted)
    if expected is None:
        found.omit("propensity", f"S_pMSE of {name}", f"there is no {comparison.null} for this classifier")
    if fitted[0].importance:
        found.frames["giveaways"] = _giveaways(fitted, shuffled_importance)
    labels = _labels(comparison, comparison.original, comparison.copies[0])
    mean = {key: float(np.mean([one[key] for one in measured])) for key in measured[0]}
    ratios = [one["pmse"] / expected for one in measured] if expected else []
    return {
        "classifier": name,
        "form": fitted[0].form,
        "copies": len(measured),
        "original_rows": int(np.sum(~labels)),
        "synthetic_rows": int(np.sum(labels)),
        **mean,
        "null": null,
        "expected_pmse": expected,
        "s_pmse": float(np.mean(ratios)) if ratios else None,
        "s_pmse_sd": float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
        "auc_by_chance": by_chance,
        "band": band_of_classifier(float(np.mean(ratios)), mean["auc"], by_chance) if ratios else None,
    }


def band_of_classifier(s_pmse: float, auc: float, by_chance: float) -> str:
    """The worse of what S_pMSE says and what the area under the curve means, above what overfitting alone gives.

    The area is how often the classifier is right about which of two rows, one real and one synthetic, is the real one.
    Of 100 pairs it may tell 60 where it is good (50 are told by tossing a coin), and 75 where it is usable.

    >>> band_of_classifier(3.0, 0.87, 0.5), band_of_classifier(3.0, 0.87, 0.84), band_of_classifier(40.0, 0.55, 0.5)
    ('poor', 'good', 'poor')
    """
    told = 0.5 + max(auc - by_chance, 0.0)
    of_area = "good" if told <= GOOD_AREA else "usable" if told <= USABLE_AREA else "poor"
    return max(band(s_pmse), of_area, key=("good", "usable", "poor").index)


def _null(
    comparison: Comparison, classify: Classifier, fitted: list[_Scores]
) -> tuple[str, float | None, dict[str, float], float]:
    """How pMSE is standardised, its expectation for a correct model, the importances of shuffled labels, and the area
    under the curve that the classifier reaches on rows that cannot be told apart (it is judged on what it learned)."""
    labels = _labels(comparison, comparison.original, comparison.copies[0])
    c, total = float(labels.mean()), len(labels)
    null = comparison.null
    if null == "auto":
        null = "formula" if fitted[0].coefficients is not None else "permutation"
    if null == "formula":
        if fitted[0].coefficients is None:
            return null, None, {}, 0.5
        coefficients = fitted[0].coefficients
        # The distance of two samples of one population along the direction of their linear discriminant.
        by_chance = NormalDist().cdf(math.sqrt(coefficients / (2 * total * c * (1 - c))))
        return null, coefficients * c * (1 - c) ** 2 / total or None, {}, by_chance
    if null == "copies":
        pairs = list(combinations(comparison.copies, 2))[:MOST_PAIRS]
        found = [
            score_measures(scored.scores, _labels(comparison, first, second))
            for first, second in pairs
            if (scored := classify(comparison, first, second, None)) is not None
        ]
        if not found:
            return null, None, {}, 0.5
        expected = float(np.mean([one["pmse"] for one in found])) * 8 * (c * (1 - c)) ** 2 or None
        return null, expected, {}, float(np.mean([one["auc"] for one in found]))
    values: list[float] = []
    areas: list[float] = []
    importance: dict[str, float] = {}
    for number in range(comparison.permutations):
        scored = classify(comparison, comparison.original, comparison.copies[0], number)
        if scored is None:
            return null, None, {}, 0.5
        measured = score_measures(scored.scores, _permuted(labels, number))
        values.append(measured["pmse"])
        areas.append(measured["auc"])
        for key, value in scored.importance.items():
            importance[key] = importance.get(key, 0.0) + value / comparison.permutations
    return null, (1 - c) * float(np.mean(values)) or None, importance, float(np.mean(areas))


def _labels(comparison: Comparison, first: CodedTable, second: CodedTable) -> Labels:
    """False for the rows of the first table, True for those of the second."""
    sizes = [min(table.rows, comparison.largest) for table in (first, second)]
    return np.repeat([False, True], sizes)


def _permuted(labels: Labels, number: int) -> Labels:
    return labels[shuffled(len(labels), "permutation", number)]


def _pooled(comparison: Comparison, first: CodedTable, second: CodedTable) -> tuple[Features, Labels]:
    parts = [(table, comparison.some_rows(table, comparison.largest, "propensity")) for table in (first, second)]
    return tree_features(comparison.schema, parts, comparison.names), _labels(comparison, first, second)


def _cart(comparison: Comparison, first: CodedTable, second: CodedTable, permutation: int | None) -> _Scores:
    from sklearn.tree import DecisionTreeClassifier

    features, labels = _pooled(comparison, first, second)
    if permutation is not None:
        labels = _permuted(labels, permutation)
    tree = DecisionTreeClassifier(min_samples_leaf=LEAF, random_state=0).fit(features.matrix, labels)
    gains = tree.tree_.compute_feature_importances(normalize=False)
    importance: dict[str, float] = dict.fromkeys(comparison.names, 0.0)
    for name, gain in zip(features.owner, gains, strict=True):
        importance[name] += float(gain)
    scores = _probability(tree, features.matrix)
    return _Scores(scores=scores, importance=importance, form=f"tree with leaves of at least {LEAF} rows")


def _boosting(comparison: Comparison, first: CodedTable, second: CodedTable, permutation: int | None) -> _Scores:
    from sklearn.ensemble import HistGradientBoostingClassifier

    features, labels = _pooled(comparison, first, second)
    if permutation is not None:
        labels = _permuted(labels, permutation)
    half = np.zeros(len(labels), bool)
    half[shuffled(len(labels), "halves")[::2]] = True
    scores = np.zeros(len(labels))
    for learn, judge in ((half, ~half), (~half, half)):
        model = HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=15, min_samples_leaf=LEAF, early_stopping=False, random_state=0
        )
        model.fit(features.matrix[learn], labels[learn])
        scores[judge] = _probability(model, features.matrix[judge])
    return _Scores(scores=scores, form="40 boosted trees, cross-fitted in two halves")


def _logit(comparison: Comparison, first: CodedTable, second: CodedTable, permutation: int | None) -> _Scores | None:
    schema = comparison.schema
    chosen = [(table, comparison.some_rows(table, comparison.largest, "propensity")) for table in (first, second)]
    codes = np.stack(
        [np.concatenate([np.asarray(t.columns[name], np.int64)[rows] for t, rows in chosen]) for name in schema.names],
        axis=1,
    )
    labels = _labels(comparison, first, second)
    if permutation is not None:
        labels = _permuted(labels, permutation)
    kinds, place = np.unique(codes, axis=0, return_inverse=True)
    most = min(MOST_COLUMNS, len(labels) // 10)
    form = "main effects and all two-way interactions"
    design = dummy_features(schema, kinds, interactions=True, most=most)
    if design is None:
        form = f"main effects only (the interactions would need more than {most} coefficients)"
        design = dummy_features(schema, kinds, interactions=False, most=most)
    if design is None:
        return None
    x = design
    place = place.ravel()
    synthetic = np.bincount(place[labels], minlength=len(kinds)).astype(np.float64)
    weight = np.bincount(place, minlength=len(kinds)).astype(np.float64)
    fit = fit_logit(lambda: iter([(x, synthetic / weight, weight)]))
    return _Scores(scores=probabilities(x, fit)[place], coefficients=int(fit.used.sum()) - 1, form=form)


CLASSIFIERS: dict[str, Classifier] = {"CART": _cart, "logit": _logit, "boosting": _boosting}


def _probability(model: Any, matrix: NDArray[np.float32]) -> Floats:
    return np.asarray(model.predict_proba(matrix)[:, 1], np.float64)


def _one_thread() -> AbstractContextManager[Any]:
    """Many small fits: threads would wait for each other longer than they work."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1)
    return limits


def _need_scikit_learn() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise missing_extra("propensity scores by trees", "scikit-learn", "evaluate") from None


def _giveaways(fitted: list[_Scores], shuffled_importance: dict[str, float]) -> Any:
    """How much each attribute helps the tree beyond what it would find in shuffled labels."""
    rows = []
    for name in fitted[0].importance:
        value = float(np.mean([one.importance[name] for one in fitted]))
        noise = shuffled_importance.get(name)
        rows.append(
            {
                "attribute": name,
                "importance": value,
                "importance_of_shuffled_labels": noise,
                "excess": value - (noise or 0.0),
            }
        )
    return frame(sorted(rows, key=lambda row: -row["excess"]))


def _histogram(name: str, scores: Floats, labels: Labels) -> list[dict[str, Any]]:
    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    shares = [np.histogram(scores[side], edges)[0] / side.sum() for side in (~labels, labels)]
    return [
        {
            "classifier": name,
            "from": float(edges[place]),
            "to": float(edges[place + 1]),
            "original": float(shares[0][place]),
            "synthetic": float(shares[1][place]),
        }
        for place in range(HISTOGRAM_BINS)
    ]


def _findings(row: dict[str, Any]) -> list[Finding]:
    if row["s_pmse"] is None:
        return []
    return [
        Finding(
            code=f"utility.propensity.{row['classifier'].lower()}",
            title=f"S_pMSE by {row['classifier']} on all attributes ({row['band']}; null by {row['null']}; "
            f"area under the curve {row['auc']:.3f}, {row['auc_by_chance']:.3f} by chance)",
            value=row["s_pmse"],
            severity=SEVERITY_OF_BAND[row["band"]],
            reference=SNOKE,
        )
    ]
