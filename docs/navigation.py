"""The side bar of the site, from the one list of pages there is: the headings and links of ``index.md``, in its order.

mkdocs calls ``on_config``. A test sees to it that every page is in ``index.md``, so none is left out here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

INDEX = Path(__file__).parent / "index.md"


def sections(text: str) -> dict[str, list[str]]:
    """The pages that each heading links to, in order; a page belongs to the first that names it.

    >>> sections("## Begin\\n[a](a.md), [b](b.md#part)\\n## Do\\n[c](c.md) and [a](a.md) again\\n![p](p.svg)")
    {'Begin': ['a.md', 'b.md'], 'Do': ['c.md']}
    """
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        pages = list(dict.fromkeys(re.findall(r"\]\(([^)\s#]+\.md)(?:#[^)]*)?\)", body)))
        found[heading.strip()] = [page for page in pages if page not in seen]
        seen.update(pages)
    return {heading: pages for heading, pages in found.items() if pages}


def on_config(config: Any) -> Any:
    """Put the navigation into mkdocs' settings; titles are those of the pages."""
    config["nav"] = ["index.md", *({heading: pages} for heading, pages in sections(INDEX.read_text()).items())]
    return config
