"""The pages: catalogue, questions, prices, jobs, approvals, audit. Small scripts only help with typing."""

from __future__ import annotations

import csv
import io
import secrets
import time
from collections.abc import Awaitable, Callable
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from understudy.core.questions import FAMILIES, KINDS
from understudy.errors import InputError, UnavailableError, UnderstudyError
from understudy.inference.labels import MEANINGS
from understudy.release.readme import codebook_text
from understudy.serving.asking import Asked, verdict, width_of
from understudy.serving.catalogue import folder_of
from understudy.serving.database.jobs import APPROVED, WAITING, spending
from understudy.serving.database.log import entries, problems
from understudy.serving.database.people import close_session, open_session
from understudy.serving.records import answer_record
from understudy.serving.web import openid
from understudy.serving.web.forms import form_of
from understudy.serving.web.guarding import OWN_POLICY
from understudy.serving.web.interface import analyst_only, exact, said_of, status_of
from understudy.serving.web.signing_in import (
    NotAllowedError,
    NotSignedInError,
    caller_of,
    cookie,
    own_form,
    required,
)
from understudy.serving.web.site import COOKIE, Caller, Quote, Site, percent
from understudy.serving.web.taking_turns import ANSWERS, PRICES
from understudy.serving.web.templating import environment
from understudy.serving.wording import examples, words_of, written

HERE = Path(__file__).parent
STATIC = {"style.css": "text/css", "help.js": "text/javascript"}
FINISHED = ("report.html", "map.html")  # beside the versions, if the steward put them there
TEXTS = ("question", "where", "by", "family", "event")
FIELDS = (*TEXTS, "weighted", "level")
WEIGHTED: dict[str, bool] = {"False": False, "True": True}  # as a form says it
LEAST_AGAIN, MOST_AGAIN = 2, 3600  # seconds after which the page of a job looks again
FILES = {
    "manifest.json": "what was released, and its checksums",
    "README.md": "what is in the folder",
    "codebook.csv": "every column and value",
    "measurements.parquet": "the noisy tables",
    "model.parquet": "the model that the rows are drawn from",
    "schema.toml": "the schema",
}
CLAIM = ("at_least", "margin")  # of a form that asks for a verdict instead of a width
Page = Callable[[Request], Awaitable[Response]]


def routes(site: Site) -> list[Route]:
    """The routes of all pages."""
    pages = Pages(site)

    def safe(page: Page) -> Page:
        async def endpoint(request: Request) -> Response:
            try:
                return await page(request)
            except NotSignedInError:
                return RedirectResponse("/sign-in", status_code=303)
            except UnderstudyError as problem:
                return await pages.problem(request, problem)

        return endpoint

    table: list[tuple[str, Page, str]] = [
        ("/", pages.catalogue, "GET"),
        ("/sign-in", pages.sign_in, "GET"),
        ("/sign-in", pages.signed_in, "POST"),
        ("/sign-out", pages.sign_out, "POST"),
        ("/releases/{name}", pages.release, "GET"),
        ("/releases/{name}/codebook", pages.codebook, "GET"),
        ("/releases/{name}/files/{number:int}/{file}", pages.file, "GET"),
        ("/releases/{name}/finished/{file}", pages.finished, "GET"),
        ("/releases/{name}/ask", pages.ask, "GET"),
        ("/releases/{name}/answers/{number:int}", pages.cited, "GET"),
        ("/releases/{name}/answers/{number:int}/record.json", pages.cited_file, "GET"),
        ("/releases/{name}/price", pages.price, "POST"),
        ("/releases/{name}/confirm", pages.confirm, "POST"),
        ("/jobs", pages.jobs, "GET"),
        ("/jobs/{job}", pages.job, "GET"),
        ("/jobs/{job}/decision", pages.decision, "POST"),
        ("/records/{job}", pages.record, "GET"),
        ("/records/{job}/record.json", pages.record_file, "GET"),
        ("/audit", pages.audit, "GET"),
        ("/static/{file}", pages.static, "GET"),
        ("/health", pages.health, "GET"),
    ]
    made = [Route(path, safe(page), methods=[method]) for path, page, method in table]
    # After everything else, also after the API: who mistypes an address gets a page that leads back.
    return [*made, *openid.routes(site, pages.page), Route("/{path:path}", pages.lost, methods=["GET"])]


class Pages:
    """One method for each page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._templates = environment(HERE / "templates", title=site.settings.title)
        self._templates.globals["openid"] = site.settings.openid is not None
        self._templates.globals["meanings"] = MEANINGS
        self._templates.globals["told"] = _told

    def page(self, template: str, caller: Caller | None, /, *, status: int = 200, **values: Any) -> HTMLResponse:
        person = None if caller is None else caller.person
        csrf = "" if caller is None or caller.csrf is None else caller.csrf
        text = self._templates.get_template(template).render(person=person, csrf=csrf, **values)
        return HTMLResponse(text, status_code=status)

    async def problem(self, request: Request, problem: UnderstudyError) -> Response:
        # Who asks is in the database: if that is away, nobody can be looked up.
        caller = None if isinstance(problem, UnavailableError) else await caller_of(self._site, request)
        return self.page(
            "problem.html", caller, status=status_of(problem), message=said_of(problem, request), back=None
        )

    # Signing in.

    async def sign_in(self, _: Request) -> Response:
        return self.page("sign_in.html", None, message="")

    async def signed_in(self, request: Request) -> Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            # Else a foreign page could sign a browser in as somebody whose jobs it wants to see asked for.
            raise NotAllowedError("this form is not from a page of this server; open the page again.")
        form = await form_of(request)
        site = self._site
        made = await run_in_threadpool(
            open_session, site.database, form.get("token", "").strip()[:200], site.settings.session_hours
        )
        if made is None:
            return self.page("sign_in.html", None, status=401, message="This token is not known. Ask your steward.")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(**cookie(site, made[0]))
        return answer

    async def sign_out(self, request: Request) -> Response:
        caller, _ = await own_form(self._site, request)
        if caller.secret is not None:
            await run_in_threadpool(close_session, self._site.database, caller.secret)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    # Releases, for free.

    async def catalogue(self, request: Request) -> Response:
        caller = await required(self._site, request)

        def work() -> list[dict[str, Any]]:
            catalogue = self._site.catalogue
            found = []
            for name in catalogue.names():
                version = catalogue.newest(name)
                release = catalogue.release(version)
                found.append({"name": name, "version": version, "release": release})
            return found

        waiting = await run_in_threadpool(self._site.waiting) if caller.person.may_approve else 0
        return self.page("catalogue.html", caller, releases=await run_in_threadpool(work), waiting=waiting)

    async def release(self, request: Request) -> Response:
        caller = await required(self._site, request)
        name = request.path_params["name"]

        def work() -> dict[str, Any]:
            site = self._site
            versions = site.catalogue.versions(name)
            release = site.catalogue.release(versions[-1])
            folder = folder_of(site.settings, name, versions[-1].number)
            beside = [file for file in FINISHED if (folder.parent / file).is_file()]
            return {
                "versions": versions,
                "release": release,
                "files": list(site.catalogue.files(versions[-1])),
                "beside": beside,
                "book": list(csv.reader(io.StringIO(codebook_text(release.schema))))[1:],
                "worker": site.worker_is_there(versions[-1].dataset),
            }

        return self.page("release.html", caller, name=name, **await run_in_threadpool(work))

    async def codebook(self, request: Request) -> Response:
        await required(self._site, request)

        def work() -> str:
            catalogue = self._site.catalogue
            return codebook_text(catalogue.release(catalogue.newest(request.path_params["name"])).schema)

        text = await run_in_threadpool(work)
        return PlainTextResponse(text, media_type="text/csv")

    async def file(self, request: Request) -> Response:
        """A file of a version that may be seen; only names that its manifest lists, so no path leads elsewhere."""
        await required(self._site, request)
        name, number, file = (request.path_params[key] for key in ("name", "number", "file"))

        def work() -> Path:
            known = {one.number: one for one in self._site.catalogue.versions(name)}
            if number not in known:
                raise InputError("there is no such version.")
            files = self._site.catalogue.files(known[number])
            if file not in files:
                raise InputError("there is no such file.")
            return files[file]

        return FileResponse(await run_in_threadpool(work), filename=f"{name}-{number}-{file}")

    async def finished(self, request: Request) -> Response:
        """A report or a map beside the versions. It carries its own strict policy; it runs apart from this site."""
        await required(self._site, request)
        name, file = request.path_params["name"], request.path_params["file"]
        await run_in_threadpool(self._site.catalogue.newest, name)
        place = self._site.settings.releases / name / file
        if file not in FINISHED or not place.is_file():
            raise InputError("there is no such page.")
        request.scope.setdefault("state", {})[OWN_POLICY] = True
        return FileResponse(place, headers={"content-security-policy": "sandbox allow-scripts allow-downloads"})

    async def ask(self, request: Request) -> Response:
        caller = await required(self._site, request)
        name = request.path_params["name"]
        given = {key: request.query_params.get(key, "").strip() for key in FIELDS}
        asked = _asked(dict(request.query_params)) if given["question"] else None

        def work() -> dict[str, Any]:
            site = self._site
            version = site.catalogue.newest(name)
            release = site.catalogue.release(version)
            found: dict[str, Any] = {
                "version": version, "words": words_of(release.schema), "written": written(release.schema),
                "examples": examples(release.schema), "weight": release.schema.weights[:1],
                "answer": None, "refused": "", "left": None,
                "suggested": None, "shown": None, "readable": False,
            }  # fmt: skip
            if asked is None:
                return found
            try:
                asked.estimand(release.schema)
                found["readable"] = True  # nobody is offered to buy what cannot be read
                found["answer"] = site.catalogue.answer(version, asked)
                found["suggested"] = float(f"{width_of(found['answer']) / 2:.2g}")
                held = verdict(asked, found["answer"])
                found["shown"] = found["answer"].to_json() | ({} if held is None else {"verdict": held})
            except UnavailableError:
                raise
            except UnderstudyError as problem:
                found["refused"] = str(problem)
            return found

        if asked is None or await run_in_threadpool(self._site.kept, name, asked):
            made = await run_in_threadpool(work)
        else:
            made = await self._site.turns.take(caller.person, ANSWERS, work)
        cite = "" if asked is None else urlencode(asked.to_json())
        return self.page("ask.html", caller, name=name, given=given, kinds=KINDS, families=FAMILIES, cite=cite, **made)

    async def cited(self, request: Request) -> Response:
        caller, record = await self._answer_record(request)
        file = f"{request.url.path}/record.json?{request.url.query}"
        return self.page("cited.html", caller, record=record, asked=Asked(**record["asked"]), file=file)

    async def cited_file(self, request: Request) -> Response:
        return JSONResponse((await self._answer_record(request))[1])

    async def _answer_record(self, request: Request) -> tuple[Caller, dict[str, Any]]:
        """The record of a free answer from a version that may be seen, also from one that is not the newest."""
        caller = await required(self._site, request)
        name, number = request.path_params["name"], request.path_params["number"]
        asked, catalogue = _asked(dict(request.query_params)), self._site.catalogue
        known = {one.number: one for one in await run_in_threadpool(catalogue.versions, name)}
        if number not in known:
            raise InputError("there is no such version.")
        version = known[number]

        def work() -> dict[str, Any]:
            found = catalogue.answer(version, asked)
            return answer_record(asked, found, catalogue.release(version), name=name, number=number)

        if catalogue.kept(version, asked):
            return caller, await run_in_threadpool(work)
        return caller, await self._site.turns.take(caller.person, ANSWERS, work)

    # The data, for a price.

    async def price(self, request: Request) -> Response:
        caller, form = await own_form(self._site, request)
        analyst_only(caller)
        name, asked = request.path_params["name"], _asked(form)
        width = _width(form, asked)
        try:
            found = await self._site.turns.take(
                caller.person, PRICES, lambda: self._site.quote(caller.person, name, asked, width)
            )
        except UnderstudyError as problem:
            again = urlencode({key: form[key] for key in FIELDS if form.get(key)})
            return self.page(
                "problem.html", caller, status=status_of(problem), message=said_of(problem, request),
                back=f"/releases/{quote(name, safe='')}/ask?{again}",
            )  # fmt: skip
        return self.page(
            "price.html", caller, name=name, form=form, quote=found, once=secrets.token_urlsafe(16), width=width,
            fields=(*FIELDS, *(CLAIM if asked.at_least is not None else ("width",))), asked=asked,
            share=percent(found.price.rho, found.left.allowance),
            share_left=percent(found.left.automatic, found.left.allowance),
            seconds=self._site.settings.answer_seconds, four_eyes=self._site.settings.four_eyes,
            worker=await run_in_threadpool(self._worker_of, name),
        )  # fmt: skip

    def _worker_of(self, release: str) -> bool:
        """Whether somebody is there who has the data of a release."""
        return self._site.worker_is_there(self._site.catalogue.newest(release).dataset)

    async def confirm(self, request: Request) -> Response:
        caller, form = await own_form(self._site, request)
        analyst_only(caller)
        name, asked = request.path_params["name"], _asked(form)
        width = _width(form, asked)
        most, once = exact(form.get("most", "")), form.get("once", "")[:100] or None
        made = await self._site.turns.take(
            caller.person, PRICES, lambda: self._site.confirm(caller.person, name, asked, width, most=most, once=once)
        )
        if isinstance(made, Quote):
            raise InputError("the release answers this already as narrowly as you want; ask it for free.")
        return RedirectResponse(f"/jobs/{made.id}", status_code=303)

    async def jobs(self, request: Request) -> Response:
        caller = await required(self._site, request)
        now = time.time()
        found = await run_in_threadpool(self._site.jobs, caller.person)
        found.sort(key=lambda one: one.state != WAITING)  # what waits for people comes first
        waiting = sum(one.state == WAITING for one in found)
        return self.page("jobs.html", caller, jobs=[(one, one.shown(now)) for one in found], waiting=waiting)

    async def job(self, request: Request) -> Response:
        caller = await required(self._site, request)
        job = await run_in_threadpool(self._site.job, caller.person, request.path_params["job"])
        now = time.time()
        shown = job.shown(now)
        look = await run_in_threadpool(self._site.next_look, job, now) if shown == APPROVED else None
        deciding = None
        if shown == WAITING and caller.person.role != "analyst":
            deciding = await run_in_threadpool(self._site.deciding, job)
        return self.page(
            "job.html", caller, job=job, shown=shown, look=look, deciding=deciding,
            decided=deciding is not None and caller.person.name in deciding.agreed,
            again=None if look is None else min(max(ceil(look - now) + 1, LEAST_AGAIN), MOST_AGAIN),
            own=caller.person.role != "analyst" or caller.person.project == job.project,
            record=job.record if shown == "done" else None, four_eyes=self._site.settings.four_eyes,
            worker=await run_in_threadpool(self._site.worker_is_there, job.dataset),
        )  # fmt: skip

    async def decision(self, request: Request) -> Response:
        caller, form = await own_form(self._site, request)
        if not caller.person.may_approve:
            raise NotAllowedError("only a steward or an approver decides about jobs.")
        approve = form.get("decision") == "approve"
        job = await run_in_threadpool(
            lambda: self._site.decide(caller.person, request.path_params["job"], approve=approve)
        )
        return RedirectResponse(f"/jobs/{job.id}", status_code=303)

    # What everybody may read, and what auditors read.

    async def record(self, request: Request) -> Response:
        found = await run_in_threadpool(self._site.record, request.path_params["job"])
        if found is None:
            raise InputError("there is no such record, or its time has not come.")
        return self.page(
            "record.html", await caller_of(self._site, request), record=found, asked=Asked(**found["asked"])
        )

    async def record_file(self, request: Request) -> Response:
        found = await run_in_threadpool(self._site.record, request.path_params["job"])
        if found is None:
            raise InputError("there is no such record, or its time has not come.")
        return JSONResponse(found)

    async def audit(self, request: Request) -> Response:
        caller = await required(self._site, request)
        if not caller.person.may_audit:
            raise NotAllowedError("only a steward or an auditor reads the ledger.")

        def work() -> dict[str, Any]:
            site = self._site
            accounts = []
            for one in site.settings.datasets:
                ledger = site.ledger(one.name)
                checked = ledger.verify()
                accounts.append((one, ledger.account(one.account), ledger.entries(one.account)[-50:][::-1], checked))
            log = site.database.read(lambda session: entries(session, 100))
            projects = site.database.read(spending)
            return {"accounts": accounts, "projects": projects, "log": log, "wrong": site.database.read(problems)}

        return self.page("audit.html", caller, **await run_in_threadpool(work))

    async def static(self, request: Request) -> Response:
        file = request.path_params["file"]
        if file not in STATIC:
            raise InputError("there is no such file.")
        return FileResponse(HERE / "static" / file, media_type=STATIC[file])

    async def lost(self, request: Request) -> Response:
        told = "there is nothing under this address."
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": told}, status_code=404)
        return self.page("problem.html", await caller_of(self._site, request), status=404, message=told, back=None)

    async def health(self, _: Request) -> Response:
        await run_in_threadpool(self._site.database.check)
        return JSONResponse({"ok": True})


def _told(file: str) -> str:
    """What a file of a release holds, in a few words."""
    return "synthetic rows" if file.startswith("synthetic_") else FILES.get(file, "")


def _asked(form: dict[str, str]) -> Asked:
    claim = {key: _number(form[key], "both numbers of a claim must be numbers") for key in CLAIM if key in form}
    level = {"level": _number(form["level"], "the level must be a number")} if form.get("level") else {}
    weighted = {"weighted": WEIGHTED.get(form["weighted"], form["weighted"])} if form.get("weighted") else {}
    return Asked.from_json({**{key: form.get(key, "").strip() for key in TEXTS}, **claim, **level, **weighted})


def _width(form: dict[str, str], asked: Asked) -> float:
    """The width that a form asks for: its own, or the one that its claim needs."""
    needed = asked.verified_width
    return _number(form.get("width", ""), "the width of the interval must be a number") if needed is None else needed


def _number(text: str, wrong: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{wrong}, such as 0.02.") from None
