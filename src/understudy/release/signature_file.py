"""The signature of a release as a file: what it states, how it is written, and which bytes are signed.

``signature.json`` lies in the release folder beside the files that the manifest lists; it cannot be among them, because
it is made from the manifest. So that it can hold nothing else, it is read strictly: these names, these forms, and the
one way of writing them. A flipped byte is then another statement, another signature, or no signature file at all.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.folders import SIGNATURE
from understudy.errors import InputError

FORMAT, VERSION, ALGORITHM = "understudy signature", 1, "Ed25519"
# What is signed begins with this, so that a signature for another purpose by the same key never fits a release.
DOMAIN = b"understudy release signature 1\n"
HASH = re.compile(r"[0-9a-f]{64}")
SIGNED = re.compile(r"[0-9a-f]{128}")
MOST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Who signed which manifest. Hashes and signature are in lower-case hexadecimal.

    Raises
    ------
    InputError
        If a hash or the signature does not have the right form.
    """

    key_id: str
    """The SHA-256 hash of the public key."""
    manifest_sha256: str
    """The SHA-256 hash of the manifest."""
    ledger_head: str | None
    """The head of the ledger when it was signed; ``None``: signed without a ledger."""
    signature: str
    """The Ed25519 signature."""

    def __post_init__(self) -> None:
        texts = (self.key_id, self.manifest_sha256, *(() if self.ledger_head is None else (self.ledger_head,)))
        if not all(isinstance(text, str) and HASH.fullmatch(text) for text in texts):
            raise InputError("key id, manifest hash and ledger head of a signature must be SHA-256 hashes.")
        if not isinstance(self.signature, str) or not SIGNED.fullmatch(self.signature):
            raise InputError("an Ed25519 signature must be 64 bytes in hexadecimal.")

    def to_json(self) -> dict[str, Any]:
        """The signature as plain values, as ``signature.json`` has them.

        Returns
        -------
        dict[str, Any]
            The statement that was signed, and the signature.
        """
        stated = statement(key_id=self.key_id, manifest_sha256=self.manifest_sha256, ledger_head=self.ledger_head)
        return {**stated, "signature": self.signature}


def statement(*, key_id: str, manifest_sha256: str, ledger_head: str | None) -> dict[str, Any]:
    """Everything a signature file says but the signature itself; all of it is signed."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "algorithm": ALGORITHM,
        "key_id": key_id,
        "manifest_sha256": manifest_sha256,
        "ledger_head": ledger_head,
    }


def encode(stated: dict[str, Any]) -> bytes:
    """The one way of writing a statement or a signature file."""
    return (json.dumps(stated, indent=2) + "\n").encode("ascii")


def message_of(stated: dict[str, Any], manifest: bytes) -> bytes:
    """The bytes that are signed: purpose and version, the statement with its length, the manifest byte for byte."""
    said = encode(stated)
    return DOMAIN + len(said).to_bytes(8, "big") + said + manifest


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_signature(folder: Path) -> Signature | None:
    """The signature of a release folder, if it has one; refuses a file of that name that holds anything else."""
    file = folder / SIGNATURE
    if not file.is_symlink() and not file.exists():
        return None
    if file.is_symlink() or not file.is_file():
        raise InputError(f"'{SIGNATURE}' in {folder} is not a plain file.")
    with file.open("rb") as handle:
        raw = handle.read(MOST_BYTES + 1)
    try:
        found = json.loads(raw)
        signature = Signature(**{name: found[name] for name in Signature.__slots__})
    except (ValueError, LookupError, TypeError, RecursionError):
        signature = None
    if signature is None or encode(signature.to_json()) != raw:
        raise InputError(
            f"'{SIGNATURE}' in {folder} is not a signature of version {VERSION} as this program writes it: it was "
            "changed, or made by another version."
        )
    return signature
