"""Distributions of tables that an average over tables, or an attacker's odds, are stated for."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Integers
from understudy.errors import InputError
from understudy.privacy.exact.profile import log_multinomial_prior

Prior = Literal["multinomial", "uniform"] | ArrayLike


def log_prior(inputs: Integers, prior: Prior | None, *, required: bool = False) -> NDArray[np.float64]:
    """Log probability of each input: ``multinomial`` over equal cells unless another prior is given.

    ``required`` refuses the default: an average whose prior nobody chose says nothing.
    """
    if prior is None and required:
        raise InputError("an average over tables needs a prior: 'multinomial', 'uniform', or one number per input.")
    if prior is None or (isinstance(prior, str) and prior == "multinomial"):
        cells = inputs.shape[1]
        return log_multinomial_prior(inputs, np.full(cells, 1 / cells))
    if isinstance(prior, str):
        if prior != "uniform":
            raise InputError(f"prior ({prior!r}) must be 'multinomial', 'uniform', or one number per input.")
        return np.full(len(inputs), -math.log(len(inputs)))
    try:
        given = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        raise InputError("prior must be 'multinomial', 'uniform', or one number per input.") from None
    if given.shape != (len(inputs),):
        raise InputError(f"prior must hold one probability for each of the {len(inputs)} inputs.")
    if not np.isfinite(given).all() or (given < 0).any() or abs(given.sum() - 1) > 1e-9:
        raise InputError("prior must hold probabilities that add up to 1.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(given))
