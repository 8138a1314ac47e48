"""Commands of the validation server: its two processes, its projects, people and releases; and `ask` for analysts."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy as us
from understudy.api import serving
from understudy.cli.options import AsJson
from understudy.cli.output import print_json, say, show_facts, show_table, standard_error, working
from understudy.core.folders import check_target, output_path
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.serving.client import ServedAnswer

app = typer.Typer(
    help="Run a validation server: releases are asked for free, the data for a price.", invoke_without_command=True
)
SettingsFile = Annotated[Path, typer.Option("--settings", metavar="FILE", help="The TOML file of settings.")]
Settings = Path("site.toml")
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
PORT, HOST, DEMO = 8400, "127.0.0.1", Path("serve-demo")
DEMO_PEOPLE = 20_000
EVERYWHERE, LOCAL = "0.0.0.0", (HOST, "localhost")  # noqa: S104 - a name, not what is listened on


@app.callback()
def serve(
    *,
    context: typer.Context,
    demo: Annotated[bool, typer.Option("--demo", help="Everything on this machine, with generated people.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder of the demonstration.")] = DEMO,
    host: Host = HOST,
    port: Port = PORT,
) -> None:
    """Run a validation server.

    Example: `understudy serve --demo`

    The database is named by UNDERSTUDY_DATABASE: a file, or a postgresql:// address.
    """
    if context.invoked_subcommand is not None:
        if demo:
            raise InputError("--demo goes without a further command.")
        return
    if not demo:
        raise InputError(
            "say what to run: `understudy serve web`, `understudy serve worker`, or `understudy serve --demo`."
        )
    folder = output_path(out)
    settings = folder / serving.DEMO_SITE
    if serving.demo_is_there(folder):
        say(f"The demonstration in {folder} goes on, with new tokens; remove the folder to begin anew.")
        serving.use_demo_database()
    else:
        _check_free(folder)
        make_demo(folder, DEMO_PEOPLE)

    def ready() -> None:
        tokens = serving.demo_tokens(folder)  # not before the port is ours: one that runs here keeps its tokens
        say(f"Open http://{host}:{port} and sign in with one of these tokens:", style="bold")
        show_facts([(role, token) for role, token in tokens.items()])
        local = HOST if host == EVERYWHERE else host
        if local in LOCAL:  # a token is sent over plain HTTP to this machine alone
            asked = f"understudy ask --server http://{local}:{port} \"proportion(sex == 'F')\""
            say(f"Or: UNDERSTUDY_TOKEN={tokens['analyst']} {asked}")
        say("Ctrl-C ends it.")

    serving.serve_together(settings, serving.DEMO_DATASET, host=host, port=port, ready=ready)


def _check_free(folder: Path) -> None:
    if folder.exists():
        raise InputError(f"{folder} exists and holds no demonstration; name another folder with --out, or remove it.")
    check_target(folder, None)


def make_demo(folder: Path, rows: int) -> None:
    """The folder of a demonstration: generated people, a ledger, a release and everything to serve it."""
    serving.prepare_demo(folder, _demo_release(folder, rows))


def _demo_release(folder: Path, rows: int) -> Path:
    from understudy.demo.people import small_schema, write_people

    (folder / "confidential").mkdir(parents=True)
    data, _ = write_people(folder / "confidential", rows)
    ledger = us.Ledger.create(folder / "budget.db")
    ledger.create_account(serving.DEMO_ACCOUNT, unit=us.Unit(), limit=us.ZCDP(rho=serving.DEMO_LIMIT))
    with working("making a release of generated people"):
        us.synthesize(
            us.open_source(str(data), small_schema()),
            method="independent",
            budget=us.ZCDP(rho=serving.DEMO_SPENT),
            ledger=folder / "budget.db",
            account=serving.DEMO_ACCOUNT,
            out=folder / "release",
        )
    return folder / "release"


def tell_confirmation(rows: int, question: str, width: float) -> bool:
    """The end of the demonstration: one answer that a server confirmed on the data; false without the extra `serve`."""
    if any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn", "jinja2")):
        return False
    with tempfile.TemporaryDirectory() as place, working("a validation server confirms an answer on the data"):
        folder = Path(place)
        answer = serving.confirm_once(folder, _demo_release(folder, rows), question, width=width)
    show_answer(answer)
    return True


def _tell(as_json: bool, text: str, **facts: str) -> None:
    """What was done: a sentence, or one JSON document."""
    if as_json:
        print_json(facts)
    else:
        say(text)


@app.command()
def web(*, settings: SettingsFile = Settings, host: Host = HOST, port: Port = PORT, as_json: AsJson = False) -> None:
    """Run the process that speaks to the network. It has no way to the data.

    Example: `understudy serve web --settings site.toml --port 8400`
    """
    url = f"http://{host}:{port}"
    serving.serve_web(settings, host=host, port=port, ready=lambda: _tell(as_json, f"Serving on {url}", url=url))


@app.command()
def worker(
    *,
    settings: SettingsFile = Settings,
    dataset: Annotated[str | None, typer.Option(help="The data set; not needed if there is one only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the process that has the data. It takes approved jobs from the database and speaks to no network.

    Example: `understudy serve worker --settings site.toml`
    """
    name = dataset or serving.served_by_default(settings)
    voice = standard_error()
    serving.serve_worker(
        settings,
        name,
        say=lambda text: voice.print(text, markup=False, soft_wrap=True),
        ready=lambda: _tell(as_json, f"The worker has {name} and waits for jobs.", dataset=name),
    )


@app.command()
def project(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the project.", show_default=False)],
    allowance: Annotated[
        str, typer.Option(metavar="RHO", help="What is approved automatically, all together.", show_default=False)
    ],
    settings: SettingsFile = Settings,
    dataset: Annotated[str | None, typer.Option(help="The data set; not needed if there is one only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Open a project: a limit inside the account of the data set. The first one makes the database.

    Example: `understudy serve project labour --allowance 0.02`
    """
    about = dataset or serving.served_by_default(settings)
    serving.serve_project(settings, name, dataset=about, allowance=allowance)
    said = f"Project {name} may spend rho = {allowance} of {about} without asking."
    _tell(as_json, said, project=name, dataset=about, allowance=allowance)


@app.command()
def token(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets the token.", show_default=False)],
    role: Annotated[
        str, typer.Option(metavar="analyst|steward|approver|auditor", help="What they may do.", show_default=False)
    ],
    project: Annotated[str | None, typer.Option(help="The project of an analyst.")] = None,
    settings: SettingsFile = Settings,
    as_json: AsJson = False,
) -> None:
    """Make a token for a person. It is shown this once; a second call replaces it.

    Example: `understudy serve token a.tester --role analyst --project labour`
    """
    made = serving.serve_token(settings, name, role=role, project=project)
    if as_json:
        print_json({"name": name, "role": role, "project": project, "token": made})
    else:
        typer.echo(made)


@app.command()
def revoke(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token.", show_default=False)],
    settings: SettingsFile = Settings,
    as_json: AsJson = False,
) -> None:
    """Take a person's token away and end their sessions.

    Example: `understudy serve revoke a.tester`
    """
    serving.serve_revoke(settings, name)
    _tell(as_json, f"{name} cannot sign in any more.", revoked=name)


@app.command()
def publish(
    *,
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder.", show_default=False)],
    name: Annotated[str, typer.Option(help="Its name in the catalogue.", show_default=False)],
    settings: SettingsFile = Settings,
    dataset: Annotated[str | None, typer.Option(help="The data set; not needed if there is one only.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a release into the catalogue, as version 1. It must be charged to the account of its data set, in zCDP.

    Example: `understudy serve publish release/ --name people`
    """
    place = serving.serve_publish(settings, release, name=name, dataset=dataset or serving.served_by_default(settings))
    _tell(as_json, f"Published as {place}", release=name, folder=str(place))


@app.command()
def retry(
    *,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The confirmation that failed.", show_default=False)],
    settings: SettingsFile = Settings,
    as_json: AsJson = False,
) -> None:
    """Have a failed confirmation taken up again. Nothing is charged a second time.

    Example: `understudy serve retry 1081abbe8b79b9fd92e1`
    """
    serving.serve_retry(settings, job)
    _tell(as_json, "The worker takes it up again.", job=job)


def ask(
    *,
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="For example: proportion(sex == 'F')", show_default=False)
    ],
    server: Annotated[str, typer.Option(metavar="URL", help="The address of the server.", show_default=False)],
    release: Annotated[str | None, typer.Option(help="The release; not needed if there is one only.")] = None,
    where: Annotated[str | None, typer.Option(metavar="CONDITION", help="Only people who meet a condition.")] = None,
    by: Annotated[str | None, typer.Option(metavar="ATTRIBUTE", help="The quantity in each group.")] = None,
    family: Annotated[str | None, typer.Option(help="The kind of regression.")] = None,
    event: Annotated[str | None, typer.Option(metavar="LEVEL", help="The level that is the event.")] = None,
    width: Annotated[
        float | None, typer.Option(help="How wide the interval may be: shows the price of asking the data.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Verify a claim: the quantity is at least this.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="How far off a wrong verdict may be; goes with --at-least.")
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Pay that price and ask the data.")] = False,
    weighted: Annotated[
        bool | None,
        typer.Option(
            "--weighted/--unweighted",
            help="About the population, or about the sample.",
            show_default="weighted if the schema has a weight",
        ),
    ] = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for the answer.")] = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Ask a validation server: a release for free, or the data for a price.

    Example: `understudy ask --server https://validation.example.org "proportion(sex == 'F')"`

    Your token is read from UNDERSTUDY_TOKEN, or from the file that UNDERSTUDY_TOKEN_FILE names.
    """
    if (at_least is None) != (margin is None):
        raise InputError("a claim has two numbers: --at-least, and --margin for how far off a wrong verdict may be.")
    if at_least is not None and width is not None:
        raise InputError("give --width for an interval, or --at-least and --margin for a verdict, and not both.")
    if confirm and width is None and at_least is None:
        raise InputError("say with --width how wide the interval may be.")
    asked = {"where": where, "by": by, "family": family, "event": event, "weighted": weighted}
    asking: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    connected = us.connect(server)
    if (width is not None or at_least is not None) and not confirm:
        claim = {} if at_least is None else {"at_least": at_least, "margin": margin}
        price = connected.price(question, width=width, release=release, **claim, **asking)
        if as_json:
            print_json(price)
        else:
            _show_price(price)
        return
    with working("asking"):
        if at_least is not None and margin is not None:
            answer = connected.verify(question, at_least=at_least, margin=margin, release=release, wait=wait, **asking)
        else:
            answer = connected.infer(question, width=width, release=release, wait=wait, **asking)
    if as_json:
        print_json(_plain(answer))
    else:
        show_answer(answer)


def _plain(answer: ServedAnswer) -> dict[str, object]:
    return {
        "question": answer.question,
        "release": answer.release,
        "version": answer.version,
        "estimates": [
            {"name": name, "estimate": one.value, "low": one.low, "high": one.high, "label": label}
            for name, one, label in zip(answer.names, answer.estimates, answer.labels, strict=True)
        ],
        "warnings": list(answer.warnings),
        "verdict": answer.verdict,
        "record": answer.record,
    }


def _show_price(price: dict[str, object]) -> None:
    if price["free"]:
        say("The release answers this already as narrowly as you want: it is free.")
        return
    show_facts(
        [
            ("price", f"{price['percent_of_allowance']} percent of the project's allowance"),
            ("left", f"{price['percent_left']} percent"),
            ("approved", "at once" if price["approved_at_once"] else "by a steward"),
            ("width expected", f"{price['width_expected']:.4g}"),
            ("table", " x ".join(price["table"])),  # type: ignore[arg-type]
        ]
    )
    say("Add --confirm to pay and ask the data.")


def _verdict_in_words(verdict: Mapping[str, Any]) -> str:
    if verdict["holds"] is None:
        return f"No verdict: {verdict['why']}."
    return (
        f"{'Yes' if verdict['holds'] else 'No'}: it is {'' if verdict['holds'] else 'not '}{verdict['claim']}. If the "
        f"truth is {verdict['margin']:g} or more on the other side, this is wrong with probability at most "
        f"{verdict['wrong_at_most']:.2g}."
    )


def show_answer(answer: ServedAnswer) -> None:
    """A served answer as a table, with its record if it is a confirmation."""
    say(f"{answer.question} ({answer.release}, version {answer.version})", style="bold")
    show_table(
        "Answer",
        ("quantity", "estimate", "from", "to", "label"),
        [
            (name, one.value, one.low, one.high, label)
            for name, one, label in zip(answer.names, answer.estimates, answer.labels, strict=True)
        ],
        right=("estimate", "from", "to"),
    )
    if answer.verdict is not None:
        say(_verdict_in_words(answer.verdict), style="bold")
    for text in answer.warnings:
        say(f"Note: {text}.")
    if answer.record is not None:
        say(f"Record {answer.record['id']}, SHA-256 {answer.record['hash'][:16]}...")
