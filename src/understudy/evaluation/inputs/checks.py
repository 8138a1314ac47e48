"""What is refused before anything is compared: names, numbers and schemas that do not go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.core.schema import Schema
from understudy.errors import InputError, SchemaError
from understudy.release import Release

NULLS = ("auto", "formula", "permutation", "copies")


def check_measures(release: Release, ways: Sequence[int], null: str, permutations: int | None) -> tuple[int, ...]:
    if null not in NULLS:
        raise InputError(f"null ({null!r}) must be one of {', '.join(NULLS)}.")
    if null == "copies" and release.copies < 2:
        raise InputError("null 'copies' compares pairs of copies; this release has one. Use 'permutation'.")
    whole = isinstance(permutations, int) and not isinstance(permutations, bool)
    if permutations is not None and (not whole or permutations < 2):
        raise InputError(f"permutations ({permutations}) must be a whole number of at least 2.")
    chosen = tuple(dict.fromkeys(ways))
    if not chosen or any(isinstance(way, bool) or not isinstance(way, int) or way < 1 for way in chosen):
        raise InputError(f"ways ({', '.join(map(str, ways))}) must be whole numbers of at least 1.")
    return chosen


def weights_of_ranks(schema: Schema, weights: Mapping[str, float] | None) -> tuple[float, ...]:
    if not weights:
        return ()
    schema.margin(tuple(weights))
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise InputError(f"the weight of '{name}' ({weight}) must be a number that is not negative.")
    scale = tuple(float(weights.get(name, 1.0)) for name in schema.names)
    if sum(weight > 0 for weight in scale) < 2:
        raise InputError("at least two attributes must have a weight above 0 where ranks are compared.")
    return scale


def check_names(release: Release, keys: Sequence[str], targets: Sequence[str]) -> None:
    schema = release.schema
    for what, names in (("keys", keys), ("targets", targets)):
        if isinstance(names, str):
            raise InputError(f"{what} ({names!r}) must be a list of attribute names.")
        schema.margin(names)
    both = sorted(set(keys) & set(targets))
    if both:
        raise InputError(f"'{both[0]}' is both a key and a target; an intruder who knows it need not learn it.")
    public = sorted(set(targets) & set(release.statement.unit.fixed))
    if public:
        raise InputError(f"'{public[0]}' is public for every person by the unit of the release; it is no target.")


def require_same_codes(ours: Schema, theirs: Schema, what: str) -> None:
    """Labels and ignored columns may differ; attributes, their levels and bins may not."""
    if set(ours.names) != set(theirs.names):
        odd = sorted(set(ours.names) ^ set(theirs.names))[0]
        where = "the release" if odd in theirs.names else what
        raise SchemaError(f"attribute '{odd}' is in {where} only; open the data with the schema of the release.")
    for name in theirs.names:
        if ours[name].code_names != theirs[name].code_names or ours[name].kind != theirs[name].kind:
            raise SchemaError(
                f"attribute '{name}' has other levels or bins in {what} than in the release; open them with its schema."
            )
