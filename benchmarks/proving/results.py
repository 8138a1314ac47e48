"""What was found, stored by seed, and the page of the docs that is written from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Found = dict[str, Any]
SIZES = ((0, 999, "under 1,000"), (1000, 9999, "1,000-9,999"), (10_000, 10**9, "10,000 and more"))
BAR = 0.93  # no stratum of valid answers may have a Wilson interval wholly below it
VIOLATIONS = ((0.25, "below 0.25"), (1.0, "0.25 to 1"), (2.0, "1 to 2"), (np.inf, "2 and more"))
ORDER = ("valid", "range", "selection not modelled", "model-based", "approximate", "not determined")


def wilson(share: float, runs: float, z: float = 1.959964) -> tuple[float, float]:
    """The 95 percent interval of a share of independent runs."""
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * np.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return float(centre - half), float(centre + half)


def load(folder: Path) -> list[Found]:
    """Every stored seed, the last word about each."""
    found: dict[int, Found] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            if line.strip():
                one = json.loads(line)
                found[one["seed"]] = one
    return list(found.values())


def failures(results: Iterable[Found]) -> list[dict[str, object]]:
    """Seeds in which something went wrong, and what: the candidates for ``failing.json``."""
    listed = []
    for one in results:
        said = [one["failure"]] if "failure" in one else []
        said += [f"{answer['question']}: {answer['failure']}" for answer in one["answers"] if "failure" in answer]
        if said:
            steered = {"steered": one["steered"]} if "steered" in one else {}
            listed.append({"seed": one["seed"], "records": one["records"], **steered, "failure": said[0]})
    return listed


def _judged(results: Iterable[Found]) -> list[tuple[Found, Found, str, float, float, float | None]]:
    """Setting, answer, label, share of its quantities of that label that held, of how many, and median width."""
    rows = []
    for one in results:
        for answer in one["answers"]:
            if "hits" not in answer:
                continue
            by_label: dict[str, list[tuple[int, float | None]]] = defaultdict(list)
            widths = answer.get("width", [None] * len(answer["hits"]))
            for hit, label, width in zip(answer["hits"], answer["labels"], widths, strict=True):
                if hit is not None:
                    by_label[label].append((hit, width))
            for label, hits in by_label.items():
                known = [width for _, width in hits if width is not None]
                share = float(np.mean([hit for hit, _ in hits]))
                rows.append((one, answer, label, share, float(len(hits)), float(np.median(known)) if known else None))
    return rows


def independent(rows: Sequence[tuple[Any, ...]]) -> float:
    """How many independent answers some answers are worth: those about one release share its sample and its noise.

    The variance of the mean is estimated from the sums of the releases; it is never taken below that of answers that
    are independent.
    """
    share = float(np.mean([row[3] for row in rows]))
    sums: dict[object, float] = defaultdict(float)
    for row in rows:
        sums[row[0].get("seed")] += row[3] - share
    plain = len(rows) * share * (1 - share)
    if len(sums) < 2 or plain <= 0:
        return float(len(rows))
    together = sum(one**2 for one in sums.values()) * len(sums) / (len(sums) - 1)
    return len(rows) / max(1.0, together / plain)


def _line(name: str, rows: Sequence[tuple[Any, ...]]) -> str:
    share, answers = float(np.mean([row[3] for row in rows])), len(rows)
    low, high = wilson(share, independent(rows))
    widths = [row[5] for row in rows if row[5] is not None]
    wide = f"{np.median(widths):.2f}" if widths else "-"
    return f"| {name} | {answers:,} | {share:.3f} | {low:.3f}-{high:.3f} | {wide} |"


def _tables(rows: Sequence[tuple[Any, ...]], by: Callable[[tuple[Any, ...]], str], title: str) -> list[str]:
    groups: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[by(row)].append(row)
    lines = [f"| {title} | answers | covered | 95 percent | relative width |", "|---|---|---|---|---|"]
    return [*lines, *(_line(name, groups[name]) for name in sorted(groups))]


def size_of(records: int) -> str:
    return next(name for low, high, name in SIZES if low <= records <= high)


BY: dict[str, Callable[[tuple[Any, ...]], str]] = {
    "question": lambda row: row[1]["kind"],
    "method": lambda row: row[0].get("method", "-"),
    "records": lambda row: size_of(row[0]["records"]),
    "epsilon": lambda row: f"{row[0]['epsilon']:g}",
    "population": lambda row: row[0]["population"],
    "unit": lambda row: _unit(row[0]),
    "attributes": lambda row: "8 and more" if row[0].get("attributes", 0) >= 8 else "up to 7",
}


def _unit(setting: Found) -> str:
    """Who is protected, and what else makes sampling or tables unusual."""
    said = [str(setting.get("unit", "-"))]
    if setting.get("rows_per_unit", 1) > 1:
        said.append(f"{setting['rows_per_unit']} rows")
    if setting.get("fixed"):
        said.append("fixed attributes")
    if setting.get("zeros"):
        said.append("structural zeros")
    return ", ".join(said)


def page(results: list[Found], remark: str = "") -> str:
    """The text of docs/proving.md. ``remark``: of which code the results are.

    Settings of which the method or epsilon was not drawn have a table of their own and count nowhere else, but for
    failures.
    """
    everything, results = results, [one for one in results if "steered" not in one]
    rows = _judged(results)
    lines = [*_heading(results), *([remark, ""] if remark else []), "## By label", ""]
    lines += _tables([row for label in ORDER for row in rows if row[2] == label], lambda row: row[2], "label")
    valid = [row for row in rows if row[2] == "valid"]
    for title, by in BY.items():
        if valid:
            lines += ["", f"## `valid` by {title}", "", *_tables(valid, by, title)]
    lines += [
        "",
        "## Strata of `valid` below the target",
        "",
        "Strata are question x records x epsilon x method. The list has those whose whole Wilson interval is below "
        f"{BAR}. Most strata have few answers yet; with one or two answers a single miss is enough.",
        "",
        *(low_strata(rows) or ["None."]),
    ]
    for label in ORDER[1:]:
        some = [row for row in rows if row[2] == label]
        if some:
            lines += ["", f"## `{label}` by question", "", *_tables(some, BY["question"], "question")]
    lines += _by_violation(results)
    lines += [*_refusals(results), *_cost(results), *_utility(results), *_steered(everything), *_failed(everything)]
    return "\n".join(lines).rstrip() + "\n"


def _heading(results: list[Found]) -> list[str]:
    answers = [answer for one in results for answer in one["answers"]]
    given = sum("label" in answer for answer in answers)
    failed = sum("failure" in answer and "label" not in answer for answer in answers)
    refused = len(answers) - given - failed
    return [
        "# The proving ground",
        "",
        "Written by `python benchmarks/proving page` from the last results; do not edit.",
        "",
        "Each seed is a new setting; nothing was tuned on it: a population (generated, or a real file resampled), a",
        "number of records, a unit, a budget, a method (mostly `auto`), and questions in the whole grammar. Truth is",
        "the population's real value, for numbers too. `make prove MINUTES=20` adds fresh seeds.",
        "",
        f"Seeds: {len(results):,}. Releases refused by their plan: {sum('refused' in one for one in results):,}.",
        f"Questions: {len(answers):,}; answered {given:,}, refused {refused:,}, failed {failed:,}.",
        "",
        "An answer with several quantities counts once, by the share of its intervals that cover. Intervals of shares",
        "are Wilson's, for the effective number of independent answers over all releases. A relative width is the",
        "width of an interval divided by that from the records themselves; medians are shown.",
        "",
    ]


def _by_violation(results: Iterable[Found]) -> list[str]:
    """How often answers that assume no interactions of three attributes hold, by how wrong that is."""
    groups: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for one in results:
        for answer in one["answers"]:
            widths = answer.get("width") or [None] * len(answer.get("hits", ()))
            each = zip(
                answer.get("hits", ()), answer.get("labels", ()), answer.get("violation", ()), widths, strict=False
            )
            for hit, label, size, width in each:
                if label == "model-based" and hit is not None and size is not None:
                    name = next(text for most, text in VIOLATIONS if size < most)
                    groups[name].append((one, answer, label, float(hit), 1.0, width))
    if not groups:
        return []
    lines = [
        "",
        "## `model-based` by size of violation",
        "",
        "The violation is the distance between the real value and that of a population of which the assumptions of the",
        "answer hold, in standard errors of the records themselves: numbers lie inside their bins as the public",
        "density says, and, if the answer assumes that, attributes have the same two-way tables and no interaction of",
        "three. Estimates that rest on a prior alone have violations near 0.",
        "",
        "| violation | estimates | covered | 95 percent | relative width |",
        "|---|---|---|---|---|",
    ]
    return [*lines, *(_line(name, groups[name]) for _, name in VIOLATIONS if groups[name])]


def _refusals(results: list[Found]) -> list[str]:
    reasons: dict[str, int] = defaultdict(int)
    for one in results:
        for answer in one["answers"]:
            if "refused" in answer:
                reasons[_reason(answer["refused"])] += 1
    listed = sorted(reasons.items(), key=lambda pair: -pair[1])
    lines = ["", "## Refusals", "", "| reason | questions |", "|---|---|"]
    return [*lines, *(f"| {name} | {count:,} |" for name, count in listed)]


def _cost(results: list[Found]) -> list[str]:
    slow = [answer["seconds"] for one in results for answer in one["answers"] if "seconds" in answer]
    memory = [one["memory"] for one in results if "memory" in one]
    if not slow or not memory:
        return []
    return [
        "",
        "## Cost",
        "",
        f"Processor seconds of an answer or refusal: median {np.median(slow):.2f}, 95 of 100 below "
        f"{np.quantile(slow, 0.95):.1f}, at most {max(slow):.1f}.",
        f"Memory of a process that made and answered everything: at most {max(memory):,} MB.",
    ]


def _utility(results: list[Found]) -> list[str]:
    useful = [(one["distance"], one["distance_independent"]) for one in results if "distance" in one]
    if not useful:
        return []
    own, other = np.array(useful).T
    return [
        "",
        "## Utility",
        "",
        f"Mean distance of two-way tables from the records', over {len(useful)} releases: {own.mean():.3f}; of",
        f"`independent` at the same budget {other.mean():.3f}. The release was nearer in {int((own < other).sum())}.",
    ]


def _steered(results: list[Found]) -> list[str]:
    """What was found where a run was steered to one method or epsilon, because few settings have it."""
    some = [one for one in results if "steered" in one]
    rows = [row for row in _judged(some) if row[2] in ("valid", "selection not modelled")]
    if not rows:
        return []
    lines = [
        "",
        "## Steered settings",
        "",
        f"{len(some):,} more seeds, of which the method, epsilon or population was fixed and all else was drawn. They",
        "are in no table above.",
        "",
    ]
    return [*lines, *_tables(rows, lambda row: f"{_fixed(row[0]['steered'])}: {row[2]}", "fixed: label")]


def _fixed(steered: Found) -> str:
    return ", ".join(f"{name} {value}" for name, value in steered.items())


def _failed(results: list[Found]) -> list[str]:
    wrong = failures(results)
    listed = [f"- seed {one['seed']}, {one['records']:,} records: {str(one['failure'])[:160]}" for one in wrong[:40]]
    return ["", "## Failures", "", f"{len(wrong)} seeds of {len(results):,}.", "", *listed]


def low_strata(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Strata of valid answers whose Wilson interval lies wholly below the bar."""
    groups: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        if row[2] == "valid":
            where = f"{size_of(row[0]['records'])}, epsilon {row[0]['epsilon']:g}, {row[0].get('method')}"
            groups[f"{row[1]['kind']}, {where}"].append(row)
    low = []
    for name, some in sorted(groups.items()):
        share = float(np.mean([row[3] for row in some]))
        if wilson(share, independent(some))[1] < BAR:
            low.append(f"- {name}: {share:.3f} of {len(some)}")
    return low


def _reason(text: str) -> str:
    known = {
        "no table with both": "two attributes that no table holds together",
        "no table with all": "attributes that no table holds together",
        "may not exist": "a group that may be empty",
        "separation": "a predictor decides the outcome",
        "applies to no one": "a level nobody seems to have",
        "is never": "an outcome nobody seems to have",
        "told apart": "terms that cannot be told apart",
        "does not determine": "not determined by the release",
        "not public": "the number of records is not public",
        "too many": "too large",
        "at most": "too large",
        "refused for method": "method refused",
    }
    return next((name for mark, name in known.items() if mark in text), text[:60].replace("|", "/"))
