"""The tutorial's schema on the file it is made for, where that file is."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

import understudy as us
from understudy.households.household_release import check_families

SHARED = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[4] / "shared" / "data"))
FILE = SHARED / "eusilc" / "eusilc.parquet"
SCHEMA = Path(__file__).parents[3] / "docs" / "tutorials" / "eusilc.toml"


@pytest.mark.full
@pytest.mark.skipif(not FILE.exists(), reason="the EU-SILC file is not here (UNDERSTUDY_DATA names its folder)")
@pytest.mark.parametrize("unit", ["household", "person"])
def test_families_of_eusilc(unit, tmp_path):
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(
            str(FILE), schema=us.read_linked_schema(SCHEMA), unit=unit, out=tmp_path / "release",
            budget=us.ApproxDP(epsilon=4, delta="1e-6"),
        )  # fmt: skip
    assert check_families(release, 1) == 6000
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    members = release.members().to_pandas()
    heads = members[members["role"] == "reference"].set_index("db030")["age"]
    partners = members[members["role"] == "partner"].set_index("db030")["age"]
    children = members[members["role"] == "child"]
    # Where the bins of a whole household leave no room for the rule, ages keep to their bins alone: hardly ever.
    far = ((partners - heads[partners.index]).abs() > 15).mean()
    old = (heads[children["db030"]].to_numpy() - children["age"].to_numpy() < 15).mean()
    assert far < 0.01
    assert old < 0.01
    ages = us.evaluate(release, str(FILE), parts=["utility"]).utility.frames["correlations"].to_pylist()
    (couples,) = (row for row in ages if row["kind"] == "partners")
    assert abs(couples["confidential"] - couples["synthetic"]) < 0.15
    assert "svg" in release.draw(8, letter="rb090").svg
