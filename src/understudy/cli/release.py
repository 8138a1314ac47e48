"""Commands about releases and the methods that make them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import understudy as us
from understudy.cli.bundles import Cluster, bundled
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_facts, show_table, working
from understudy.core.folders import output_path
from understudy.errors import InputError, unknown_name


def verify(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PUBLIC", help="The public key that must have signed it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a release: its files, its hashes, and that the recorded events add up to the stated guarantee.

    Example: `understudy verify release/ --key agency.key.pub`

    Hashes detect corruption and accidents, not forgery. A signature detects forgery by anyone without the private key,
    if the public key came to you by another way than the release. With `--key` a release without signature fails.
    """
    with working("checking"):
        checks = us.verify(folder, key=key)
    passed = all(check.passed for check in checks)
    if as_json:
        listed = [{"name": check.name, "passed": check.passed, "detail": check.detail} for check in checks]
        print_json({"release": str(folder), "passed": passed, "checks": listed})
    else:
        rows = [(check.name, "passed" if check.passed else "FAILED", check.detail) for check in checks]
        show_table(f"Checks of {folder}", ("check", "result", "detail"), rows)
    if not passed:
        failed = ", ".join(check.name for check in checks if not check.passed)
        raise InputError(f"{folder} does not pass: {failed}. Do not use or pass on this release.")


@bundled
def sample(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    rows: Annotated[int, typer.Option("--rows", help="Rows of each new table.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The new release folder.", show_default=False)],
    copies: Annotated[int, typer.Option("--copies", help="How many tables.")] = 1,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV files too.")] = False,
    cluster: Cluster,
    as_json: AsJson = False,
) -> None:
    """Draw more rows from what a release measured, without the data and at no further cost.

    Example: `understudy sample release/ --rows 1000000 --out larger/`

    Refused for methods that draw from the data themselves (dirichlet): there another draw is another charge. With
    `--engine spark` the executors of a cluster write the folder, in parts; without it rows are written as they are
    drawn. Either way memory does not grow with the number of rows.
    """
    target = output_path(out)
    with working("drawing rows"):
        us.write_sample(us.read_release(folder), target, rows=rows, copies=copies, csv=csv, **cluster.options())
    written = us.read_manifest(target)
    if as_json:
        print_json({"release": str(target), "rows": written["rows"], "files": len(written["files"])})
    else:
        say(f"{len(written['rows'])} table(s) of {rows:,} rows in {len(written['files'])} files: {target}")


def methods(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[METHOD]", help="One method, to see its options.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods of synthesis with the guarantees each can give, or the options of one method.

    Example: `understudy methods ipf`
    """
    kinds = {one.name: one for one in us.methods()}
    if name is not None and name not in kinds:
        raise unknown_name("method", name, kinds)
    listed: list[dict[str, Any]] = [
        {"name": kind.name, "summary": kind.summary, "guarantees": list(kind.guarantees)}
        | ({} if name is None else {"options": list(kind.options)})
        for kind in kinds.values()
        if name in (None, kind.name)
    ]
    if as_json:
        print_json(listed if name is None else listed[0])
    elif name is None:
        rows = [(one["name"], ", ".join(one["guarantees"]), one["summary"]) for one in listed]
        show_table("Methods", ("method", "guarantees", "what it does"), rows)
    else:
        (method,) = listed
        show_facts([("method", name), ("guarantees", ", ".join(method["guarantees"])), ("does", method["summary"])])
        show_table(
            "Options (--option NAME=VALUE)",
            ("option", "default", "what it says"),
            [(one["name"], one["default"], one["description"].replace("``", "")) for one in method["options"]],
        )


def export(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="csv, dta (Stata), sav (SPSS), r, croissant or dcat; commutes: csv, geojson.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="A new folder for the files.", show_default="RELEASE-FORMAT beside it")
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS", help="So many rows that stand for people, instead of weighted rows.", show_default=False
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Commutes: the areas, such as tract or zip.", show_default=False)
    ] = None,
    outlines: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Commutes as geojson: public outlines of the areas.", show_default=False),
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Even if the release does not pass `understudy verify`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a release for other programs: CSV, Stata (dta), SPSS (sav) or R, with labels and types; or describe it.

    Example: `understudy export release/ --to sav`

    Commutes are written by area, with ranges: `understudy export commutes/ --to geojson --by tract --outlines
    tracts.geojson`

    Nothing is written into the release folder. README.txt beside the files repeats what the release promises, says what
    every code means, and lists names that had to be shortened. `r` is for the R package understudyr, which infers
    without Python. `croissant` and `dcat` copy the release and add a description that catalogues read.
    """
    with working("writing"):
        target = us.export(
            folder, to=to, out=None if out is None else output_path(out), population=population, by=by,
            outlines=outlines, unverified=unverified,
        )  # fmt: skip
    files = sorted(file.name for file in target.iterdir())
    if as_json:
        print_json({"release": str(folder), "export": str(target), "format": to, "files": files})
    else:
        say(f"Exported to {target}: {', '.join(files)}")


def signing_key(
    *,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a pair of Ed25519 keys: FILE for you alone (mode 0600), FILE.pub for everybody.

    Example: `understudy signing-key agency.key`

    Keep the private key outside every release folder. Publish the public key, or its key id, where readers find it
    without the release. Nothing is overwritten, and a lost private key cannot be made again.
    """
    key_id = us.make_signing_key(path)
    public = path.with_name(f"{path.name}.pub")
    if as_json:
        print_json({"private_key": str(path), "public_key": str(public), "key_id": key_id})
        return
    say(f"Private key, for you alone: {path}")
    say(f"Public key, for everybody: {public}")
    say(f"Key id: {key_id}")


def sign(
    *,
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    key: Annotated[Path, typer.Option("--key", metavar="PRIVATE", help="The private key.", show_default=False)],
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The ledger that paid; the head of its chain is signed too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a release: `signature.json` appears in its folder and covers every file there.

    Example: `understudy sign release/ --key agency.key --ledger budget.db`

    A release that does not pass `understudy verify` is not signed, and neither is one whose charge is no longer in the
    ledger.
    """
    with working("checking and signing"):
        made = us.sign(folder, key=key, ledger=ledger)
    if as_json:
        print_json({"release": str(folder), **made.to_json()})
        return
    say(f"{folder} is signed by the key {made.key_id}")
    if made.ledger_head is not None:
        say(f"Head of the ledger: {made.ledger_head}")
