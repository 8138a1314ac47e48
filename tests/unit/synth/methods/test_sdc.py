"""Disclosure control of tables without a guarantee: replicated uniques go, warnings stay, promises are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import DisclosureError, InputError, UnknownNameError, UnsupportedError
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, pure_loss
from understudy.privacy.mechanisms.uniques_removed import UniquesRemoved
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="place", levels=tuple(range(60))),
        us.Attribute(name="sex", levels=("F", "M")),
    )
)
METHODS = {"histogram": {}, "cart": {}, "saturated": {}, "reverse_mapped": {}, "partial": {"keep": "sex"}}


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(7)
    place = np.minimum(rng.geometric(0.06, 400) - 1, 59).tolist()
    return us.open_source(pa.table({"place": place, "sex": rng.choice(["F", "M"], 400).tolist()}), SCHEMA)


def replicated(source, release):
    (true,) = source.count([SCHEMA.names])
    return int(((true.values == 1) & (release.coded(1).counts(SCHEMA.names) == 1)).sum())


@pytest.mark.parametrize("method", METHODS)
def test_no_replicated_unique_is_left_and_nothing_else_goes(source, method):
    def made(**more):
        return us.synthesize(
            source, method=method, budget=us.NonPrivate(), stream=SeededStream(2), **METHODS[method], **more
        )

    plain, controlled = made(), made(sdc="uniques")
    gone = replicated(source, plain)
    assert gone > 0
    assert replicated(source, controlled) == 0
    assert controlled.rows[0] == plain.rows[0] - gone
    assert not any("removed" in warning for warning in plain.statement.warnings)
    assert any("no guarantee either" in warning for warning in controlled.statement.warnings)


def test_a_controlled_release_is_written_verified_and_not_read_by_rules_for_others(source, tmp_path):
    release = us.synthesize(
        source, method="histogram", budget=us.NonPrivate(), sdc="uniques", copies=2, out=tmp_path / "release"
    )
    us.verify(tmp_path / "release")
    with pytest.raises(UnsupportedError):
        us.infer(release, "proportion(sex == 'F')")


def test_a_promise_is_never_touched(source):
    with pytest.raises(InputError, match="without a guarantee"):
        us.plan(SCHEMA, method="histogram", budget=us.PureDP(epsilon=1), sdc="uniques")
    with pytest.raises(InputError):
        us.plan(SCHEMA, method="dirichlet", budget=us.PureDP(epsilon=1), sdc="uniques")
    with pytest.raises(DisclosureError, match="depends on the data"):
        UniquesRemoved(drawn_by=DirichletDraw(prior=1, rows=5, loss=pure_loss(1)))
    with pytest.raises(UnknownNameError):
        us.plan(SCHEMA, method="cart", budget=us.NonPrivate(), sdc="all")
