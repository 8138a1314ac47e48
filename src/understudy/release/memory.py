"""Whether tables fit into the memory of this machine, asked before anything is spent on them."""

from __future__ import annotations

import os
from pathlib import Path

BYTES_PER_VALUE = 10  # a decoded value and its code
BYTES_PER_ROW = 48  # the cell of a row while rows are drawn and shuffled


def available_memory() -> int:
    """Bytes a new table may take: what Linux calls available (file caches can be freed), otherwise the whole memory."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
