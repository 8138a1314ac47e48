"""The README inside a release folder: what an analyst needs to know, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.core.exact import show_up
from understudy.privacy.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP
from understudy.release.value import Release


def readme_text(release: Release, table_rows: Sequence[int]) -> str:
    """One page: what it is, what it promises, five lines of pandas, and what not to do with it."""
    statement, provenance = release.statement, release.provenance
    rows = ", ".join(f"{rows:,}" for rows in table_rows)
    copies = "One synthetic table" if len(table_rows) == 1 else f"{len(table_rows)} synthetic tables"
    attributes = "\n".join(
        f"- `{attribute.name}`{': ' + attribute.label if attribute.label else ''}"
        for attribute in release.schema.attributes
    )
    attributes += "".join(
        f"\n- `{derived.name}`{': ' + derived.label if derived.label else ''} "
        f"(derived: {derived.describe()}; computed from the synthetic values, never measured)"
        for derived in release.schema.derived
    )
    promise = "\n".join(f"- {line}" for line in statement.lines())
    if provenance.copies_share_measurements and len(table_rows) > 1:
        shared = (
            "\nAll copies are made from the same noisy measurements: the differences between copies show how rows were "
            "drawn, not how much noise protects the data.\n"
        )
    else:
        shared = ""
    notes = "".join(f"- {note}\n" for note in provenance.notes)
    return f"""# Synthetic data

{copies} ({rows} rows) made by the method `{provenance.method}` of understudy {provenance.package_version}. No row is a
person. Rows: {provenance.rows_drawn or "as they were given"}.
{shared}
## What it promises

{promise}

{_in_words(statement.guarantee)}

## Reading it

```python
import pandas as pd

people = pd.read_parquet("synthetic_1.parquet")
print(people.describe(include="all"))
print(people.groupby("{release.schema.names[0]}", observed=False).size())
```

## What not to do

Ordinary standard errors and confidence intervals computed from these rows are **too narrow**: they know nothing of the
noise that protects the data, nor of the sampling of synthetic rows. Use them to explore; for conclusions, use the noisy
values in `measurements.parquet` and the mechanisms named there. A count near zero may be noise.

## Files

- `synthetic_*.parquet`: the rows. `schema.toml`: every possible value of every attribute; it was public beforehand.
- `measurements.parquet`: the noisy counts the rows were made from, with the exact law of their noise.
- `manifest.json`: the guarantee, the plan, what was charged, and the hash of every file; `understudy verify .` checks
  them.

## Attributes

{attributes}
{chr(10) + "## Notes" + chr(10) + chr(10) + notes if notes else ""}"""


def _in_words(guarantee: Definition) -> str:
    if isinstance(guarantee, NonPrivate):
        return "**There is no privacy guarantee.** Treat these rows as if they were confidential unless told otherwise."
    if isinstance(guarantee, PureDP):
        return (
            "Whatever somebody already knows, these files change the odds of any statement about one protected unit by "
            f"at most a factor e^{show_up(guarantee.epsilon)}, compared with the same files made after the values of "
            "that unit were replaced or removed."
        )
    if isinstance(guarantee, ApproxDP | ProbabilisticDP):
        return (
            "Whatever somebody already knows, these files change the odds of any statement about one protected unit by "
            f"at most a factor e^{show_up(guarantee.epsilon)}, but for an allowance of {show_up(guarantee.delta)} in "
            "probability."
        )
    if isinstance(guarantee, ZCDP):
        return (
            f"The privacy loss of one protected unit is at most that of a Gaussian with rho = {show_up(guarantee.rho)} "
            "(zero-concentrated differential privacy)."
        )
    return str(guarantee)
