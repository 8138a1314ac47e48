"""Faults put back in, one at a time: the replay must report each. A harness that overlooks them proves nothing.

A gate that refuses a faulty run by itself is as good as a report of it; only silence is a failure.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from replaying.cases import Case
from replaying.replay import replay
from replaying.watching import mechanism_named

from understudy.commutes.methods.commute import Commute
from understudy.commutes.models.regions import PlacesAround
from understudy.engines.counting import bounding
from understudy.engines.counting.cluster_counts import cluster_counts
from understudy.engines.systems.local import source
from understudy.engines.systems.local.source import LocalSource
from understudy.privacy.exact.stability_delta import least_threshold, stability_delta
from understudy.privacy.gate import measurement_steps as steps
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, pure_loss
from understudy.privacy.mechanisms.flow_draws import CellUrn
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, IntegerNoise
from understudy.privacy.mechanisms.place_tree_compiled import squared_distance
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.sensitivity import margin_sensitivity, selection_sensitivity
from understudy.synth.methods.dirichlet import Dirichlet
from understudy.synth.methods.independent import Independent
from understudy.synth.shared.found_columns import find_codes
from understudy.synth.shared.measured_effects import with_measured_effects

RINGS = Case(
    method="commute", world="commutes", unit_name="destination fixed", budget_name="approx",
    options={"decay_share": "0", "home_share": "0", "blend": "none", "mechanism": "urn"},
)  # fmt: skip
SHRUNK = Case(
    method="commute", world="commutes", unit_name="destination fixed", budget_name="approx",
    options={"coarsen": "none", "shrink": "LAST"},
)  # fmt: skip


NEIGHBOURS = 6
REFUSALS = tuple(f"the run ended with {kind}" for kind in ("BudgetError", "DisclosureError", "InternalError"))


def people(method: str, unit: str = "replace", budget: str = "pure", **options: str) -> Case:
    return Case(method=method, world="people", unit_name=unit, budget_name=budget, options=options)


def everywhere(patch: pytest.MonkeyPatch, honest: Any, faulty: Any) -> None:
    """Puts a function in the place of another in every module that has it."""
    for module in [m for name, m in sys.modules.items() if name.startswith("understudy")]:
        for name, value in list(vars(module).items()):
            if value is honest:
                patch.setattr(module, name, faulty)


def reported(case: Case, *words: str) -> list[str]:
    """What the replay says of a faulty run; at least one line has one of the words."""
    found = replay(case, at_most=NEIGHBOURS)
    assert any(word in line for line in found for word in (*words, *REFUSALS)), found
    return found


def test_an_urn_over_fewer_cells_than_its_prior_was_set_for(monkeypatch):
    """As when the first versions rounded a number of rings and sectors twice: 40 cells where 48 were paid for."""
    honest = CellUrn.draw

    def over_fewer(urn, block, domains, *given):
        return honest(urn, block, np.maximum(domains * 5 // 6, 2), *given)

    monkeypatch.setattr(CellUrn, "draw", over_fewer)
    reported(RINGS, "at worst at epsilon 4.5")


def test_a_mechanism_whose_run_is_the_identity(monkeypatch):
    monkeypatch.setattr(IntegerNoise, "run", lambda mechanism, values, stream: np.array(values))
    reported(people("histogram"), "but noise for 0 of them")


def test_a_subclass_that_adds_no_noise(monkeypatch):
    class Quiet(Geometric):
        def run(self, values, stream):
            return np.array(values)

    monkeypatch.setattr(steps, "Geometric", Quiet)
    reported(people("histogram"), "0 were measured by a mechanism")


def test_a_place_at_the_last_distance(monkeypatch):
    """It is in the domain with a worker, and cannot appear without."""

    def encode(around, starts, origins):
        points, cut = around.regions.places.points(), around.regions.cut
        destinations = np.repeat(around.destinations, np.diff(starts))
        far = [squared_distance(points[d], points[o]) > cut**2 for d, o in zip(destinations, origins, strict=True)]
        return np.where(far, len(points), origins.astype(np.int64))

    monkeypatch.setattr(PlacesAround, "encode", encode)
    found = reported(SHRUNK, "delta 0.53")
    assert all("last distance" in line or any(word in line for word in REFUSALS) for line in found)


@pytest.mark.parametrize(
    "method", ["histogram", *(pytest.param(name, marks=pytest.mark.full) for name in ("ipf", "mst"))]
)
def test_a_sensitivity_that_is_half_of_what_it_should_be(monkeypatch, method):
    def halved(*given: Any) -> Sensitivity:
        true = margin_sensitivity(*given)
        return Sensitivity(l1=-(-true.l1 // 2), l2_squared=-(-true.l2_squared // 2), linf=true.linf)

    everywhere(monkeypatch, margin_sensitivity, halved)
    reported(people(method), "L1 distance 2 between neighbours, charged 1")
    reported(people(method, budget="zcdp"), "squared L2 distance 2 between neighbours, charged 1")


def test_a_copy_that_is_not_charged(monkeypatch):
    honest = Dirichlet.run

    def one_more(method, plan, schema, gate, stream):
        synthesis = honest(method, plan, schema, gate, stream)
        mechanism = DirichletDraw(prior=Fraction(40), rows=20, loss=pure_loss(Fraction(1)))
        gate._draw([mechanism], schema.names, (), ("draw", "another", 2))
        return replace(synthesis, tables=synthesis.tables * 2)

    monkeypatch.setattr(Dirichlet, "run", one_more)
    reported(people("dirichlet"), "rows were drawn from the data beside the gate")


def test_a_size_that_is_not_public(monkeypatch):
    """Destinations are private, and their exact numbers of jobs are used beside the noisy ones."""
    honest = Commute._private_sizes

    def exact(method, plan, places, gate):
        found, _ = honest(method, plan, places, gate)
        return found, gate._worker().sizes()

    monkeypatch.setattr(Commute, "_private_sizes", exact)
    case = Case(method="commute", world="commutes", unit_name="replace", budget_name="pure")
    reported(case, "what was asked of the gate (draw) differs", "what is drawn at all differs")


def test_a_number_of_rows_that_is_not_public(monkeypatch):
    monkeypatch.setattr(Gate, "records", property(lambda gate: int(gate._open_source().total())))
    honest = Independent.run

    def counted(method, plan, schema, gate, stream):
        synthesis = honest(method, plan, schema, gate, stream)
        return replace(synthesis, notes=(*synthesis.notes, f"Drawn from {gate.records} people."))

    monkeypatch.setattr(Independent, "run", counted)
    found = reported(people("independent", unit="add_remove"), "public numbers differ")
    assert any("the release differs in README.md" in line for line in found)


@pytest.mark.parametrize("method", ["mst", pytest.param("aim", marks=pytest.mark.full)])
def test_a_score_whose_sensitivity_is_understated(monkeypatch, method):
    def understated(weights, unit):
        return selection_sensitivity(weights, unit) // 2

    everywhere(monkeypatch, selection_sensitivity, understated)
    reported(people(method), "a score moves by 2 between neighbours, charged 1")


def test_rows_kept_beyond_what_a_unit_may_have(monkeypatch):
    honest = bounding.kept_places
    monkeypatch.setattr(
        bounding, "kept_places", lambda count, limit, *given: honest(count, min(limit + 1, count - 1), *given)
    )
    reported(people("histogram", unit="three rows of an id"), "L1 distance 8 between neighbours, charged 6")


@pytest.mark.parametrize(("kind", "budget"), [(Geometric, "pure"), (DiscreteGaussian, "zcdp")])
def test_noise_at_another_scale_than_the_one_charged(monkeypatch, kind, budget):
    honest = kind._draw
    monkeypatch.setattr(kind, "_draw", lambda noise, *given: honest(kind(scale=noise.scale / 2), *given))
    reported(people("independent", budget=budget), "was drawn and")


def test_half_the_prior(monkeypatch):
    honest = SizedPrior.of

    def halved(prior, sizes):
        cells, weights, shifts = honest(prior, sizes)
        return cells, weights, shifts + 1

    monkeypatch.setattr(SizedPrior, "of", halved)
    urn = Case(
        method="commute", world="commutes", unit_name="replace", budget_name="pure", options={"mechanism": "urn"}
    )
    reported(urn, "at worst")
    monkeypatch.undo()
    drawn = DirichletDraw.draw
    monkeypatch.setattr(DirichletDraw, "draw", lambda draw, *given: drawn(replace(draw, prior=draw.prior / 2), *given))
    reported(people("dirichlet", budget="approx"), "at worst")


def test_breach_probabilities_that_add_up_to_more(monkeypatch):
    """Half the prior keeps the approximate privacy that follows from Definition 6, and not Definition 6."""
    drawn = DirichletDraw.draw
    monkeypatch.setattr(DirichletDraw, "draw", lambda draw, *given: drawn(replace(draw, prior=draw.prior / 2), *given))
    reported(people("dirichlet", budget="probabilistic"), "breach probabilities add up to")


def test_half_the_noise_on_the_cells_of_a_destination(monkeypatch):
    kind = mechanism_named("NoisyCells")
    honest = kind.draw
    monkeypatch.setattr(kind, "draw", lambda noisy, *given: honest(replace(noisy, scale=noisy.scale / 2), *given))
    case = replace(RINGS, options={"mechanism": "geometric"})
    reported(case, "was charged as")


@pytest.mark.parametrize("unit", ["destination fixed", "replace"])
@pytest.mark.parametrize("half", ["scale", "prior"])
def test_half_the_noise_or_prior_of_a_law_by_size(monkeypatch, half, unit):
    """Charged and stated as it should be; the draw itself takes half. Private destinations have no answers."""
    if (half, unit) == ("prior", "replace"):
        pytest.skip("answers are for public sizes")
    kind = mechanism_named("MixedCells")
    honest = kind.draw
    monkeypatch.setattr(
        kind, "draw", lambda mixed, *given: honest(replace(mixed, **{half: getattr(mixed, half) / 2}), *given)
    )
    reported(Case(method="commute", world="commutes", unit_name=unit, budget_name="approx"), "at worst")


def test_a_law_that_tells_the_size_of_a_private_destination(monkeypatch):
    """Balanced noise adds up to 0, so noisy counts add up to the true size."""
    kind = mechanism_named("MixedCells")
    honest = kind._noisy
    monkeypatch.setattr(kind, "_noisy", lambda mixed, *given, **_: honest(mixed, *given, balanced=True))
    reported(Case(method="commute", world="commutes", unit_name="replace", budget_name="pure"), "epsilon inf")


def test_a_draw_that_is_kept_only_if_it_looks_like_the_data(monkeypatch):
    def looks_alike(urn, block, d, rows):
        return int(block.cells[block.starts[d]]) in rows

    monkeypatch.setattr(mechanism_named("AcceptingUrn"), "_good", looks_alike)
    reported(replace(RINGS, options={"rule": "accept_reject", "coarsen": "area:row"}), "between neighbours at epsilon")


def test_an_exact_count_that_slips_into_the_notes(monkeypatch):
    honest = Independent.run

    def talkative(method, plan, schema, gate, stream):
        synthesis = honest(method, plan, schema, gate, stream)
        return replace(synthesis, notes=(*synthesis.notes, f"{gate._counts(('sex',)).tolist()}"))

    monkeypatch.setattr(Independent, "run", talkative)
    found = reported(people("independent"), "the release differs in manifest.json")
    assert any("README.md" in line for line in found)


CODES = Case(method="independent", world="codes", unit_name="three rows, assumed", budget_name="approx")


def test_a_threshold_below_the_one_that_was_charged(monkeypatch):
    honest = StabilityThreshold.find

    def lower(mechanism, codes, counts, stream):
        return honest(
            StabilityThreshold(scale=mechanism.scale, threshold=mechanism.threshold - 9), codes, counts, stream
        )

    monkeypatch.setattr(StabilityThreshold, "find", lower)
    reported(CODES, "what was told is not the codes")


def test_a_delta_for_one_code_where_a_unit_has_three(monkeypatch):
    least_threshold.cache_clear()
    everywhere(monkeypatch, stability_delta, lambda scale, threshold, rows: stability_delta(scale, threshold, 1))
    try:
        reported(CODES, "a code of one unit alone is seen")
    finally:
        least_threshold.cache_clear()


def test_codes_whose_noise_is_less_than_charged(monkeypatch):
    honest = StabilityThreshold.find

    def quieter(mechanism, codes, counts, stream):
        less = StabilityThreshold(scale=mechanism.scale / 2, threshold=mechanism.threshold)
        return honest(less, codes, counts, stream)

    monkeypatch.setattr(StabilityThreshold, "find", quieter)
    reported(CODES, "noise of scale")


def test_codes_that_occur_told_beside_the_gate(monkeypatch):
    """A level for every code that was counted, whatever its noisy count."""
    seen: list[str] = []
    honest_count, honest_find = LocalSource.count_codes, find_codes

    def count_codes(source, name, length):
        counted = honest_count(source, name, length)
        if length is None:
            seen[:] = counted._codes
        return counted

    def leaking(attribute, generations):
        return replace(honest_find(attribute, generations), levels=(*seen, "other"), most_codes=9)

    monkeypatch.setattr(LocalSource, "count_codes", count_codes)
    everywhere(monkeypatch, find_codes, leaking)
    reported(CODES, "the release differs in", "the neighbour's run ended with")


def test_people_who_count_by_their_weight(monkeypatch):
    """A weighted table measured like a table of counts: one person moves it by the whole weight."""
    honest = LocalSource.count

    def by_weight(source, margins, progress=None):
        weights = np.array(source.schema["weight"].edges[:-1], np.int64)

        def counted(one):
            shape = [-1 if name == "weight" else 1 for name in one.margin]
            return replace(one, values=one.values * weights.reshape(shape)) if "weight" in one.margin else one

        return [counted(one) for one in honest(source, margins, progress)]

    monkeypatch.setattr(LocalSource, "count", by_weight)
    case = Case(method="histogram", world="weighted", unit_name="replace", budget_name="pure")
    reported(case, "between neighbours, charged")


IN_HOMES = Case(method="independent", world="clustered", unit_name="add_remove", budget_name="pure")


def test_all_pairs_of_a_cluster_counted_where_each_row_has_one_neighbour(monkeypatch):
    """A row then moves as many pairs as its cluster has other rows, twice."""

    def all_pairs(clusters, codes, classes, *, largest, stream):
        honest = cluster_counts(clusters, codes, classes, largest=largest, stream=stream)
        same = (clusters[:, None] == clusters[None, :]) & ~np.eye(len(clusters), dtype=bool)
        first, second = np.nonzero(same)
        neighbours = {}
        for name, groups in classes.items():
            own, size = np.asarray(groups)[codes[name]], max(groups) + 1
            neighbours[name] = np.bincount(own[first] * size + own[second], minlength=size**2)
        return replace(honest, neighbours=neighbours)

    monkeypatch.setattr(source, "cluster_counts", all_pairs)
    reported(IN_HOMES, "L1 distance 10 between neighbours, charged 3")


def test_clusters_beyond_the_largest_counted_as_they_are(monkeypatch):
    def unlimited(*given, largest, **named):
        return cluster_counts(*given, largest=99, **named)

    monkeypatch.setattr(source, "cluster_counts", unlimited)
    reported(IN_HOMES, "L1 distance 11 between neighbours, charged 5")


def test_a_design_effect_from_exact_counts(monkeypatch):
    honest, counted = with_measured_effects, []

    def count(*given, **named):
        counted[:] = [cluster_counts(*given, **named)]
        return counted[0]

    def exact(schema, measured):
        found = honest(schema, measured)
        effects = tuple((name, float(1 + table[0])) for one in counted for name, table in one.neighbours.items())
        return replace(found, design=replace(found.design, measured_effects=effects))

    monkeypatch.setattr(source, "cluster_counts", count)
    everywhere(monkeypatch, honest, exact)
    reported(IN_HOMES, "the release differs in")
