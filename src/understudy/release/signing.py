"""Signing a release: whoever has the public key can tell whether the agency with the private key made these bytes.

The manifest has the hash of every file, so a signature of the manifest's bytes covers the folder. Ed25519 by the
``cryptography`` package: small keys, no parameters to choose, and no randomness while signing that could go wrong. The
private key is a file of its owner's alone (mode 0600); it is never in a release, a message or a log. A public key is
never taken from the release itself, because a forger would put their own key there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.folders import SIGNATURE, as_path, explained_disk_errors, release_above, sync_folder
from understudy.errors import DisclosureError, InputError
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.manifest import MANIFEST, read_manifest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# The signature of a release as a file: what it states, how it is written, and which bytes are signed.
#
# ``signature.json`` lies in the release folder beside the files that the manifest lists; it cannot be among them,
# because it is made from the manifest. So that it can hold nothing else, it is read strictly: these names, these
# forms, and the one way of writing them. A flipped byte is then another statement, another signature, or no signature
# file at all.


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


PUBLIC_SUFFIX = ".pub"
PRIVATE_MODE = 0o600
LONGEST_KEY_FILE = 16_384


def make_signing_key(path: str | Path) -> str:
    """Make a new key pair: the private key in ``path`` for its owner alone, the public key in ``path`` + ".pub".

    Nothing is overwritten: a lost private key cannot be made again, and what it signed stays valid.

    Parameters
    ----------
    path
        The file of the private key.

    Returns
    -------
    str
        The key id: the SHA-256 hash of the public key.

    Raises
    ------
    InputError
        If one of the files exists, or cannot be written.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> key = tempfile.mkdtemp() + "/agency.key"
    >>> len(us.make_signing_key(key)), oct(Path(key).stat().st_mode & 0o777)
    (64, '0o600')
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Path(os.path.abspath(as_path(path, "the key")))
    public = public_file(private)
    _require_outside(private)
    if not private.parent.is_dir():
        raise InputError(f"{private} cannot be written: the folder {private.parent} does not exist; create it first.")
    for file in (private, public):
        if file.is_symlink() or file.exists():
            raise InputError(f"{file} already exists; a key is never overwritten. Choose another name.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _write_new(private, secret, PRIVATE_MODE)
    _write_new(public, shown, 0o644)
    return key_id_of(key.public_key())


def public_file(private: Path) -> Path:
    """Where the public half of a private key lies."""
    return private.with_name(private.name + PUBLIC_SUFFIX)


def sign(path: str | Path, *, key: str | Path, ledger: str | Path | None = None) -> Signature:
    """Sign a release folder with a private key; ``signature.json`` appears in the folder.

    A release that does not pass ``verify`` is not signed.

    Parameters
    ----------
    path
        The release folder.
    key
        The file of the private key.
    ledger
        The ledger that the release was charged to. The charge must still be there, and the head of its chain is signed
        too: a ledger that is cut short later no longer has it.

    Returns
    -------
    Signature
        What was signed, and by which key.

    Raises
    ------
    InputError
        If the release does not pass ``verify``, or was charged to another ledger.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> folder = tempfile.mkdtemp()
    >>> us.wrap(make_people(50).select(list(small_schema().names)), small_schema()).write(folder + "/release").name
    'release'
    >>> key_id = us.make_signing_key(folder + "/agency.key")
    >>> us.sign(folder + "/release", key=folder + "/agency.key").key_id == key_id
    True
    >>> all(check.passed for check in us.verify(folder + "/release", key=folder + "/agency.key.pub"))
    True
    """
    from understudy.release.checks import verify  # it checks signatures, so it imports this file

    folder = as_path(path, "the release")
    private = _read_private(Path(key))
    failed = [check for check in verify(folder) if not check.passed]
    if failed:
        raise InputError(f"{folder} is not signed, because it does not pass verify: {failed[0].detail}")
    if (before := read_signature(folder)) is not None:
        raise InputError(
            f"{folder} is signed already, by the key {before.key_id[:16]}...; to sign it again, remove its {SIGNATURE}."
        )
    head = None if ledger is None else _head_of(Path(ledger), folder)
    manifest = (folder / MANIFEST).read_bytes()
    key_id, manifest_hash = key_id_of(private.public_key()), hash_of(manifest)
    stated = statement(key_id=key_id, manifest_sha256=manifest_hash, ledger_head=head)
    signed = private.sign(message_of(stated, manifest)).hex()
    made = Signature(key_id=key_id, manifest_sha256=manifest_hash, ledger_head=head, signature=signed)
    _write_new(folder / SIGNATURE, encode(made.to_json()), 0o644)
    return made


def check_signature(folder: Path, public: Ed25519PublicKey) -> str:
    """Raises unless the release in a folder is signed by the private half of this public key; says what is signed."""
    from cryptography.exceptions import InvalidSignature

    signature = read_signature(folder)
    if signature is None:
        raise InputError(f"{folder} is not signed (it has no {SIGNATURE}).")
    if signature.key_id != key_id_of(public):
        raise InputError(
            f"{folder} is signed by the key {signature.key_id[:16]}..., and not by the given one "
            f"({key_id_of(public)[:16]}...)."
        )
    manifest = (folder / MANIFEST).read_bytes()
    stated = statement(
        key_id=signature.key_id, manifest_sha256=signature.manifest_sha256, ledger_head=signature.ledger_head
    )
    try:
        public.verify(bytes.fromhex(signature.signature), message_of(stated, manifest))
    except InvalidSignature:
        raise InputError(
            f"the signature of {folder} is not valid: the manifest or the signature was changed after signing."
        ) from None
    if hash_of(manifest) != signature.manifest_sha256:
        raise InputError(f"the signature of {folder} states the hash of another manifest.")
    ledger = "" if signature.ledger_head is None else f", with the ledger's head {signature.ledger_head[:16]}..."
    return f"signed by the key {signature.key_id[:16]}...{ledger}"


def key_id_of(public: Ed25519PublicKey) -> str:
    """The SHA-256 of the 32 bytes of a public key, in hexadecimal."""
    return hash_of(public.public_bytes_raw())


def _head_of(file: Path, folder: Path) -> str:
    opened = Ledger.open(file, writable=False)
    block = read_manifest(folder)["ledger"]
    if not block.get("tracked"):
        raise InputError(
            f"{folder} was made without a ledger (not tracked across runs), so no ledger can be signed with it; leave "
            "the ledger out."
        )
    found = opened.verify_against({name: value for name, value in block.items() if name != "tracked"})
    if not found.ok:
        raise InputError(f"{folder} is not signed, because {file} is not in order: {'; '.join(found.problems)}.")
    return found.head


def _read_private(file: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    _require_outside(Path(os.path.abspath(file)))
    raw = _read(file)
    if file.stat().st_mode & 0o077:
        raise DisclosureError(
            f"the private key {file} can be read by others; make it yours alone (chmod 600) or, if others had it, make "
            "a new one."
        )
    key = _loaded(lambda: load_pem_private_key(raw, password=None))
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file} is not a private key that signing-key made (Ed25519, PEM, no password).")
    return key


def read_public_key(file: Path) -> Ed25519PublicKey:
    """The public key in a file; refuses everything else, a private key above all."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    raw = _read(file)
    key = _loaded(lambda: load_pem_public_key(raw))
    if not isinstance(key, Ed25519PublicKey):
        hint = " It holds a private key; give the .pub file." if b"PRIVATE KEY" in raw else ""
        raise InputError(f"{file} is not a public key that signing-key made (Ed25519, PEM).{hint}")
    return key


def _loaded(load: Any) -> Any:
    """A key, or None. The error of the package may quote the file, so it is not passed on."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as handle:
            return handle.read(LONGEST_KEY_FILE)
    except OSError as problem:
        raise InputError(f"the key {file} cannot be read ({type(problem).__name__}).") from None


def _require_outside(file: Path) -> None:
    if (inside := release_above(file.parent)) is not None:
        raise DisclosureError(
            f"{file} lies in the release folder {inside}, which will be published; keep a private key elsewhere."
        )


def _write_new(file: Path, data: bytes, mode: int) -> None:
    """A new file that has its mode from the start, is there whole or not at all, and is forced to the disk."""
    with explained_disk_errors(file):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        except FileExistsError:
            raise InputError(f"{file} already exists; it is not overwritten.") from None
        try:
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            sync_folder(file.parent)
        except BaseException:
            file.unlink(missing_ok=True)
            raise
