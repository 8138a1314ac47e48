"""The reverse-mapped release: original margins, no guarantee, and it says so wherever it goes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import UnsupportedError
from understudy.evaluation.attacks.reverse_mapping import reverse_map
from understudy.privacy.mechanisms.reverse_draw import map_back
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="age", edges=(0, 15, 40, 90), integer=True, missing=True),
        us.Attribute(name="work", levels=("none", "part", "full")),
        us.Attribute(name="sex", levels=("F", "M")),
    ),
    impossible=(
        us.Impossible(conditions=(("age", us.Condition(below=15)), ("work", us.Condition(levels=("part", "full"))))),
    ),
)


@pytest.fixture
def source():
    rng = np.random.default_rng(3)
    ages = [None if i % 20 == 0 else int(rng.integers(0, 91)) for i in range(400)]
    work = ["none" if age is not None and age < 15 else str(rng.choice(["none", "part", "full"])) for age in ages]
    return us.open_source(pa.table({"age": ages, "work": work, "sex": ["FM"[i % 2] for i in range(400)]}), SCHEMA)


def margin(frame, name):
    return us.open_source(frame, SCHEMA).count([(name,)])[0].values.tolist()


def test_margins_are_the_originals_exactly_and_structural_zeros_hold(source):
    release = us.synthesize(source, method="reverse_mapped", budget=us.NonPrivate(), copies=2)
    for copy in (1, 2):
        for name in SCHEMA.names:
            assert margin(release.frame(copy), name) == source.count([(name,)])[0].values.tolist()
        codes = release.coded(copy)  # refuses structural zeros
        assert codes.rows == 400
    assert not release.frame(1).equals(release.frame(2))


def test_it_is_no_copy_of_the_data(source):
    """With a large prior the pairing of values is that of independent rows, not of the people."""
    release = us.synthesize(
        source, method="reverse_mapped", budget=us.NonPrivate(), prior="100000", stream=SeededStream(1)
    )
    (joint,) = us.open_source(release.frame(), SCHEMA).count([SCHEMA.names])
    (true,) = source.count([SCHEMA.names])
    assert np.abs(joint.values - true.values).sum() > 20


def test_the_rank_mapping_is_the_one_of_the_attack():
    rng = np.random.default_rng(5)
    original, synthetic = rng.integers(0, 4, (3, 50)), rng.integers(0, 4, (3, 50))
    mapped = map_back(original, synthetic, np.arange(50))
    assert np.array_equal(mapped.T, reverse_map(original.T, synthetic.T).values)


@pytest.mark.parametrize("budget", [us.PureDP(epsilon=1), us.ApproxDP(epsilon=1, delta="1e-6"), us.ZCDP(rho=1)])
def test_any_promise_is_refused(source, budget):
    with pytest.raises(UnsupportedError, match=r"reverse_mapped.*none"):
        us.synthesize(source, method="reverse_mapped", budget=budget)


def test_the_warning_goes_wherever_the_release_goes(source, tmp_path):
    release = us.synthesize(source, method="reverse_mapped", budget=us.NonPrivate(), out=tmp_path / "release")
    assert release.statement.guarantee == us.NonPrivate()
    (warning,) = release.statement.warnings
    assert "NO GUARANTEE" in warning
    assert "exactly" in warning
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert warning in json.dumps(manifest)
    assert "Every one-way margin is that of the confidential data" in (tmp_path / "release" / "README.md").read_text()
    assert any("exchanged" in note for note in release.provenance.notes)
    with pytest.raises(UnsupportedError, match="reverse_mapped"):
        us.infer(release, "proportion(sex == 'F')")


def test_another_number_of_rows_keeps_the_shares(source):
    release = us.synthesize(source, method="reverse_mapped", budget=us.NonPrivate(), rows=100)
    for name in SCHEMA.names:
        true = np.array(source.count([(name,)])[0].values)
        assert np.abs(np.array(margin(release.frame(), name)) - true / 4).max() <= len(true) * 4
    assert any("systematic sample" in note for note in release.provenance.notes)
