"""``signing-key``, ``sign`` and ``verify --key``."""

from __future__ import annotations

import json
import stat

DATA = "people.csv --schema people.toml"


def test_a_release_is_signed_and_verified(folder, run):
    run(f"synthesize {DATA} --epsilon 1 --out release")
    made = json.loads(run("signing-key agency.key --json").stdout)
    assert made["public_key"] == "agency.key.pub"
    assert stat.S_IMODE((folder / "agency.key").stat().st_mode) == 0o600
    secret = (folder / "agency.key").read_text().splitlines()[1]
    shown = run("sign release --key agency.key")
    assert made["key_id"] in shown.stdout
    assert secret not in shown.stdout + shown.stderr
    checks = json.loads(run("verify release --key agency.key.pub --json").stdout)
    assert checks["passed"]
    assert "signature" in [check["name"] for check in checks["checks"]]
    assert "already exists" in run("signing-key agency.key", code=2).stderr
    assert "signed already" in run("sign release --key agency.key", code=2).stderr
    run("signing-key other.key")
    assert "does not pass: signature" in run("verify release --key other.key.pub", code=2).stderr
    (folder / "release" / "signature.json").unlink()
    assert "does not pass: signature" in run("verify release --key agency.key.pub", code=2).stderr
    run("verify release")
    run("signing-key release/agency.key", code=4)
    assert not (folder / "release" / "agency.key").exists()


def test_the_ledger_goes_with_it(folder, run):
    run("ledger create budget.db --account people --epsilon 2")
    run(f"synthesize {DATA} --epsilon 1 --out release --ledger budget.db --account people")
    run("signing-key agency.key")
    signed = json.loads(run("sign release --key agency.key --ledger budget.db --json").stdout)
    assert signed["ledger_head"] == json.loads(run("ledger verify budget.db --json").stdout)["head"]
    run("ledger verify budget.db --against release")
    assert (
        signed["ledger_head"][:16]
        in json.loads(run("verify release --key agency.key.pub --json").stdout)["checks"][1]["detail"]
    )
