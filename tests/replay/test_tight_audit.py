"""Gaussian noise, neither more nor less than was charged: the mu of whole runs beside that of their events.

See docs/theory/sampled-audit.md. A sound method is accused with probability below 1e-5 for noise that is missing and
below 1e-11 for noise that is wasted.
"""

from __future__ import annotations

from typing import Any

import pytest
from replaying import commutes, tables
from replaying.cases import Case, gaussian_cases
from replaying.tight import RELATIVE_ERROR, Z, measure_mu

from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared import margin_methods

LEAST = 0.95
MOST = 1 + Z * RELATIVE_ERROR
IN_EVERY_RUN = ("independent",)
# The charge adds the worst row of every margin, and no row is the worst of all of them (docs/theory/fourier.md): what
# two neighbours can reach is less. That noise is missing shows as it does elsewhere.
LEAST_OF = {"fourier": 0.7}


def neighbour_of(case: Case) -> Any:
    """One that moves in every table that is measured."""
    if case.of_commutes:
        return dict(commutes.neighbours(case.table, case.unit))["to a destination that had none"]
    return tables.tiny_neighbour()


def marked() -> list[Any]:
    return [
        pytest.param(
            case, id=case.id, marks=[] if case.method in IN_EVERY_RUN and not case.options else [pytest.mark.full]
        )
        for case in gaussian_cases()
    ]


@pytest.mark.parametrize("case", marked())
def test_what_is_found_is_what_was_charged(case):
    found = measure_mu(case, neighbour_of(case))
    assert found.share <= MOST, found
    assert found.share_of_tables >= LEAST_OF.get(case.method, LEAST), found


def test_every_margin_method_is_audited():
    assert {case.method for case in gaussian_cases()} >= {"aim", "histogram", "independent", "ipf", "mst"}


SMALL = Case(method="independent", world="tiny", unit_name="replace", budget_name="epsilon 1")


@pytest.mark.parametrize(("factor", "share"), [(0.9, 1 / 0.9), (1.1, 1 / 1.1)])
def test_noise_of_another_scale_shows(monkeypatch, factor, share):
    honest = DiscreteGaussian._draw
    monkeypatch.setattr(
        DiscreteGaussian,
        "_draw",
        lambda noise, *given: honest(DiscreteGaussian(scale=float(noise.scale) * factor), *given),
    )
    found = measure_mu(SMALL, neighbour_of(SMALL))
    assert not LEAST <= found.share <= MOST
    assert found.share == pytest.approx(share, rel=0.04)


def test_a_sensitivity_that_is_larger_than_it_need_be_shows(monkeypatch):
    def doubled(*given: Any) -> Sensitivity:
        true = margin_sensitivity(*given)
        return Sensitivity(l1=2 * true.l1, l2_squared=2 * true.l2_squared, linf=true.linf)

    monkeypatch.setattr(margin_methods, "margin_sensitivity", doubled)
    monkeypatch.setattr("understudy.privacy.gate.gate.margin_sensitivity", doubled)
    found = measure_mu(SMALL, neighbour_of(SMALL))
    assert found.share < 0.75
