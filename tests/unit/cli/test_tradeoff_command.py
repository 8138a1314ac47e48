"""``understudy tradeoff``: a sweep that stays inside, or runs on a public look-alike."""

from __future__ import annotations

import json

SWEEP = "--schema people.toml --method histogram --epsilon 1 --repeats 2 --ways 1,2 --workers 1"


def test_a_sweep_for_people(folder, run):
    shown = run(f"tradeoff people.csv {SWEEP} --out sweep --plot map.svg").stdout
    assert shown.startswith("INTERNAL")
    assert "not covered" not in shown
    assert "no ledger covers" in shown
    assert "Epsilon beside classical measures" in shown
    assert (folder / "sweep" / "tradeoff.csv").is_file()
    assert (folder / "map.svg").is_file()
    again = run(f"tradeoff people.csv {SWEEP} --out sweep --json").stdout  # goes on: everything is done
    assert len(json.loads(again)["runs"]) == 4


def test_on_a_public_look_alike(folder, run):
    found = json.loads(run(f"tradeoff --on people.csv {SWEEP} --no-reference --json").stdout)
    assert found["audience"] == "public"
    (row,) = found["table"]
    assert {"repU", "DiSCO", "cell_uncertainty", "odds", "s_pmse_2", "s_pmse_2_sd", "width_ratio"} <= set(row)


def test_it_cannot_be_written_into_a_release(folder, run, refused):
    run("synthesize people.csv --schema people.toml --method histogram --epsilon 1 --out release")
    refused(f"tradeoff people.csv {SWEEP} --out release/sweep", code=4, says="release folder")
    refused(f"tradeoff people.csv {SWEEP} --plot release/map.svg", code=4, says="release folder")


def test_bad_input_is_refused(refused):
    refused(f"tradeoff {SWEEP}", code=2, says="either the confidential DATA")
    refused(f"tradeoff people.csv --on people.csv {SWEEP}", code=2, says="not both")
    refused("tradeoff people.csv --schema people.toml --epsilon x", code=2, says="must be a number")
    refused("tradeoff people.csv --schema people.toml --keys nobody", code=2, says="nobody")
    refused("tradeoff people.csv --schema people.toml --method magic", code=2, says="magic")
