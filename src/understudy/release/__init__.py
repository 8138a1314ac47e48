"""Releases: the value, its folder on disk, how one is made, and how one is checked."""

from understudy.release.checks import Check, verify
from understudy.release.commutes import CommuteRelease
from understudy.release.folder import read_release
from understudy.release.value import Provenance, Release, Statement, wrap

__all__ = ["Check", "CommuteRelease", "Provenance", "Release", "Statement", "read_release", "verify", "wrap"]
