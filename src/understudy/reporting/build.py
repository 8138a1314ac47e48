"""One HTML file about a release that answers a review board: no network, nothing to install, readable on paper.

A ``public`` report has facts of the release only, and refuses anything computed from confidential data. An ``internal``
report has the evaluation too. It is marked on every page and is never written into a release folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.core.folders import as_path, explained_disk_errors, release_above, write_private
from understudy.core.result import INTERNAL, Audience, Evaluation, Finding
from understudy.errors import DisclosureError, InputError, MissingExtraError
from understudy.inference.answer import Answer
from understudy.privacy.promise.definition import NonPrivate
from understudy.release.kind import AnyRelease, Summary, kind_of_release
from understudy.reporting.deployments_registry import TO_FILL_IN, registry_fields
from understudy.reporting.judgement import judgement_of
from understudy.reporting.promise_in_words import exact_lines, label_of, limits_of
from understudy.reporting.sections import (
    answers_of,
    attack_lines_of,
    expectations_of,
    findings_of,
    first_screen_of,
    made_of,
    privacy_pictures,
    risk_of,
    utility_of,
)

AUDIENCES = ("internal", "public")
MOST_WARNINGS = 5  # of an evaluation, at the top of the page


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finished report: the page, and the fields for the Deployments Registry."""

    html: str
    registry: dict[str, Any]
    audience: Audience

    def write(self, path: str | Path) -> Path:
        """Write the page, and for a public report the registry's fields beside it as JSON."""
        target = Path(path)
        check_target(target, self.audience)
        with explained_disk_errors(target):
            if self.audience == "internal":
                write_private(target, self.html)
            else:
                target.write_text(self.html, encoding="utf-8")
                beside = target.with_name(f"{target.stem}-registry.json")
                beside.write_text(json.dumps(self.registry, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return target


def check_target(target: Path, audience: Audience) -> None:
    """Refuse a place where a report must not or cannot be written, before anything is computed."""
    inside = release_above(target)
    if audience == "internal" and inside is not None:
        raise DisclosureError(
            f"{target} lies in the release folder {inside}; an internal report stays outside. Choose another place."
        )
    if inside is not None:
        raise InputError(f"{target} lies in the release folder {inside}, whose files are sealed; choose another place.")
    if target.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{target.name} must end in .html.")
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: the folder {target.parent} does not exist; create it first.")


def report(
    release: AnyRelease,
    *given: Evaluation | Answer,
    audience: Audience = "internal",
    to: str | Path,
    title: str = "",
) -> Path:
    """Write one HTML file that answers a review board.

    An ``internal`` report compares with the confidential data and is marked on every page. A ``public`` report has
    facts of the release only and refuses anything internal. The fields of the Deployments Registry are written beside
    it as JSON.

    Parameters
    ----------
    release
        The release.
    *given
        Evaluations (one at most) and answers of ``infer``.
    audience
        ``internal`` or ``public``.
    to
        The new file; it ends in .html.
    title
        The title of the page.

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    InputError
        If the audience is unknown, the file cannot be written there, or more than one evaluation is given.
    DisclosureError
        If a public report is given something internal.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> release = us.wrap(pa.table({"sex": ["F", "M", "M"]}), schema)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = us.report(release, audience="public", to=f"{folder}/report.html").read_text()
    >>> "No guarantee" in page
    True
    """
    summary_of(release)  # refuses anything else
    if audience not in AUDIENCES:
        raise InputError(f"audience ({audience!r}) must be 'internal' or 'public'.")
    target = as_path(to, "the report")
    check_target(target, audience)
    evaluations = [one for one in given if isinstance(one, Evaluation)]
    answers = [one for one in given if isinstance(one, Answer)]
    if len(evaluations) + len(answers) != len(given) or len(evaluations) > 1:
        raise InputError("report takes one evaluation (of evaluate) at most, and answers (of infer).")
    made = build_report(release, evaluations[0] if evaluations else None, answers, audience=audience, title=title)
    return made.write(target)


def summary_of(release: AnyRelease) -> Summary:
    """The public facts of a release of any kind."""
    kind = kind_of_release(release)
    if kind is None:
        raise InputError("report needs a release: read one with read_release, or wrap a synthetic table.")
    return kind.summary(release)


def build_report(
    release: AnyRelease,
    evaluation: Evaluation | None = None,
    answers: Sequence[Answer] = (),
    *,
    audience: Audience = "internal",
    title: str = "",
) -> Report:
    """Everything a review board asks about a release, on one page."""
    if audience not in AUDIENCES:
        raise InputError(f"audience ({audience!r}) must be 'internal' or 'public'.")
    if evaluation is not None and audience == "public":
        _refuse_internal(evaluation)
    if evaluation is not None and not evaluation.findings and not _framed(evaluation):
        evaluation = None
    subject = summary_of(release)
    fields = registry_fields(subject)
    limits = limits_of(subject)
    warned = [] if evaluation is None else findings_of(evaluation)
    shown = warned[:MOST_WARNINGS]
    rest = None if evaluation is None else _without(evaluation, [one for one, _ in shown])  # nothing is said twice
    order = {"problem": 0, "warning": 1, "good": 2, "info": 2}
    page = _render(
        title=title or subject.title,
        audience=audience,
        internal=INTERNAL if audience == "internal" else "",
        release=subject,
        rows=f"{subject.rows:,}",
        label=label_of(subject),
        judgement=judgement_of(subject, evaluation),
        limits=sorted([*((one.severity, text) for one, text in shown), *limits], key=lambda pair: order[pair[0]]),
        more_warnings=len(warned) - len(shown),
        exact=exact_lines(subject),
        made=made_of(subject),
        privacy=privacy_pictures(subject),
        utility=None if rest is None else utility_of(rest),
        risk=None if rest is None else risk_of(rest, copies=subject.copies),
        said=() if evaluation is None else first_screen_of(evaluation),
        attack_lines=() if evaluation is None else attack_lines_of(evaluation),
        answers=answers_of(answers),
        expectations=expectations_of(subject),
        registry=_flat(fields),
        to_fill_in=TO_FILL_IN,
        registry_json=_json_address(fields),
        pyramid=pyramid(subject, evaluated=evaluation is not None),
    )
    return Report(html=page, registry=fields, audience=audience)


def _without(evaluation: Evaluation, said: Sequence[Finding]) -> Evaluation:
    """An evaluation without findings that stand at the top of the page."""
    parts = (
        replace(one, findings=tuple(finding for finding in one.findings if finding not in said))
        for one in (evaluation.utility, evaluation.risk)
    )
    utility, risk = parts
    return replace(evaluation, utility=utility, risk=risk)


def _framed(evaluation: Evaluation) -> bool:
    return bool(evaluation.utility.frames or evaluation.risk.frames)


def _refuse_internal(evaluation: Evaluation) -> None:
    evaluation.public()
    if _framed(evaluation):
        raise DisclosureError("the tables of an evaluation are internal and cannot go into a public report.")


def _flat(fields: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The registry's record as headed lists of name and text."""
    return [
        (
            group.replace("_", " ").replace("dp ", "DP "),
            [(name.replace("_", " "), _text(value)) for name, value in content.items()],
        )
        for group, content in fields["deployment"].items()
    ]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _json_address(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return f"data:application/json;base64,{base64.b64encode(text.encode()).decode()}"


def _part(name: str) -> str:
    return (files("understudy.reporting") / "templates" / "report" / name).read_text(encoding="utf-8")


def _render(**values: Any) -> str:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise MissingExtraError("a report needs jinja2; install it with: pip install 'understudy[report]'") from None
    style, script = _part("style.css"), _part("script.js")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_part("page.html"))
    # The page may run exactly this script and use exactly this style sheet, and reach nothing else.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return template.render(style=style, script=script, policy=policy, **values)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# The pyramid of NIST SP 800-226 (March 2025), from its top to its base: what is claimed, and on what evidence.
#
# Each block rests on those below it: an epsilon means nothing if the program is wrong, and a correct program helps
# nobody if others can read the data. So the lower blocks are here too. There it is mostly the agency that must answer.
# What this program cannot know is shown as open, never left out.
#
# The blocks are those of its Fig. 1, "Components of a differential privacy guarantee", in the order of the sections
# that discuss them: the guarantee (Section 2), the algorithms (Section 3), the deployment (Section 4). Their names
# were read in the text of the initial public draft (December 2023); the figure of the final version was not at hand.

GUARANTEE, ALGORITHMS, DEPLOYMENT = "The guarantee", "The algorithms", "The deployment"
UTILITY = "Utility"
OUTSIDE = "Not known: these tables were not made by understudy."
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
        pull = "the same noise is larger relative to a small count, and removing negative counts changes small ones"
        published = "The noisy counts are published as drawn, including negative ones, and infer uses them."
    else:
        pull = "a prior or a model moves the results of small groups towards public values"
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
                "The account does not cover other releases of the same data."
                if account is None
                else f"Charged to the account '{account['account']}' before the first draw."
            ),
        ),
        Level(
            part=GUARANTEE,
            name="Unit of privacy",
            status=status,
            claim=statement.protected,
            evidence="The program derives the sensitivity of every query from the unit; nobody types it in. "
            + (
                "The engine limits the rows of each unit."
                if statement.unit.enforced
                else "The limit of rows per person was assumed, not enforced."
            ),
        ),
        Level(
            part=ALGORITHMS,
            name=UTILITY,
            status=CLAIMED,
            claim=f"Method {provenance.method}: {noise}; the error of a count has a known distribution.",
            evidence="Utility and risk of this release were measured against the confidential data (this report)."
            if evaluated
            else "The law of the noise is published with the release, so analysts can widen their intervals by it; "
            "utility was not measured in this report.",
        ),
        Level(
            part=ALGORITHMS,
            name="Bias",
            status=CLAIMED,
            claim=f"Small groups are affected most: {pull}.",
            evidence=f"{published} Bias of the original data (who was asked, who answered) remains.",
        ),
        Level(
            part=ALGORITHMS,
            name="Algorithms and correctness",
            status=status,
            claim="Noise of the stated scale is added to every query before an answer leaves the gate.",
            evidence="Each mechanism has a page with its theorem and proof; exact audits by enumeration; black-box "
            "audits that catch the same method with half its noise; tests of every sampler's distribution.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Query model",
            status=CLAIMED,
            claim="One release, not interactive: nobody outside can query the data.",
            evidence=f"The plan{plan} was fixed from public "
            "facts before the data were touched; further rows come from the noisy counts, never from the data.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Threat model",
            status=CLAIMED,
            claim="Central model: the curator is trusted. Everybody outside is not trusted, and may know every "
                  "other row.",
            evidence="docs/threat-model.md states what must stay inside the agency: times, memory, messages, "
                     "the journal.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Side channels",
            status=status,
            claim="Whole-number noise from the operating system's entropy; keys are never written.",
            evidence="OpenDP's exact samplers and an AES-256 counter stream; sums and parameters are exact fractions; "
            "a release made with test randomness is labelled as having no guarantee. Times and memory are not "
            "protected: whoever can watch the machine must be trusted.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Security",
            status=OPEN,
            claim="Nothing is claimed about the machine, its network or its backups.",
            evidence="Confidential values never enter messages, logs or release files. The agency is "
                     "responsible for the rest.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Access control",
            status=OPEN,
            claim="Nothing is claimed about who can read the confidential table.",
            evidence="Whoever can run this program on the table can read it. Results computed from it are "
                     "marked internal.",
        ),
        Level(
            part=DEPLOYMENT,
            name="Data collection exposure",
            status=OPEN,
            claim="Nothing is claimed about how the data were collected, or who has seen them since.",
            evidence="A guarantee for the output cannot undo earlier exposure.",
        ),
    )  # fmt: skip
    if provenance.plan is not None:
        return levels
    return tuple(_unknown(level, evaluated=evaluated) for level in levels)


def _unknown(level: Level, *, evaluated: bool) -> Level:
    """The block for tables that somebody else made. What this program does says nothing about them."""
    if level.status == OPEN:
        return level
    measured = evaluated and level.name == UTILITY
    return replace(level, status=NOTHING, claim=OUTSIDE, evidence=level.evidence if measured else "None.")
