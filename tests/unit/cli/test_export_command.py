"""``understudy export``."""

from __future__ import annotations

import json

import pyreadstat


def test_export(folder, run, refused):
    run("synthesize people.csv --schema people.toml --epsilon 1 --out release")
    run("export release --to csv")
    assert (folder / "release-csv" / "synthetic_1.csv").is_file()
    result = json.loads(run("export release/ --to sav --out for-spss --json").stdout)
    assert result["files"] == ["README.txt", "synthetic_1.sav"]
    frame, _ = pyreadstat.read_sav(folder / "for-spss" / "synthetic_1.sav")
    assert list(frame) == ["sex", "age", "smokes"]
    run("verify release")
    refused("export release --to csv", says="already exists")
    refused("export release --to xlsx", says="format 'xlsx' is unknown")
    refused("export release --to dta --out release/more", says="lies in the release")
    refused("export people.csv --to dta", says="not a release folder")
    refused("export release")
