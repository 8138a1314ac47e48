"""The pages of the studio: one step on each. Everything works without scripts; those only save some waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import understudy as us
from understudy import api
from understudy.core.result import INTERNAL
from understudy.errors import InputError, UnderstudyError
from understudy.serving.web.forms import form_of, same
from understudy.serving.web.guarding import OWN_POLICY
from understudy.serving.web.templating import STYLE, environment
from understudy.studio.column_form import KINDS, OUTSIDE, fields_of
from understudy.studio.commands import script, shown_path
from understudy.studio.desk import STEPS, USUAL_DELTA, Desk
from understudy.studio.entry import COOKIE, Entry
from understudy.studio.places import listing
from understudy.studio.tasks import DONE, RUNNING

HERE = Path(__file__).parent
STATIC = {
    "style.css": (STYLE, "text/css"),
    "studio.css": (HERE / "static" / "studio.css", "text/css"),
    "studio.js": (HERE / "static" / "studio.js", "text/javascript"),
}
MOST_FIELDS = 1000  # a rule that is offered has a field
PERSON, PRESENCE, SEVERAL = "person", "presence", "several"
Form = dict[str, str]
Page = Callable[[Request], Awaitable[Response]]


class Typed(dict[str, str]):
    """What somebody typed into a form that is shown again; nothing where they typed nothing."""

    def __missing__(self, _: str) -> str:
        return ""


class NotInsideError(InputError):
    """The request does not come from the browser that opened the printed address."""


def routes(desk: Desk, entry: Entry) -> list[Route]:
    """The routes of all pages. All of them are below a path that nobody can guess."""
    pages = Pages(desk, entry)
    room = entry.room
    gets: dict[str, Page] = {
        "/": pages.begin, "/working": pages.working, "/progress": pages.progress, "/report": pages.report,
        "/columns/{number:int}": pages.column, "/static/{file}": pages.static,
        "/{step}": pages.step,
    }  # fmt: skip
    posts: dict[str, Callable[[Request, Form], Awaitable[Response]]] = {
        "/file": pages.choose_file, "/columns": pages.confirm_columns, "/columns/{number:int}": pages.change_column,
        "/questions": pages.state_needs, "/questions/add": pages.add_need, "/people": pages.protect,
        "/budget/compare": pages.compare, "/budget/rehearse": pages.rehearse, "/budget": pages.choose_budget,
        "/account": pages.open_account, "/spend": pages.spend, "/resume": pages.resume, "/stop": pages.stop,
        "/review/evaluate": pages.evaluate, "/review": pages.approve, "/release": pages.publish,
        "/again": pages.begin_again,
    }  # fmt: skip
    return [
        Route(f"{room}/open", pages.enter, methods=["GET"]),
        *(Route(room + path, pages.shown(page), methods=["GET"]) for path, page in gets.items()),
        *(Route(room + path, pages.sent(page, path), methods=["POST"]) for path, page in posts.items()),
    ]


class Pages:
    """One method for each page, and one for each form."""

    def __init__(self, desk: Desk, entry: Entry) -> None:
        self._desk, self._entry = desk, entry
        self._templates = environment(HERE / "templates", steps=STEPS, root=entry.room, internal=INTERNAL)
        self._templates.filters["epsilon_text"] = epsilon_text

    # Who comes in.

    async def enter(self, request: Request) -> Response:
        if request.method != "GET":  # whoever only asks whether the address is there does not use it up
            return self._outside()
        if self._is_inside(request):  # the printed address, opened again in the same browser
            return RedirectResponse(f"{self._entry.room}/", status_code=303)
        session = self._entry.use(request.query_params.get("token", "")[:200])
        if session is None:
            return self._outside()
        answer = RedirectResponse(f"{self._entry.room}/", status_code=303)
        answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", path=self._entry.room)
        return answer

    def _is_inside(self, request: Request) -> bool:
        return self._entry.knows(request.cookies.get(COOKIE, "")[:200])

    def _outside(self) -> Response:
        text = self._templates.get_template("outside.html").render()
        return HTMLResponse(text, status_code=403)

    def shown(self, page: Page) -> Page:
        async def endpoint(request: Request) -> Response:
            if not self._is_inside(request):
                return self._outside()
            try:
                return await page(request)
            except UnderstudyError as problem:
                return self._page("problem.html", "", problem=str(problem), status=400)

        return endpoint

    def sent(self, page: Callable[[Request, Form], Awaitable[Response]], path: str) -> Page:
        """A form: from the browser that is in, from a page of ours, with the word of its session."""

        async def endpoint(request: Request) -> Response:
            if not self._is_inside(request):
                return self._outside()
            try:
                form = await self._own_form(request)
                return await page(request, form)
            except NotInsideError as problem:
                return self._page("problem.html", "", problem=str(problem), status=403)
            except UnderstudyError as problem:
                step = path.strip("/").partition("/")[0]
                if step in self._desk.open_steps():
                    return await self._step(step, request, problem=str(problem), form=form, status=400)
                return self._page("problem.html", "", problem=str(problem), status=400)

        return endpoint

    async def _own_form(self, request: Request) -> Form:
        # Pages send no referrer, so browsers say that their forms come from "null"; what they say of the site counts.
        origin, site = request.headers.get("origin", "null"), request.headers.get("sec-fetch-site", "same-origin")
        foreign = site != "same-origin" or (origin != "null" and not self._entry.own_origin(origin))
        try:
            form = await form_of(request, most_fields=MOST_FIELDS)
        except InputError as problem:
            raise NotInsideError(str(problem)) from None
        if foreign or not same(form.pop("csrf", ""), self._entry.csrf):
            raise NotInsideError(
                "this form is not from a page of your session; open the page again. Nothing was spent."
            )
        return form

    def _page(self, template: str, step: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        desk = self._desk
        given: dict[str, Any] = {"problem": ""} | values | {"form": Typed(values.get("form") or {})}
        text = self._templates.get_template(template).render(
            desk=desk, step=step, csrf=self._entry.csrf, open_steps=desk.open_steps(), task=desk.task, **given
        )
        return HTMLResponse(text, status_code=status)

    def _to(self, place: str) -> Response:
        return RedirectResponse(f"{self._entry.room}/{place}", status_code=303)

    async def static(self, request: Request) -> Response:
        found = STATIC.get(request.path_params["file"])
        if found is None:
            raise InputError("there is no such file.")
        return FileResponse(found[0], media_type=found[1])

    # Steps.

    async def begin(self, _: Request) -> Response:
        return self._to("working" if self._desk.working else self._desk.open_steps()[-1])

    async def step(self, request: Request) -> Response:
        step = request.path_params["step"]
        if step not in STEPS:
            raise InputError("there is no such page.")
        if step not in self._desk.open_steps():
            return self._to(self._desk.open_steps()[-1])
        return await self._step(step, request)

    async def _step(
        self, step: str, request: Request, *, problem: str = "", form: Form | None = None, status: int = 200
    ) -> Response:
        number = request.path_params.get("number")
        if step == "columns" and number is not None and number < len(self._desk.described.columns):
            return self._column_page(number, problem=problem, form=form, status=status)
        gather = getattr(self, f"_about_{step}", None)
        try:
            about = {} if gather is None else await run_in_threadpool(gather, request)
        except UnderstudyError as other:
            return self._page("problem.html", step, problem=problem or str(other), status=400)
        return self._page(f"{step}.html", step, problem=problem, form=form or {}, status=status, **about)

    def _about_file(self, request: Request) -> dict[str, Any]:
        below = request.query_params.get("folder", "").strip("/")
        parent = "" if "/" not in below else below.rpartition("/")[0]
        unfinished = sorted(one.name for one in self._desk.folder.glob("*.partial-*"))
        return {"below": below, "parent": parent, "listed": listing(self._desk.folder, below), "unfinished": unfinished}

    def _about_questions(self, _: Request) -> dict[str, Any]:
        schema = self._desk.schema(needs=())
        numeric = [one.name for one in schema.attributes if one.kind == "numeric"]
        return {"names": schema.names, "numeric": numeric}

    def _about_people(self, _: Request) -> dict[str, Any]:
        return {"names": list(self._desk.described.columns), "kept": self._desk.schema().names}

    def _about_budget(self, _: Request) -> dict[str, Any]:
        desk = self._desk
        questions = [one for one in desk.needs if not one.startswith(("predict(", "pairs("))]
        advice = () if desk.plan is None else us.plan_advice(desk.plan, desk.schema())
        return {"questions": questions, "usual_delta": USUAL_DELTA, "plan_advice": advice}

    def _about_account(self, request: Request) -> dict[str, Any]:
        desk = self._desk
        used = desk.ledger or str(desk.folder / "budget.db")
        known = used if used.startswith("env:") else shown_path(desk.folder, Path(used))
        asked = request.query_params.get("ledger", "").strip() or known
        place = desk.ledger_path(asked)
        exists = place.startswith("env:") or Path(place).exists()
        accounts = us.Ledger.open(place, writable=False).accounts() if exists else ()
        return {"ledger": asked, "exists": exists, "accounts": accounts}

    def _about_spend(self, _: Request) -> dict[str, Any]:
        desk = self._desk
        assert desk.plan is not None  # noqa: S101 - steps before
        account = us.Ledger.open(desk.ledger, writable=False).account(str(desk.account))
        measured = [one for one in desk.plan.steps if one.action == "measure"]
        stem = "release" if desk.data is None else f"{desk.data.name.partition('.')[0]}-release"
        return {"account": account, "measured": measured, "suggested": desk.name or stem, "kept_run": desk.kept_run}

    def _about_review(self, _: Request) -> dict[str, Any]:
        judged, release = self._desk.evaluation, self._desk.release
        assert release is not None  # noqa: S101 - a step before
        if judged is None:
            return {"release": release}
        frame = judged.risk.frames.get("first_screen")
        order = {"problem": 0, "warning": 1, "good": 2}
        risks, uses = (
            sorted((one for one in part.findings if one.severity in order), key=lambda one: order[one.severity])
            for part in (judged.risk, judged.utility)
        )
        return {"release": release, "said": () if frame is None else frame.to_pylist(), "risks": risks, "uses": uses}

    def _about_release(self, _: Request) -> dict[str, Any]:
        desk = self._desk
        keys = sorted(one.name.removesuffix(".pub") for one in desk.folder.glob("*.pub"))
        key = desk.key if desk.written else None
        return {"keys": keys, "script": script(desk, key=key) if desk.written else "", "release": desk.release}

    # Work in the background.

    async def working(self, _: Request) -> Response:
        task = self._desk.task
        if task is None:
            return self._to(self._desk.open_steps()[-1])
        if task.state == DONE:
            return self._to(self._after(task.name))
        return self._page("working.html", task.name, running=task.state == RUNNING, kept_run=self._desk.kept_run)

    def _after(self, name: str) -> str:
        """Where finished work leads: to the next step, or where its result is shown."""
        if name in ("budget", "review"):
            return name
        names = list(STEPS)
        return names[names.index(name) + 1]

    async def progress(self, _: Request) -> Response:
        task = self._desk.task
        return JSONResponse({"state": "none"} if task is None else task.to_json())

    async def stop(self, _: Request, __: Form) -> Response:
        if self._desk.task is not None:
            self._desk.task.stop()
        return self._to("working")

    # The forms.

    async def choose_file(self, _: Request, form: Form) -> Response:
        path = form.get("chosen") or form.get("path", "")
        await run_in_threadpool(self._desk.choose_file, path, form.get("schema", ""))
        return self._to("working")

    async def column(self, request: Request) -> Response:
        if "columns" not in self._desk.open_steps():
            return self._to(self._desk.open_steps()[-1])
        return self._column_page(request.path_params["number"])

    def _column_page(
        self, number: int, *, problem: str = "", form: Form | None = None, status: int = 200
    ) -> HTMLResponse:
        desk = self._desk
        names = list(desk.described.columns)
        if not 0 <= number < len(names):
            raise InputError("there is no such column.")
        one = desk.described.columns[names[number]]
        return self._page(
            "column.html", "columns", number=number, column=one, fields=Typed(form or fields_of(one)), kinds=KINDS,
            outside=OUTSIDE, remarks=desk.described.remarks.get(one.name, ()), problem=problem, status=status,
            total=len(names),
        )  # fmt: skip

    async def change_column(self, request: Request, form: Form) -> Response:
        desk, number = self._desk, request.path_params["number"]
        names = list(desk.described.columns)
        if not 0 <= number < len(names):
            raise InputError("there is no such column.")
        await run_in_threadpool(desk.change_column, names[number], form)
        following = desk.described.following(names[number])
        return self._to("columns" if following is None else f"columns/{names.index(following)}")

    async def confirm_columns(self, _: Request, form: Form) -> Response:
        taken = [key for key in self._desk.described.offers if form.get(f"rule-{key}")]
        await run_in_threadpool(lambda: self._desk.confirm_columns(public=bool(form.get("public")), taken=taken))
        return self._to("working")

    async def state_needs(self, _: Request, form: Form) -> Response:
        await run_in_threadpool(self._desk.state_needs, form.get("needs", ""))
        return self._to("people")

    async def add_need(self, _: Request, form: Form) -> Response:
        await run_in_threadpool(self._desk.add_need, _question(form), form.get("needs", ""))
        return self._to("questions")

    async def protect(self, _: Request, form: Form) -> Response:
        unit, records = _unit(form)
        await run_in_threadpool(self._desk.protect, unit, records)
        await run_in_threadpool(lambda: self._desk.compare(delta=USUAL_DELTA))
        return self._to("working")

    async def compare(self, _: Request, form: Form) -> Response:
        delta = None if form.get("guarantee") == "pure" else form.get("delta", "").strip() or USUAL_DELTA
        await run_in_threadpool(lambda: self._desk.compare(delta=delta, more=form.get("more", "").strip()))
        return self._to("working")

    async def rehearse(self, _: Request, form: Form) -> Response:
        await run_in_threadpool(self._desk.rehearse, form.get("question", "").strip())
        return self._to("working")

    async def choose_budget(self, _: Request, form: Form) -> Response:
        chosen = form.get("other", "").strip() if form.get("epsilon") == "other" else form.get("epsilon", "")
        if not chosen:
            raise InputError("choose an epsilon.")
        await run_in_threadpool(self._desk.choose_budget, chosen)
        return self._to("account")

    async def open_account(self, _: Request, form: Form) -> Response:
        used = form.get("account", "")
        new = used in ("", "new")
        name = form.get("name", "").strip() if new else used
        if not name:
            raise InputError("give the account a name, such as people-2026.")
        if new and not form.get("limit", "").strip():
            raise InputError("say how much may ever be spent from the new account.")
        limits = {"epsilon": form.get("limit", ""), "delta": form.get("limit_delta", "")} if new else {}
        await run_in_threadpool(lambda: self._desk.open_account(form.get("ledger", ""), name, **limits))
        return self._to("spend")

    async def spend(self, _: Request, form: Form) -> Response:
        await run_in_threadpool(
            lambda: self._desk.spend(
                once=form.get("once", ""), amount=form.get("amount", ""), name=form.get("name", "")
            )
        )
        return self._to("working")

    async def resume(self, _: Request, __: Form) -> Response:
        await run_in_threadpool(self._desk.resume)
        return self._to("working")

    async def evaluate(self, _: Request, __: Form) -> Response:
        await run_in_threadpool(self._desk.evaluate)
        return self._to("working")

    async def approve(self, _: Request, __: Form) -> Response:
        await run_in_threadpool(self._desk.approve)
        return self._to("release")

    async def report(self, request: Request) -> Response:
        """The internal report, from memory. It carries its own strict policy and runs apart from these pages."""
        if not self._desk.report:
            raise InputError("there is no report yet.")
        request.scope.setdefault("state", {})[OWN_POLICY] = True
        headers = {"content-security-policy": "sandbox allow-scripts"}
        return HTMLResponse(self._desk.report, headers=headers)

    async def publish(self, _: Request, form: Form) -> Response:
        how = form.get("sign", "no")
        key = {"new": form.get("new_key", ""), "own": form.get("key", "")}.get(how, "")
        if how != "no" and not key.strip():
            raise InputError("name the file of the key, or say that the release is not signed.")
        await run_in_threadpool(lambda: self._desk.publish(key=key, new_key=how == "new"))
        return self._to("release")

    async def begin_again(self, _: Request, form: Form) -> Response:
        await run_in_threadpool(lambda: self._desk.begin_again(same_data=bool(form.get("same"))))
        return self._to("")


def _question(form: Form) -> str:
    """One question from the small forms that build it."""
    from understudy.core.workload import quoted

    what = form.get("what", "")
    names = [form[key] for key in (f"{what}_first", f"{what}_second", f"{what}_third") if form.get(key)]
    if what == "table" and len(set(names)) >= 2:
        return f"crosstab({', '.join(map(quoted, dict.fromkeys(names)))})"
    if what == "mean" and form.get("mean_first"):
        by = f", by={quoted(names[1])}" if len(names) > 1 else ""
        return f"mean({quoted(names[0])}{by})"
    if what == "predict" and names:
        return f"predict({quoted(names[0])})"
    raise InputError("choose the columns first.")


def _unit(form: Form) -> tuple[us.Unit, int]:
    """Who is protected, from the words of the page; and about how many rows there are."""
    who = form.get("who", "")
    if who not in (PERSON, PRESENCE, SEVERAL):
        raise InputError("say who is protected.")
    kind = "add_remove" if who == PRESENCE or form.get("hide_presence") else "replace"
    rows = 1
    if who == SEVERAL:
        rows = _whole(form.get("rows_per_unit", ""), "the most rows of one person")
    column = form.get("unit_id") if who == SEVERAL else None
    unit = us.Unit(kind=kind, rows_per_unit=rows, unit_id=column or None)  # type: ignore[arg-type]
    return unit, _whole(form.get("records", ""), "the number of rows")


def _whole(text: str, what: str) -> int:
    plain = text.replace(",", "").replace(" ", "").strip()
    if not plain.isdigit() or len(plain) > 9:
        raise InputError(f"{what} must be a whole number, such as 3000.")
    return int(plain)


def epsilon_text(row: api.BudgetRow) -> str:
    """The epsilon of a row, as it was written."""
    return f"{float(row.budget.epsilon):g}"  # type: ignore[attr-defined]
