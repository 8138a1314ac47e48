"""Run the functions of the R package from its sources, without installing it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "r"
PRELUDE = """
package <- new.env()
library(stats)
for (file in list.files(file.path("{package}", "R"), full.names = TRUE)) sys.source(file, package)
attach(package)
given <- jsonlite::fromJSON("{given}", simplifyVector = FALSE)
"""
ENDING = """
jsonlite::write_json(found, "{found}", digits = NA, auto_unbox = TRUE, na = "null")
"""


def run_r(code: str, scratch: Path, **given: Any) -> Any:
    """What R code leaves in ``found``; ``given`` is there as a list of plain values."""
    source, result, script = scratch / "given.json", scratch / "found.json", scratch / "script.R"
    source.write_text(json.dumps(given))
    script.write_text(PRELUDE.format(package=PACKAGE, given=source) + code + ENDING.format(found=result))
    run = subprocess.run(["Rscript", "--vanilla", str(script)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(result.read_text())
