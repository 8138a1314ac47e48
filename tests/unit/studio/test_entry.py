"""Who comes in, and with what: the token, the cookie, foreign pages, foreign names, paths, two studios."""

from __future__ import annotations

import os
import socket
import threading
from copy import copy

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests.unit.studio.conftest import PORT, Walk
from understudy.cli.main import app
from understudy.errors import InputError
from understudy.serving.web.guarding import POLICY
from understudy.studio.application import LOCK, MOST_BODY, open_studio
from understudy.studio.places import listing, named_file

PAGES = ("", "file", "columns", "columns/0", "spend", "working", "progress", "report", "static/style.css", "nothing")
FORMS = ("file", "columns", "columns/0", "people", "spend", "resume", "stop", "review", "release", "again")


def test_nobody_comes_in_without_the_address(folder):
    walk = Walk(folder)
    for path in PAGES:
        answer = walk.get(path)
        assert answer.status_code == 403, path
        assert "people.csv" not in answer.text
    for path in FORMS:
        assert walk.post(path, chosen="people.csv").status_code == 403, path
    assert walk.desk.task is None
    assert walk.client.get("/").status_code == 404
    assert walk.get("open", params={"token": "wrong"}).status_code == 403
    assert walk.client.get("/wrong/open").status_code == 404
    assert walk.said == []  # a guess makes nobody print an address


def test_the_address_works_once_and_a_new_one_is_printed(folder):
    walk = Walk(folder)
    first = walk.entry.address
    path = first.partition(str(PORT))[2]
    assert walk.client.head(path).status_code == 403  # which does not use it up
    answer = walk.client.get(path)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"path={walk.entry.room}".lower() in cookie
    assert walk.client.get(path).status_code == 303  # the same browser, which is in already
    other = copy(walk)
    other.client = TestClient(walk.client.app, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    refused = other.client.get(path)
    assert refused.status_code == 403
    assert walk.said == [walk.entry.address]
    assert walk.said[0] != first
    assert other.client.get(walk.said[0].partition(str(PORT))[2]).status_code == 303
    assert other.get("file").status_code == 200
    assert walk.get("file").status_code == 403  # a new browser ends the session of the one before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": f"http://localhost:{PORT + 1}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
        {"origin": "null", "sec-fetch-site": "cross-site"},
    ],
)
def test_a_form_of_a_foreign_page_does_nothing(walk, headers):
    assert walk.post("file", headers=headers, chosen="people.csv").status_code == 403
    assert walk.desk.task is None


def test_a_form_without_the_word_of_the_session_does_nothing(walk):
    for word in ("", "wrong", walk.entry.csrf[:-1]):
        answer = walk.post("file", csrf=word, chosen="people.csv")
        assert answer.status_code == 403
        assert "Nothing was spent" in answer.text
    twice = f"csrf={walk.entry.csrf}&csrf={walk.entry.csrf}&chosen=people.csv"
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert walk.client.post(f"{walk.entry.room}/file", content=twice, headers=kind).status_code == 403
    as_json = walk.client.post(f"{walk.entry.room}/file", json={"csrf": walk.entry.csrf, "chosen": "people.csv"})
    assert as_json.status_code == 403
    assert walk.desk.task is None


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_a_foreign_name_that_leads_here_is_refused(walk, host):
    answer = walk.client.get(f"{walk.entry.room}/file", headers={"host": host})
    assert answer.status_code == 421
    assert "people.csv" not in answer.text
    assert walk.client.get(f"{walk.entry.room}/file", headers={"host": f"localhost:{PORT}"}).status_code == 200


def test_every_answer_has_the_policy_and_is_kept_nowhere(walk):
    for path in ("file", "nothing", "static/studio.js"):
        answer = walk.get(path)
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_only_reading_is_done_by_a_link(walk):
    walk.to("spend")
    for path in ("spend", "resume", "stop", "again", "review/evaluate"):
        walk.get(path, params={"csrf": walk.entry.csrf, "once": walk.desk.once, "amount": "1", "name": "x"})
    assert walk.spent == []
    assert walk.desk.plan is not None


@pytest.mark.parametrize(
    "path", ["static/../desk.py", "static/%2e%2e/desk.py", "static/..%2fpages.py", "static//etc/passwd"]
)
def test_only_its_own_files_are_served(walk, path):
    assert walk.get(path).status_code in (400, 404)


@pytest.mark.parametrize("below", ["..", "../..", "inner/../..", "/etc", "link", "a\0b"])
def test_only_what_is_below_the_folder_is_listed(walk, below):
    (walk.folder / "inner").mkdir()
    (walk.folder / "link").symlink_to("/etc")
    assert "link" not in {one.name for one in listing(walk.folder)}
    with pytest.raises(InputError, match="below the folder"):
        listing(walk.folder, below)
    assert walk.get("file", params={"folder": below}).status_code == 400


def test_a_name_that_is_no_text_is_left_out(walk):
    (walk.folder / os.fsdecode(b"caf\xe9.csv")).write_text("x")
    assert walk.get("file").status_code == 200
    assert [one.name for one in listing(walk.folder)] == ["people.csv"]


def test_strange_files_are_refused(walk):
    (walk.folder / "notes.txt").write_text("x")
    (walk.folder / "empty.csv").write_text("")
    for text in ("", "nowhere.csv", ".", "notes.txt", "a\0b.csv", "budget.db"):
        with pytest.raises(InputError):
            named_file(walk.folder, text)
    walk.post("file", path="empty.csv")
    assert walk.desk.task.problem
    assert not walk.desk.done("file")


@pytest.mark.parametrize("name", ["../out", "/out", "a/b", ".hidden", "-rf", "", "people.csv", "x\0y"])
def test_a_release_is_written_here_and_nowhere_else(walk, name):
    walk.to("spend")
    answer = walk.post("spend", once=walk.desk.once, amount="1", name=name)
    assert answer.status_code == 400
    assert walk.spent == []


def test_what_somebody_typed_is_escaped(walk):
    nasty = "<script>alert(1)</script>"
    for path, fields in (("file", {"path": nasty}), ("columns/0", {"kind": "levels", "levels": nasty, "label": nasty})):
        if path != "file":
            walk.do_file()
        page = walk.post(path, **fields).text
        page += walk.get("columns").text + walk.get("columns/0").text
        assert nasty not in page


def test_a_request_that_is_too_large_is_refused(walk):
    assert walk.post("file", path="x" * (MOST_BODY + 1)).status_code == 413


class Opened:
    """A studio that listens."""

    def __init__(self, folder, port: int) -> None:
        self.said: list[str] = []
        self.stop, ready = threading.Event(), threading.Event()

        def say(address: str) -> None:
            self.said.append(address)
            ready.set()

        self.thread = threading.Thread(
            target=lambda: open_studio(folder, port=port, say=say, stop=self.stop), daemon=True
        )
        self.thread.start()
        assert ready.wait(60)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(20)


def test_a_second_studio_says_why_it_does_not_open(folder, tmp_path_factory):
    first = Opened(folder, 0)
    try:
        with pytest.raises(InputError, match=r"a studio is open in .* already"):
            open_studio(folder, port=0, say=lambda _: None)
        taken = int(first.said[0].split(":")[2].partition("/")[0])
        result = CliRunner().invoke(app, ["studio", str(tmp_path_factory.mktemp("other")), "--port", str(taken)])
        assert result.exit_code == 2
        assert "Is a studio open there already?" in result.output
        with socket.socket() as outside:  # it listens on this machine alone
            outside.settimeout(2)
            assert outside.connect_ex(("127.0.0.2", taken)) != 0
    finally:
        first.close()
    assert not (folder / LOCK).exists()
    again = Opened(folder, 0)
    again.close()


def test_a_folder_that_is_none_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["studio", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert "is not a folder" in result.output
