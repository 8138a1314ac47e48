"""Two-way margins in one walk equal those projected one by one, whatever the tree."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from understudy.core.measurement import Measurement
from understudy.models.fit import fit
from understudy.models.model import PairMargins
from understudy.privacy.mechanisms.noise import Geometric


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_all_pairs_at_once_are_the_pairs_one_by_one(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=7))
    names = [f"v{i}" for i in range(len(sizes))]
    schema = us.Schema(
        attributes=tuple(us.Attribute(name=n, levels=tuple(range(k))) for n, k in zip(names, sizes, strict=True))
    )
    pairs = list(combinations(names, 2))
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    measured = [
        Measurement(margin=pair, values=rng.integers(0, 60, schema.shape(pair)), mechanism=Geometric(scale=4))
        for pair in chosen
    ]
    model, _ = fit(schema, measured, total=100.0, prior=50.0)
    found = PairMargins(model).tables(pairs)
    assert set(found) == set(pairs)
    for pair, table in found.items():
        assert table.shape == schema.shape(pair)
        assert np.allclose(table, model.project(pair), atol=1e-9 * model.total)


def test_only_what_was_asked_for_is_made():
    schema = us.Schema(attributes=tuple(us.Attribute(name=n, levels=(0, 1)) for n in "abc"))
    measured = [Measurement(margin=("a", "b"), values=np.full((2, 2), 5), mechanism=Geometric(scale=1))]
    model, _ = fit(schema, measured, total=20.0, prior=1.0)
    assert list(PairMargins(model).tables([("a", "c")])) == [("a", "c")]
    assert PairMargins(model).tables([]) == {}
