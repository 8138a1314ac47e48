"""The last act of ``understudy demo all``: a server confirms an answer at the width that is asked for."""

from __future__ import annotations

import pytest

from understudy.cli import serve
from understudy.cli.demo import CONFIRMED, CONFIRMED_PEOPLE, WIDTH


def test_the_demonstration_ends_with_a_confirmed_answer(capsys):
    pytest.importorskip("starlette", reason="the server needs the extra serve")
    pytest.importorskip("uvicorn", reason="the server needs the extra serve")
    assert serve.tell_confirmation(CONFIRMED_PEOPLE, CONFIRMED, WIDTH)
    assert "valid" in capsys.readouterr().out
