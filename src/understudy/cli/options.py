"""Options that several commands share, and how their text becomes values.

Numbers of the budget stay text until the exact reader sees them: 0.1 means the decimal one tenth, and never passes
through a float.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.api import GUARANTEES, UNIT_KINDS, Option
from understudy.errors import InputError

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
Thorough = Annotated[
    bool,
    typer.Option("--thorough", help="Attack more people; run the plan again for 450 CPU seconds (default: 30)."),
]
Details = Annotated[bool, typer.Option("--details", help="Show every table and finding.")]
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
LINKED_UNITS = ("household", "person")
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
ReleaseUnit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="|".join((*UNIT_KINDS, *LINKED_UNITS)),
        help="replace: one unit's rows change and the number of rows is public. add_remove: one unit more or fewer. "
        "For linked tables also household (with all its members) and person.",
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
IKnow = Annotated[
    bool,
    typer.Option(
        "--i-know",
        help="Allow epsilon above 20, or delta above 1e-3 or 1/n: that protects next to nobody.",
        rich_help_panel=BUDGET,
    ),
]
Copies = Annotated[int | None, typer.Option(help="How many synthetic tables to make.", show_default="1")]
Rows = Annotated[int | None, typer.Option(help="Rows of each synthetic table.", show_default="the method's choice")]
Must = Annotated[
    Path | None,
    typer.Option(
        "--must",
        metavar="FILE",
        help="What must be answerable: questions, one on each line, such as crosstab(sex, age) or predict(income).",
    ),
]
MethodOptions = Annotated[
    list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="A setting of the method; may be repeated.")
]
Sdc = Annotated[
    bool,
    typer.Option(
        "--sdc",
        help="With --guarantee none: remove rows that repeat a person who is unique in the data. It is no guarantee.",
    ),
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
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How a CSV writes its letters: latin-1, cp1252, utf-16, ...",
        show_default="utf-8",
        rich_help_panel=DATA,
    ),
]
DatabaseTable = Annotated[
    str | None, typer.Option("--table", help="Table of a DuckDB file, or of Spark's catalogue.", rich_help_panel=DATA)
]
DatabaseQuery = Annotated[
    str | None, typer.Option("--query", help="Query on a DuckDB file, or in Spark SQL.", rich_help_panel=DATA)
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="local|spark", help="What counts the data.", show_default="local", rich_help_panel=CLUSTER),
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


def files_of(data: Sequence[str]) -> str | list[str]:
    """One file or glob, or the list of several."""
    return data[0] if len(data) == 1 else list(data)


def read_names(text: str | None) -> tuple[str, ...]:
    """Names in a list with commas.

    >>> read_names("sex, age")
    ('sex', 'age')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


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
