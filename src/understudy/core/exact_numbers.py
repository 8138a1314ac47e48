"""Exact numbers for budgets: decimals are read as written and rounding always favours privacy.

A float such as ``0.1`` means the decimal the user typed, not its binary neighbour, so that ten runs of 0.1 fit a
limit of 1. Spent amounts are shown rounded up, remaining ones rounded down, noise scales are rounded up.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction

from understudy.errors import InputError

Number = int | float | str | Decimal | Fraction
LARGEST_POWER = 300
LARGEST = 10**LARGEST_POWER


def read_exact(value: Number, name: str) -> Fraction:
    """The rational number a user wrote.

    >>> read_exact(0.1, "epsilon")
    Fraction(1, 10)
    """
    if isinstance(value, bool):
        raise InputError(f"{name} ({value}) must be a number.")
    try:
        if hasattr(value, "item") and not isinstance(value, str | Decimal):  # numpy scalars
            value = value.item()
        number = (
            value if isinstance(value, int | Fraction) else Decimal(repr(value) if isinstance(value, float) else value)
        )
    except (InvalidOperation, TypeError, ValueError):
        raise InputError(f"{name} ({value!r}) must be a number, such as 0.5.") from None
    if isinstance(number, int | Fraction):
        if abs(number) >= LARGEST:
            raise InputError(f"{name} is larger than the numbers understood here, up to 1e{LARGEST_POWER}.")
        return Fraction(number)
    if not number.is_finite():
        raise InputError(f"{name} ({value}) must be finite.")
    # 1e-999999999 would exhaust memory as a fraction, and above the largest float nothing could be shown or drawn.
    if number and not -400 <= number.adjusted() < LARGEST_POWER:
        raise InputError(
            f"{name} ({value}) is outside the range of numbers understood here, 1e-400 to 1e{LARGEST_POWER}."
        )
    return Fraction(number)


def float_up(value: Fraction) -> float:
    """The smallest float not below an exact number."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float not above an exact number."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def sqrt_down(value: Fraction) -> Fraction:
    """A rational not above the square root, within one part in 2^60.

    >>> sqrt_down(Fraction(9, 4))
    Fraction(3, 2)
    """
    return _integer_sqrt(value, up=False)


def sqrt_up(value: Fraction) -> Fraction:
    """A rational not below the square root, within one part in 2^60."""
    return _integer_sqrt(value, up=True)


def _integer_sqrt(value: Fraction, *, up: bool) -> Fraction:
    if value < 0:
        raise InputError("a square root needs a number of at least 0.")
    # sqrt(p/q) = sqrt(p q) / q; enough extra bits that the relative error is below 2^-60 also for tiny p q.
    shift = max(0, 64 - (value.numerator * value.denominator).bit_length() // 2)
    scaled = (value.numerator * value.denominator) << (2 * shift)
    root = math.isqrt(scaled)
    if up and root * root != scaled:
        root += 1
    return Fraction(root, value.denominator << shift)


def show_up(value: Fraction, digits: int = 6) -> str:
    """A decimal not below the exact number, for amounts spent.

    >>> show_up(Fraction(1, 3), 3)
    '0.334'
    """
    return _show(value, digits, ROUND_CEILING)


def show_down(value: Fraction, digits: int = 6) -> str:
    """A decimal not above the exact number, for amounts remaining.

    >>> show_down(Fraction(2, 3), 3)
    '0.666'
    """
    return _show(value, digits, ROUND_FLOOR)


def _show(value: Fraction, digits: int, rounding: str) -> str:
    # Two steps would round twice. So there is one exact division, in a context that rounds in the safe direction.
    context = Context(prec=digits, rounding=rounding, Emax=10**6, Emin=-(10**6))
    text = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    shown = format(text, "f") if -6 < text.adjusted() < 15 or not text else str(text)
    return shown.rstrip("0").rstrip(".") if "." in shown and "E" not in shown else shown


def to_text(value: Fraction) -> str:
    """A lossless text form for files: a decimal where one exists, else ``p/q``."""
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    # 1024 and 64 bits keep the decimal below 400 digits, so that nothing is rounded.
    if denominator == 1 and value.denominator.bit_length() <= 64 and value.numerator.bit_length() <= 1024:
        return show_up(value, 400)
    return f"{value.numerator}/{value.denominator}"


def from_text(text: str, name: str) -> Fraction:
    """Read back what :func:`to_text` wrote."""
    if isinstance(text, str) and "/" in text:
        try:
            return Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise InputError(f"{name} ({text!r}) must be a number or a fraction p/q.") from None
    return read_exact(text, name)
