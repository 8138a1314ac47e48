"""Train on synthetic, test on real: does a model learnt from the release predict real people as well as one learnt
from real rows?

The test rows are the holdout or, without one, a random half of the original; the reference learns from the (other)
original rows and always from as many rows as the synthetic one. Every attribute is predicted from all others. Without a
holdout the release was made from the test rows too, and may look better than the reference: ``tested_on`` says which.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.errors import missing_extra
from understudy.evaluation.inputs.comparison import WIDE, Comparison, shuffled
from understudy.evaluation.shared.classifier_columns import tree_features
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame

FEWEST = 40
TREES, FEW_TREES = 25, 12  # of a forest; the fewer, where there are many attributes to predict
NOTABLE = 0.1  # a loss of accuracy above this is worth a warning
MOST_COPIES = 3


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
