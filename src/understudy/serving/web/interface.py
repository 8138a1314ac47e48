"""The API in JSON under ``/api``: what the Python client and ``understudy ask`` use. Every call carries a token."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from understudy.core.exact_numbers import from_text
from understudy.errors import (
    BudgetError,
    InputError,
    UnavailableError,
    UnderstudyError,
    UnknownNameError,
    UnsupportedError,
)
from understudy.serving.asking import Asked, verdict
from understudy.serving.web.guarding import tell_operator
from understudy.serving.web.signing_in import NotAllowedError, NotSignedInError, required
from understudy.serving.web.site import Caller, Quote, Site
from understudy.serving.web.taking_turns import ANSWERS, PRICES
from understudy.serving.wording import words_of

STATUS: tuple[tuple[type[UnderstudyError], int], ...] = (
    (NotSignedInError, 401),
    (NotAllowedError, 403),
    (BudgetError, 409),
    (UnknownNameError, 404),
    (UnsupportedError, 422),
    (UnavailableError, 503),
    (UnderstudyError, 400),
)
AWAY = "the server cannot use its database or its files at the moment; try again later, or tell its steward."


def status_of(problem: UnderstudyError) -> int:
    return next(code for kind, code in STATUS if isinstance(problem, kind))


def said_of(problem: UnderstudyError, request: Request) -> str:
    """What the caller is told. Where the server's own files and database are is for its operator alone."""
    if not isinstance(problem, UnavailableError):
        return str(problem)
    tell_operator(request.url.path, str(problem))
    return AWAY


async def document_of(request: Request) -> dict[str, Any]:
    """The JSON object that a request sends."""
    try:
        found = json.loads(await request.body() or b"{}", parse_constant=_no_constant)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no text: nothing can write it
    except (ValueError, RecursionError):
        raise InputError("the request is not a JSON document.") from None
    if not isinstance(found, dict):
        raise InputError("the request must be a JSON object.")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(name)


Call = Callable[[Site, Caller, Request], Awaitable[Any]]


def routes(site: Site) -> list[Route]:
    """The routes of the API."""

    def answering(call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return JSONResponse(await call(site, await required(site, request), request))
            except UnderstudyError as problem:
                return JSONResponse({"error": said_of(problem, request)}, status_code=status_of(problem))

        return endpoint

    async def described(_: Request) -> Response:
        return JSONResponse(OPENAPI)

    return [
        Route("/api", described, methods=["GET"]),
        Route("/api/me", answering(me), methods=["GET"]),
        Route("/api/releases", answering(releases), methods=["GET"]),
        Route("/api/releases/{name}", answering(one_release), methods=["GET"]),
        Route("/api/releases/{name}/ask", answering(ask), methods=["POST"]),
        Route("/api/releases/{name}/price", answering(quote), methods=["POST"]),
        Route("/api/releases/{name}/confirm", answering(confirm), methods=["POST"]),
        Route("/api/jobs", answering(jobs), methods=["GET"]),
        Route("/api/jobs/{job}", answering(one_job), methods=["GET"]),
        Route("/api/jobs/{job}/decision", answering(decision), methods=["POST"]),
    ]


async def me(site: Site, caller: Caller, _: Request) -> Any:
    person = caller.person
    return {"name": person.name, "role": person.role, "project": person.project, "title": site.settings.title}


async def releases(site: Site, _: Caller, __: Request) -> Any:
    return {"releases": await run_in_threadpool(site.catalogue.names)}


async def one_release(site: Site, _: Caller, request: Request) -> Any:
    def work() -> dict[str, Any]:
        version = site.catalogue.newest(request.path_params["name"])
        found = site.catalogue.release(version)
        return {
            "name": version.release,
            "version": version.number,
            "promise": list(found.statement.lines()),
            "attributes": words_of(found.schema),
            "tables": [list(one.margin) for one in found.measurements],
        }

    return await run_in_threadpool(work)


async def ask(site: Site, caller: Caller, request: Request) -> Any:
    asked = Asked.from_json(await document_of(request))

    def work() -> dict[str, Any]:
        version, answer = site.answer(request.path_params["name"], asked)
        held = verdict(asked, answer)
        said = answer.to_json() | ({} if held is None else {"verdict": held})
        return {"release": version.release, "version": version.number, "answer": said}

    if await run_in_threadpool(site.kept, request.path_params["name"], asked):
        return await run_in_threadpool(work)
    return await site.turns.take(caller.person, ANSWERS, work)


async def quote(site: Site, caller: Caller, request: Request) -> Any:
    document = await document_of(request)
    width = document.pop("width", None)
    asked = Asked.from_json(document)
    analyst_only(caller)
    wanted: Any = asked.verified_width if width is None else width
    name = request.path_params["name"]
    found = await site.turns.take(caller.person, PRICES, lambda: site.quote(caller.person, name, asked, wanted))
    return found.to_json()


async def confirm(site: Site, caller: Caller, request: Request) -> Any:
    document = await document_of(request)
    width, once, most = document.pop("width", None), document.pop("once", None), document.pop("most", None)
    asked = Asked.from_json(document)
    analyst_only(caller)
    wanted: Any = asked.verified_width if width is None else width
    if once is not None and (not isinstance(once, str) or not 0 < len(once) <= 100):
        raise InputError("once must be a text of at most 100 characters.")
    highest = None if most is None else exact(most)
    name = request.path_params["name"]
    made = await site.turns.take(
        caller.person, PRICES, lambda: site.confirm(caller.person, name, asked, wanted, most=highest, once=once)
    )
    if isinstance(made, Quote):
        return {"free": True, **made.to_json()}
    return {"free": False, **await run_in_threadpool(site.job_json, caller.person, made)}


def exact(value: object) -> Fraction:
    if not isinstance(value, str) or len(value) > 100:
        raise InputError("most must be an exact number, as the price was told.")
    return from_text(value, "most")


def analyst_only(caller: Caller) -> None:
    if not caller.person.may_ask_the_data:
        raise NotAllowedError("only an analyst with a project can ask the data.")


async def jobs(site: Site, caller: Caller, _: Request) -> Any:
    person = caller.person
    return {"jobs": await run_in_threadpool(lambda: [site.job_json(person, one) for one in site.jobs(person)])}


async def one_job(site: Site, caller: Caller, request: Request) -> Any:
    person, name = caller.person, request.path_params["job"]
    return await run_in_threadpool(lambda: site.job_json(person, site.job(person, name)))


async def decision(site: Site, caller: Caller, request: Request) -> Any:
    approve = (await document_of(request)).get("approve")
    if not isinstance(approve, bool):
        raise InputError("approve must be true or false.")
    if not caller.person.may_approve:
        raise NotAllowedError("only a steward or an approver decides about jobs.")
    person, name = caller.person, request.path_params["job"]
    return await run_in_threadpool(lambda: site.job_json(person, site.decide(person, name, approve=approve)))


_TEXT = {"type": "string"}
_ASKED = {
    "type": "object",
    "required": ["question"],
    "properties": {
        "question": {**_TEXT, "description": "In the grammar of infer, such as proportion(sex == 'F')."},
        "family": _TEXT, "event": _TEXT, "where": _TEXT, "by": _TEXT,
        "level": {"type": "number", "default": 0.95},
        "weighted": {"type": ["boolean", "string"], "description": "False: about the sample; a text: another weight."},
        "at_least": {"type": "number", "description": "A claim to verify: the quantity is at least this."},
        "margin": {"type": "number", "description": "From where on a wrong verdict shall be rare."},
    },
}  # fmt: skip
_PRICED = {**_ASKED, "required": ["question"],
           "properties": {**_ASKED["properties"], "width": {"type": "number"}}}  # type: ignore[dict-item]  # fmt: skip
_BOUGHT = {**_PRICED, "properties": {**_PRICED["properties"],  # type: ignore[dict-item]
           "most": {**_TEXT, "description": "The highest price, exactly as it was told."},
           "once": {**_TEXT, "description": "The same word twice is one job."}}}  # fmt: skip


def _path(summary: str, method: str = "get", body: object = None, parameter: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "JSON"}}}
    if body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if parameter is not None:
        found["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": _TEXT}]
    return {method: found}


OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "understudy validation server", "version": "1"},
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "security": [{"token": []}],
    "paths": {
        "/api/me": _path("Who the token belongs to."),
        "/api/releases": _path("The served releases."),
        "/api/releases/{name}": _path("One release: promise, attributes, tables.", parameter="name"),
        "/api/releases/{name}/ask": _path("The answer from the release, for free.", "post", _ASKED, "name"),
        "/api/releases/{name}/price": _path("What an interval of some width costs.", "post", _PRICED, "name"),
        "/api/releases/{name}/confirm": _path("Ask the data.", "post", _BOUGHT, "name"),
        "/api/jobs": _path("The jobs that the person may see."),
        "/api/jobs/{job}": _path("One job, with its record once the deadline has come.", parameter="job"),
        "/api/jobs/{job}/decision": _path(
            "A steward or approver decides.",
            "post",
            {"type": "object", "properties": {"approve": {"type": "boolean"}}, "required": ["approve"]},
            "job",
        ),
    },
}
