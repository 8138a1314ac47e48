"""The verb that judges a release, asks it questions and writes both on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api.answers import infer
from understudy.api.evaluations import evaluate
from understudy.core.arrays import Progress
from understudy.core.folders import as_path
from understudy.core.result import Audience
from understudy.errors import DisclosureError, InputError

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease


def check_report_target(to: str | Path, *, audience: str, confidential: bool) -> None:
    """Refuses a place or an audience that a report cannot have, before anything is read."""
    from understudy.reporting.build import AUDIENCES, check_target

    if audience not in AUDIENCES:
        raise InputError(f"audience ({audience}) must be internal or public.")
    if confidential and audience == "public":
        raise DisclosureError("a public report holds release facts only; leave the confidential data out.")
    check_target(as_path(to, "the report"), audience)  # type: ignore[arg-type]


def report_release(
    release: AnyRelease,
    *,
    to: str | Path,
    audience: Audience | None = None,
    confidential: Any = None,
    holdout: Any = None,
    models: Sequence[str] = (),
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    questions: Sequence[str] = (),
    title: str = "",
    progress: Progress | None = None,
) -> Path:
    """Evaluate a release, ask it questions, and write one page about it: ``evaluate``, ``infer`` and ``report``.

    Parameters
    ----------
    release
        The release.
    to
        The HTML file.
    audience
        Who may see it: "public", or "internal" where ``confidential`` is given.
    confidential, holdout
        The data to compare with, and people who were not used, as for ``evaluate``. They make the report internal.
    models, keys, targets
        What is compared and attacked, as for ``evaluate``.
    questions
        Questions to answer, as for ``infer``.
    title
        The heading.
    progress
        Called with the steps that are done and the number of all.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    DisclosureError
        If a public report is asked for with confidential data, or an internal one inside a release.
    InputError
        If the file cannot be written there, or what was asked for needs the confidential data.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> made = us.wrap(make_people(200).select(list(small_schema().names)), small_schema())
    >>> us.report_release(made, to=tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    from understudy.release.kind import kind_of_release
    from understudy.reporting.build import report

    wanted: Audience = audience or ("public" if confidential is None else "internal")
    if confidential is None and (holdout is not None or models or keys or targets):
        raise InputError("holdout, models, keys and targets belong to the confidential data: give those too.")
    check_report_target(to, audience=wanted, confidential=confidential is not None)
    kind = kind_of_release(release)
    if (confidential is not None or questions) and (kind is None or not kind.asked_in_reports):
        raise InputError("only tables are compared and asked: leave confidential data and questions out.")
    given: list[Any] = [infer(release, question) for question in questions]
    if confidential is not None:
        judged = evaluate(
            release, confidential, holdout=holdout, models=models, keys=keys, targets=targets, progress=progress
        )
        given.insert(0, judged)
    return report(release, *given, audience=wanted, to=to, title=title)


def report_page(release: AnyRelease, *given: Any, audience: Audience = "internal", title: str = "") -> str:
    """The page that ``report`` writes, as text: nothing touches the disk.

    Parameters
    ----------
    release
        The release.
    *given
        An evaluation at most, and answers of ``infer``.
    audience
        ``internal`` or ``public``.
    title
        The title of the page.

    Returns
    -------
    str
        One HTML page with its own strict policy.

    Raises
    ------
    DisclosureError
        If a public page is given something internal.
    """
    from understudy.core.result import Evaluation
    from understudy.reporting.build import build_report

    judged = next((one for one in given if isinstance(one, Evaluation)), None)
    answers = [one for one in given if not isinstance(one, Evaluation)]
    return build_report(release, judged, answers, audience=audience, title=title).html
