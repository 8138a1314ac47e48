"""Commands that sign a release: a key pair, and the signature in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import understudy as us
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, working


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
