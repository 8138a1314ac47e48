"""Who is calling: a bearer token for the API, or the cookie of a session for pages. Both are kept as hashes."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from understudy.errors import InputError
from understudy.serving.database.people import Person, person_with, session_of
from understudy.serving.web.forms import form_of, same
from understudy.serving.web.site import COOKIE, Caller, Site

LONGEST_TOKEN = 200


class NotSignedInError(InputError):
    """The request carries no valid token or session."""


class NotAllowedError(InputError):
    """The person's role does not allow this."""


async def caller_of(site: Site, request: Request) -> Caller | None:
    """The person of a request, if there is one."""
    header = request.headers.get("authorization", "")
    if header:
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN:
            return None
        person: Person | None = await run_in_threadpool(site.database.read, lambda session: person_with(session, token))
        return None if person is None else Caller(person=person)
    secret = request.cookies.get(COOKIE, "")
    if not 0 < len(secret) <= LONGEST_TOKEN:
        return None
    found = await run_in_threadpool(site.database.read, lambda session: session_of(session, secret))
    return None if found is None else Caller(person=found[0], csrf=found[1], secret=secret)


async def required(site: Site, request: Request) -> Caller:
    found = await caller_of(site, request)
    if found is None:
        raise NotSignedInError("sign in with a token first.")
    return found


async def own_form(site: Site, request: Request) -> tuple[Caller, dict[str, str]]:
    """The form of somebody who signed in, from a page of ours: it carries the word of their session."""
    caller = await required(site, request)
    form = await form_of(request)
    if caller.csrf is None or not same(form.get("csrf", ""), caller.csrf):
        raise NotAllowedError("this form is not from a page of your session; open the page again.")
    return caller, form


def cookie(site: Site, secret: str) -> dict[str, Any]:
    """How the cookie of a session is set: scripts cannot read it, and other sites do not send it."""
    return {
        "key": COOKIE,
        "value": secret,
        "httponly": True,
        "samesite": "strict",
        "secure": site.settings.secure_cookies,
        "path": "/",
        "max_age": int(site.settings.session_hours * 3600),
    }
