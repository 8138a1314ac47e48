"""The side bar of the site names every page once, in the order of the index."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def navigation():
    spec = importlib.util.spec_from_file_location("navigation", DOCS / "navigation.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_side_bar_once():
    home, *parts = navigation().on_config({})["nav"]
    listed = [page for part in parts for pages in part.values() for page in pages]
    assert home == "index.md"
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert listed[0] == "guides/start.md"


def test_a_page_belongs_to_the_first_heading_that_names_it():
    text = (
        "# Title\n[x](x.md)\n## Begin\n[a](a.md), [b](b.md#part)\n## Do\n[c](c.md), [a](a.md)\n## Empty\n![p](p.svg)\n"
    )
    assert navigation().sections(text) == {"Begin": ["a.md", "b.md"], "Do": ["c.md"]}
