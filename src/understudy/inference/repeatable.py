"""Posterior draws that anybody can repeat: the same question to the same release has the same answer."""

from __future__ import annotations

import hashlib

import numpy as np


def generator_for(*texts: str) -> np.random.Generator:
    """A generator that is decided by some texts. Posterior draws protect nobody, so this reveals nothing.

    >>> int(generator_for("a").integers(1000)) == int(generator_for("a").integers(1000))
    True
    """
    digest = hashlib.sha256("\n".join(texts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
