"""The notebook of the documentation runs from top to bottom, and what its cells end with has a display of its own."""

from __future__ import annotations

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "notebook.ipynb"


def run_cell(source: str, names: dict[str, object]) -> object:
    """Run a cell; gives the value of its last line if that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)  # noqa: S102 - it is ours, and this is what a notebook does
    return None if last is None else eval(compile(last, str(NOTEBOOK), "eval"), names)  # noqa: S307


def test_the_notebook_runs_and_shows_something(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, object] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    rich = [type(value).__name__ for value in shown if hasattr(value, "_repr_html_")]
    assert [name for name in rich if name != "DataFrame"] == ["Schema", "Plan", "Release", "Evaluation", "Answer"]
    for value in shown:
        if hasattr(value, "_repr_html_"):
            assert "<" in value._repr_html_()
    assert any(value is True for value in shown)  # every check of verify passed
    assert any(isinstance(value, tuple) and value[0] == 20_000 for value in shown)
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
