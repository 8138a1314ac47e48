"""The R package by itself: R's own check of it, and survey weights against R's package survey."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

import understudy as us
from tests.r.asking import PACKAGE, run_r
from tests.unit.inference.test_weighting import numbers_alone, release_of, schema_of, survey
from understudy.demo.people import make_people, small_schema

pytestmark = [pytest.mark.r, pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")]
# Debian has no synthpop; it is only suggested, and R notes that it could not be looked at.
NOT_THERE = "Package suggested but not available for checking: ‘synthpop’"


@pytest.mark.full
def test_r_cmd_check_finds_nothing(tmp_path):
    """Sources are copied first: R writes into the folder of a package while it builds it."""
    shutil.copytree(PACKAGE, tmp_path / "understudyr")
    plain = {**os.environ, "LC_ALL": "C.UTF-8", "_R_CHECK_FORCE_SUGGESTS_": "false", "R_PROFILE_USER": os.devnull}

    def r(*words: str) -> str:
        run = subprocess.run(["R", "CMD", *words], cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
        return run.stdout

    r("build", "understudyr")
    (built,) = (file.name for file in tmp_path.glob("understudyr_*.tar.gz"))
    said = r("check", "--no-manual", built)
    (status,) = re.findall(r"^Status: (.*)$", said, re.MULTILINE)
    assert status == "OK" or (status == "1 NOTE" and NOT_THERE in said), said[-4000:]


def test_the_version_is_that_of_the_python_package():
    assert f"\nVersion: {us.__version__}\n" in (PACKAGE / "DESCRIPTION").read_text()


def test_the_example_has_the_form_of_todays_export(tmp_path):
    """If not, ``tools/make_r_example.py`` makes it anew."""
    release = us.synthesize(make_people(200), schema=small_schema(), budget=us.PureDP(epsilon=1), method="independent")
    release.write(tmp_path / "release")
    now, kept = us.export(tmp_path / "release", to="r"), PACKAGE / "inst" / "extdata" / "release"
    forms = [json.loads((folder / "understudy-r.json").read_text()) for folder in (now, kept)]
    assert forms[0].keys() == forms[1].keys()
    assert forms[0]["attributes"] == forms[1]["attributes"]
    assert forms[0]["noisy_tables"][0].keys() == forms[1]["noisy_tables"][0].keys()
    assert forms[0]["files"].keys() == forms[1]["files"].keys()


SURVEY = """
suppressPackageStartupMessages(library(survey))
people <- as.data.frame(lapply(given$people, unlist))
design <- svydesign(ids = ~1, weights = ~w, data = people)
one <- function(found) list(value = as.numeric(coef(found)), error = as.numeric(SE(found)))
found <- list(
  "proportion(poor == 'yes')" = one(svymean(~I(poor == "yes") * 1, design)),
  "mean(score)" = one(svymean(~score, design)),
  "count(poor == 'yes')" = one(svytotal(~I(poor == "yes") * 1, design)),
  "proportion(poor == 'yes', where=sex == 'M')" = one(svymean(~I(poor == "yes") * 1, subset(design, sex == "M")))
)
found <- lapply(found, function(x) list(value = utils::tail(x$value, 1), error = utils::tail(x$error, 1)))
"""


@pytest.mark.full
def test_weighted_variances_are_those_of_the_package_survey(tmp_path):
    """Noise is negligible here, so that only the sampling is left; three weights and nothing between them."""
    people = survey()
    release = release_of(numbers_alone(schema_of()), people)
    plain = {name: values.tolist() for name, values in people.items()}
    for question, of_r in run_r(SURVEY, tmp_path, people=plain).items():
        answer = us.infer(release, question, rng=np.random.default_rng(1))
        assert answer.value == pytest.approx(of_r["value"], abs=0.08 * of_r["error"]), question
        assert answer.standard_error == pytest.approx(of_r["error"], rel=0.07), question
