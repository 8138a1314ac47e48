"""Sparse noise as a value: refusals, the dense form a gate uses, and its public text."""

import numpy as np
import pytest

from understudy.errors import InputError, InternalError
from understudy.privacy.mechanisms.noise import Geometric, mechanism_from_json
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric, read_sparse
from understudy.privacy.randomness.streams import SeededStream


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="threshold"):
        SparseGeometric(scale=1, threshold=-1, domain=5)
    with pytest.raises(InputError, match="domain"):
        SparseGeometric(scale=1, threshold=1, domain=0)
    with pytest.raises(InternalError, match="another size"):
        SparseGeometric(scale=1, threshold=1, domain=5).run(np.zeros(4, dtype=np.int64), SeededStream(1))


def test_a_gate_gets_the_threshold_for_what_is_not_reported():
    mechanism = SparseGeometric(scale=1, threshold=3, domain=600)
    counts = np.zeros((20, 30), dtype=np.int64)
    counts[4, 5] = 1000
    noisy = mechanism.run(counts, SeededStream(2))
    assert noisy.shape == counts.shape
    assert noisy.min() == 3
    assert abs(noisy[4, 5] - 1000) < 40
    assert mechanism.variance == Geometric(scale=1).variance
    assert "above 3" in str(mechanism)


def test_its_text_is_lossless_and_checked():
    mechanism = SparseGeometric(scale=0.3, threshold=7, domain=10**12)
    text = mechanism.to_json()
    assert mechanism_from_json(text) == mechanism
    for spoiled in ({"threshold": "-1"}, {"domain": "1.5"}, {"threshold": "x"}, {"scale": "1/3"}):
        with pytest.raises(InputError):
            read_sparse({**text, **spoiled})
    with pytest.raises(InputError, match="exactly"):
        read_sparse({key: value for key, value in text.items() if key != "domain"})
