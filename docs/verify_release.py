"""Checks a signed understudy release without understudy: file list, hashes, signature.

    python verify_release.py RELEASE_FOLDER PUBLIC_KEY

It needs Python 3.11 and the package `cryptography`, and nothing else. It is short so that you can read it before you
trust it. Get the public key by another way than the release: a forger would send you his own key with it.

It says that the folder is, byte for byte, what the owner of the key signed. It does not say that the release keeps its
promise: `understudy verify` recomputes that from the manifest.

Exit code 0: everything is in order. 1: something is not, and a line says what. 2: it was called in a wrong way.
"""

import hashlib
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

MANIFEST, SIGNATURE = "manifest.json", "signature.json"
DOMAIN = b"understudy release signature 1\n"
# The names of a signature file in the order in which it is written; the last is the signature of all others.
FIXED = {"format": "understudy signature", "version": 1, "algorithm": "Ed25519"}
NAMES = [*FIXED, "key_id", "manifest_sha256", "ledger_head", "signature"]


class ReleaseError(Exception):
    """What is wrong with a release or a key."""


def sha256_of(file):
    """The SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def encode(values):
    """The one way in which a signature file is written."""
    return (json.dumps(values, indent=2) + "\n").encode("ascii")


def is_hex(text, length):
    """Whether something is a text of so many lower-case hexadecimal digits."""
    return isinstance(text, str) and len(text) == length and set(text) <= set("0123456789abcdef")


def plain_file(folder, name):
    """A file of the folder; links and folders are refused."""
    file = folder / name
    if file.is_symlink() or not file.is_file():
        raise ReleaseError(f"the folder lacks the plain file {name}")
    return file


def read_key(file):
    """The public key in a PEM file."""
    try:
        key = load_pem_public_key(Path(file).read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ReleaseError(f"{file} is not a public Ed25519 key")
    return key


def check_signature(folder, manifest, key):
    """The signature is by this key, and of exactly these bytes of the manifest."""
    raw = plain_file(folder, SIGNATURE).read_bytes()
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise ReleaseError(f"{SIGNATURE} is not JSON") from None
    well_formed = (
        isinstance(found, dict)
        and list(found) == NAMES
        and all(type(found[name]) is type(value) and found[name] == value for name, value in FIXED.items())
        and is_hex(found["key_id"], 64)
        and is_hex(found["manifest_sha256"], 64)
        and (found["ledger_head"] is None or is_hex(found["ledger_head"], 64))
        and is_hex(found["signature"], 128)
        and encode(found) == raw
    )
    if not well_formed:
        raise ReleaseError(f"{SIGNATURE} is not a signature file of version 1, or was changed")
    if found["key_id"] != hashlib.sha256(key.public_bytes_raw()).hexdigest():
        raise ReleaseError(f"it is signed by another key: {found['key_id']}")
    if found["manifest_sha256"] != hashlib.sha256(manifest).hexdigest():
        raise ReleaseError("the signature is of another manifest")
    statement = encode({name: found[name] for name in NAMES[:-1]})
    message = DOMAIN + len(statement).to_bytes(8, "big") + statement + manifest
    try:
        key.verify(bytes.fromhex(found["signature"]), message)
    except InvalidSignature:
        raise ReleaseError("the signature is not valid: manifest or signature were changed") from None
    return found


def check_files(folder, manifest):
    """Exactly the files that the manifest lists, each with its hash."""
    stated = json.loads(manifest)
    if not isinstance(stated, dict) or stated.get("format") != "understudy release" or stated.get("version") != 1:
        raise ReleaseError(f"{MANIFEST} is not the manifest of an understudy release of version 1")
    files = stated.get("files")
    if not isinstance(files, dict) or not files:
        raise ReleaseError(f"{MANIFEST} lists no files")
    for name in files:
        if Path(name).name != name or name in ("", ".", "..", MANIFEST, SIGNATURE):
            raise ReleaseError(f"{MANIFEST} lists a name that is not that of a file in the folder")
    unlisted = sorted({file.name for file in folder.iterdir()} - set(files) - {MANIFEST, SIGNATURE})
    if unlisted:
        raise ReleaseError(f"the folder holds {unlisted[0]}, which the manifest does not list")
    for name, expected in files.items():
        if sha256_of(plain_file(folder, name)) != expected:
            raise ReleaseError(f"{name} was changed: its hash is not the one in the manifest")
    return len(files)


def main(arguments):
    """Check and say what was found."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    try:
        key = read_key(arguments[1])
        manifest = plain_file(folder, MANIFEST).read_bytes()
        # The signature first: what is not signed is not even read as a manifest.
        signature = check_signature(folder, manifest, key)
        count = check_files(folder, manifest)
    except (ReleaseError, OSError, ValueError, RecursionError) as problem:
        print(f"NOT IN ORDER: {problem}")
        return 1
    print(f"In order: {count} files, all hashes match, manifest signed by the key {signature['key_id']}")
    if signature["ledger_head"] is not None:
        print(f"Head of the ledger when it was signed: {signature['ledger_head']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
