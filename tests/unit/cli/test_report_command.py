"""``understudy report``: a public page with registry fields, or an internal one that compares."""

from __future__ import annotations

import json


def test_a_public_and_an_internal_report(folder, run, refused):
    run("synthesize people.csv --schema people.toml --method histogram --epsilon 1 --out release")
    shown = run("report release --to report.html --ask", "proportion(sex == 'F')").stdout
    assert "Draft record for the Deployments Registry" in shown
    assert "Public report" in (folder / "report.html").read_text()
    assert json.loads((folder / "report-registry.json").read_text())["tier"] == 3
    shown = run("report release --confidential people.csv --to board.html").stdout
    assert shown.startswith("INTERNAL")
    assert "Internal report" in (folder / "board.html").read_text()
    found = json.loads(run("report release --to again.html --json").stdout)
    assert found["audience"] == "public"
    refused("report release --audience public --confidential people.csv --to x.html", code=4, says="release facts only")
    refused("report release --confidential people.csv --to release/x.html", code=4, says="release folder")
    refused("report release --audience all --to x.html", code=2, says="internal or public")
    refused("report release --model y~x --to x.html", code=2, says="--confidential")
    refused("report release --to x.txt", code=2, says=".html")
    refused("report release --delimiter ; --to x.html", code=2, says="no data were named")
    refused("report release --to nowhere/x.html", code=2, says="does not exist")
    (folder / "folder.html").mkdir()
    refused("report release --to folder.html", code=2, says="is a folder")
    refused("report nowhere --to x.html", code=2, says="nowhere")
