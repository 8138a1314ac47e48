"""How people came into a sample, as far as that makes a release more private for the population.

Whoever may or may not be in the sample is protected better than somebody who surely is, if nobody can know who was
drawn. The theorem (privacy/promise/amplification.py) needs every part of ``Sampling``; what does not fit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from understudy.core.exact_numbers import read_exact
from understudy.errors import InputError, SchemaError, unknown_name

SCHEMES = ("poisson", "simple")
RATES_FROM = ("frame", "data")
KEYS = ("scheme", "largest_rate", "secret_membership", "rates_from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A sampling scheme for which amplification by sampling is claimed.

    Raises
    ------
    SchemaError
        If the claim would not be true: membership is not secret, or rates depend on the data.
    """

    scheme: Literal["poisson", "simple"]
    """``poisson``: everybody is drawn by a coin of their own. ``simple``: a fixed number of people is drawn at random,
    in the population or in each of the sampling strata."""
    largest_rate: str
    """The largest probability with which anybody is drawn, as a decimal: in the stratum with the largest rate."""
    secret_membership: bool
    """Whether nobody outside can know who is in the sample. Otherwise nothing is claimed."""
    rates_from: Literal["frame", "data"]
    """Where sizes and rates come from: from public facts of the ``frame``, or from confidential ``data``, such as an
    allocation by the variances of an earlier wave. Then nothing is claimed."""

    def __post_init__(self) -> None:
        for word, allowed in (("scheme", SCHEMES), ("rates_from", RATES_FROM)):
            if getattr(self, word) not in allowed:
                raise unknown_name(
                    f"{word} of [design.sampling]:", str(getattr(self, word)), allowed, error=SchemaError
                )
        object.__setattr__(self, "largest_rate", str(self.largest_rate))
        try:
            rate = read_exact(self.largest_rate, "largest_rate")
        except InputError as problem:
            raise SchemaError(f"[design.sampling]: {problem}") from None
        if not 0 < rate < 1:
            raise SchemaError(
                f"[design.sampling]: largest_rate ({self.largest_rate}) must be between 0 and 1; if everybody is "
                "drawn, sampling protects nobody."
            )
        if self.secret_membership is not True:
            raise SchemaError(
                "[design.sampling]: amplification by sampling needs secret_membership = true. If somebody can know who "
                "is in the sample, those people are protected as the release says and not better: leave "
                "[design.sampling] out."
            )
        if self.rates_from == "data":
            raise SchemaError(
                "[design.sampling]: with rates or allocations that depend on data, one person's data change who else "
                "is drawn, and no amplification is claimed: leave [design.sampling] out."
            )

    @property
    def rate(self) -> Fraction:
        """The largest rate."""
        return read_exact(self.largest_rate, "largest_rate")


def read_sampling(table: object) -> Sampling:
    """The sampling scheme that a schema file describes."""
    if not isinstance(table, dict):
        raise SchemaError("write [design.sampling] once, with one pair of brackets.")
    for key in table:
        if key not in KEYS:
            raise unknown_name("key of [design.sampling]", key, KEYS, error=SchemaError)
    absent = [key for key in KEYS if key not in table]
    if absent:
        raise SchemaError(
            f"[design.sampling] needs {absent[0]}: amplification by sampling is claimed only where scheme, "
            "largest_rate, secret_membership and rates_from are all declared."
        )
    return Sampling(**table)


def sampling_lines(sampling: Sampling, written: Any) -> list[str]:
    """The lines of a schema file; ``written`` writes a TOML value."""
    return ["", "[design.sampling]", *(f"{key} = {written(getattr(sampling, key))}" for key in KEYS)]


def check_sampling(sampling: Sampling, *, strata: str, kind: str, rows_per_unit: int, fixed: tuple[str, ...]) -> None:
    """Refuses a unit of privacy for which the theorem does not hold. Public facts only."""
    if rows_per_unit > 1:
        raise InputError(
            "[design.sampling]: a unit of several rows is drawn as a whole or in part, and no amplification is claimed "
            "for it: leave [design.sampling] out."
        )
    if sampling.scheme == "poisson" and kind != "add_remove":
        raise InputError(
            "[design.sampling]: under poisson sampling the number of rows depends on who is drawn, so it must not be "
            "public: use the unit add_remove, or leave [design.sampling] out."
        )
    if sampling.scheme == "simple" and kind != "replace":
        raise InputError(
            "[design.sampling]: a simple random sample has a public number of rows, and the unit add_remove keeps it "
            "confidential: use the unit replace, or leave [design.sampling] out."
        )
    if sampling.scheme == "simple" and strata and strata not in fixed:
        raise InputError(
            "[design.sampling]: simple random sampling in strata needs to know who is in which stratum: name "
            f"'{strata}' as fixed in the unit, or leave [design.sampling] out."
        )
    if more := sorted({*fixed} - {strata}):
        # Somebody else of the stratum could have been drawn instead, and differs in these from the person.
        raise InputError(
            f"[design.sampling]: the unit names {', '.join(more)} as fixed, and people who could be drawn instead of "
            "each other differ in it: no amplification is claimed. Leave it out of fixed, or [design.sampling] out."
        )
