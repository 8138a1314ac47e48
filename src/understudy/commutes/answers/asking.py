"""Questions to a release of commutes: ``count(home in tract 44007, work in city 'Northport')`` and the like.

The grammar is small. A condition is ``home in LEVEL AREA`` or ``work in LEVEL AREA``; the level is one of the places'
levels or groupings, or ``place``; the area is an id or a name, in quotes if it has spaces. A name that no other area
has needs no level. ``outside`` without an area is everywhere outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.commutes.answers.ranges import Counted, CountRanges, Mask, errors_for, ranges_of
from understudy.commutes.answers.segment_counts import segment_count
from understudy.commutes.commute_release import CommuteRelease
from understudy.core.places import Places
from understudy.core.result import Estimate
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.answer import Answer
from understudy.inference.labels import MODEL, VALID

KINDS = ("count", "share", "mean_distance", "inflow_outflow")
QUESTION = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.S)
SEGMENT = re.compile(r"\s*segment\s+(\S+)\s*")
CONDITION = re.compile(r"\s*(home|work)\s+in\s+(.+?)\s*", re.S)
EXAMPLES = (
    "count(home in tract 44007000100, work in city 'Northport town'), share(home in outside | work in county 44007), "
    "mean_distance(work in zip 02803), inflow_outflow(city 'Northport town')"
)
METHOD = "synthetic counts and the stated noise (the ranges of the map)"
MODELLED = (
    "ranges allow for the error of the model inside zones of homes, which is estimated and not proved; the benchmarks "
    "say how often they held"
)
PUBLIC = (
    "the number of jobs at a workplace is public in this release, and so is that of a segment that is fixed: no range"
)
MEASURED = "these jobs were measured by area with noise; this is the noisy count, and nothing of the model is in it"
BEYOND = "jobs that people of the area have at workplaces outside the places of this release are not in its data"
WITHOUT_OUTSIDE = "people who live outside or elsewhere are left out: their distance is not known"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A question that was read: what it is about, and which homes and workplaces; ``None`` stands for all."""

    kind: str
    homes: Mask | None = None
    works: Mask | None = None
    within: str = ""  # for a share: which side it is a share of
    segment: str = ""  # the column of a segment


def ask_commutes(
    release: CommuteRelease, question: str, *, level: float = 0.95, before: CommuteRelease | None = None
) -> Answer:
    """Answer a question about commutes; with ``before``, how much it changed since that release."""
    if not isinstance(question, str):
        raise InputError(f"a question is a text, such as {EXAMPLES}.")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(f"level ({level!r}) must be between 0 and 1.")
    asked = read_question(question, release.places)
    answer = _answered(release, question, asked, level)
    if before is None:
        return answer
    if before.places.fingerprint != release.places.fingerprint:
        raise InputError("the two releases are of different places, so they have no change between them.")
    return _change(answer, _answered(before, question, asked, level))


def what_to_ask(release: CommuteRelease) -> tuple[str, ...]:
    """The kinds of questions, with areas of this release, and by which levels areas are named."""
    places = release.places
    known = {
        name: inside
        for name, ids in places.groupings.items()
        if (inside := np.unique(ids[places.inside & (ids != b"")])).size
    }
    several = [name for name, inside in known.items() if inside.size > 4] or list(known)
    one = f"{several[0]} {known[several[0]][0].decode()!r}" if several else f"place {places.ids[0].decode()!r}"
    lines = [
        f"count(home in {one}, work in {one})  jobs; either condition may be left out",
        f"share(home in {one} | work in {one})  of the jobs there, those of people who live here",
        f"mean_distance(work in {one})  from home to work, in miles",
        f"inflow_outflow({one})  who comes in, goes out, and does both in one place",
    ]
    if release.segments:
        lines.append(f"count(work in {one}, segment {release.segments[0]})  jobs of one segment")
    levels = ", ".join([*(f"{name} ({inside.size:,})" for name, inside in known.items()), f"place ({len(places):,})"])
    lines.append(f"Levels: {levels}. An area is named by its id or name, without a level if no other is called so.")
    if places.outside is not None:
        lines.append("'outside' is everywhere outside: count(home in outside).")
    return tuple(lines)


def read_question(question: str, places: Places) -> Asked:
    """What a question is about.

    >>> from understudy.core.places import make_places
    >>> places = make_places(["a", "b"], [41, 41.1], [-71, -71.1], areas={"county": ["x", "y"]})
    >>> read_question("count(home in county x, work in county y)", places).homes.tolist()
    [True, False]
    """
    found = QUESTION.fullmatch(question)
    if found is None or found[1] not in KINDS:
        kinds = ", ".join(KINDS)
        raise InputError(f"the question {question!r} cannot be read; ask {kinds}. For example: {EXAMPLES}.")
    kind, inside = found[1], found[2]
    if kind == "inflow_outflow":
        area = places_in(inside, places)
        return Asked(kind=kind, homes=area, works=area)
    listed = _split(inside, ",")
    segment = next((found[1] for one in listed if (found := SEGMENT.fullmatch(one))), "")
    if segment and kind != "count":
        raise InputError("a segment can be counted; ask count(..., segment NAME).")
    inside = ",".join(one for one in listed if not SEGMENT.fullmatch(one)) if segment else inside
    parts = _split(inside, "|")
    if (kind == "share") != (len(parts) == 2):
        raise InputError(f"a share is of something: share(home in ... | work in ...). For example: {EXAMPLES}.")
    conditions = [dict(map(_condition(places), _split(part, ","))) for part in parts if part]
    if kind == "share":
        of = conditions[1]
        if len(conditions[0]) != 1 or len(of) != 1 or conditions[0].keys() == of.keys():
            raise InputError("a share has one condition on each side of '|': one of the home and one of the work.")
        return _made(kind, conditions[0] | of, within=next(iter(of)))
    return replace(_made(kind, conditions[0] if conditions else {}), segment=segment)


def _made(kind: str, sides: dict[str, Mask], within: str = "") -> Asked:
    return Asked(kind=kind, homes=sides.get("home"), works=sides.get("work"), within=within)


def _condition(places: Places) -> Callable[[str], tuple[str, Mask]]:
    def read(text: str) -> tuple[str, Mask]:
        found = CONDITION.fullmatch(text)
        if found is None:
            raise InputError(f"{text.strip()!r} cannot be read; say 'home in LEVEL AREA' or 'work in LEVEL AREA'.")
        return found[1], places_in(found[2], places)

    return read


def places_in(text: str, places: Places) -> Mask:
    """The places of an area such as ``tract 44007000100``, ``city 'Northport town'``, ``place a`` or ``outside``."""
    said = text.strip()
    if said == "outside":
        if places.outside is None:
            raise InputError("this release has no homes outside.")
        return places.outside
    groupings = places.groupings
    level = next((name for name in sorted(groupings, key=len, reverse=True) if said.startswith(f"{name} ")), None)
    if level is None:
        level, _, _ = said.partition(" ")
        if level != "place" or " " not in said:
            return _by_name_alone(said.strip("'\""), level, places)
    area = said[len(level) :].strip().strip("'\"")
    if level == "place":
        chosen = np.zeros(len(places), dtype=bool)
        chosen[places.codes_of([area])] = True
        return chosen
    return np.asarray(groupings[level] == _area_id(level, area, places).encode())


def _by_name_alone(said: str, level: str, places: Places) -> Mask:
    """The places of the only area that is called so, or whose name begins so, whatever its level."""
    beginning = re.compile(re.escape(said) + r"(?!\w)", re.IGNORECASE)
    found: dict[str, Mask] = {}
    for name, ids in places.groupings.items():
        for one, called in places.area_names.get(name, {}).items():
            if said and beginning.match(called) and (mask := np.asarray(ids == one.encode())).any():
                found.setdefault(f"{name} '{called}'", mask)
    if not found:
        raise unknown_name("level of areas", level, (*places.groupings, "place", "outside"))
    different = {mask.tobytes(): name for name, mask in reversed(found.items())}  # a state outside is on every level
    if len(different) > 1:
        told = ", ".join(sorted(different.values())[:6])
        raise InputError(f"{len(different)} areas are called {said!r}; say which: {told}.")
    return next(iter(found.values()))


def _area_id(level: str, area: str, places: Places) -> str:
    """The id of an area that is named by its id, its name, or how its name begins if only one does."""
    ids = {one.decode() for one in np.unique(places.groupings[level]).tolist() if one}
    if area in ids:
        return area
    names = {one: name for one, name in places.area_names.get(level, {}).items() if one in ids}
    lower = area.lower()
    for hits in (
        [one for one, name in names.items() if name.lower() == lower],
        [one for one, name in names.items() if name.lower().startswith(lower)],
    ):
        if len(hits) == 1:
            return hits[0]
        if hits:
            raise InputError(
                f"{len(hits)} areas of level '{level}' are called {area!r}; give the id of one: "
                f"{', '.join(sorted(hits)[:5])}."
            )
    raise unknown_name(level, area, sorted(ids | set(names.values())))


def _split(text: str, mark: str) -> list[str]:
    """The parts of a text between marks that are not in quotes."""
    parts, quoted, begin = [], "", 0
    for place, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter == mark:
            parts.append(text[begin:place])
            begin = place + 1
    return [one for one in [*parts, text[begin:]] if one.strip()]


def _answered(release: CommuteRelease, question: str, asked: Asked, level: float) -> Answer:
    """One or more estimates: means over copies, with the widest range of any copy."""
    found = [_of_copy(ranges_of(release, copy), asked, level) for copy in range(1, release.copies + 1)]
    names = tuple(found[0])
    first, homes = ranges_of(release), asked.homes
    measured = homes is not None and asked.works is None and asked.kind == "count"
    measured = bool(asked.segment) or (measured and homes is not None and first.residents(homes) is not None)
    estimates, errors, labels = [], [], []
    for name in names:
        value = float(np.mean([one[name][0] for one in found]))
        reach = max(one[name][1] for one in found)
        ends = [one[name][2] for one in found]
        whole = asked.kind in ("count", "inflow_outflow")
        low = max(value - reach, min(end[0] for end in ends))
        high = min(value + reach, max(end[1] for end in ends))
        estimates.append(
            Estimate(
                value=value, low=float(np.ceil(low - 1e-9)) + 0.0 if whole else low,  # zero has no sign
                high=float(np.floor(high + 1e-9)) if whole else high, level=level, method=METHOD,
            )
        )  # fmt: skip
        errors.append(reach / errors_for(level))
        labels.append(VALID if reach == 0 or measured else MODEL)
    warnings = [MODELLED] if MODEL in labels else [MEASURED if measured and any(errors) else PUBLIC]
    if asked.kind == "mean_distance" and release.places.outside is not None:
        warnings.append(WITHOUT_OUTSIDE)
    if asked.kind == "inflow_outflow":
        warnings.append(BEYOND)
    total = int(first.sizes.sum()) if release.statement.unit.public_total else None
    return Answer(
        question=question, kind=asked.kind, names=names, estimates=tuple(estimates), standard_errors=tuple(errors),
        information=(None,) * len(names), records=total, method=METHOD, labels=tuple(labels), warnings=tuple(warnings),
    )  # fmt: skip


Ends = tuple[float, float]


def _of_copy(ranges: CountRanges, asked: Asked, level: float) -> dict[str, tuple[float, float, Ends]]:
    """Value, reach and the least and largest possible value of every estimate, by its name."""
    errors, all_jobs = errors_for(level), float(ranges.sizes.sum())
    homes, works = asked.homes, asked.works

    def counted(here: Mask | None, there: Mask | None) -> tuple[float, float]:
        found: Counted = ranges.count(here, there)
        return float(found.value[0]), float(found.reach(errors)[0])

    def most(there: Mask | None) -> float:
        return float(ranges.sizes.sum() if there is None else ranges.sizes[there].sum())

    if asked.segment:
        of_segment = segment_count(ranges, asked.segment, homes, works)
        value, reach = float(of_segment.value[0]), float(of_segment.reach(errors)[0])
        return {"jobs": (value, reach, (0.0, all_jobs + reach))}
    if asked.kind == "count":
        value, reach = counted(homes, works)
        return {"jobs": (value, reach, (0.0, most(works) if ranges.public_sizes else all_jobs + reach))}
    if asked.kind == "mean_distance":
        value, reach, _ = ranges.mean_miles(homes, works, errors)
        return {"miles": (value, reach, (0.0, float("inf")))}
    if asked.kind == "share":
        return {"share": _share(ranges, asked, counted)}
    assert homes is not None  # noqa: S101 - of inflow_outflow, which names an area
    inside, only_live = counted(homes, homes), counted(homes, ~homes)
    if ranges.public_sizes:
        in_all = most(homes)
        only_work = (in_all - inside[0], inside[1])
    else:
        in_all, only_work = all_jobs, counted(~homes, homes)
    return {
        "live and work here": (*inside, (0.0, in_all)),
        "work here, live elsewhere": (*only_work, (0.0, in_all)),
        "live here, work elsewhere": (*only_live, (0.0, all_jobs)),
    }


def _share(
    ranges: CountRanges, asked: Asked, counted: Callable[[Mask | None, Mask | None], tuple[float, float]]
) -> tuple[float, float, Ends]:
    """A part of a whole: both ends of the range take the part at one end and the rest at the other."""
    part, part_reach = counted(asked.homes, asked.works)
    of_work = asked.within == "work"
    if of_work and ranges.public_sizes:
        whole = counted(None, asked.works)[0]
        if not whole:
            raise UnsupportedError("nobody works there, so there is no share.")
        return part / whole, part_reach / whole, (0.0, 1.0)
    rest_homes, rest_works = asked.homes, asked.works
    if of_work:
        rest_homes = None if asked.homes is None else ~asked.homes
    else:
        rest_works = None if asked.works is None else ~asked.works
    rest, rest_reach = counted(rest_homes, rest_works)
    if not part + rest:
        raise UnsupportedError("no synthetic job is in the whole that this is a share of.")
    ends = [
        max(one, 0.0) / max(max(one, 0.0) + max(other, 0.0), 1e-9)
        for one, other in ((part - part_reach, rest + rest_reach), (part + part_reach, rest - rest_reach))
    ]
    value = part / (part + rest)
    return value, max(value - ends[0], ends[1] - value), (ends[0], ends[1])


def _change(after: Answer, before: Answer) -> Answer:
    """The difference of two answers. The noise of two releases is independent, so the squares of reaches add."""
    estimates = []
    for new, old in zip(after.estimates, before.estimates, strict=True):
        value = new.value - old.value
        below = float(np.hypot(new.value - new.low, old.high - old.value))
        above = float(np.hypot(new.high - new.value, old.value - old.low))
        estimates.append(replace(new, value=value, low=value - below, high=value + above))
    errors = zip(after.standard_errors, before.standard_errors, strict=True)
    return replace(
        after,
        kind=f"change of {after.kind}",
        names=tuple(f"change of {name}" for name in after.names),
        estimates=tuple(estimates),
        standard_errors=tuple(float(np.hypot(*pair)) for pair in errors),
        labels=tuple(MODEL if MODEL in pair else VALID for pair in zip(after.labels, before.labels, strict=True)),
        warnings=tuple(dict.fromkeys((*after.warnings, *before.warnings))),
        records=None,
    )  # fmt: skip
