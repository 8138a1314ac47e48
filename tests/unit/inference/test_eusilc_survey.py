"""The survey tutorial's part on EU-SILC, executed where that file is: from the file to a poverty rate."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

SHARED = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[4] / "shared" / "data"))
FILE = SHARED / "eusilc" / "eusilc.parquet"
TUTORIALS = Path(__file__).parents[3] / "docs" / "tutorials"


def poverty_rate(income: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(income)
    upto = np.cumsum(weights[order]) / weights.sum()
    return float(np.average(income < 0.6 * income[order][np.searchsorted(upto, 0.5)], weights=weights))


@pytest.mark.full
@pytest.mark.skipif(not FILE.exists(), reason="the EU-SILC file is not here (UNDERSTUDY_DATA names its folder)")
def test_from_the_file_to_a_poverty_rate(tmp_path, monkeypatch):
    part = (TUTORIALS / "survey.md").read_text(encoding="utf-8").partition("## EU-SILC")[2]
    (code,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    shutil.copy(TUTORIALS / "eusilc-survey.toml", tmp_path)
    shutil.copy(FILE, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with warnings.catch_warnings(action="ignore"):
        exec(code, names)  # noqa: S102 - the tutorial of this project
    people = pq.read_table(FILE, columns=["eqIncome", "rb050"]).to_pandas()
    truth = poverty_rate(people["eqIncome"].to_numpy(), people["rb050"].to_numpy())
    poor = names["poor"]
    assert abs(poor.value - truth) < 0.06  # five standard errors
    assert poor.low < poor.value < poor.high < poor.low + 0.15
    effects = dict(names["release"].schema.design.measured_effects)
    assert effects["eqIncome"] > 2 > effects["rb090"]
