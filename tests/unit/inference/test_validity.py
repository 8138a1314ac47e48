"""What an answer may be called at best is what the method of the release says, and the page shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import understudy as us
from understudy.errors import InternalError, UnsupportedError
from understudy.inference import validity
from understudy.inference.labels import LABELS, REFUSED, worst
from understudy.synth.methods.histogram import Histogram
from understudy.synth.shared.method import synthesizers

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inference-table.md"


def test_every_method_says_what_its_answers_may_be_called():
    for name in synthesizers.names():
        assert synthesizers[name].inference in (*LABELS, REFUSED), name


def test_what_a_method_says_of_itself_is_what_its_answers_are_called(noisy, monkeypatch):
    monkeypatch.setattr(Histogram, "inference", "selection not modelled")
    answer = us.infer(noisy, "proportion(sex == 'F')")
    assert answer.validity == "selection not modelled"
    assert any("chosen by noisy looks" in text for text in answer.warnings)
    monkeypatch.setattr(Histogram, "inference", "splendid")
    with pytest.raises(InternalError, match="splendid"):
        us.infer(noisy, "proportion(sex == 'F')")


def test_a_method_that_nobody_knows_is_refused(noisy):
    unknown = replace(noisy, provenance=replace(noisy.provenance, method="newcomer"))
    with pytest.raises(UnsupportedError, match="newcomer"):
        us.infer(unknown, "proportion(sex == 'F')")


def test_the_worst_label_is_the_one_that_promises_least():
    assert worst(LABELS) == "not determined"
    assert worst(("valid", "range")) == "range"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == validity.table_text(synthesizers.names()), (
        "run docs/make_inference_table.py"
    )
