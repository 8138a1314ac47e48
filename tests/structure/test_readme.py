"""What the README and the documentation show really works.

Every ``python``, ``console``, ``sh`` and ``r`` block of README.md and docs/ is executed, page by page, in one empty
folder and one Python namespace per page, so that a later block can use what an earlier one made:

- ``python`` with ``>>>``: a doctest (``...`` in the output stands for anything); without: executed as it stands;
- ``console``: the lines after ``$ `` (a backslash at the end continues one) are run by bash and must succeed; a plain
  ``understudy`` command is run in this process instead, which saves a start of Python for each, except in README.md;
- ``sh``: the whole block is run by ``bash -e``;
- ``r``: all such blocks of a page that follow each other are one script for R, with the R package installed; they are
  left out where there is no R, unless FULL=1;
- ``<!-- exit 3 -->`` on a line above a console or sh block: its last command must end with that code;
- ``<!-- full -->`` on a line above a block: it takes long, and runs with FULL=1 only;
- ``<!-- not executed: reason -->`` on a line above a block: left out, and the reason is there for the reader.

Pages that begin with the same demonstration (``understudy demo --out demo --rows 10000``) share it: it is made once and
copied into the folder of each page.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from understudy.engines.engine import engines
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.measure import measures
from understudy.synth.shared.method import synthesizers

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "understudy"
BLOCK = re.compile(
    r"^(?P<indent>[ ]*)```(?P<kind>python|console|sh|r)[^\S\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"<!--\s*(not executed:\s*(?P<reason>.*?)|exit (?P<code>\d+)|(?P<full>full))\s*-->\s*\Z", re.DOTALL)
DEMONSTRATION = re.compile(r"understudy demo( commute)? --out (?P<out>[a-z]+)( --rows \d+)?")
SECONDS = 300
QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
SHELL = re.compile(r"[|<>&;`*\n]|\$\(")  # what bash would do something with, outside quotes


@dataclass(frozen=True, kw_only=True)
class Block:
    kind: str
    body: str
    line: int
    skip: bool = False
    code: int = 0


def has_r() -> bool:
    """Whether blocks of R run: where R is, and in a full run, which then fails without it."""
    return shutil.which("Rscript") is not None or os.environ.get("FULL") == "1"


def blocks(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        mark = MARK.search(text[: match.start()])
        indent = match["indent"]
        body = "".join(line.removeprefix(indent) for line in match["body"].splitlines(keepends=True))
        found.append(
            Block(
                kind=match["kind"],
                body=body,
                line=text[: match.start()].count("\n") + 1,
                skip=(match["kind"] == "r" and not has_r())
                or bool(mark and (mark["reason"] or (mark["full"] and os.environ.get("FULL") != "1"))),
                code=int(mark["code"]) if mark and mark["code"] else 0,
            )
        )
    return found


def commands(body: str) -> list[str]:
    """The commands of a console block; the rest is output for people to read."""
    joined = re.sub(r"\\\n>? ?\s*", " ", body)
    return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def run_page(text: str, folder: Path, name: str, shared: Path | None = None) -> int:
    """Execute a page; gives the number of blocks that ran. A failure names page and line.

    Demonstrations are kept in the folder ``shared``, if there is one, and taken from it.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    ran = 0
    script = ""
    listed = [block for block in blocks(text) if not block.skip]
    for number, block in enumerate(listed):
        where = f"{name}, line {block.line}"
        if block.kind == "r":
            script = f"{script}\n{block.body}"
            if number + 1 == len(listed) or listed[number + 1].kind != "r":
                run_r_script(script, folder, where)
                script = ""
        elif block.kind == "python":
            run_python(block.body, namespace, folder, where)
        elif block.kind == "sh":
            run_shell([block.body], folder, where, block.code, shared)
        else:
            run_shell(commands(block.body), folder, where, block.code, shared)
        ran += 1
    return ran


def run_python(body: str, namespace: dict[str, object], folder: Path, where: str) -> None:
    with contextlib.chdir(folder):
        if ">>>" not in body:
            code = compile(body, where, "exec", dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the documentation of this very project
            return
        test = doctest.DocTestParser().get_doctest(body, namespace, where, where, 0)
        shown = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=shown.write, clear_globs=False)
        namespace.update(test.globs)
        assert runner.failures == 0, shown.getvalue()


def run_r_script(script: str, folder: Path, where: str) -> None:
    """R code with the package installed, as somebody has it who uses it."""
    library = folder / ".r-library"
    if not library.exists():
        library.mkdir()
        shutil.copytree(REPOSITORY / "r", folder / ".r-sources")
        install = ["R", "CMD", "INSTALL", "--no-docs", "-l", str(library), str(folder / ".r-sources")]
        subprocess.run(install, check=True, capture_output=True, timeout=SECONDS)
    run = subprocess.run(
        ["Rscript", "--vanilla", "-e", script],
        cwd=folder,
        env={**os.environ, "R_LIBS": str(library), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 0, f"{where}: R ended with {run.returncode}\n{run.stdout}\n{run.stderr}"


def run_shell(listed: list[str], folder: Path, where: str, code: int, shared: Path | None = None) -> None:
    assert listed, f"{where}: a console block without a line that begins with '$ '"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": "120"}
    for number, command in enumerate(listed, start=1):
        plain = command.startswith("understudy ") and not SHELL.search(QUOTED.sub("", command))
        if plain and not where.startswith("README"):
            run = run_shared(command, folder, environment, shared)
        else:
            run = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        expected = code if number == len(listed) else 0
        assert run.returncode == expected, (
            f"{where}: '{command}' ended with {run.returncode}, not {expected}\n{run.stdout}\n{run.stderr}"
        )


def run_shared(
    command: str, folder: Path, environment: dict[str, str], shared: Path | None
) -> subprocess.CompletedProcess[str]:
    """One command of ours; a demonstration that an earlier page has made is copied instead."""
    demonstration = DEMONSTRATION.fullmatch(command)
    if demonstration is None or shared is None:
        return run_here(shlex.split(command), folder, environment)
    kept, made = shared / command.replace(" ", "_"), folder / demonstration["out"]
    if kept.exists():
        shutil.copytree(kept, made)
        return subprocess.CompletedProcess(command, 0, "", "")
    run = run_here(shlex.split(command), folder, environment)
    if run.returncode == 0:
        shutil.copytree(made, kept)
    return run


def run_here(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """One command of ours as the installed script runs it, but in this process."""
    from understudy.cli.main import main

    shown, told = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(told),
    ):
        patch.setattr(sys, "argv", words)
        for name in ("PATH", "HOME", "COLUMNS"):
            patch.setenv(name, environment[name])
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    return subprocess.CompletedProcess(words, int(str(code)), shown.getvalue(), told.getvalue())


def pages() -> list[Path]:
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def living_pages() -> list[Path]:
    return [page for page in pages() if page.parent.name != "decisions"]


@pytest.fixture
def registries_as_before():
    """A page may register a method or an attack of its own; later tests must not meet it."""
    yield
    for registry in (synthesizers, attacks, measures, engines):
        for name, entry in list(registry._entries.items()):
            if not entry.__module__.startswith("understudy."):
                del registry._entries[name]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("demonstrations")


@pytest.mark.usefixtures("registries_as_before")
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_page(page, tmp_path, shared):
    text = page.read_text()
    ran = run_page(text, tmp_path, page.relative_to(REPOSITORY).as_posix(), shared)
    assert ran == sum(not block.skip for block in blocks(text))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_links_inside_the_documentation_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [REPOSITORY / "CONTRIBUTING.md", *living_pages()], ids=lambda page: page.name)
def test_source_files_that_a_page_names_are_there(page):
    """Such as ``privacy/gate/gate.py`` or ``tests/conformance``, from the top of the repository or of the package.

    Decisions are left out: they tell what was so when they were made.
    """
    roots = (REPOSITORY, REPOSITORY / "src", PACKAGE, PACKAGE / "privacy", REPOSITORY / "docs")
    named = re.findall(
        r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py|(?:src|tests|docs|benchmarks|papers)/[a-z_0-9/]+)`", page.read_text()
    )
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_every_page_is_in_the_index():
    listed = set(re.findall(r"\]\(([^)\s#]+\.md)\)", (REPOSITORY / "docs" / "index.md").read_text()))
    pages_there = {page.relative_to(REPOSITORY / "docs").as_posix() for page in (REPOSITORY / "docs").rglob("*.md")}
    assert pages_there - listed == {"index.md"}


def test_blocks_run_in_order_in_one_folder_and_one_namespace(tmp_path):
    text = """
```sh
echo 3 > number
```
```python
value = int(open("number").read())
```
```python
>>> value + 1
4
```
```console
$ test -e number && \\
>   cat number
3
```
<!-- exit 5 -->
```console
$ cat number
$ exit 5
```
<!-- not executed: needs a network -->
```sh
exit 1
```
"""
    assert run_page(text, tmp_path, "example") == 5


@pytest.mark.r
def test_blocks_of_r_are_one_script_and_a_failure_is_found(tmp_path):
    text = "```r\nlibrary(understudyr)\nx <- 3\n```\nwords\n```r\nstopifnot(x == 3)\n```"
    assert run_page(text, tmp_path, "example") == 2
    with pytest.raises(AssertionError, match="R ended with 1"):
        run_page("```r\nstop('no')\n```", tmp_path, "example")


def test_a_demonstration_is_made_once_and_each_page_has_its_own_copy(tmp_path):
    text = "```console\n$ understudy demo --out demo --rows 200\n```"
    for page in ("one", "two"):
        (tmp_path / page).mkdir()
        assert run_page(text, tmp_path / page, page, tmp_path / "shared") == 1
    one, two = (tmp_path / page / "demo" / "release" / "manifest.json" for page in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    one.unlink()
    assert two.exists()


def test_a_long_block_runs_with_everything_only(tmp_path, monkeypatch):
    text = "<!-- full -->\n```sh\nexit 1\n```"
    monkeypatch.setenv("FULL", "")
    assert run_page(text, tmp_path, "example") == 0
    monkeypatch.setenv("FULL", "1")
    with pytest.raises(AssertionError):
        run_page(text, tmp_path, "example")


@pytest.mark.parametrize(
    "text",
    [
        "```python\n>>> 1 + 1\n3\n```",
        "```python\nraise AssertionError\n```",
        "```sh\nfalse\ntrue\n```",
        "```console\n$ exit 2\n```",
        "<!-- exit 3 -->\n```console\n$ true\n```",
        "```console\nunderstudy plan\n```",
    ],
)
def test_a_block_that_does_not_work_is_found(text, tmp_path):
    with pytest.raises(AssertionError):
        run_page(text, tmp_path, "example")
