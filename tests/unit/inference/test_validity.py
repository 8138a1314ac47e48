"""Every pair of a method and a kind of question has an entry, and the page shows what the list says."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.errors import InternalError
from understudy.inference import validity
from understudy.inference.questions import KINDS
from understudy.synth.shared.method import synthesizers

PAGE = Path(__file__).resolve().parents[3] / "docs" / "inference-table.md"


def test_no_pair_is_missing():
    validity.check_table(synthesizers.names())


def test_a_missing_pair_fails(monkeypatch):
    entries = dict(validity.entries())
    del entries["histogram", KINDS[0]]
    monkeypatch.setattr(validity, "entries", lambda: entries)
    with pytest.raises(InternalError, match="histogram"):
        validity.check_table(synthesizers.names())
    with pytest.raises(InternalError, match="newcomer"):
        validity.check_table(["newcomer"])


def test_an_approximation_without_a_reason_fails(monkeypatch):
    entries = {**validity.entries(), ("histogram", "mean"): validity.Validity(status="approximate")}
    monkeypatch.setattr(validity, "entries", lambda: entries)
    with pytest.raises(InternalError, match="incomplete"):
        validity.check_table(["histogram"])


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == validity.table_text(synthesizers.names()), (
        "run docs/make_inference_table.py"
    )
