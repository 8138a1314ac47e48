"""One HTML file about a release that answers a review board: no network, nothing to install, readable on paper.

A ``public`` report holds release facts only and refuses anything computed from confidential data; an ``internal`` one
holds the evaluation too, is marked on every page, and is never written into a release folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.core.folders import as_path, explained_disk_errors, release_above, write_private
from understudy.core.result import INTERNAL, Audience, Evaluation
from understudy.errors import DisclosureError, InputError, MissingExtraError
from understudy.inference.answer import Answer
from understudy.release.kind import AnyRelease, kind_of_release
from understudy.release.summary import Summary
from understudy.reporting.deployments_registry import TO_FILL_IN, registry_fields
from understudy.reporting.promise import exact_lines, label_of, limits_of
from understudy.reporting.pyramid import pyramid
from understudy.reporting.sections import (
    answers_of,
    expectations_of,
    findings_of,
    first_screen_of,
    made_of,
    privacy_pictures,
    risk_of,
    utility_of,
)

AUDIENCES = ("internal", "public")


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
    """Refuses a place a report must not or cannot go to, before anything is computed."""
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

    An ``internal`` report compares with the confidential data and is marked on every page. A ``public`` one holds
    release facts only, refuses anything internal, and writes the fields of the Deployments Registry beside it as JSON.

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
    if evaluation is not None:
        limits = [*findings_of(evaluation), *limits]
    order = {"problem": 0, "warning": 1, "good": 2, "info": 2}
    page = _render(
        title=title or subject.title,
        audience=audience,
        internal=INTERNAL if audience == "internal" else "",
        release=subject,
        rows=f"{subject.rows:,}",
        label=label_of(subject),
        limits=sorted(limits, key=lambda pair: order[pair[0]]),
        exact=exact_lines(subject),
        made=made_of(subject),
        privacy=privacy_pictures(subject),
        utility=None if evaluation is None else utility_of(evaluation),
        risk=None if evaluation is None else risk_of(evaluation, copies=subject.copies),
        said=() if evaluation is None else first_screen_of(evaluation),
        answers=answers_of(answers),
        expectations=expectations_of(subject),
        registry=_flat(fields),
        to_fill_in=TO_FILL_IN,
        registry_json=_json_address(fields),
        pyramid=pyramid(subject, evaluated=evaluation is not None),
    )
    return Report(html=page, registry=fields, audience=audience)


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
