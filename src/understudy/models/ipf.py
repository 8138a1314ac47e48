"""Iterative proportional fitting (Deming and Stephan 1940) on a junction tree: the fit that Raab publishes.

Each table in turn is made to hold exactly, by multiplying the model with table / current margin; a sweep visits all.
Tables that agree with one another lead to the distribution of largest entropy that has them all (Csiszar 1975). Noisy
tables contradict one another, and then the sweeps end up going round in a circle: there is no fit to converge to. How
far apart the model and the tables still are is measured and handed back, never hidden. The regularised fit
(``models.fit``) has no such trouble and is the default; this one is kept for comparison with what was published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.schema import Schema
from understudy.errors import InputError, InternalError
from understudy.models.fit import MAX_CELLS, build_tree, structural_groups
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.model import Model
from understudy.models.propagation import Propagation, axes_outside, spread

SWEEPS = 200
SETTLED = 1e-6  # of all records, in one cell: the tables hold
STANDING = 1e-7  # of all records, in one cell: another sweep changes nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class IpfReport:
    """How the sweeps ended.

    ``difference``: the largest distance of a fitted cell from its table, as a share of all records, after the last
    sweep. ``movement``: the largest change of a cell of a clique in the last sweep, on the same scale.
    """

    sweeps: int
    difference: float
    movement: float
    cells: int

    @property
    def converged(self) -> bool:
        """Whether every table holds."""
        return self.difference <= SETTLED

    def describe(self) -> str:
        """One sentence for a release's notes."""
        sizes = f"largest distance of a cell from its table {self.difference:.1e} of all records"
        if self.converged:
            return f"Iterative proportional fitting converged in {self.sweeps} sweeps; {sizes}."
        state = "stands still" if self.movement <= STANDING else "still moves"
        return (
            f"Iterative proportional fitting did NOT converge in {self.sweeps} sweeps (tables that contradict one "
            f"another cannot all hold); the model {state}, {sizes}."
        )


def fit_ipf(
    schema: Schema, tables: Sequence[tuple[Margin, Floats]], *, sweeps: int = SWEEPS, limit: int = MAX_CELLS
) -> tuple[Model, IpfReport]:
    """Sweeps over the tables from equal cells, until all hold or nothing moves.

    Tables are non-negative and are taken as shares: each is divided by its own sum.
    """
    shares = [(margin, _share(margin, table)) for margin, table in tables if margin]
    tree = build_tree(schema, [margin for margin, _ in shares], limit)
    hosted: dict[int, list[tuple[Margin, Floats]]] = {}
    for margin, share in shares:
        host = tree.host(margin)
        if host is None:
            raise InternalError(f"no clique holds {' x '.join(margin)}.")
        hosted.setdefault(host, []).append((margin, share))
    propagation = Propagation(tree)
    potentials = _start(schema, tree)
    beliefs, _ = propagation.run(potentials)
    difference, movement, done = _difference(tree, beliefs, hosted), 0.0, 0
    while done < sweeps and difference > SETTLED:
        before = [belief.copy() for belief in beliefs]
        for host, listed in hosted.items():
            factors = _make_hold(tree.cliques[host], beliefs[host], listed)
            if len(tree.cliques) > 1:  # multiplying one clique changes what the others are to agree with
                for factor in factors:
                    with np.errstate(divide="ignore"):
                        potentials[host] = potentials[host] + np.log(factor)
                beliefs, _ = propagation.run(potentials)
        if len(tree.cliques) == 1:
            beliefs[0] /= beliefs[0].sum()
        done += 1
        difference = _difference(tree, beliefs, hosted)
        movement = max(float(np.abs(now - then).max()) for now, then in zip(beliefs, before, strict=True))
        if movement <= STANDING / 10:
            break
    model = Model(tree=tree, beliefs=tuple(beliefs), total=1.0)
    return model, IpfReport(sweeps=done, difference=difference, movement=movement, cells=tree.cells)


def even_shares(schema: Schema, margins: Sequence[Margin], limit: int = MAX_CELLS) -> list[Floats]:
    """The margins of equal possible cells, as shares: what a prior count is spread by, so that its tables agree."""
    tree = build_tree(schema, list(margins), limit)
    model = Model(tree=tree, beliefs=tuple(Propagation(tree).run(_start(schema, tree))[0]), total=1.0)
    return [model.project(margin) for margin in margins]


def _share(margin: Margin, table: Floats) -> Floats:
    values = np.asarray(table, dtype=np.float64)
    if not (values >= 0).all() or not values.sum() > 0:
        raise InputError(f"the table {' x '.join(margin)} must be non-negative and not empty.")
    return np.asarray(values / values.sum())


def _start(schema: Schema, tree: JunctionTree) -> list[Floats]:
    """Equal cells, none where the schema rules a combination out."""
    potentials = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
    alone = [(name,) for name in schema.names]
    for margin in [*alone, *structural_groups(schema)]:
        allowed = schema.allowed(margin)
        if not allowed.all():
            host = tree.host(margin)
            if host is None:
                raise InternalError(f"no clique holds {' x '.join(margin)}.")
            mask = np.where(allowed, 0.0, -np.inf)
            potentials[host] = potentials[host] + spread(mask, margin, tree.cliques[host])
    return potentials


def _make_hold(clique: Margin, belief: Floats, listed: Sequence[tuple[Margin, Floats]]) -> list[Floats]:
    """Make each table hold in turn, in place; the factors that did it, each spread over the clique."""
    factors = []
    for margin, share in listed:
        factor = spread(_ratio(share, belief.sum(axis=axes_outside(clique, margin))), margin, clique)
        belief *= factor
        factors.append(factor)
    return factors


def _ratio(share: Floats, now: Floats) -> Floats:
    return np.divide(share, now, out=np.zeros_like(share), where=now > 0)


def _difference(tree: JunctionTree, beliefs: Sequence[Floats], hosted: dict[int, list[tuple[Margin, Floats]]]) -> float:
    return max(
        float(np.abs(beliefs[host].sum(axis=axes_outside(tree.cliques[host], margin)) - share).max())
        for host, listed in hosted.items()
        for margin, share in listed
    )
