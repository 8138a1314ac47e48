"""Releases of households: everything about them is in ``understudy.households``."""

from __future__ import annotations

from understudy.households.household_kind import Households
from understudy.release.kind import kinds

kinds.add(Households)
