"""Releases of commutes: everything about them is in ``understudy.commutes``."""

from __future__ import annotations

from understudy.commutes.commute_kind import Commutes
from understudy.release.kind import kinds

kinds.add(Commutes)
