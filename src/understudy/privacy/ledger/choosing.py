"""Which store a ledger is in: a file, or PostgreSQL where an environment variable names its address.

An address may hold a password, so it is never an argument: ``env:NAME`` says which variable holds it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from understudy.core.folders import as_path
from understudy.errors import InputError
from understudy.privacy.ledger.store import LedgerFile, Store

BY_NAME = "env:"
ADDRESSES = ("postgresql://", "postgres://")


def address_of(target: str | os.PathLike[str]) -> str | None:
    """The address of a ledger in PostgreSQL, if that is what is named."""
    if not isinstance(target, str | os.PathLike):
        return None  # it is refused where a file is opened
    text = os.fspath(target)
    if not isinstance(text, str):
        return None
    if text.startswith(ADDRESSES):
        raise InputError(
            "the address of a ledger may hold a password, and is no argument. Put it into an environment variable, "
            'such as LEDGER, and name that: "env:LEDGER".'
        )
    if not text.startswith(BY_NAME):
        return None
    found = os.environ.get(text.removeprefix(BY_NAME), "")
    if not found.startswith(ADDRESSES):
        raise InputError(f"{text} names no ledger: that variable must hold an address that begins with postgresql://.")
    return found


def create_store(target: str | os.PathLike[str], body: Mapping[str, object]) -> Store:
    """A new, empty store whose first row is ``body``."""
    address = address_of(target)
    if address is None:
        return LedgerFile.create(_absolute(target), body)
    from understudy.privacy.ledger.postgres_store import LedgerTables

    return LedgerTables.create(address, body)


def open_store(target: str | os.PathLike[str], *, writable: bool) -> Store:
    """An existing store, after a check that this program can use it."""
    address = address_of(target)
    if address is None:
        file = LedgerFile(_absolute(target), writable=writable)
        file.check()
        return file
    from understudy.privacy.ledger.postgres_store import LedgerTables

    tables = LedgerTables(address, writable=writable)
    tables.check()
    return tables


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(as_path(path, "the ledger")))
