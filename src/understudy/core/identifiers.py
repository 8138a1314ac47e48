"""Identifiers and free text: these columns are never read. On request a column of fake values replaces each of them,
made from a public pattern and from nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.errors import SchemaError

SIGNS = {"#": "0123456789", "@": "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
LONGEST = 64
MOST = 10**18  # different fakes of one pattern
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier:
    """A column of the data that identifies people, or holds free text. It is left out, or replaced by fake values.

    Raises
    ------
    SchemaError
        If the name is not allowed, or the pattern makes no fake values.

    Examples
    --------
    >>> Identifier(name="id", fake="H-##").fakes(3)
    ['H-00', 'H-61', 'H-22']
    """

    name: str
    """The name of the column."""
    fake: str = ""
    """A pattern: ``#`` is a digit, ``@`` a capital letter, everything else stands for itself. Without one, the column
    is left out of the release."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.startswith("<"):
            raise SchemaError(f"an identifier's name ({self.name!r}) must be a non-empty text not beginning with '<'.")
        if not isinstance(self.fake, str) or len(self.fake) > LONGEST:
            raise SchemaError(f"identifier '{self.name}': fake must be a pattern of at most {LONGEST} characters.")
        if self.fake and not any(sign in SIGNS for sign in self.fake):
            raise SchemaError(f"identifier '{self.name}': fake needs a # (a digit) or an @ (a capital letter).")
        if self.different > MOST:
            raise SchemaError(f"identifier '{self.name}': fake makes more than {MOST:g} different texts; shorten it.")

    @property
    def different(self) -> int:
        """How many different fake values the pattern makes."""
        return math.prod(len(SIGNS[sign]) for sign in self.fake if sign in SIGNS)

    def fakes(self, rows: int) -> list[str]:
        """Make fake values, all different as far as the pattern allows. They follow from the row's number alone.

        Parameters
        ----------
        rows
            How many.

        Returns
        -------
        list[str]
            The fake values.
        """
        cells = self.different
        step = max(int(min(GOLDEN * cells, 2**62 / max(rows, 1))), 1)
        while math.gcd(step, cells) > 1:
            step -= 1
        values = np.arange(rows, dtype=np.int64) * step % cells
        columns: list[np.ndarray] = []
        for sign in reversed(self.fake):
            if sign in SIGNS:
                letters = np.array(list(SIGNS[sign]))
                columns.append(letters[values % len(letters)])
                values = values // len(letters)
            else:
                columns.append(np.full(rows, sign))
        return ["".join(parts) for parts in zip(*reversed(columns), strict=True)]
