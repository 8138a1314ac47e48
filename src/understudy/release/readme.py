"""The texts inside a release folder for an analyst: the README in plain words, and the code book as a CSV file."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from understudy.core.exact_numbers import show_up
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.spreadsheet import as_cell
from understudy.core.survey_design import calibrated_column
from understudy.core.walsh import CONTRASTS
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP, Unit
from understudy.release.table_release import Release
from understudy.synth.shared.margin_methods import total_of

CODEBOOK_COLUMNS = ("column", "label", "kind", "value", "meaning")


def readme_text(release: Release, table_rows: Sequence[int]) -> str:
    """One page: what it is, what it promises, five lines of pandas, and what not to do with it."""
    statement, provenance = release.statement, release.provenance
    alike = len(table_rows) > 1 and len(set(table_rows)) == 1
    rows = f"{table_rows[0]:,} rows each" if alike else ", ".join(f"{rows:,}" for rows in table_rows) + " rows"
    copies = "One synthetic table" if len(table_rows) == 1 else f"{len(table_rows)} synthetic tables"
    attributes = "\n".join(
        f"- {code(attribute.name)}{': ' + markdown(attribute.label) if attribute.label else ''} ({_values(attribute)})"
        for attribute in release.schema.attributes
    )
    attributes += "".join(
        f"\n- {code(derived.name)}{': ' + markdown(derived.label) if derived.label else ''} "
        f"(derived: {markdown(derived.describe())}; computed from the synthetic values, never measured)"
        for derived in release.schema.derived
    )
    attributes += _weights(release.schema) + _identifiers(release)
    promise = "\n".join(f"- {markdown(line)}" for line in statement.lines())
    posterior = provenance.plan is not None and provenance.plan.options.get("draws") == "posterior"
    if posterior:
        shared = (
            "\nEach copy was drawn from a model of its own, drawn from the posterior given all noisy measurements: the "
            "differences between copies hold the noise and the sampling of people, and are read by `T_f*` (below).\n"
        )
    elif provenance.copies_share_measurements and len(table_rows) > 1:
        shared = (
            "\nAll copies are made from the same noisy measurements: the differences between copies show how rows were "
            "drawn, not how much noise protects the data.\n"
        )
    else:
        shared = ""
    notes = "".join(f"- {markdown(note)}\n" for note in provenance.notes)
    version = markdown(provenance.package_version)
    return f"""# Synthetic data

{copies} ({rows}) made by the method {code(provenance.method)} of understudy {version}. No row is a
person. Rows: {markdown(provenance.rows_drawn) or "as they were given"}.
{shared}
## What it promises

{promise}

{_in_words(statement.guarantee, statement.unit)}

## Reading it

```python
import pandas as pd

people = pd.read_parquet("synthetic_1.parquet")
print(people.describe(include="all"))
print(people.groupby({_quoted(release.schema.names[0])}, observed=False).size())
```

In R: `understudy export . --to r --out elsewhere/`, then the package understudyr, which also gives valid intervals.
For Stata, SPSS or as CSV: `understudy export . --to dta --out elsewhere/`.

## What not to do

Ordinary standard errors and confidence intervals computed from these rows are **too narrow**: they ignore the noise
that protects the data, and the sampling of synthetic rows. Use the rows to explore. For conclusions, use the noisy
values in `measurements.parquet` and the mechanisms named there. A count near zero may be noise.
{_conclusions(release, table_rows, posterior=posterior)}
## Files

- `synthetic_*.parquet`: the rows. `schema.toml`: every possible value of every attribute; it was public beforehand.
  `codebook.csv`: the same as a list of values with what they mean, special codes too.
- `measurements.parquet`: the noisy counts the rows were made from, with the exact law of their noise.{_merged(release)}
{_model_line(release)}- `manifest.json`: the guarantee, the plan, what was charged, and the hash of every file;
  `understudy verify .` checks them.

## Attributes

{attributes}
{chr(10) + "## Notes" + chr(10) + chr(10) + notes if notes else ""}"""


def _quoted(name: str) -> str:
    """A name as a string of Python; what is no letter, number or usual mark is written by its number."""
    return '"' + "".join(one if one.isalnum() or one in " _.,-()" else f"\\U{ord(one):08x}" for one in name) + '"'


def _values(attribute: Attribute) -> str:
    """What can stand in a column, in a few words."""
    more = ", or missing" if attribute.missing else ""
    if attribute.levels:
        return f"{len(attribute.levels)} levels{more}"
    if attribute.special:
        named = "; ".join(f"{code(level_text(value))} = {markdown(text)}" for value, text in attribute.special)
        more = f"; special codes: {named}{more}"
    kind = "dates" if attribute.kind == "date" else "numbers"
    if attribute.decimals:
        kind = f"numbers with {attribute.decimals} decimal{'s' * (attribute.decimals > 1)}"
    if attribute.clock:
        kind = f"times ({attribute.clock} since 0:00)"
    bins = "1 bin" if len(attribute.edges) == 2 else f"{len(attribute.edges) - 1} bins"
    return f"{kind} from {attribute.edges[0]} to {attribute.edges[-1]}, known by {bins}{more}"


def _question(schema: Schema) -> str:
    """A question that this release can be asked, about a level that needs no escaping."""
    for attribute in schema.attributes:
        if attribute.levels and attribute.name.isidentifier():
            level = attribute.levels[0]
            if not isinstance(level, str):
                return f"proportion({attribute.name} == {level})"
            if level.replace(" ", "").isalnum():
                return f"proportion({attribute.name} == '{level}')"
    return "proportion(...)"


def _merged(release: Release) -> str:
    """What an analyst must know of attributes whose bins were merged by noisy counts."""
    if release.fitted is None or not release.fitted.fine:
        return ""
    names = ", ".join(code(one.name) for one in release.fitted.fine)
    return (
        f"\n  Tables over merged bins (see Notes) are not among them. Within a merged bin of {names} a value says "
        "nothing about any other attribute: it was drawn from the noisy counts of that attribute alone."
    )


def _model_line(release: Release) -> str:
    if release.fitted is None:
        return ""
    return (
        "- `model.parquet`: the model fitted to them, from which the rows were drawn; "
        "`understudy sample . --rows 1000000 --out larger/` draws more.\n"
    )


def _conclusions(release: Release, table_rows: Sequence[int], *, posterior: bool) -> str:
    """Which rule in which package; nothing where only exploring is safe."""
    if not any(one.margin and one.cells != CONTRASTS for one in release.measurements):
        return ""
    text = """
## Drawing conclusions

With understudy, on this folder (it uses all noisy tables, and refuses questions that they cannot answer):

    understudy infer . "QUESTION"        # or a formula, such as 'outcome ~ term + term'
""".replace("QUESTION", _question(release.schema))
    if not posterior:
        return (
            text
            + """
No rule for multiple synthetic data (`T_f`, `T_p`, `T_s`, Rubin's) is right for these tables: they share one noise.
"""
        )
    copies, records = len(table_rows), release.provenance.records
    people = records or total_of(release.schema, None, release.measurements)  # where it is not public, its noisy number
    kappa = f"{table_rows[0] / max(people, 1):.4g}"
    return (
        text
        + f"""
In any other package: fit the model to each of the {copies} copies by itself, as if it were real data, and combine the
estimates q and squared standard errors v by **T_f***, the rule for fully synthetic data:

| package | each copy | then |
|---|---|---|
| Python, statsmodels | `smf.logit(...).fit()`: `params`, `bse**2` | the lines below |
| R | `glm(...)`: `coef`, `diag(vcov(.))` | the same lines; not `mice::pool` or `pool.syn` |
| Stata | `logit`: `e(b)`, `e(V)` | the same lines; not `mi estimate` |
| synthpop | `glm.synds` | not `summary()`: its rules know no noise |

```python
import numpy as np
from scipy.stats import t

m, kappa = {copies}, {kappa}  # kappa: rows of a copy / records
b, v = q.var(axis=0, ddof=1), v.mean(axis=0)  # q, v: one row for each copy
T, r = (1 + 1 / m) * b - v, (1 + 1 / m) * b / v
freedom = np.where(T > 0, (m - 1) * (1 - 1 / r) ** 2, np.inf)
half = t.ppf(0.975, freedom) * np.where(T > 0, T, kappa * v) ** 0.5
low, high = q.mean(axis=0) - half, q.mean(axis=0) + half
```

With at least 25 copies, each with five times as many rows as there are records, its 95 percent intervals cover 95
percent; with fewer copies they cover up to 99 percent. Rubin's rule for missing data, (1 + 1/m) b + v, is too wide
here; T_p = b/m + v and T_s are too narrow.
The copies follow their model: what no measured table holds (see Notes and `measurements.parquet`) is an assumption in
them.
"""
    )


def _size(epsilon: Fraction) -> str:
    """The factor on the odds as a number, unless it is too large to mean anything."""
    return f" e^{show_up(epsilon)} is {math.exp(epsilon):.3g}." if epsilon < 7 else ""


def _weights(schema: Schema) -> str:
    """How many people a row stands for, and what to do with that."""
    if schema.weight is None:
        return ""
    totals = ", ".join(one.attribute for one in schema.weight.totals)
    raked = "".join(
        f"\n- {code(name)}: the weight raked to the public totals of {markdown(totals)}"
        for name in calibrated_column(schema.weight)
    )
    return (
        f"{raked}\n\nThe rows are of a survey: {code(schema.weight.column)} says how many people a row stands for. "
        "Numbers of the population are weighted by it. `understudy infer` does so by itself."
    )


def _identifiers(release: Release) -> str:
    """What became of columns that say who somebody is, or hold free text."""
    lines = [
        f"\n- {code(one.name)} (fakes by the pattern {code(one.fake)}; the column of the data was not read)"
        for one in release.schema.faked
    ]
    dropped = [code(one.name) for one in release.schema.identifiers if not one.fake]
    if dropped:
        lines.append(f"\n\nLeft out, as identifiers or free text, and not read: {', '.join(dropped)}.")
    return "".join(lines)


def _in_words(guarantee: Definition, unit: Unit) -> str:
    """The promise as a likelihood ratio, and what it does to the odds of somebody who knows everything else.

    A value that changes is, under ``add_remove``, one unit removed and another added: two steps.
    """
    if isinstance(guarantee, NonPrivate):
        return "**There is no privacy guarantee.** Treat these rows as if they were confidential unless told otherwise."
    if isinstance(guarantee, ZCDP):
        return (
            f"The privacy loss of one protected unit is at most that of a Gaussian with rho = {show_up(guarantee.rho)} "
            "(zero-concentrated differential privacy)."
        )
    if isinstance(guarantee, ProbabilisticDP):
        return _in_words(guarantee.implied(), unit)  # what remains of it for files made from the draw
    if not isinstance(guarantee, PureDP | ApproxDP):
        return str(guarantee)
    factor = f"e^{show_up(guarantee.epsilon)}"
    but = "" if isinstance(guarantee, PureDP) else f", except for a probability of {show_up(guarantee.delta)} (delta)"
    if unit.kind == "replace":
        return (
            f"These files are at most {factor} times as likely with one set of values of a protected unit as with "
            f"another{but}.{_size(guarantee.epsilon)} For somebody who already knows everything else, the odds between "
            "two possibilities for that unit change by at most this factor."
        )
    return (
        f"These files are at most {factor} times as likely with a protected unit in the data as without it, and the "
        f"other way round{but}.{_size(guarantee.epsilon)} For somebody who already knows everything else, the odds "
        "that the unit is in the data change by at most this factor. The odds between two values of a unit that is "
        "known to be there change by at most its square."
    )


def codebook_text(schema: Schema) -> str:
    """Every value that can stand in a column, and what it means.

    One line for each level, special code and range of numbers; a missing value is an empty one.
    """
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(CODEBOOK_COLUMNS)
    attributes = (*schema.attributes, *(derived.attribute(schema) for derived in schema.derived))
    for attribute in attributes:
        for kind, value, meaning in _codes(attribute):
            lines.writerow([as_cell(text) for text in (attribute.name, attribute.label, kind, value, meaning)])
    for name in calibrated_column(schema.weight):
        lines.writerow([as_cell(name), "", "number", "", "weight raked to the public totals of the schema"])
    for one in schema.faked:
        lines.writerow([as_cell(text) for text in (one.name, "", "fake", one.fake, "made up by this pattern")])
    return out.getvalue()


def _codes(attribute: Attribute) -> Iterator[tuple[str, str, str]]:
    if attribute.levels:
        labels = attribute.level_labels or ("",) * len(attribute.levels)
        for level, said in zip(attribute.levels, labels, strict=True):
            yield "level", level_text(level), said
    else:
        first, last = level_text(attribute.edges[0]), level_text(attribute.edges[-1])
        kind = "dates" if attribute.kind == "date" else "whole numbers" if attribute.integer else "numbers"
        digits = f" with {attribute.decimals} decimals" if attribute.decimals else ""
        digits += f", {attribute.clock} since 0:00" if attribute.clock else ""
        yield kind, f"{first} to {last}", f"known by {attribute.bins} bins{digits}"
        for code, said in attribute.special:
            yield "special code", level_text(code), said
    if attribute.missing:
        yield "missing", "", "no value"


# Texts of other people inside Markdown: names, labels, notes and warnings are shown as text and do nothing else.
#
# A README of a release is shown by web pages and editors that follow links and pass HTML on. A schema may come from
# anybody, and so may the release that a sample is drawn from.


_MARKUP = re.compile(r"([\\`*_\[\]#|~])")
_ADDRESS = re.compile(r"(?<=\w)(?=://)|(?<=\bwww)(?=\.)", re.IGNORECASE)  # pages make a link of a bare address
_PLAIN = re.compile(r"[\w .:;,()/+-]+")


def markdown(text: str) -> str:
    r"""A text on one line of Markdown, as it reads.

    >>> markdown("<b>[income](http://x)</b>")
    '&lt;b&gt;\\[income\\](http\\://x)&lt;/b&gt;'
    """
    shown = _MARKUP.sub(r"\\\1", html.escape(one_line(text), quote=False))
    return _ADDRESS.sub(r"\\", shown)


def code(name: str) -> str:
    """A name as code, or as a text where it holds what would end the code or look like HTML."""
    return f"`{name}`" if _PLAIN.fullmatch(name) and name.strip() == name and "://" not in name else markdown(name)


def one_line(text: str) -> str:
    """A text without line breaks: a line of its own could pass for one of ours."""
    return " ".join(text.split())
