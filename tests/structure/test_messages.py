"""Messages of errors read like sentences: what is wrong, what was expected, what to do. Some of that can be tested."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "src" / "understudy"
ERRORS = {
    "InputError", "SchemaError", "UnknownNameError", "UnsupportedError", "BudgetError", "DisclosureError",
    "MissingExtraError", "ConvergenceError", "InternalError",
}  # fmt: skip
# Half sentences that another message completes.
COMPLETED_ELSEWHERE = {"privacy/ledger/account_book.py"}
EMPTY_WORDS = (
    "oops",
    "sorry",
    "please",
    "something went wrong",
    "unexpected error",
    "invalid input",
    "illegal",
    "bad ",
)


def text_of(node: ast.expr) -> str | None:
    """The text of a literal or an f-string, with {} for every value put into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


@cache
def raised() -> tuple[tuple[str, ast.Call], ...]:
    """Every place where one of our errors is made."""
    return tuple(
        (f"{path.relative_to(root).as_posix()}:{node.lineno}", node)
        for root in (SOURCE, REPOSITORY / "papers")
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args
    )


def messages() -> list[tuple[str, str]]:
    told = ((place, text_of(node.args[0])) for place, node in raised())
    return [(place, text) for place, text in told if text is not None]


def test_messages_are_sentences():
    listed = messages()
    assert len(listed) > 500
    odd = [
        (place, text)
        for place, text in listed
        if place.partition(":")[0] not in COMPLETED_ELSEWHERE
        and not text.rstrip().endswith((".", "?", "}", "]'"))  # a value at the end may hold the full stop
    ]
    assert odd == []


def test_messages_say_something():
    assert [(place, text) for place, text in messages() if any(word in text.lower() for word in EMPTY_WORDS)] == []
    assert [(place, text) for place, text in messages() if text.rstrip(". ").endswith("!")] == []


def test_messages_do_not_show_whole_values():
    """A table, a frame or an array in a message would show rows; their names are what messages put into braces."""
    values = {"table", "frame", "batch", "array", "codes", "counts", "row", "cell"}
    shown = [
        place
        for place, node in raised()
        for part in ast.walk(node)
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id in values
    ]
    assert shown == []
