"""The pyramid of NIST SP 800-226 (March 2025), walked from its top to its base: what is claimed, and on what evidence.

The publication's point is that each block rests on those below it: an epsilon says nothing if the program is wrong, and
a right program says nothing if the data lie open. So the lower blocks are here too, where the claim is mostly what the
agency itself has to answer for; what this program cannot know is said to be open, never left out.

The blocks are those of its Fig. 1, "Components of a differential privacy guarantee", in the order of the sections that
discuss them: the guarantee (Section 2), the algorithms (Section 3), the deployment (Section 4). Their names were
read in the text of the initial public draft (December 2023); the figure of the final version was not at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from understudy.privacy.promise.definition import NonPrivate
from understudy.release.summary import Summary

GUARANTEE, ALGORITHMS, DEPLOYMENT = "The guarantee", "The algorithms", "The deployment"
UTILITY = "Utility"
OUTSIDE = "Nothing is known: these tables were not made by understudy."
CLAIMED, OPEN, NOTHING = "claimed", "for the agency to answer", "nothing claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One block of the pyramid; ``part`` is the third of the pyramid it belongs to."""

    part: str
    name: str
    status: str
    claim: str
    evidence: str


def pyramid(subject: Summary, *, evaluated: bool) -> tuple[Level, ...]:
    """The blocks, top first. ``evaluated``: the utility and the risk of this release were measured."""
    statement, provenance = subject.statement, subject.provenance
    nothing = isinstance(statement.guarantee, NonPrivate)
    status = NOTHING if nothing else CLAIMED
    account = statement.ledger
    plan = "" if provenance.plan is None else f" {provenance.plan.hash[:12]}"
    noise = "measured counts with noise of a stated law" if subject.measured else "rows drawn by a stated mechanism"
    if subject.measured:
        pull = "the same noise is a larger part of a small count, and making counts non-negative moves small ones"
        published = "The noisy counts are published as they were drawn, negative ones too, and infer works from them."
    else:
        pull = "a prior or a model pulls what few people have towards what is public"
        published = "The mechanism and its parameters are published with the release."
    levels = (
        Level(
            part=GUARANTEE,
            name="ε and the other privacy parameters",
            status=status,
            claim="None." if nothing else f"{str(statement.guarantee).capitalize()}, for the release as a whole.",
            evidence="No event bounds the loss."
            if nothing
            else f"The {len(provenance.events)} recorded charges add up to it in exact fractions; understudy verify "
            "recomputes the sum from the release folder alone. "
            + (
                "Other releases of the same data are not accounted for."
                if account is None
                else f"Charged to the account '{account['account']}' before the first draw."
            ),
        ),
        Level(
            part=GUARANTEE,
            name="Unit of privacy",
            status=status,
            claim=statement.protected,
            evidence="The sensitivity of every query is derived from the unit by the program, never typed in. "
            + (
                "The rows of a unit are bounded by the engine."
                if statement.unit.enforced
                else "That nobody has more rows than stated was assumed, not enforced."
            ),
        ),
        Level(
            part=ALGORITHMS,
            name=UTILITY,
            status=CLAIMED,
            claim=f"Method {provenance.method}: {noise}; how far a count can be off is known.",
            evidence="Utility and risk of this very release were measured against the confidential data (this report)."
            if evaluated
            else "The law of the noise is published with the release, so analysts can widen their intervals by it; "
            "utility was not measured in this report.",
        ),
        Level(
            part=ALGORITHMS,
            name="Bias",
            status=CLAIMED,
            claim=f"Small groups are hit hardest: {pull}.",
            evidence=f"{published} Bias that was in the data before (who was asked, who answered) stays in them.",
        ),
        Level(
            part=ALGORITHMS,
            name="Algorithms and correctness",
            status=status,
            claim="Noise of the stated scale is added to every query before anything leaves the gate.",
            evidence="Each mechanism has a page with its theorem and proof; exact audits by enumeration; black-box "
            "audits that catch the same method with half its noise; tests of every sampler's distribution.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Query model",
            status=CLAIMED,
            claim="One release, not interactive: nobody outside can ask the data anything.",
            evidence=f"The plan{plan} was fixed from public "
            "facts before the data were touched; further rows come from the noisy counts, never from the data.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Threat model",
            status=CLAIMED,
            claim="Central model: the curator is trusted, everybody outside is not, and may know every other row.",
            evidence="docs/threat-model.md states what is inside the building: time, memory, messages, the journal.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Side channels",
            status=status,
            claim="Whole-number noise from the operating system's entropy; keys are never written.",
            evidence="OpenDP's exact samplers and an AES-256 counter stream; sums and parameters are exact fractions; "
            "a release made with test randomness is labelled as having no guarantee. Time and memory are not "
            "protected: whoever can watch the machine is inside the building.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Security",
            status=OPEN,
            claim="Nothing is claimed about the machine, its network or its backups.",
            evidence="Confidential values never enter messages, logs or release files; the rest is the agency's.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Access control",
            status=OPEN,
            claim="Nothing is claimed about who can read the confidential table.",
            evidence="Whoever may run this program on it may read it; findings computed from it are marked internal.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Data collection exposure",
            status=OPEN,
            claim="Nothing is claimed about how the data were collected, or who has seen them since.",
            evidence="A guarantee on the output cannot repair exposure before it.",
        ),
    )  # fmt: skip
    if provenance.plan is not None:
        return levels
    return tuple(_unknown(level, evaluated=evaluated) for level in levels)


def _unknown(level: Level, *, evaluated: bool) -> Level:
    """The block for tables that somebody else made: what this program does says nothing about them."""
    if level.status == OPEN:
        return level
    measured = evaluated and level.name == UTILITY
    return replace(level, status=NOTHING, claim=OUTSIDE, evidence=level.evidence if measured else "None.")
