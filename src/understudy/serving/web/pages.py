"""The pages: catalogue, questions, prices, jobs, approvals, audit. Small scripts only help with typing."""

from __future__ import annotations

import csv
import io
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from understudy.core.questions import FAMILIES, KINDS
from understudy.errors import InputError, UnderstudyError
from understudy.release.manifest import read_manifest
from understudy.release.readme import codebook_text
from understudy.serving.asking import Asked, width_of
from understudy.serving.catalogue import folder_of
from understudy.serving.database.log import entries, problems
from understudy.serving.database.people import close_session, open_session
from understudy.serving.web import openid
from understudy.serving.web.forms import form_of
from understudy.serving.web.guarding import OWN_POLICY
from understudy.serving.web.interface import analyst_only, exact, status_of
from understudy.serving.web.signing_in import (
    NotAllowedError,
    NotSignedInError,
    caller_of,
    cookie,
    own_form,
    required,
)
from understudy.serving.web.site import COOKIE, Caller, Quote, Site, percent, words_of
from understudy.serving.web.templating import environment

HERE = Path(__file__).parent
STATIC = {"style.css": "text/css", "help.js": "text/javascript"}
FINISHED = ("report.html", "map.html")  # beside the versions, if the steward put them there
FIELDS = ("question", "where", "by", "family", "event")
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
    return [*made, *openid.routes(site, pages.page)]


class Pages:
    """One method for each page."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._templates = environment(HERE / "templates", title=site.settings.title)
        self._templates.globals["openid"] = site.settings.openid is not None

    def page(self, template: str, caller: Caller | None, /, *, status: int = 200, **values: Any) -> HTMLResponse:
        person = None if caller is None else caller.person
        csrf = "" if caller is None or caller.csrf is None else caller.csrf
        text = self._templates.get_template(template).render(person=person, csrf=csrf, **values)
        return HTMLResponse(text, status_code=status)

    async def problem(self, request: Request, problem: UnderstudyError) -> Response:
        caller = await caller_of(self._site, request)
        return self.page("problem.html", caller, status=status_of(problem), message=str(problem))

    # Signing in.

    async def sign_in(self, _: Request) -> Response:
        return self.page("sign_in.html", None, message="")

    async def signed_in(self, request: Request) -> Response:
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

        return self.page("catalogue.html", caller, releases=await run_in_threadpool(work))

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
                "files": ["manifest.json", *sorted(read_manifest(folder)["files"])],
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
            if number not in {one.number for one in self._site.catalogue.versions(name)}:
                raise InputError("there is no such version.")
            folder = folder_of(self._site.settings, name, number)
            if file not in ("manifest.json", *read_manifest(folder)["files"]):
                raise InputError("there is no such file.")
            return folder / str(file)

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

        def work() -> dict[str, Any]:
            site = self._site
            version = site.catalogue.newest(name)
            release = site.catalogue.release(version)
            found: dict[str, Any] = {
                "version": version, "words": words_of(release.schema), "answer": None, "refused": "", "left": None,
                "suggested": None,
            }  # fmt: skip
            if not given["question"]:
                return found
            asked = Asked.from_json(given)
            try:
                found["answer"] = site.catalogue.answer(version, asked)
                found["suggested"] = float(f"{width_of(found['answer']) / 2:.2g}")
            except UnderstudyError as problem:
                found["refused"] = str(problem)
            return found

        made = await run_in_threadpool(work)
        return self.page("ask.html", caller, name=name, given=given, kinds=KINDS, families=FAMILIES, **made)

    # The data, for a price.

    async def price(self, request: Request) -> Response:
        caller, form = await own_form(self._site, request)
        analyst_only(caller)
        name, asked, width = request.path_params["name"], _asked(form), _width(form)
        found = await run_in_threadpool(self._site.quote, caller.person, name, asked, width)
        return self.page(
            "price.html", caller, name=name, form=form, quote=found, once=secrets.token_urlsafe(16), width=width,
            share=percent(found.price.rho, found.left.allowance),
            share_left=percent(found.left.automatic, found.left.allowance),
            seconds=self._site.settings.answer_seconds,
        )  # fmt: skip

    async def confirm(self, request: Request) -> Response:
        caller, form = await own_form(self._site, request)
        analyst_only(caller)
        name, asked, width = request.path_params["name"], _asked(form), _width(form)
        most, once = exact(form.get("most", "")), form.get("once", "")[:100] or None
        made = await run_in_threadpool(
            lambda: self._site.confirm(caller.person, name, asked, width, most=most, once=once)
        )
        if isinstance(made, Quote):
            raise InputError("the release answers this already as narrowly as you want; ask it for free.")
        return RedirectResponse(f"/jobs/{made.id}", status_code=303)

    async def jobs(self, request: Request) -> Response:
        caller = await required(self._site, request)
        now = time.time()
        found = await run_in_threadpool(self._site.jobs, caller.person)
        return self.page("jobs.html", caller, jobs=[(one, one.shown(now)) for one in found])

    async def job(self, request: Request) -> Response:
        caller = await required(self._site, request)
        job = await run_in_threadpool(self._site.job, caller.person, request.path_params["job"])
        now = time.time()
        shown = job.shown(now)
        return self.page(
            "job.html", caller, job=job, shown=shown, look=job.next_look(now, self._site.settings.answer_seconds),
            record=job.record if shown == "done" else None,
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
        return self.page("record.html", await caller_of(self._site, request), record=found)

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
            return {"accounts": accounts, "log": log, "wrong": site.database.read(problems)}

        return self.page("audit.html", caller, **await run_in_threadpool(work))

    async def static(self, request: Request) -> Response:
        file = request.path_params["file"]
        if file not in STATIC:
            raise InputError("there is no such file.")
        return FileResponse(HERE / "static" / file, media_type=STATIC[file])

    async def health(self, _: Request) -> Response:
        await run_in_threadpool(self._site.database.check)
        return JSONResponse({"ok": True})


def _asked(form: dict[str, str]) -> Asked:
    return Asked.from_json({key: form.get(key, "").strip() for key in FIELDS})


def _width(form: dict[str, str]) -> float:
    try:
        return float(form.get("width", ""))
    except ValueError:
        raise InputError("the width of the interval must be a number, such as 0.02.") from None
