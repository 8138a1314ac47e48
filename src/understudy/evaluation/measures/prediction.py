"""Train on synthetic, test on real: does a model learnt from the release predict real people as well as one learnt
from real rows?

The test rows are the holdout or, without one, a random half of the original; the reference learns from the (other)
original rows and always from as many rows as the synthetic one. Every attribute is predicted from all others. Without a
holdout the release was made from the test rows too, and may look better than the reference: ``tested_on`` says which.

``prediction`` has the accuracy of a forest, for every attribute. ``discrimination`` has the area under the curve of
boosted trees and of a logistic model, for the outcomes that the schema's workload asks to predict or, without any, for
the attribute that real rows predict best. The event is the second of two levels, and above the median of more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.core.workload import predicted_outcomes
from understudy.errors import missing_extra
from understudy.evaluation.inputs.comparison import WIDE, Comparison, shuffled
from understudy.evaluation.shared.classifier_columns import tree_features
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame

FEWEST = 40
TREES, FEW_TREES = 25, 12  # of a forest; the fewer, where there are many attributes to predict
NOTABLE = 0.1  # a loss of accuracy above this is worth a warning
MOST_COPIES = 3
MODELS = ("boosted trees", "logit")
BOOSTED, MOST_STEPS = 40, 200  # trees, and steps of the logistic fit


@measures.add
def prediction(comparison: Comparison) -> Section:
    """Train on synthetic, test on real, beside the same model trained on real rows and guessing the commonest level."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise missing_extra("train on synthetic, test on real", "scikit-learn", "evaluate") from None
    found = Collected()
    if len(comparison.names) < 2:
        found.omit("prediction", "all of it", "the schema has one attribute only")
        return found.section()
    learn, (test_table, test) = _split(comparison)
    copies = comparison.copies[:MOST_COPIES]
    if len(copies) < len(comparison.copies):
        found.omit("prediction", f"copies {MOST_COPIES + 1} and on", f"the first {MOST_COPIES} are used")
    size = min(len(learn), comparison.largest, *(copy.rows for copy in copies))
    if size < FEWEST or len(test) < FEWEST:
        found.omit("prediction", "all of it", f"needs {FEWEST} rows to learn from and as many to test on")
        return found.section()
    rows: list[dict[str, Any]] = []
    for target in comparison.names:
        truth = np.asarray(test_table.columns[target])[test]
        if len(np.unique(np.asarray(comparison.original.columns[target])[learn])) < 2:
            found.omit("prediction", target, "it is constant in the rows to learn from")
            continue
        real = _accuracy(comparison, (comparison.original, learn[:size]), (test_table, test), target)
        from_copies = [_accuracy(comparison, (copy, _first(copy, size)), (test_table, test), target) for copy in copies]
        guess = np.bincount(np.asarray(comparison.original.columns[target])[learn]).argmax()
        baseline = float(np.mean(truth == guess))
        synthetic = float(np.mean(from_copies))
        rows.append(
            {
                "target": target,
                "tested_on": "holdout" if comparison.holdout is not None else "half of the original",
                "rows_learnt_from": size,
                "test_rows": len(test),
                "guessing": baseline,
                "trained_on_real": real,
                "trained_on_synthetic": synthetic,
                "difference": synthetic - real,
                "gain_kept": (synthetic - baseline) / (real - baseline) if real - baseline > 0.01 else None,
            }
        )
    rows.sort(key=lambda row: row["difference"])
    found.frames["prediction"] = frame(rows)
    areas = []
    for target in _outcomes(comparison, rows):
        learnt = {"real": (comparison.original, learn[:size]), "synthetic": (copies[0], _first(copies[0], size))}
        got = {who: _areas(comparison, one, (test_table, test), target) for who, one in learnt.items()}
        for model in MODELS:
            from_real, from_made = (got[who][model] for who in learnt)
            if from_real is None or from_made is None:
                found.omit("prediction", f"{target}, {model}", "everybody learnt from or tested on has one value")
                continue
            areas.append({"target": target, "model": model, "trained_on_real": from_real,
                          "trained_on_synthetic": from_made, "difference": from_made - from_real})  # fmt: skip
    found.frames["discrimination"] = frame(areas)
    if rows:
        found.findings.append(
            Finding(
                code="utility.tstr",
                title=f"largest loss of accuracy when trained on synthetic and tested on real: {rows[0]['target']}",
                value=-rows[0]["difference"],
                severity="warning" if rows[0]["difference"] < -NOTABLE else "good",
                reference="train on synthetic, test on real",
            )
        )
    return found.section()


def _outcomes(comparison: Comparison, rows: list[dict[str, Any]]) -> list[str]:
    """The attributes that the workload asks to predict; else the one that real rows predict best beyond guessing."""
    named = [outcome for outcome in predicted_outcomes(comparison.schema) if outcome in comparison.names]
    if named or not rows:
        return named
    return [max(rows, key=lambda row: float(row["trained_on_real"] - row["guessing"]))["target"]]


def _areas(
    comparison: Comparison, learn: tuple[CodedTable, Integers], test: tuple[CodedTable, Integers], target: str
) -> dict[str, float | None]:
    """The area under the curve of each model; none where there is only one value."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    others = [name for name in comparison.names if name != target]
    features, count = tree_features(comparison.schema, [learn, test], others).matrix, len(learn[1])
    codes = [np.asarray(table.columns[target])[rows] for table, rows in (learn, test)]
    middle = float(np.median(np.asarray(comparison.original.columns[target])))
    above = min(middle, float(np.asarray(comparison.original.columns[target]).max()) - 1)
    events = [one > above for one in codes]
    if any(one.all() or not one.any() for one in events):
        return dict.fromkeys(MODELS)
    boosted = HistGradientBoostingClassifier(max_iter=BOOSTED, early_stopping=False, random_state=0)
    logit = LogisticRegression(max_iter=MOST_STEPS)
    # Codes of ordered attributes are up to hundreds; a logistic model needs columns of about equal size.
    size = np.maximum(np.abs(features[:count]).max(axis=0), 1.0)
    found: dict[str, float | None] = {}
    for name, model, columns in zip(MODELS, (boosted, logit), (features, features / size), strict=True):
        model.fit(columns[:count], events[0])
        found[name] = float(roc_auc_score(events[1], model.predict_proba(columns[count:])[:, 1]))
    return found


def _split(comparison: Comparison) -> tuple[Integers, tuple[CodedTable, Integers]]:
    """Original rows to learn from, and the table and rows to test on."""
    order = shuffled(comparison.original.rows, "learn and test")
    if comparison.holdout is not None:
        return order, (comparison.holdout, shuffled(comparison.holdout.rows, "test")[: comparison.largest])
    half = len(order) // 2
    return order[:half], (comparison.original, order[half:][: comparison.largest])


def _first(copy: CodedTable, size: int) -> Integers:
    return shuffled(copy.rows, "learn")[:size]


def _accuracy(
    comparison: Comparison, learn: tuple[CodedTable, Integers], test: tuple[CodedTable, Integers], target: str
) -> float:
    from sklearn.ensemble import RandomForestClassifier

    others = [name for name in comparison.names if name != target]
    features = tree_features(comparison.schema, [learn, test], others).matrix
    count = len(learn[1])
    wanted: list[NDArray[Any]] = [np.asarray(table.columns[target])[rows] for table, rows in (learn, test)]
    trees = TREES if comparison.thorough or len(comparison.names) <= WIDE else FEW_TREES
    forest = RandomForestClassifier(n_estimators=trees, min_samples_leaf=5, random_state=0)
    forest.fit(features[:count], wanted[0])
    return float(np.mean(forest.predict(features[count:]) == wanted[1]))
