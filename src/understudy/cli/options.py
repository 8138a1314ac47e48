"""Options that several commands share, and how their text becomes values.

Numbers of the budget stay text until the exact reader sees them: 0.1 means the decimal one tenth, and never passes
through a float.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.errors import InputError, unknown_name
from understudy.privacy.definition import GUARANTEES, UNIT_KINDS, Definition, NonPrivate, Unit
from understudy.privacy.plan import Option

BUDGET = "Budget"
UNIT = "Who is protected"
RESULT = "Result"
DATA = "Reading the data"
CLUSTER = "Past one machine"

SchemaFile = Annotated[Path, typer.Option("--schema", help="The public schema (TOML).", show_default=False)]
OneRelease = Annotated[
    Path,
    typer.Argument(
        metavar="RELEASE",
        help="A release folder, or (with --schema) a file with anybody's synthetic table.",
        show_default=False,
    ),
]
ReleaseSchema = Annotated[
    Path | None, typer.Option("--schema", help="The public schema (TOML).", show_default="the one in the release")
]
Confidential = Annotated[
    list[str], typer.Option(metavar="FILE", help="The confidential data; may be repeated.", show_default=False)
]
Holdout = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="People of the same population who were not used; may be repeated."),
]
Models = Annotated[
    list[str] | None, typer.Option(metavar="'Y ~ A + B'", help="A regression to compare; may be repeated.")
]
Keys = Annotated[str, typer.Option(metavar="A,B", help="What an intruder knows of a person.", show_default=False)]
Targets = Annotated[str, typer.Option(metavar="C,D", help="What an intruder wants to learn.", show_default=False)]
Method = Annotated[
    str | None, typer.Option(help="How to synthesize; `understudy methods` lists them.", show_default="auto")
]


def _amount(help_text: str) -> Any:
    return typer.Option(metavar="NUMBER", help=help_text, rich_help_panel=BUDGET)


Epsilon = Annotated[str | None, _amount("Total epsilon of the release.")]
Delta = Annotated[str | None, _amount("Total delta of the release.")]
Rho = Annotated[str | None, _amount("Total rho of the release, for zCDP.")]
LimitEpsilon = Annotated[str | None, _amount("Epsilon that all runs together may spend.")]
LimitDelta = Annotated[str | None, _amount("Delta that all runs together may spend.")]
LimitRho = Annotated[str | None, _amount("Rho that all runs together may spend, for zCDP.")]
Guarantee = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(GUARANTEES),
        help="Form of the guarantee. Without it: epsilon alone means pure, with delta approx, rho means zcdp.",
        rich_help_panel=BUDGET,
    ),
]
UnitKind = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="|".join(UNIT_KINDS),
        help="replace: one unit's rows change and the number of rows is public. add_remove: one unit more or fewer.",
        show_default="replace",
        rich_help_panel=UNIT,
    ),
]
Fixed = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Attributes known for everybody and not protected.", rich_help_panel=UNIT),
]
RowsPerUnit = Annotated[
    int | None, typer.Option(help="At most this many rows belong to one unit.", show_default="1", rich_help_panel=UNIT)
]
UnitId = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column that identifies the unit; enforces the bound.", rich_help_panel=UNIT),
]
Copies = Annotated[int | None, typer.Option(help="How many synthetic tables to make.", show_default="1")]
Rows = Annotated[int | None, typer.Option(help="Rows of each synthetic table.", show_default="the method's choice")]
MethodOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="A setting of the method; may be repeated.")
]
DataFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA", help="CSV, Parquet, Stata, SPSS, SAS or DuckDB files, or a quoted glob.", show_default=False
    ),
]
DataOrTable = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Stata, SPSS, SAS or DuckDB files, or a quoted glob. Left out with a table of Spark's.",
        show_default=False,
    ),
]
MissingText = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="How a CSV writes a missing value.", show_default="the empty text", rich_help_panel=DATA
    ),
]
Delimiter = Annotated[str | None, typer.Option(metavar="CHAR", help="Delimiter of a CSV.", rich_help_panel=DATA)]
Decimal = Annotated[
    str, typer.Option(metavar=".|,", help="How a CSV writes the decimals of a number.", rich_help_panel=DATA)
]
DatabaseTable = Annotated[
    str | None, typer.Option("--table", help="Table of a DuckDB file, or of Spark's catalogue.", rich_help_panel=DATA)
]
DatabaseQuery = Annotated[
    str | None, typer.Option("--query", help="Query on a DuckDB file, or in Spark SQL.", rich_help_panel=DATA)
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="duckdb|spark", help="What counts the data.", show_default="duckdb", rich_help_panel=CLUSTER),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs: local[*], spark://host:7077, ... Left out under spark-submit.",
        rich_help_panel=CLUSTER,
    ),
]
AllowInsecureCluster = Annotated[
    bool,
    typer.Option(
        "--allow-insecure-cluster",
        help="Let confidential rows and keys travel over a Spark cluster without authentication and encryption.",
        rich_help_panel=CLUSTER,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def read_data_options(
    *,
    missing_text: str,
    delimiter: str | None,
    decimal: str,
    table: str | None,
    query: str | None,
    unit_id: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    allow_insecure_cluster: bool = False,
) -> dict[str, Any]:
    """How the data are to be read, under the names of ``api.open_source``; nothing is guessed from their contents."""
    cluster = {"engine": engine, "master": master, "allow_insecure_cluster": allow_insecure_cluster}
    if decimal not in (".", ","):
        raise InputError(f"--decimal ({decimal!r}) must be a point or a comma.")
    return {
        "missing_text": missing_text,
        "delimiter": delimiter,
        "decimal_comma": decimal == ",",
        "table": table,
        "query": query,
        "unit_id": unit_id,
        **{name: value for name, value in cluster.items() if value},
    }


def files_of(data: Sequence[str]) -> str | list[str]:
    """One file or glob, or the list of several."""
    return data[0] if len(data) == 1 else list(data)


def read_budget(
    *, epsilon: str | None, delta: str | None, rho: str | None, guarantee: str | None, required: bool = True
) -> Definition | None:
    """The guarantee asked for.

    >>> print(read_budget(epsilon="0.1", delta=None, rho=None, guarantee=None))
    pure differential privacy (epsilon = 0.1)
    """
    given = {key: text for key, text in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if text is not None}
    if guarantee is None:
        if not given:
            if not required:
                return None
            raise InputError(
                "no budget was given. Say --epsilon 1 (pure), --epsilon 1 --delta 1e-9 (approx), --rho 0.1 (zcdp), "
                "or --guarantee none."
            )
        guarantee = "zcdp" if "rho" in given else ("approx" if "delta" in given else "pure")
    if guarantee not in GUARANTEES:
        raise unknown_name("guarantee", guarantee, GUARANTEES)
    kind = GUARANTEES[guarantee]
    if set(given) != set(kind.parameters):
        needs = " and ".join(f"--{key}" for key in kind.parameters) or "neither --epsilon, --delta nor --rho"
        has = " and ".join(f"--{key}" for key in given) or "none of them was given"
        raise InputError(f"guarantee '{guarantee}' needs {needs}; {has}{' was given' if len(given) == 1 else ''}.")
    return kind(**given) if given else NonPrivate()


def read_unit_options(
    *, kind: str | None, fixed: str | None, rows_per_unit: int | None, unit_id: str | None
) -> Unit | None:
    """The unit of privacy, or nothing if no option spoke of it."""
    if kind is None and fixed is None and rows_per_unit is None and unit_id is None:
        return None
    names = tuple(name.strip() for name in fixed.split(",") if name.strip()) if fixed else ()
    return Unit(
        kind="replace" if kind is None else kind,  # type: ignore[arg-type]  # Unit itself names the known kinds
        fixed=names,
        rows_per_unit=1 if rows_per_unit is None else rows_per_unit,
        unit_id=unit_id,
    )


def read_method_options(texts: Sequence[str] | None) -> dict[str, Option]:
    """Settings of a method: whole numbers, true and false are read as such, other text is handed on as it is.

    >>> read_method_options(["prior=0.5", "rounds=3", "low_variance=true"])
    {'prior': '0.5', 'rounds': 3, 'low_variance': True}
    """
    options: dict[str, Option] = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        key = key.strip()
        if not separator or not key:
            raise InputError(f"--option {text!r} must look like key=value.")
        if key in options:
            raise InputError(f"--option {key} was given twice.")
        if value in ("true", "false"):
            options[key] = value == "true"
        else:
            options[key] = int(value) if re.fullmatch(r"[+-]?[0-9]{1,18}", value) else value
    return options


def read_output_path(path: Path) -> Path:
    """An absolute path with a name of its own, so that a temporary folder can lie beside it."""
    absolute = Path(os.path.abspath(path))
    if not absolute.name:
        raise InputError(f"{path} cannot be written to; name a folder inside it.")
    return absolute
