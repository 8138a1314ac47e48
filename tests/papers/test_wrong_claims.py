"""What the papers got wrong: every claim has a computation, a test that exists, or a page with its proof."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "theory" / "what-the-papers-got-wrong.md"
CLAIMS = re.split(r"^(?=\*\*)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
PRINTED_ELSEWHERE = "A citation."  # what two papers print can only be read


def test_all_five_papers_are_there():
    headings = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [heading.split()[0].strip(",") for heading in headings] == [
        "Abowd",
        "Machanavajjhala",
        "Charest",
        "Ruiz",
        "Raab",
    ]


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.split("**")[1][:40] for claim in CLAIMS])
def test_every_claim_can_be_checked(claim):
    tests = re.findall(r"`(test_\w+)`", claim)
    written = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in tests:
        assert f"def {name}(" in written
    proofs = re.findall(r"\]\(([\w-]+\.md)", claim)
    assert tests or proofs or ">>> " in claim or claim.startswith(f"**{PRINTED_ELSEWHERE}")
