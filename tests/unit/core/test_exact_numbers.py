"""Numbers as they were written, within what a double can still show."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from understudy.core.exact_numbers import from_text, read_exact
from understudy.errors import InputError


@pytest.mark.parametrize("value", [0.1, "0.1", Decimal("0.1"), np.float64(0.1), Fraction(1, 10)])
def test_a_decimal_is_the_one_that_was_typed(value):
    assert read_exact(value, "epsilon") == Fraction(1, 10)


@pytest.mark.parametrize("value", ["1e309", "1e300", 10**400, Fraction(10**400), -(10**400), "1e-401", "1e999999999"])
def test_what_no_double_can_show_is_refused(value):
    with pytest.raises(InputError, match="numbers understood here"):
        read_exact(value, "epsilon")


def test_the_largest_numbers_can_still_be_shown():
    assert float(read_exact("9e299", "epsilon")) == 9e299
    assert from_text("1/3", "epsilon") == Fraction(1, 3)
