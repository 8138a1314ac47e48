"""Commands about the public schema."""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Annotated, Any

import typer

import understudy as us
from understudy.cli.bundles import Budget, Identified, Reading, bundled
from understudy.cli.options import (
    AsJson,
    DataFiles,
    SchemaFile,
    files_of,
)
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.core.derived_attributes import Derived
from understudy.core.folders import output_path
from understudy.core.result import INTERNAL
from understudy.core.schema import Attribute
from understudy.core.survey_design import described
from understudy.errors import InputError, SchemaError

app = typer.Typer(help="Draft, check and describe the public schema.", no_args_is_help=True)
MOST_LEFT_OUT = 12  # columns that are named on the screen
LARGEST_MASK = 10_000_000  # cells up to which structural zeros are counted cell by cell


@app.command()
@bundled
def draft(
    *,
    data: DataFiles,
    out: Annotated[
        Path | None, typer.Option("--out", help="The draft (TOML).", show_default="the name of the data, ending .toml")
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option("--codebook", metavar="FILE", help="SDV metadata, Frictionless, CSVW (JSON) or DDI (XML)."),
    ] = None,
    sections: Annotated[
        bool, typer.Option("--sections", help="Write rules, sums and weights as sections, not as remarks.")
    ] = False,
    household: Annotated[
        str | None,
        typer.Option(
            "--household",
            metavar="COLUMN",
            help="Draft linked tables: the column that says who belongs together (household, school, patient).",
        ),
    ] = None,
    reading: Reading,
    budget: Budget,
    who: Identified,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="The ledger that pays for a private draft.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="The account of that ledger.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a schema by looking at the data. The draft is confidential, and refused until a person has reviewed it.

    Example: `understudy schema draft people.sav --out people.toml`

    Two linked files: `understudy schema draft households=h.csv persons=p.csv --out homes.toml`

    One file with both: `understudy schema draft people.csv --household hid --out homes.toml`

    It lists levels and round edges with the labels of the file, and remarks on rare levels, identifiers, free text and
    probable codes. Review it, replace what is not public knowledge, and remove the line draft = true.

    With a budget the draft is private: it follows from noisy counts, which are charged, and can be used as it is.

    Example: `understudy schema draft people.csv --epsilon 0.1 --ledger budget.db --account people-2026`
    """
    files = _linked_files(data)
    if files and household is not None:
        raise InputError("two files are linked by a column of both; --household is for one file, so leave it out.")
    linked = bool(files) or household is not None
    if linked and sections:
        raise InputError("--sections is for one table; the draft of linked tables has its rules as remarks.")
    stem = "" if files else Path(data[0]).name.split(".")[0]
    if out is None and (not stem or glob.has_magic(stem)):
        raise InputError("say how the draft shall be called: --out NAME.toml.")
    target = Path(f"{stem}.toml") if out is None else output_path(out)
    if target.exists():
        raise InputError(f"{target} already exists; choose another name with --out.")
    how = reading.options()
    spends, unit = budget.read_if_given(), who.read()
    if spends is not None:
        if linked:
            raise InputError(
                "a private draft is made of one table; draft linked tables without a budget, and review it."
            )
        if sections:
            raise InputError("a private draft looks for no rules, sums and weights; leave --sections out.")
        if codebook is not None:
            raise InputError("a private draft reads no code book; draft without a budget, or write the schema from it.")
        if ledger is None or account is None:
            raise InputError("a private draft is charged: say which --ledger and --account pay for it.")
        if unit is not None and unit.fixed:
            raise InputError("a private draft knows no attributes yet, so none can be fixed; leave --fixed out.")
        with working("counting"):
            text = us.draft_privately(
                files_of(data), budget=spends, ledger=ledger, account=account, unit=unit or "replace", out=target, **how
            )
        _show_private_draft(text, target, as_json=as_json)
        return
    if ledger is not None or account is not None or unit is not None:
        raise InputError("a ledger and a unit go with a budget; say --epsilon for a private draft, or leave them out.")
    with working("reading"):
        if linked:
            how = {name: value for name, value in how.items() if value is not None}
            text = us.draft_linked_schema(
                files or files_of(data), household=household, out=target, codebook=codebook, **how
            )
        else:
            text = us.draft_schema(files_of(data), out=target, codebook=codebook, sections=sections, **how)
    if as_json:
        print_json({"audience": "internal", "draft": str(target)})
        return
    # The first line of the remark: the reason, without what it offers.
    left_out = re.findall(r"^# (.*)\n(?:# .*\n)*\[\[ignore\]\]", text, re.MULTILINE)
    drafted = text.partition("draft = true")[2]
    remarks = len(re.findall(r"^# (?!\[\[|\w+ = )", drafted, re.MULTILINE)) - len(left_out)  # without lines to copy
    say(f"Draft written to {target}. It is confidential: it was made by looking at the data.", style="bold")
    colon = ":" if left_out else "."
    found = f"{_attributes(text):,} attribute(s), {remarks:,} remark(s) to read"
    say(f"{found}, {len(left_out):,} column(s) left out{colon}")
    for line in left_out[:MOST_LEFT_OUT]:
        say(f"  {line.removesuffix(' For that, write:')}")
    if len(left_out) > MOST_LEFT_OUT:
        say(f"  and {len(left_out) - MOST_LEFT_OUT:,} more, at the end of the draft.")
    say("Review every attribute, replace what is not public knowledge, then remove the line draft = true.")


def _attributes(text: str) -> int:
    """How many attributes a schema has, without those that its comments offer."""
    return len(re.findall(r"^\[\[attribute\]\]", text, re.MULTILINE))


def _linked_files(data: list[str]) -> dict[str, str]:
    """Files that are named as two tables, NAME=FILE; nothing if they are not."""
    pairs = [one.partition("=") for one in data]
    named = all(mark and name and not Path(one).exists() for one, (name, mark, _) in zip(data, pairs, strict=True))
    return {name: path for name, _, path in pairs} if named and len(pairs) == 2 else {}


def _show_private_draft(text: str, target: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"audience": "public", "schema": str(target)})
        return
    say(f"Schema written to {target}. It is public: it was made from noisy counts, which were charged.", style="bold")
    left_out = re.findall(r"^# ('.*' was left out: .*)$", text, re.MULTILINE)
    say(f"{_attributes(text):,} attribute(s), {len(left_out):,} column(s) left out.")
    for line in left_out[:MOST_LEFT_OUT]:
        say(f"  {line}")
    say(f"Continue with: understudy plan --schema {target} --epsilon 1 --delta 1e-9")


@app.command()
@bundled
def check(
    *,
    data: DataFiles,
    schema: SchemaFile,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Check that data fit a schema: how many rows break it, by attribute, and never a value. Exit code 2 if any does.

    Example: `understudy schema check people.parquet --schema people.toml`

    What it prints is computed from confidential data: keep it inside the building.
    """
    public = us.read_any_schema(schema)
    how = reading.options()
    try:
        with working("checking"):
            rows = us.check_data(files_of(data), public, **how)
            clipped = us.clipped_weights(files_of(data), public, **how) if isinstance(public, us.Schema) else 0
    except SchemaError as problem:
        if as_json:
            print_json({"audience": "internal", "fits": False, "rows": None, "problem": str(problem)})
        raise
    if as_json:
        print_json({"audience": "internal", "fits": True, "rows": rows, "clipped": clipped, "problem": None})
    else:
        counted = "rows" if isinstance(public, us.Schema) else "households with their members"
        say(f"All {rows:,} {counted} fit {schema} (internal: their number may be confidential).")
        if clipped:
            say(f"{clipped:,} weights lie outside their bounds and will be clipped (internal).")


@app.command()
@bundled
def describe(
    *,
    schema: SchemaFile,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Add an internal summary of these data.", show_default=False),
    ] = None,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Describe a schema: its attributes, the size of their cross-tabulation, its structural zeros.

    Example: `understudy schema describe --schema people.toml`

    With data it adds a summary that is computed from them and marked internal.
    """
    both = us.read_any_schema(schema)
    if isinstance(both, us.LinkedSchema):
        if data:
            raise InputError("a summary of data is offered for one table; check linked tables with schema check.")
        _describe_linked(schema, both, as_json=as_json)
        return
    public = both
    possible = int(public.allowed().sum()) if public.cells() <= LARGEST_MASK else None
    internal = None
    how = reading.options()
    if not data and reading != Reading():
        raise InputError("how data are written was said, and no data were named; name them, or leave that out.")
    if data:
        with working("counting"):
            internal = us.describe_data(files_of(data), public, **how)
    if as_json:
        document = {
            "fingerprint": public.fingerprint,
            "attributes": [_attribute_document(attribute) for attribute in public.attributes],
            "cells": public.cells(),
            "possible_cells": possible,
            "derived": [_derived_document(derived) for derived in public.derived],
            "impossible": [rule.describe() for rule in public.impossible],
            "rules": [rule.describe() for rule in public.rules],
            "file": [] if public.file is None else public.file.said(),
            "ignore": list(public.ignore),
            "survey": dict(described(public)),
            "identifiers": [{"name": one.name, "fake": one.fake} for one in public.identifiers],
        }
        print_json(document if internal is None else {**document, "internal": internal})
        return
    show_table(
        f"Schema {schema}",
        ("attribute", "kind", "codes", "missing", "values", "label"),
        [_attribute_row(attribute) for attribute in public.attributes],
        right=("codes",),
    )
    if public.derived:
        show_table(
            "Derived (computed from the attributes, never measured)",
            ("name", "rule", "label"),
            [(derived.name, derived.describe(), derived.label) for derived in public.derived],
        )
    if public.impossible:
        show_table("Structural zeros (cannot occur)", ("rule",), [(rule.describe(),) for rule in public.impossible])
    if public.rules:
        show_table("Rules (every synthetic row obeys them)", ("rule",), [(rule.describe(),) for rule in public.rules])
    if public.file is not None:
        show_table("How CSV files are written", ("",), [(line,) for line in public.file.said()])
    show_facts(
        [
            ("cells of the full cross-tabulation", public.cells()),
            ("of them possible", f"not counted above {LARGEST_MASK:,} cells" if possible is None else possible),
            *described(public),
            ("ignored columns", ", ".join(public.ignore) or "none"),
            *(
                [("identifiers", ", ".join(f"{one.name} ({one.fake or 'left out'})" for one in public.identifiers))]
                if public.identifiers
                else []
            ),
            ("fingerprint", public.fingerprint),
        ]
    )
    if internal is not None:
        say(INTERNAL, style="bold red")
        show_facts(
            [
                ("rows", internal["rows"]),
                ("cells with somebody in them", internal["filled_cells"]),
                ("percent of cells that are empty (p0)", internal["empty_percent"]),
                ("people who are alone in their cell", internal["uniques"]),
                ("percent of people who are (p1)", internal["uniques_percent"]),
            ]
        )


def _attribute_document(attribute: Attribute) -> dict[str, Any]:
    return {
        "name": attribute.name,
        "kind": attribute.kind,
        "codes": list(attribute.code_names),
        "size": attribute.size,
        "missing": attribute.missing,
        "ordered": attribute.ordered,
        "label": attribute.label,
    }


def _derived_document(derived: Derived) -> dict[str, Any]:
    return {
        "name": derived.name,
        "function": derived.function,
        "from": list(derived.sources),
        "label": derived.label,
    }


def _describe_linked(file: Path, public: us.LinkedSchema, *, as_json: bool) -> None:
    """Both tables of a schema of linked tables, and how one row of a household looks."""
    tables = ((public.household_table, public.households), (public.member_table, public.members))
    rules = [rule.describe() for one in (public.households, public.members) for rule in (*one.impossible, *one.rules)]
    rules += [rule.describe() for rule in public.across]
    rules += [f"{below} lies in a lower bin than {above}" for below, above in public.orders]
    rules += [gap.describe() for gap in public.gaps]
    derived = [(one.name, f"{one.function} of {one.of}") for one in public.derived]
    if as_json:
        print_json({
            "fingerprint": public.fingerprint,
            "tables": {name: [_attribute_document(one) for one in own.attributes] for name, own in tables},
            "id": public.household_id,
            "at_most": public.at_most,
            "compositions": len(public.kinds),
            "columns_of_a_household": list(public.wide.names),
            "derived": [{"name": name, "rule": rule} for name, rule in derived],
            "impossible": rules,
            "ignore": list(public.members.ignore),
        })  # fmt: skip
        return
    for name, own in tables:
        show_table(
            f"{name} ({file})",
            ("attribute", "kind", "codes", "missing", "values", "label"),
            [_attribute_row(attribute) for attribute in own.attributes],
            right=("codes",),
        )
    if derived:
        show_table("Derived (computed from the members, never measured)", ("name", "rule"), derived)
    if rules:
        show_table("What cannot occur", ("rule",), [(rule,) for rule in rules])
    show_facts(
        [
            ("linked by", public.household_id),
            ("most members of a household", public.at_most),
            ("compositions", len(public.kinds)),
            ("columns that infer knows of a household", ", ".join(public.wide.names)),
            ("ignored columns", ", ".join(public.members.ignore) or "none"),
            ("fingerprint", public.fingerprint),
        ]
    )


def _attribute_row(attribute: Attribute) -> tuple[object, ...]:
    names = attribute.code_names
    shown = ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])}, ..., {names[-1]}"
    kind = f"{attribute.kind}, ordered" if attribute.ordered else attribute.kind
    return (attribute.name, kind, attribute.size, attribute.missing, shown, attribute.label)
