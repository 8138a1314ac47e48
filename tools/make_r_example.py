"""Make the small release that the R package carries for its examples, tests and vignette: ``r/inst/extdata/release``.

Generated people, 2,000 records; run it again after a change of the export's format: ``python tools/make_r_example.py``.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import understudy as us
from understudy.demo.people import make_people, small_schema
from understudy.errors import UntrackedWarning

PLACE = Path(__file__).resolve().parent.parent / "r" / "inst" / "extdata" / "release"


def main() -> None:
    """Write the release anew."""
    warnings.simplefilter("ignore", UntrackedWarning)
    release = us.synthesize(
        make_people(2000), schema=small_schema(), method="ipf", budget=us.PureDP(epsilon=4), unit="replace"
    )
    with tempfile.TemporaryDirectory() as folder:
        release.write(f"{folder}/release")
        made = us.export(f"{folder}/release", to="r")
        shutil.rmtree(PLACE, ignore_errors=True)
        shutil.copytree(made, PLACE)


if __name__ == "__main__":
    main()
