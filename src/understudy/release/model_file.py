"""The fitted model on disk: its clique tables in Parquet, its shape as JSON in the file's metadata. No pickle.

Public: it was fitted to noisy and public values only. Probabilities are stored as they are, so rows drawn from the file
have the law of the model that was fitted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.models.junction_tree import JunctionTree
from understudy.models.model import Model
from understudy.models.published_model import FineBins, Fitted, FittedPart
from understudy.models.sample import ROWS_BY

KEY = b"understudy_model"
VERSIONS = (1, 2)  # version 2 added merged bins; files without merged bins still state version 1
CLOSE = 1e-6  # clique tables add up to one


def write_model(fitted: Fitted, file: Path) -> None:
    """One row per cell with probability: part, clique, cell, probability."""
    schema = pa.schema(
        [("part", pa.int32()), ("clique", pa.int32()), ("cell", pa.int64()), ("probability", pa.float64())],
        metadata={KEY: json.dumps(_shape(fitted))},
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for number, part in enumerate(fitted.parts):
            for place, belief in enumerate(part.model.beliefs):
                flat = belief.ravel()
                cells = np.flatnonzero(flat)
                writer.write_batch(
                    pa.RecordBatch.from_arrays(
                        [
                            pa.array(np.full(len(cells), number, np.int32)),
                            pa.array(np.full(len(cells), place, np.int32)),
                            pa.array(cells),
                            pa.array(flat[cells]),
                        ],
                        schema=schema,
                    )
                )


def _shape(fitted: Fitted) -> dict[str, Any]:
    return {
        "version": VERSIONS[1] if fitted.fine else VERSIONS[0],
        "rows_by": fitted.rows_by,
        "strata": list(fitted.strata),
        "public_sizes": fitted.public_sizes,
        "fine": [{"name": one.name, "codes": list(one.codes), "weights": one.weights.tolist()} for one in fitted.fine],
        "parts": [
            {
                "codes": list(part.codes),
                "size": part.size,
                "total": part.model.total,
                "cliques": [list(clique) for clique in part.model.tree.cliques],
                "parents": list(part.model.tree.parents),
            }
            for part in fitted.parts
        ],
    }


def read_model(file: Path, schema: Schema) -> Fitted:
    """Read a model back; anything that is not one for this schema is refused."""
    table = pq.read_table(file)
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise InputError(f"{file} is not a fitted model.")
    shape = json.loads(metadata[KEY])
    if shape["version"] not in VERSIONS:
        raise InputError(f"{file} has model version {shape['version']}; this program understands {VERSIONS}.")
    if shape["rows_by"] not in ROWS_BY:
        raise InputError(f"{file} draws rows in an unknown way.")
    fine = tuple(_fine_bins(file, one, schema) for one in shape.get("fine", ()))
    whole = Fitted(rows_by=shape["rows_by"], parts=(), public_sizes=bool(shape["public_sizes"]), fine=fine)
    schema = whole.modelled(schema)
    strata = schema.margin(shape["strata"])
    inner = [name for name in schema.names if name not in strata]
    sizes = {name: schema[name].size for name in inner}
    table = table.sort_by([("part", "ascending"), ("clique", "ascending")])
    part_of, clique_of = table["part"].to_numpy(), table["clique"].to_numpy()
    cells, values = table["cell"].to_numpy(), table["probability"].to_numpy()
    parts = []
    for number, one in enumerate(shape["parts"]):
        tree = JunctionTree(
            sizes=sizes, cliques=tuple(schema.margin(clique) for clique in one["cliques"]),
            parents=tuple(int(parent) for parent in one["parents"]),
        )  # fmt: skip
        if {name for clique in tree.cliques for name in clique} != set(inner) or len(tree.parents) != len(tree.cliques):
            raise InputError(f"{file} is a model of other attributes than its schema has.")
        if not _hangs_together(tree):
            raise InputError(f"{file} holds tables that do not form a junction tree.")
        codes, size, total = tuple(int(code) for code in one["codes"]), float(one["size"]), float(one["total"])
        if not _is_stratum(codes, schema.shape(strata)) or not (0 <= size < np.inf and 0 < total < np.inf):
            raise InputError(f"{file} has a stratum that its schema does not have.")
        beliefs = []
        begin, end = np.searchsorted(part_of, [number, number + 1])
        for place, clique in enumerate(tree.cliques):
            first, last = begin + np.searchsorted(clique_of[begin:end], [place, place + 1])
            inside, flat = cells[first:last], np.zeros(int(np.prod(tree.shape(clique))))
            if len(inside) and not 0 <= int(inside.min()) <= int(inside.max()) < len(flat):
                raise InputError(f"{file} has a cell that its schema does not have.")
            flat[inside] = values[first:last]
            if not abs(float(flat.sum()) - 1) <= CLOSE or (flat < 0).any():
                raise InputError(f"{file} holds a table that is not a distribution.")
            beliefs.append(flat.reshape(tree.shape(clique)))
        model = Model(tree=tree, beliefs=tuple(beliefs), total=total)
        parts.append(FittedPart(codes=codes, size=size, model=model))
    return replace(whole, parts=tuple(parts), strata=strata)


def _hangs_together(tree: JunctionTree) -> bool:
    """Whether every table but the first is joined to an earlier one and shares no other attribute with the others."""
    seen: set[str] = set()
    for place, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        if not (0 <= parent < place if place else parent == -1):
            return False
        if seen & set(clique) != set(tree.separator(place)):
            return False
        seen |= set(clique)
    return True


def _is_stratum(codes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(codes) == len(shape) and all(0 <= code < size for code, size in zip(codes, shape, strict=True))


def _fine_bins(file: Path, told: dict[str, Any], schema: Schema) -> FineBins:
    """An attribute in merged bins: every merged bin next to the last, then every other code by itself."""
    attribute = schema[str(told["name"])]
    codes = np.array(told["codes"], dtype=np.int64)
    weights = np.array(told["weights"], dtype=np.float64)
    steps = np.diff(codes[: attribute.bins])
    apart = np.diff(codes[max(attribute.bins - 1, 0) :])
    if (
        codes.shape != (attribute.size,) or weights.shape != codes.shape or attribute.levels
        or codes[0] != 0 or not np.isin(steps, (0, 1)).all() or not (apart == 1).all()
        or not np.isfinite(weights).all() or (weights < 0).any() or not np.bincount(codes, weights=weights).all()
    ):  # fmt: skip
        raise InputError(f"{file} merges the bins of '{attribute.name}' in a way that is not possible.")
    return FineBins(name=attribute.name, codes=tuple(codes.tolist()), weights=weights)
