"""From a release and confidential sources to what attacks work on; what cannot be attacked is refused here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.opening import open_source
from understudy.engines.reading.values import as_number, values_of
from understudy.errors import InputError
from understudy.evaluation.shared.attack import Material, Records, span_of
from understudy.evaluation.shared.record_cells import numbers_of
from understudy.privacy.promise.definition import ApproxDP, ProbabilisticDP, PureDP
from understudy.release import Release

FALSE_ALARM = 1e-4  # how rarely a holdout that shares nobody with the data may be refused


def material_of(
    release: Release,
    confidential: Any,
    *,
    holdout: Any = None,
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    synthesizer: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> Material:
    """Everything read and checked, once for all attacks."""
    if not isinstance(release, Release):
        raise InputError(f"a release is needed, not a {type(release).__name__}; wrap any synthetic table with us.wrap.")
    schema = release.schema
    _check_names(schema, keys, targets)
    original, frame = _confidential(confidential, schema, "the confidential data")
    if len(original) < 2:
        raise InputError("the confidential data have fewer than two records; there is nobody to tell apart.")
    copies = tuple(
        records_of(release.coded(copy), release.frame(copy), schema) for copy in range(1, release.copies + 1)
    )
    if min(len(copy) for copy in copies) < 2:
        raise InputError("a synthetic table has fewer than two records; nothing can be learned about its risk.")
    outside = None if holdout is None else _confidential(holdout, schema, "the holdout")[0]
    if outside is not None:
        if len(outside) < 2:
            raise InputError("the holdout has fewer than two records; it is no control.")
        refuse_overlap(original, outside)
    return Material(
        schema=schema,
        original=original,
        copies=copies,
        null=null_copies(schema, copies, seed),
        holdout=outside,
        keys=schema.margin(keys),
        targets=schema.margin(targets),
        claimed=_claimed(release),
        synthesizer=synthesizer,
        frame=frame,
        seed=seed,
    )


def _check_names(schema: Schema, keys: Sequence[str], targets: Sequence[str]) -> None:
    for what, names in (("keys", keys), ("targets", targets)):
        if isinstance(names, str):
            raise InputError(f"{what} ({names!r}) must be a list of attribute names.")
        schema.margin(names)
    both = sorted(set(keys) & set(targets))
    if both:
        raise InputError(f"'{both[0]}' is both a key and a target; an intruder who knows it need not learn it.")


def _claimed(release: Release) -> tuple[float, float] | None:
    stated = release.statement.guarantee
    if isinstance(stated, PureDP):
        return float(stated.epsilon), 0.0
    if isinstance(stated, ApproxDP | ProbabilisticDP):
        return float(stated.epsilon), float(stated.delta)
    return None


def _confidential(source: Any, schema: Schema, what: str) -> tuple[Records, pa.Table]:
    if not hasattr(source, "confidential_codes"):
        source = open_source(source, schema)
    if source.schema.names != schema.names or source.schema.shape() != schema.shape():
        raise InputError(f"{what} are described by another schema than the release; open them with release.schema.")
    rows = source.confidential_rows()
    return records_of(source.confidential_codes(), rows, schema), rows


def records_of(coded: CodedTable, frame: pa.Table, schema: Schema) -> Records:
    codes = np.column_stack([coded.columns[name].astype(np.int64) for name in schema.names])
    positions = np.column_stack(
        [
            codes[:, place].astype(np.float64)
            if attribute.levels
            else _positions(attribute, frame.column(attribute.name), codes[:, place])
            for place, attribute in enumerate(schema.attributes)
        ]
    )
    return Records(codes=codes, positions=positions)


def _positions(attribute: Attribute, column: pa.ChunkedArray, codes: Integers) -> Floats:
    """Numbers, or dates as days; special codes and the missing value above the range, one range apart."""
    beyond = as_number(attribute.edges[-1]) + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(codes < attribute.bins, values_of(column, codes, attribute), beyond)
    return positions


def null_copies(schema: Schema, copies: tuple[Records, ...], seed: int) -> tuple[Records, ...]:
    """Tables of the same sizes, attributes independent: codes from the release's margins, values uniform in bins."""
    codes = np.concatenate([copy.codes for copy in copies])
    generator = np.random.default_rng([seed, *b"null"])
    made = []
    for copy in copies:
        rows = generator.integers(0, len(codes), copy.codes.shape)
        drawn = codes[rows, np.arange(codes.shape[1])]
        positions = np.column_stack(
            [_within_bins(attribute, drawn[:, j], generator) for j, attribute in enumerate(schema.attributes)]
        )
        made.append(Records(codes=drawn, positions=positions))
    return tuple(made)


def _within_bins(attribute: Attribute, codes: Integers, generator: np.random.Generator) -> Floats:
    if attribute.levels:
        return codes.astype(np.float64)
    edges = np.array([as_number(edge) for edge in attribute.edges])
    inside = codes < attribute.bins
    bins = np.where(inside, codes, 0)
    values = edges[bins] + (edges[bins + 1] - edges[bins]) * generator.uniform(size=len(codes))
    if attribute.integer or attribute.kind == "date":
        values = np.floor(values)
    beyond = edges[-1] + span_of(attribute) * (1 + codes - attribute.bins)
    positions: Floats = np.where(inside, values, beyond)
    return positions


def refuse_overlap(original: Records, holdout: Records) -> None:
    """Refuse a holdout that shares people with the data, as far as equal rows can show it.

    If the holdout is another sample of the same population, which of the pooled records fall into it is a matter of
    chance. Two signs against that, each a false alarm with probability ``FALSE_ALARM`` at most: among values that
    occur exactly twice in the pool, too many pairs have one record on each side; or the holdout lies wholly within
    the data, cell by cell, although by chance it hardly could. Data with few distinct rows show nothing.
    """
    from scipy.stats import binom

    (people, others), cells = numbers_of([original.positions, holdout.positions])
    here, there = np.bincount(people, minlength=cells), np.bincount(others, minlength=cells)
    total, n, h = here + there, len(original), len(holdout)
    pairs = total == 2
    chance = 2 * n * h / ((n + h) * (n + h - 1))
    split = int((here[pairs] == 1).sum())
    crossed = split > 0 and binom.sf(split - 1, int(pairs.sum()), chance) < FALSE_ALARM
    inside = False
    if np.all(there <= here):
        sizes, times = np.unique(total, return_counts=True)
        log_chance = float(np.sum(times * binom.logcdf(sizes // 2, sizes, h / (n + h))))
        inside = log_chance < np.log(FALSE_ALARM) or (n == h and bool(np.all(here == there)))
    if crossed or inside:
        raise InputError(
            "the holdout overlaps the confidential data: far more of its records equal records of the data than chance "
            "allows. A control group must be people whose data were not used; take them out before synthesis."
        )
