"""Releases: the value, its folder on disk, how one is made, and how one is checked."""

from understudy.release.checks import Check, verify
from understudy.release.folder import read_release
from understudy.release.signing import Signature, make_signing_key, sign
from understudy.release.statement import Provenance, Statement
from understudy.release.table_release import Release, wrap

__all__ = [
    "Check",
    "Provenance",
    "Release",
    "Signature",
    "Statement",
    "make_signing_key",
    "read_release",
    "sign",
    "verify",
    "wrap",
]
