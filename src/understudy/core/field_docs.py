"""What a class says in its source under each of its fields: the one description of a field or an option.

Python keeps no text that stands under a field, so it is read from the source file, as documentation tools do.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise


def field_docs(kind: type) -> dict[str, str]:
    """The text under each field of a class, its parent classes included.

    Parameters
    ----------
    kind
        The class. A class without a source file (typed at a prompt) has no texts.

    Returns
    -------
    dict[str, str]
        The text of every field that has one, on one line.

    Examples
    --------
    >>> from understudy.core.field_docs import field_docs
    >>> from understudy.synth.methods.ipf import Ipf
    >>> field_docs(Ipf)["split"][:40]
    'How the budget is divided over the table'
    """
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__ in ("builtins", "typing", "abc"):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError):
            continue
        body = getattr(tree.body[0], "body", [])
        for field, below in pairwise(body):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found
