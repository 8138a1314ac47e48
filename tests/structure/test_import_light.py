"""``import understudy`` is quick and needs nothing heavy; so do the parts other programs build on."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "opendp",
    "duckdb",
    "pyarrow",
    "numba",
    "scipy",
    "pandas",
    "polars",
    "matplotlib",
    "cryptography",
    "typer",
    "rich",
    "sklearn",
    "statsmodels",
    "pyspark",
    "pyreadstat",
)
LIGHT = ("understudy", "understudy.errors", "understudy.core.schema", "understudy.core.schema_file")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", LIGHT)
def test_nothing_heavy_is_imported(module):
    assert loaded_after(f"import {module}") & set(HEAVY) == set()


def test_listing_the_public_names_and_methods_stays_light():
    """Names are listed without importing what they stand for."""
    assert loaded_after("import understudy; dir(understudy)") & set(HEAVY) == set()


def test_the_check_can_fail():
    assert "pyarrow" in loaded_after("import understudy, pyarrow")
