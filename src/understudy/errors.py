"""What can go wrong, said so that a person can act on it.

Every message says what is wrong (with the value, if it is public), what was expected, and what to do. Confidential
values never appear in a message: an error about data names the attribute and never the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UnderstudyError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 1


class InputError(UnderstudyError, ValueError):
    """Something the caller gave is not acceptable."""

    exit_code = 2


class SchemaError(InputError):
    """A schema is malformed, or data do not fit it."""


class UnknownNameError(InputError):
    """A name is not among the known ones; the message suggests the nearest."""


class UnsupportedError(InputError):
    """A request is understood but cannot be served."""


class GuaranteeNotOfferedError(UnsupportedError):
    """A method does not offer the form of the guarantee that is asked of it."""


class UnavailableError(InputError):
    """A database, or a file of a server, cannot be used now; the same may work later."""


class BudgetError(UnderstudyError):
    """The privacy budget does not allow it. Nothing was drawn."""

    exit_code = 3


class DisclosureError(UnderstudyError):
    """The action would let confidential information out."""

    exit_code = 4


class MissingExtraError(UnderstudyError, ImportError):
    """An optional package is not installed."""

    exit_code = 2


class ConvergenceError(UnderstudyError):
    """An iteration did not reach its stated accuracy."""

    exit_code = 5


class InternalError(UnderstudyError):
    """A broken invariant: our bug, not the user's."""


class UntrackedWarning(UserWarning):
    """A run without a ledger: what it spends is not tracked across runs."""


class RowsLeftOutWarning(UserWarning):
    """Rows beyond ``rows_per_unit`` were left out. Its text is internal."""


class LargeClustersWarning(UserWarning):
    """Clusters have more rows than the schema says that any can have. Its text is internal."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, error: type[InputError] = UnknownNameError
) -> InputError:
    """The error for a public name nobody knows, with the nearest known one.

    >>> print(unknown_name("method", "histogran", ["histogram", "aim"]))
    method 'histogran' is unknown; did you mean 'histogram'? Known: aim, histogram.
    >>> print(unknown_name("level", "male", ["Male", "female"]))
    level 'male' is unknown; did you mean 'Male'? Known: Male, female.
    """
    names = sorted(known)
    asked = str(name)  # a spoiled file may hold a number or nothing in place of a name
    near = [known for known in names if known.casefold() == asked.casefold()] or get_close_matches(asked, names, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return error(f"{kind} '{name}' is unknown{hint} Known: {listed or 'none'}.")


def missing_extra(what: str, package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(f"{what} needs {package}; install it with: pip install 'understudy[{extra}]'")
