"""What is promised (the guarantee) and who is protected by it (the unit)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from understudy.core.exact_numbers import Number, from_text, read_exact, show_up, to_text
from understudy.errors import BudgetError, InputError, unknown_name

UNIT_KINDS = ("replace", "add_remove")
NOBODY = "Nobody is protected: there is no guarantee."


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Who is protected: which tables count as neighbours.

    Raises
    ------
    UnknownNameError
        If the kind is unknown.
    InputError
        If ``rows_per_unit`` is no positive whole number, or ``fixed`` is given with ``add_remove``.
    """

    kind: Literal["replace", "add_remove"] = "replace"
    """``replace``: neighbours have the same number of rows and differ in the rows of one unit; the number of rows is
    public. ``add_remove``: there is one unit more or fewer; then the exact number of rows is never used."""
    rows_per_unit: int = 1
    """The most rows that one unit may have."""
    unit_id: str | None = None
    """The column that identifies the unit. With it the engine keeps at most ``rows_per_unit`` rows of a unit; without
    it the manifest says "assumed, not enforced"."""
    fixed: tuple[str, ...] = ()
    """Attributes that are known for every unit and not protected: neighbours agree on them. For ``replace`` only."""

    def __post_init__(self) -> None:
        if self.kind not in UNIT_KINDS:
            raise unknown_name("unit", str(self.kind), UNIT_KINDS)
        if (
            isinstance(self.rows_per_unit, bool)
            or not isinstance(self.rows_per_unit, int)
            or not 1 <= self.rows_per_unit < 2**31
        ):
            raise InputError(f"rows_per_unit ({self.rows_per_unit}) must be a whole number of at least 1.")
        object.__setattr__(self, "fixed", tuple(sorted(self.fixed)))
        if self.fixed and self.kind == "add_remove":
            raise InputError(
                f"fixed ({', '.join(self.fixed)}) cannot go with add_remove: it makes stratum sizes public, and "
                "presence in a stratum is what add_remove protects. Use replace, or leave fixed empty."
            )

    @property
    def public_total(self) -> bool:
        """Whether the exact number of rows may be used."""
        return self.kind == "replace"

    @property
    def enforced(self) -> bool:
        """Whether the engine bounds the rows of a unit (else the bound rests on the steward's word)."""
        return self.unit_id is not None

    def describe(self, record: str = "row") -> str:
        """Say who is protected, in words.

        Parameters
        ----------
        record
            What a record of the data is called.

        Returns
        -------
        str
            One or two sentences, as manifests and reports show them.
        """
        rows = f"one {record}" if self.rows_per_unit == 1 else f"up to {self.rows_per_unit} {record}s"
        sure = f"identified by {self.unit_id}" if self.unit_id else "assumed, not enforced"
        who = f"one unit ({rows}; {sure})"
        values = f"all values of {who}"
        known = ""
        if self.fixed:
            known = f"Known for everybody and not protected: {', '.join(self.fixed)}. "
            values = f"every other value of {who}"
        if self.kind == "replace":
            return f"{known}Protected: {values}. The number of {record}s is public."
        return f"{known}Protected: presence and {values}. The number of {record}s is not public."

    def to_json(self) -> dict[str, object]:
        """The unit as plain values, for plans, ledgers and manifests.

        Returns
        -------
        dict[str, object]
            The four fields.
        """
        return {
            "fixed": list(self.fixed),
            "kind": self.kind,
            "rows_per_unit": self.rows_per_unit,
            "unit_id": self.unit_id,
        }

    @classmethod
    def from_json(cls, data: dict[str, object]) -> Unit:
        """Read back what ``to_json`` wrote.

        Parameters
        ----------
        data
            The four fields.

        Returns
        -------
        Unit
            The unit.
        """
        return cls(**{**data, "fixed": tuple(data.get("fixed", ()))})  # type: ignore[arg-type]


def read_unit(unit: Unit | str) -> Unit:
    """A unit, or the name of its kind.

    >>> read_unit("add_remove").public_total
    False
    """
    return unit if isinstance(unit, Unit) else Unit(kind=unit)  # type: ignore[arg-type]


def _positive(value: Number, name: str) -> Fraction:
    number = read_exact(value, name)
    if number <= 0:
        raise InputError(f"{name} ({value}) must be positive.")
    return number


def _probability(value: Number, name: str) -> Fraction:
    number = read_exact(value, name)
    if not 0 < number < 1:
        raise InputError(f"{name} ({value}) must be above 0 and below 1.")
    return number


class Definition:
    """Base of the guarantees: parameters are exact rationals, read as the decimals the user wrote."""

    __slots__ = ()
    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, str]:
        """The guarantee as plain values, for plans, ledgers and manifests.

        Returns
        -------
        dict[str, str]
            Its name and its exact parameters as texts.
        """
        return {"guarantee": self.name, **{key: to_text(getattr(self, key)) for key in self.parameters}}

    def __str__(self) -> str:
        shown = ", ".join(f"{key} = {show_up(getattr(self, key))}" for key in self.parameters)
        return f"{self.title} ({shown})" if shown else self.title

    @property
    def title(self) -> str:
        """The name of the guarantee in words."""
        return TITLES[self.name]

    def protects(self, unit: Unit, record: str = "row") -> str:
        """Say who is protected by it, in words.

        Parameters
        ----------
        unit
            The unit of the release.
        record
            What a record of the data is called.

        Returns
        -------
        str
            One or two sentences.
        """
        return unit.describe(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureDP(Definition):
    """Pure differential privacy: no output is more than e^epsilon times likelier under a neighbour.

    Raises
    ------
    InputError
        If the number is not positive, or cannot be read exactly.
    """

    epsilon: Fraction
    """The largest log ratio of probabilities that is promised; exact, as the decimal that was written."""
    name: ClassVar[str] = "pure"
    parameters: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __init__(self, *, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", _positive(epsilon, "epsilon"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproxDP(Definition):
    """Approximate, or (epsilon, delta)-, differential privacy.

    Raises
    ------
    InputError
        If epsilon is not positive, or delta is not between 0 and 1.
    """

    epsilon: Fraction
    """The largest log ratio of probabilities that is promised; exact, as the decimal that was written."""
    delta: Fraction
    """The probability with which more may be lost; exact."""
    name: ClassVar[str] = "approx"
    parameters: ClassVar[tuple[str, ...]] = ("epsilon", "delta")

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", _positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _probability(delta, "delta"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilisticDP(Definition):
    """(epsilon, delta)-probabilistic differential privacy (Machanavajjhala et al. 2008, Definition 6).

    Not closed under post-processing, so it is stated for the raw draw only and enters accounts as the (epsilon,
    delta)-differential privacy it implies.

    Raises
    ------
    InputError
        If epsilon is not positive, or delta is not between 0 and 1.
    """

    epsilon: Fraction
    """The largest log ratio of probabilities that is promised; exact, as the decimal that was written."""
    delta: Fraction
    """The probability that an output is drawn for which the ratio is larger; exact."""
    name: ClassVar[str] = "probabilistic"
    parameters: ClassVar[tuple[str, ...]] = ("epsilon", "delta")

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", _positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _probability(delta, "delta"))

    def implied(self) -> ApproxDP:
        """The approximate differential privacy that it implies (Gotz et al. 2012, Lemma 2).

        Returns
        -------
        ApproxDP
            The guarantee with the same parameters.
        """
        return ApproxDP(epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZCDP(Definition):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016).

    Raises
    ------
    InputError
        If the number is not positive, or cannot be read exactly.
    """

    rho: Fraction
    """The parameter; exact, as the decimal that was written."""
    name: ClassVar[str] = "zcdp"
    parameters: ClassVar[tuple[str, ...]] = ("rho",)

    def __init__(self, *, rho: Number) -> None:
        object.__setattr__(self, "rho", _positive(rho, "rho"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate(Definition):
    """No guarantee. Goes through the gate like everything else, charges infinite loss, and says so everywhere."""

    name: ClassVar[str] = "none"

    def protects(self, unit: Unit, record: str = "row") -> str:  # noqa: ARG002 - nobody, whatever the unit
        return NOBODY


TITLES = {
    "pure": "pure differential privacy",
    "approx": "approximate differential privacy",
    "probabilistic": "probabilistic differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "none": "no guarantee",
}
GUARANTEES: dict[str, type[Definition]] = {c.name: c for c in (PureDP, ApproxDP, ProbabilisticDP, ZCDP, NonPrivate)}


def definition_from_json(data: dict[str, str]) -> Definition:
    """Read back what ``to_json`` wrote."""
    name = data.get("guarantee", "")
    if name not in GUARANTEES:
        raise unknown_name("guarantee", str(name), GUARANTEES)
    kind = GUARANTEES[name]
    if set(data) != {"guarantee", *kind.parameters}:
        raise InputError(f"guarantee '{name}' needs exactly {', '.join(kind.parameters) or 'no parameters'}.")
    return kind(**{key: from_text(data[key], key) for key in kind.parameters})


# Budgets that protect next to nobody, which are refused unless somebody says that they know it.
#
# An epsilon of 20 lets an attacker's odds grow 485-million-fold. A delta is a probability that no promise holds at
# all: above one in n, a mechanism may publish somebody's record outright and keep its word. The bounds here are
# customary and prove nothing; they catch a slipped decimal point (docs/threat-model.md).


LARGEST_EPSILON = Fraction(20)
LARGEST_RHO = Fraction(5)  # about epsilon 20 at delta 1e-6
LARGEST_DELTA = Fraction(1, 1000)
EXPECTED_RECORDS = 1  # how many records may be published outright, on average, before delta is too large
KNOWING = "If that is meant, say --i-know (i_know=True in Python). Nothing was charged."


def require_sane(budget: Definition) -> None:
    """Refuses a budget that protects next to nobody, whatever the data.

    >>> require_sane(PureDP(epsilon=100))     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.BudgetError: epsilon (100) is above 20: ...
    """
    if isinstance(budget, PureDP | ApproxDP | ProbabilisticDP) and budget.epsilon > LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon ({float(budget.epsilon):g}) is above {float(LARGEST_EPSILON):g}: an attacker's odds about one "
            f"person may grow more than a hundred-million-fold. {KNOWING}"
        )
    if isinstance(budget, ZCDP) and budget.rho > LARGEST_RHO:
        raise BudgetError(
            f"rho ({float(budget.rho):g}) is above {float(LARGEST_RHO):g}, which is about epsilon 20 at delta 1e-6: "
            f"it protects next to nobody. {KNOWING}"
        )
    if isinstance(budget, ApproxDP | ProbabilisticDP) and budget.delta > LARGEST_DELTA:
        raise BudgetError(
            f"delta ({float(budget.delta):g}) is above {float(LARGEST_DELTA):g}: with that probability nothing is "
            f"promised to anybody. Usual is far below 1 divided by the number of people. {KNOWING}"
        )


def require_sane_for(budget: Definition, records: int) -> None:
    """Refuses a delta above one in n, where the number of records is public."""
    if isinstance(budget, ApproxDP | ProbabilisticDP) and budget.delta * records > EXPECTED_RECORDS:
        raise BudgetError(
            f"delta ({float(budget.delta):g}) is above 1 divided by the {records:,} records: publishing one record at "
            f"random would keep this promise. {KNOWING}"
        )
