"""Every case that is replayed: methods from the registries, each with the options it has, under every unit and budget.

An option is varied for every method that has it, so a new method comes in with all its paths. What a plan refuses is
no case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import understudy as us
from replaying import commutes, homes, tables
from understudy.commutes.shared.flow_method import flow_synthesizers
from understudy.core.places import DESTINATION, Places
from understudy.errors import UnderstudyError
from understudy.households.shared.family_method import family_synthesizers
from understudy.privacy.exact.gaussian_profile import gaussian_mu_squared
from understudy.privacy.promise.definition import Definition
from understudy.privacy.promise.event import GaussianNoise
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.method import synthesizers

BUDGETS: dict[str, Definition] = {
    "pure": us.PureDP(epsilon=1),
    "approx": us.ApproxDP(epsilon=1, delta="1e-2"),
    "probabilistic": us.ProbabilisticDP(epsilon=1, delta="1e-2"),
    "zcdp": us.ZCDP(rho="0.25"),
}
FLOW_BUDGETS: dict[str, Definition] = {
    "pure": us.PureDP(epsilon=3),
    "approx": us.ApproxDP(epsilon="4.5", delta="1e-2"),
    "probabilistic": us.ProbabilisticDP(epsilon="4.5", delta="1e-2"),
    "zcdp": us.ZCDP(rho="0.25"),
}
UNITS = {
    "replace": us.Unit(kind="replace"),
    "add_remove": us.Unit(kind="add_remove"),
    "fixed": us.Unit(kind="replace", fixed=("sex",)),
    "one row of an id": us.Unit(kind="replace", unit_id="id"),
    "three rows of an id": us.Unit(kind="replace", rows_per_unit=3, unit_id="id"),
    "three rows of an id, fixed": us.Unit(kind="replace", rows_per_unit=3, unit_id="id", fixed=("sex",)),
    "three rows of an id, add_remove": us.Unit(kind="add_remove", rows_per_unit=3, unit_id="id"),
    "three rows, assumed": us.Unit(kind="replace", rows_per_unit=3),
}
FLOW_UNITS = {
    "destination fixed": us.Unit(kind="replace", fixed=(DESTINATION,)),
    "three jobs, destination fixed": us.Unit(kind="replace", fixed=(DESTINATION,), rows_per_unit=3),
    "destination and segment fixed": us.Unit(kind="replace", fixed=(DESTINATION, "kind")),
    "replace": us.Unit(kind="replace"),
    "three jobs": us.Unit(kind="replace", rows_per_unit=3),
    "add_remove": us.Unit(kind="add_remove"),
    "three jobs, add_remove": us.Unit(kind="add_remove", rows_per_unit=3),
}
HOME_UNITS = {
    "household": us.Unit(kind="replace", unit_id="home"),
    "person": us.Unit(kind="replace", unit_id="home", fixed=("size", "tenure")),
    "household, add_remove": us.Unit(kind="add_remove", unit_id="home"),
    "person alone": us.Unit(kind="replace", unit_id="number", fixed=("size", "tenure")),
    "person alone, weighted": us.Unit(kind="replace", unit_id="number", fixed=("hw", "size", "tenure")),
}
TABLES = ("people", "answers", "amounts", "weighted", "clustered", "clusters are units", "codes", "listed")
# Values of options that change what is asked of the gate or what is done with its answers.
OPTIONS: dict[str, tuple[str, ...]] = {
    "refine": ("age:2",),
    "strata": ("sex",),
    "draws": ("posterior",),
    "postprocess": ("published",),
    "split": ("equal",),
    "rows_by": ("multinomial",),
    "prior": ("40",),
    "weights": ("sex = 1 3",),
    "coarsen": ("none", "area:row", "areas:place:2,row"),
    "cut_miles": ("6",),
    "rule": ("accept_reject", "theorem"),
    "mechanism": ("geometric", "urn"),
    "decay_level": ("row", "none"),
    "prior_share": ("1",),
    "near": ("1",),
    "finest": ("row",),
    "flow_share": ("0.2",),
    "segments": ("kind=S0+S1+S2",),
    "must": ("crosstab(sex, age)",),
    "look_again": ("always",),
    "choose": ("aim", "mst", "independent"),
    "noise": ("geometric", "gaussian", "exponential"),
    "effects": ("pairs",),
    "cells_share": ("0",),
    "areas": ("row",),
    "long_miles": ("0", "3"),
}
# Options that go together, by the option that a method must have.
TOGETHER: dict[str, tuple[dict[str, str], ...]] = {
    "must_rows": (
        {"must": "crosstab(age, job)", "must_rows": "false", "must_share": "0.9"},
        {"must": "predict(job)", "strata": "sex"},
    ),
    "bound": ({"noise": "trimmed", "bound": "40"}, {"noise": "trimmed", "bound": "400"}),
    "pairs": ({"choose": "mst", "pairs": "false"},),
    "shrink": ({"coarsen": "none", "shrink": "LAST"}, {"coarsen": "none", "shrink": "LAST", "rule": "theorem"}),
    "decay_share": (
        {"decay_share": "0", "home_share": "0", "blend": "none"},
        {"coarsen": "areas:place:1,block:3,row", "cut_miles": "6"},
        {"coarsen": "area:row", "mechanism": "geometric"},
        {"rule": "accept_reject", "coarsen": "area:row"},
    ),
}
# For the audit of Gaussian noise: an approximate budget, and the concentrated one that buys as much of it.
GAUSSIAN_BUDGETS: dict[str, Definition] = {
    "epsilon 1": us.ApproxDP(epsilon=1, delta="1e-2"),
    "the rho of epsilon 1": us.ZCDP(rho=gaussian_mu_squared(Fraction(1), Fraction(1, 100)) / 2),
}
SHRINKING_BUDGET = us.ApproxDP(epsilon=8, delta="1e-2")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One method with its options, under a unit and a budget, on one of the small tables."""

    method: str
    world: str  # people, answers, amounts, codes, listed, tiny; weighted, clustered, clusters are units; commutes,
    # surrounded; homes, whole homes, alike homes
    unit_name: str
    budget_name: str
    options: dict[str, str] = field(default_factory=dict, hash=False)
    copies: int = 1

    @property
    def id(self) -> str:
        told = ", ".join(f"{name}={value}" for name, value in self.options.items())
        parts = [self.method, self.world, told, self.unit_name, self.budget_name]
        return " / ".join([*(part for part in parts if part), *(["2 copies"] if self.copies > 1 else [])])

    @property
    def of_commutes(self) -> bool:
        return self.world in {"commutes", "surrounded"}

    @property
    def places(self) -> Places:
        """The places of commutes; ``surrounded`` ones have homes outside."""
        return commutes.town(self.world == "surrounded")

    @property
    def of_homes(self) -> bool:
        return self.world in {"homes", "whole homes", "weighted homes", "alike homes"}

    @property
    def unit(self) -> us.Unit:
        if self.of_homes:
            return HOME_UNITS[self.unit_name]
        return (FLOW_UNITS if self.of_commutes else UNITS)[self.unit_name]

    @property
    def budget(self) -> Definition:
        if self.budget_name in GAUSSIAN_BUDGETS:
            return GAUSSIAN_BUDGETS[self.budget_name]
        if "shrink" in self.options:
            return SHRINKING_BUDGET
        return (FLOW_BUDGETS if self.of_commutes else BUDGETS)[self.budget_name]

    @property
    def table(self) -> Any:
        made = {
            "people": tables.people,
            "answers": tables.answers,
            "tiny": tables.tiny,
            "amounts": tables.amounts,
            "weighted": tables.weighted,
            "clustered": tables.clustered,
            "clusters are units": tables.by_unit,
            "codes": tables.codes,
            "listed": tables.listed,
            "commutes": commutes.commutes,
            "surrounded": commutes.commutes,
            "homes": homes.homes,
            "whole homes": homes.whole_homes,
            "weighted homes": homes.weighted_homes,
            "alike homes": homes.alike_homes,
        }
        return made[self.world]()

    def neighbours(self) -> Iterator[tuple[str, Any]]:
        if self.of_homes:
            return homes.neighbours(self.table, self.unit)
        return (commutes if self.of_commutes else tables).neighbours(self.table, self.unit)

    def plan(self) -> Plan:
        """What the method would do; raises what it refuses."""
        last = f"2:1,{commutes.last_distance()[0]!r}:0.8"
        options = {name: value.replace("LAST", last) for name, value in self.options.items()}
        rows = None if self.of_commutes or self.unit.public_total else 20
        domain = self.places if self.of_commutes else self.table.schema
        return us.plan(
            domain,
            method=self.method,
            budget=self.budget,
            unit=self.unit,
            copies=self.copies,
            rows=rows,
            i_know=True,  # a large delta: exact sums over small tables must see it
            **options,
        )


def option_sets(kind: Any) -> list[dict[str, str]]:
    """The defaults of a method, then each path that one of its options opens."""
    known = {field.name for field in dataclasses.fields(kind)}
    sets: list[dict[str, str]] = [{}]
    sets += [{name: value} for name, values in OPTIONS.items() if name in known for value in values]
    return sets + [dict(given) for needed, many in TOGETHER.items() if needed in known for given in many]


@lru_cache(maxsize=1)
def gaussian_cases() -> tuple[Case, ...]:
    """Every method whose noise is Gaussian under some budget, with and without its own ways to lay out tables."""
    found = []
    for registry, world, unit in ((synthesizers, "tiny", "replace"), (flow_synthesizers, "commutes", "replace")):
        for method in registry:
            for options in option_sets(registry[method]):
                if set(options) <= {"refine", "strata"}:
                    one = {"method": method, "world": world, "unit_name": unit, "options": options}
                    cases = [Case(**one, budget_name=budget) for budget in GAUSSIAN_BUDGETS]
                    found += [case for case in cases if offered(case) and _is_gaussian(case)][:1]
    return tuple(found)


def _is_gaussian(case: Case) -> bool:
    return any(isinstance(event, GaussianNoise) for event in case.plan().events)


def offered(case: Case) -> bool:
    """Whether the method takes the case: a plan takes some 20 ms, so this is asked of as few as possible."""
    if case.id not in _OFFERED:
        try:
            case.plan()
            _OFFERED[case.id] = True
        except UnderstudyError:
            _OFFERED[case.id] = False
    return _OFFERED[case.id]


_OFFERED: dict[str, bool] = {}


def all_cases() -> tuple[Case, ...]:
    """Everything that some method offers with a guarantee."""
    return tuple(filter(offered, possible_cases()))


@lru_cache(maxsize=1)
def possible_cases() -> tuple[Case, ...]:
    """Every method under every unit and budget, with each of its options; not all of them are ``offered``."""
    found: list[Case] = []
    for registry, worlds, units in (
        (synthesizers, TABLES, UNITS),
        (flow_synthesizers, ("commutes", "surrounded"), FLOW_UNITS),
        (family_synthesizers, ("homes", "whole homes", "weighted homes", "alike homes"), HOME_UNITS),
    ):
        for method in registry:
            kind = registry[method]
            for world in worlds:
                for unit in units:
                    if world == "answers" and "fixed" in unit:
                        continue
                    if world == "clusters are units" and "three rows of an id" not in unit:
                        continue
                    if world == "whole homes" and unit != "person alone":  # the others see no more of them
                        continue
                    if (world == "weighted homes") != (unit == "person alone, weighted") and "person" in unit:
                        continue  # a weight is fixed with whatever else a household is
                    for budget in kind.guarantees:
                        if budget == "none":
                            continue
                        sets = option_sets(kind) if world in {"people", "commutes", "homes"} else [{}]
                        one = {"method": method, "world": world, "unit_name": unit, "budget_name": budget}
                        found += [Case(**one, options=options) for options in sets]
                        found.append(Case(**one, copies=2))
    shrunk = [case for case in found if "shrink" in case.options and case.budget_name != "approx"]
    return tuple(case for case in found if case not in shrunk)
