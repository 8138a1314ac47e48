"""The Python client of a validation server: the same questions, over the network."""

from __future__ import annotations

import json
import os
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.result import Estimate
from understudy.errors import BudgetError, InputError, UnavailableError, UnsupportedError
from understudy.serving.fetching import opened
from understudy.serving.settings import safe_address

TOKEN, TOKEN_FILE = "UNDERSTUDY_TOKEN", "UNDERSTUDY_TOKEN_FILE"
SECONDS = 120.0
AWAY_SECONDS = 2.0  # before a server that cannot be reached is asked again
ELSEWHERE = range(300, 400)
MOST_ANSWER = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """An answer that a server gave: from a release for free, or from the data for a price."""

    question: str
    """The question, as it was asked."""
    release: str
    """The served release."""
    version: int
    """The version of the release that the answer is from."""
    names: tuple[str, ...]
    """The name of each estimate."""
    estimates: tuple[Estimate, ...]
    """The estimates with their intervals."""
    labels: tuple[str, ...]
    """The label of each estimate."""
    warnings: tuple[str, ...]
    """What to beware of."""
    record: Mapping[str, Any] | None = None
    """The record of a confirmation, which can be cited; ``None`` for a free answer."""
    verdict: Mapping[str, Any] | None = None
    """Whether a claim holds, and how often such a verdict is wrong; ``None`` if nothing was claimed."""

    @property
    def value(self) -> float:
        """The estimate. For an answer with one estimate."""
        return self._one().value

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the interval. For an answer with one estimate."""
        return self._one().low, self._one().high

    def _one(self) -> Estimate:
        if len(self.estimates) != 1:
            raise InputError(f"this answer has {len(self.estimates)} estimates; use estimates.")
        return self.estimates[0]


class Server:
    """A validation server.

    Parameters
    ----------
    url
        Its address, such as ``https://validation.example.org``.
    token
        Your token.

    Raises
    ------
    InputError
        If the address is none.
    """

    def __init__(self, url: str, token: str) -> None:
        if not safe_address(url):
            raise InputError(
                f"'{url}' is not the address of a server; it looks like https://validation.example.org. Plain http:// "
                "is for this machine alone: on the way, others could read your token."
            )
        self._url, self._token = url.rstrip("/"), token

    def releases(self) -> list[str]:
        """List the served releases.

        Returns
        -------
        list[str]
            Their names.
        """
        return list(self._call("GET", "/api/releases")["releases"])

    def describe(self, release: str | None = None) -> dict[str, Any]:
        """Describe a release: its promise, its attributes and its tables.

        Parameters
        ----------
        release
            Its name; not needed if there is one only.

        Returns
        -------
        dict[str, Any]
            Plain values.
        """
        return self._call("GET", f"/api/releases/{self._named(release)}")

    def price(
        self, question: str, *, width: float | None = None, release: str | None = None, **asking: Any
    ) -> dict[str, Any]:
        """Say what an interval of some width would cost, or a verdict on a claim. Nothing is charged.

        Parameters
        ----------
        question
            The question.
        width
            How wide the interval may be; left out for a verdict.
        release
            The name of the release; not needed if there is one only.
        **asking
            ``family``, ``event``, ``where``, ``by``, ``level`` and ``weighted``, as for ``infer``; ``at_least`` and
            ``margin``, as for ``verify``.

        Returns
        -------
        dict[str, Any]
            The price, what is left, and how the answer will look.
        """
        body = {"question": question, **asking} if width is None else {"question": question, "width": width, **asking}
        return self._call("POST", f"/api/releases/{self._named(release)}/price", body)

    def infer(
        self,
        question: str,
        *,
        width: float | None = None,
        release: str | None = None,
        wait: float = 3600.0,
        **asking: Any,
    ) -> ServedAnswer:
        """Ask a release for free; with ``width`` ask the data, for a price that is charged to your project.

        Parameters
        ----------
        question
            In the grammar of :func:`understudy.infer`.
        width
            How wide the interval may be. If the release says that already, nothing is charged.
        release
            The name of the release; not needed if there is one only.
        wait
            How many seconds to wait for a confirmation.
        **asking
            ``family``, ``event``, ``where``, ``by``, ``level`` and ``weighted``, as for ``infer``.

        Returns
        -------
        ServedAnswer
            The answer, with its record if it is a confirmation.

        Raises
        ------
        BudgetError
            If it costs more than is left, or was refused for that.
        UnsupportedError
            If there is no answer, or it did not come in time; the job goes on, and its page shows the answer.
        """
        name = self._named(release)
        if width is None:
            found = self._call("POST", f"/api/releases/{name}/ask", {"question": question, **asking})
            return _answer(found["answer"], name, int(found["version"]), None)
        body = {"question": question, "width": width, "once": secrets.token_urlsafe(16), **asking}
        made = self._call("POST", f"/api/releases/{name}/confirm", body)
        if made["free"]:
            return self.infer(question, release=name, **asking)
        return self._awaited(str(made["id"]), time.monotonic() + wait)

    def verify(
        self,
        question: str,
        *,
        at_least: float,
        margin: float,
        release: str | None = None,
        wait: float = 3600.0,
        **asking: Any,
    ) -> ServedAnswer:
        """Ask the data whether a result holds: yes or no, for less than a narrow interval costs.

        The answer is yes if the estimate is at least what is claimed. If the truth is the margin or more on the other
        side, the verdict is wrong in at most about one of twenty cases; the verdict states the probability.

        Parameters
        ----------
        question
            A question with one estimate, such as a difference of two proportions.
        at_least
            What is claimed: the quantity is at least this.
        margin
            How far the truth must be from it for a wrong verdict to be rare. A larger margin costs less.
        release
            The name of the release; not needed if there is one only.
        wait
            How many seconds to wait.
        **asking
            ``family``, ``event``, ``where``, ``level`` and ``weighted``, as for ``infer``.

        Returns
        -------
        ServedAnswer
            The answer with its ``verdict``.
        """
        name = self._named(release)
        body = {"question": question, "at_least": at_least, "margin": margin, **asking}
        made = self._call("POST", f"/api/releases/{name}/confirm", {**body, "once": secrets.token_urlsafe(16)})
        if not made["free"]:
            return self._awaited(str(made["id"]), time.monotonic() + wait)
        found = self._call("POST", f"/api/releases/{name}/ask", body)
        return _answer(found["answer"], name, int(found["version"]), None)

    def _awaited(self, job: str, until: float) -> ServedAnswer:
        while True:
            try:
                found = self._call("GET", f"/api/jobs/{job}")
            except UnavailableError:  # it was paid: a server that starts again is waited for
                if time.monotonic() >= until:
                    raise
                time.sleep(min(AWAY_SECONDS, max(until - time.monotonic(), 0.0)))
                continue
            state = found["state"]
            if state == "done":
                record = found["record"]
                return _answer(record["answer"], record["release"], int(record["release_version"]), record)
            if state == "shared":  # somebody else's job for the very same answers it
                job = str(found["answered_by"])
                continue
            if state in ("declined", "refused"):
                raise BudgetError(f"the confirmation {job} was {state}; nothing was charged.")
            if state == "failed":
                raise UnsupportedError(f"the confirmation {job} failed; a steward can have it taken up again.")
            left = until - time.monotonic()
            if left <= 0:
                waits = " for approval" if state == "waiting" else ""
                raise UnsupportedError(
                    f"the confirmation {job} is {state}{waits}; its answer appears at {self._url}/jobs/{job}."
                )
            expected = float(found.get("answer_expected") or 0.0) - time.time()
            time.sleep(min(max(expected, 0.2), 5.0, left))

    def _named(self, release: str | None) -> str:
        if release is None:
            names = self.releases()
            if len(names) != 1:
                raise InputError(f"name a release; this server has {', '.join(names) or 'none'}.")
            release = names[0]
        return urllib.parse.quote(release, safe="")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        asked = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)  # noqa: S310 - checked
        try:
            with opened(asked, SECONDS) as answer:
                return _document(answer.read(MOST_ANSWER))
        except urllib.error.HTTPError as problem:
            if problem.code in ELSEWHERE:
                raise InputError(
                    f"the server {self._url} leads to another address, where your token is not sent; use the address "
                    "that it has now."
                ) from None
            said = str(_document(problem.read(MOST_ANSWER)).get("error", f"status {problem.code}"))
            kinds = {409: BudgetError, 422: UnsupportedError, 503: UnavailableError}
            raise kinds.get(problem.code, InputError)(said) from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as problem:
            raise UnavailableError(f"the server {self._url} cannot be reached ({type(problem).__name__}).") from None


def connect(url: str, *, token: str | None = None) -> Server:
    """Connect to a validation server, which answers questions from releases, and from the data for a price.

    Parameters
    ----------
    url
        Its address.
    token
        Your token. By default the environment variable ``UNDERSTUDY_TOKEN``, or the file that
        ``UNDERSTUDY_TOKEN_FILE`` names.

    Returns
    -------
    Server
        What asks it.

    Raises
    ------
    InputError
        If the address is none, or there is no token.

    Examples
    --------
    >>> connect("https://validation.example.org", token="a token")     # doctest: +ELLIPSIS
    <understudy.serving.client.Server object at ...>
    """
    if token is None and TOKEN_FILE in os.environ:
        try:
            token = Path(os.environ[TOKEN_FILE]).read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise InputError(f"the file that {TOKEN_FILE} names cannot be read ({problem.strerror}).") from None
    token = token or os.environ.get(TOKEN, "")
    if not token:
        raise InputError(f"there is no token; set {TOKEN}, or {TOKEN_FILE} to a file that holds it.")
    return Server(url, token)


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        raise InputError("this address does not answer like a validation server.") from None
    if not isinstance(found, dict):
        raise InputError("this address does not answer like a validation server.")
    return found


def _answer(answer: Mapping[str, Any], release: str, version: int, record: Mapping[str, Any] | None) -> ServedAnswer:
    if "refused" in answer:
        raise UnsupportedError(str(answer["refused"]))
    rows = answer["estimates"]
    nowhere = float("nan")
    return ServedAnswer(
        question=answer["question"],
        release=release,
        version=version,
        names=tuple(row["name"] for row in rows),
        estimates=tuple(
            Estimate(
                value=nowhere if row["estimate"] is None else row["estimate"],
                low=-float("inf") if row["low"] is None else row["low"],
                high=float("inf") if row["high"] is None else row["high"],
                level=answer["level"],
                method=answer["method"],
            )
            for row in rows
        ),
        labels=tuple(row["label"] for row in rows),
        warnings=tuple(answer["warnings"]),
        record=record,
        verdict=answer.get("verdict"),
    )
