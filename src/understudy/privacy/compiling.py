"""How loops become machine code: numba compiles them once per machine and keeps the result.

The machine code is kept beside the source or, where that is not writable, in the user's cache folder; where neither
is, every process compiles anew. Imported only by the modules that hold such loops (``*compiled.py``), because numba
takes a second to load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numba

PACKAGE = Path(__file__).parents[1]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as machine code. It runs without the interpreter's lock, and takes its arguments by position."""
    made: Any
    try:
        made = numba.njit(nogil=True, cache=True)(function)
        kept = made._cache._cache_file
        kept._source_stamp = (*kept._source_stamp, source_of_all_loops())
    except (RuntimeError, AttributeError):  # no folder to keep machine code in, or a numba that keeps it otherwise
        made = numba.njit(nogil=True)(function)
    return cast(Callable[..., Any], made)


@cache
def source_of_all_loops() -> str:
    """A digest of every file with loops.

    numba compiles anew what has changed in a loop's own file, but a loop of another file that it calls is compiled into
    it: kept machine code would go on with the old one, and call it with the wrong arguments.
    """
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*compiled.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
