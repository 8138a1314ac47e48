"""One HTML file from the parts in ``templates``: no network, nothing to install, nothing but what it is given.

The scripts are ES modules that node's test runner tests one by one. A page can hold only one, so they are joined in
the order of their imports; top-level names are unique across them. The page's policy allows exactly this script and
this style sheet, by their hashes, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from understudy.errors import InternalError

FIRST = "main.js"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class)\b)", re.MULTILINE)
SLOT = re.compile(r"@@([a-z]+)@@")


def part(name: str) -> str:
    """The text of one file of the template."""
    return (files("understudy.commutes.map") / "templates" / name).read_text(encoding="utf-8")


def script() -> str:
    """All modules as one, each after those it imports."""
    joined: dict[str, str] = {}
    visiting: set[str] = set()

    def visit(name: str) -> None:
        if name in joined:
            return
        if name in visiting:
            raise InternalError(f"the modules of the map import each other in a circle at {name}.")
        visiting.add(name)
        text = part(name)
        for names, other in IMPORT.findall(text):
            if " as " in names:
                raise InternalError(f"{name} renames an import; joined modules share their names.")
            visit(other)
        joined[name] = f"// ---- {name}\n{EXPORT.sub('', IMPORT.sub('', text)).strip()}\n"

    visit(FIRST)
    return "\n".join(joined.values())


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every @@slot@@ of a template, once: a value that looks like a slot stays as it is."""
    return SLOT.sub(lambda slot: values[slot[1]], template)


def embedded_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def policy(script_text: str, style_text: str) -> str:
    """The Content-Security-Policy: this script, this style, no connections, no forms, no frames."""
    return (
        f"default-src 'none'; script-src '{_hash(script_text)}'; style-src '{_hash(style_text)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def page(*, about: Mapping[str, Any], data: str, markup: Mapping[str, str]) -> str:
    """The file. ``about`` is public JSON, ``data`` base64, ``markup`` HTML for the remaining slots."""
    code, style = script(), part("style.css")
    values = {
        **markup,
        "policy": policy(code, style),
        "style": style,
        "script": code,
        "about": embedded_json(about),
        "data": data,
    }
    return fill(part("page.html"), values)
