"""The closed list of mechanisms that a gate accepts. Whoever adds one here has reviewed its law and its loss.

A gate hands exact counts to a mechanism and believes what it says about its cost. So a mechanism is accepted by its
exact type: a subclass, or a look-alike from another file, may run something else than what it charges for. This
protects against mistakes. It does not protect against malice: Python is not a sandbox, and code that runs in the
process can read the data without any gate (docs/threat-model.md).
"""

from __future__ import annotations

from understudy.errors import DisclosureError
from understudy.privacy.mechanisms.bounded_noise import ExponentialNoise, TrimmedNoise
from understudy.privacy.mechanisms.cart_draw import CartDraw
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw
from understudy.privacy.mechanisms.flow_draws import CellUrn, ShrunkUrn
from understudy.privacy.mechanisms.flow_mixture import MixedCells
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, NoisyCells
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Exact, Geometric
from understudy.privacy.mechanisms.partial_draw import PartialDraw
from understudy.privacy.mechanisms.plain_multinomial import PlainMultinomial
from understudy.privacy.mechanisms.reverse_draw import ReverseMappedDraw
from understudy.privacy.mechanisms.saturated_draw import SaturatedDraw
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.mechanisms.uniques_removed import UniquesRemoved

NOISE_ON_TABLES: tuple[type, ...] = (
    Geometric,
    DiscreteGaussian,
    SparseGeometric,
    TrimmedNoise,
    ExponentialNoise,
    Exact,
)
CODES_FOUND: tuple[type, ...] = (StabilityThreshold,)
TABLE_DRAWS: tuple[type, ...] = (
    DirichletDraw,
    PlainMultinomial,
    ReverseMappedDraw,
    CartDraw,
    SaturatedDraw,
    PartialDraw,
    UniquesRemoved,
)
FLOW_DRAWS: tuple[type, ...] = (CellUrn, ShrunkUrn, AcceptingUrn, NoisyCells, MixedCells)


def require_reviewed(mechanism: object, allowed: tuple[type, ...]) -> None:
    """Refuses a mechanism that is not on the list, before anything is charged or counted."""
    if type(mechanism) not in allowed:
        raise DisclosureError(
            f"{type(mechanism).__name__} is not one of the reviewed mechanisms "
            f"({', '.join(kind.__name__ for kind in allowed)}), so it gets no counts. Nothing was charged. A new law "
            "belongs in privacy/mechanisms/, with a proof and an audit, and on the list there."
        )
