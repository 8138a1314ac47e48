"""Texts of other people inside Markdown: names, labels, notes and warnings are shown as text and do nothing else.

A README of a release is shown by web pages and editors that follow links and pass HTML on. A schema may come from
anybody, and so may the release that a sample is drawn from.
"""

from __future__ import annotations

import html
import re

_MARKUP = re.compile(r"([\\`*_\[\]#|~])")
_ADDRESS = re.compile(r"(?<=\w)(?=://)|(?<=\bwww)(?=\.)", re.IGNORECASE)  # pages make a link of a bare address
_PLAIN = re.compile(r"[\w .:;,()/+-]+")


def markdown(text: str) -> str:
    r"""A text on one line of Markdown, as it reads.

    >>> markdown("<b>[income](http://x)</b>")
    '&lt;b&gt;\\[income\\](http\\://x)&lt;/b&gt;'
    """
    shown = _MARKUP.sub(r"\\\1", html.escape(one_line(text), quote=False))
    return _ADDRESS.sub(r"\\", shown)


def code(name: str) -> str:
    """A name as code, or as a text where it holds what would end the code or look like HTML."""
    return f"`{name}`" if _PLAIN.fullmatch(name) and name.strip() == name and "://" not in name else markdown(name)


def one_line(text: str) -> str:
    """A text without line breaks: a line of its own could pass for one of ours."""
    return " ".join(text.split())
