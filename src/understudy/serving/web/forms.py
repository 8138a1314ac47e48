"""The fields of a form that a browser sent, read strictly; and the comparison of secrets that come with it."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl

from starlette.requests import Request

from understudy.errors import InputError

MOST_FIELDS = 30


async def form_of(request: Request, *, most_fields: int = MOST_FIELDS) -> dict[str, str]:
    """The fields of a form; each once."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise InputError("a form is expected.")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=most_fields, errors="strict"
        )
    except ValueError:  # not UTF-8, or too many fields
        raise InputError("the form cannot be read.") from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise InputError("a field of the form is given twice.")
    return dict(pairs)


def same(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())
