"""Groups of options that go together, so that a command names the group and not its members.

Typer reads one option from each parameter of a command. ``bundled`` lets a parameter stand for several: its type is a
dataclass whose fields are the options, which are put in its place, and the command gets the dataclass filled in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import understudy as us
from understudy.api import GUARANTEES, Definition
from understudy.cli.options import (
    LINKED_UNITS,
    AllowInsecureCluster,
    DatabaseQuery,
    DatabaseTable,
    Decimal,
    Delimiter,
    Delta,
    Encoding,
    Engine,
    Epsilon,
    Fixed,
    Guarantee,
    LimitDelta,
    LimitEpsilon,
    LimitRho,
    Master,
    MissingText,
    ReleaseUnit,
    Rho,
    RowsPerUnit,
    UnitId,
    UnitKind,
    read_names,
)
from understudy.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the files of confidential data are written."""

    missing_text: MissingText = ""
    delimiter: Delimiter = None
    decimal: Decimal = "."
    encoding: Encoding = None
    table: DatabaseTable = None
    query: DatabaseQuery = None

    def options(self) -> dict[str, Any]:
        """Under the names of ``open_source``; nothing is guessed from the contents."""
        if self.decimal not in (".", ","):
            raise InputError(f"--decimal ({self.decimal!r}) must be a point or a comma.")
        said = {} if self.encoding is None else {"encoding": self.encoding}
        return said | {
            "missing_text": self.missing_text,
            "delimiter": self.delimiter,
            "decimal_comma": self.decimal == ",",
            "table": self.table,
            "query": self.query,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the data are counted, if not here."""

    engine: Engine = None
    master: Master = None
    allow_insecure_cluster: AllowInsecureCluster = False

    def options(self) -> dict[str, Any]:
        """Under the names of ``open_source``; what was not said is left out."""
        said = {
            "engine": self.engine,
            "master": self.master,
            "allow_insecure_cluster": self.allow_insecure_cluster,
        }
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one release may spend."""

    epsilon: Epsilon = None
    delta: Delta = None
    rho: Rho = None
    guarantee: Guarantee = None

    def read(self) -> Definition:
        """The guarantee asked for.

        >>> print(Budget(epsilon="0.1").read())
        pure differential privacy (epsilon = 0.1)
        """
        found = self.read_if_given()
        if found is None:
            raise InputError(
                "no budget was given. Say --epsilon 1 (pure), --epsilon 1 --delta 1e-9 (approx), --rho 0.1 (zcdp), "
                "or --guarantee none."
            )
        return found

    def read_if_given(self) -> Definition | None:
        """The same, or nothing if no option spoke of it."""
        amounts = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        given = {key: text for key, text in amounts.items() if text is not None}
        guarantee = self.guarantee
        if guarantee is None:
            if not given:
                return None
            guarantee = "zcdp" if "rho" in given else ("approx" if "delta" in given else "pure")
        if guarantee not in GUARANTEES:
            raise unknown_name("guarantee", guarantee, GUARANTEES)
        kind = GUARANTEES[guarantee]
        if set(given) != set(kind.parameters):
            needs = " and ".join(f"--{key}" for key in kind.parameters) or "neither --epsilon, --delta nor --rho"
            has = " and ".join(f"--{key}" for key in given) or "none of them was given"
            raise InputError(f"guarantee '{guarantee}' needs {needs}; {has}{' was given' if len(given) == 1 else ''}.")
        return kind(**given) if given else us.NonPrivate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Budget):
    """What all releases of an account may spend together."""

    epsilon: LimitEpsilon = None
    delta: LimitDelta = None
    rho: LimitRho = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """Whom the guarantee protects."""

    unit: UnitKind = None
    fixed: Fixed = None
    rows_per_unit: RowsPerUnit = None

    def read(self) -> us.Unit | None:
        """The unit of privacy, or nothing if no option spoke of it."""
        if all(getattr(self, field.name) is None for field in fields(self)):
            return None
        return us.Unit(
            kind="replace" if self.unit is None else self.unit,  # type: ignore[arg-type]  # Unit names the known kinds
            fixed=read_names(self.fixed),
            rows_per_unit=1 if self.rows_per_unit is None else self.rows_per_unit,
            unit_id=getattr(self, "unit_id", None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identified(Protected):
    """Whom the guarantee protects, where a column of the data may say which rows are whose."""

    unit_id: UnitId = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRelease(Identified):
    """Whom a release protects: a unit of one table, or of linked tables."""

    unit: ReleaseUnit = None

    def of_linked(self) -> str | None:
        """``household`` or ``person``, if one of them was said: a unit of linked tables."""
        if self.unit not in LINKED_UNITS:
            return None
        if any(getattr(self, field.name) is not None for field in fields(self) if field.name != "unit"):
            raise InputError(f"--unit {self.unit} says everything; leave --fixed, --rows-per-unit and --unit-id out.")
        return self.unit


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option for every field of its bundles, in the place where the bundle stood."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    members: dict[str, tuple[str, ...]] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter.replace(annotation=kind))
            continue
        options = get_type_hints(kind, include_extras=True)
        members[parameter.name] = tuple(field.name for field in fields(kind))
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=options[field.name],
            )
            for field in fields(kind)
        ]

    @wraps(command)
    def filled(**given: Any) -> None:
        whole = {
            name: hints[name](**{member: given.pop(member) for member in names if member in given})
            for name, names in members.items()
        }
        command(**given, **whole)

    # Typer looks at the signature and at the annotations; both now speak of single options.
    filled.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    filled.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del filled.__wrapped__  # inspect would follow it to the unbundled signature
    return filled
