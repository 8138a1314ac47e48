"""Tables in parts: the same rows wherever and however often a part is drawn, and all of them different."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.engines.systems.spark.tasks import Inline
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.folder import WrittenTables, write_release
from understudy.release.sampling import Recipe, WritePart, part_name, sample_again
from understudy.synth.shared.method import synthesizers

SMALL = {"block_rows": 50, "part_blocks": 3}
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=("x", "y")),
        us.Attribute(name="b", levels=("p", "q", "r"), missing=True),
        us.Attribute(name="c", edges=(0, 10, 2000), integer=True),
    )
)
RNG = np.random.default_rng(1)
ROWS = pa.table({
    "a": RNG.choice(["x", "y"], 400), "b": RNG.choice(["p", "q", None], 400), "c": RNG.integers(0, 2001, 400),
})  # fmt: skip
METHODS = [name for name in synthesizers if hasattr(synthesizers[name], "redraw")]


def make(method: str = "independent", **asked) -> us.Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(us.open_source(ROWS, SCHEMA), method=method, budget=us.PureDP(epsilon=20), **asked)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_differ_and_a_repeated_part_does_not(method):
    """Every method: a block that repeats another would be a table that repeats its rows."""
    recipe = Recipe.of(make(method), rows=330, copies=2, **SMALL)
    assert recipe.parts == 3
    key = SeededStream(1).hand_out()
    drawn = {
        (copy, part, number): block
        for copy in (1, 2)
        for part in range(3)
        for number, block in enumerate(recipe.blocks(key, copy, part))
    }
    assert Counter(block.num_rows for block in drawn.values()) == {50: 12, 30: 2}
    values = [tuple(block["c"].to_pylist()) for block in drawn.values()]
    assert len(set(values)) == len(values)
    again = list(recipe.blocks(key, 2, 1))
    assert all(block.equals(drawn[2, 1, number]) for number, block in enumerate(again))
    codes = [tuple(map(str, block["a"].to_pylist())) for block in drawn.values() if block.num_rows == 50]
    assert len(set(codes)) == len(codes)


def test_a_large_sample_is_its_parts_and_a_small_one_is_as_it_was():
    release = make()
    large = sample_again(release, rows=330, copies=2, stream=SeededStream(1), **SMALL)
    recipe = Recipe.of(release, rows=330, copies=2, **SMALL)
    key = SeededStream(1).hand_out()
    blocks = [block for part in range(3) for block in recipe.blocks(key, 2, part)]
    assert pa.concat_tables(blocks).equals(large.frame(2))
    assert large.frame(2).num_rows == 330
    small = sample_again(release, rows=50, copies=1, stream=SeededStream(1), **SMALL)
    assert small.frame().equals(sample_again(release, rows=50, copies=1, stream=SeededStream(1)).frame())


def test_rows_keep_their_law_within_a_block():
    release = make("histogram")
    recipe = Recipe.of(release, rows=5000, copies=1, block_rows=1000, part_blocks=2)
    blocks = [block for part in range(3) for block in recipe.blocks(SeededStream(1).hand_out(), 1, part)]
    shares = [Counter(block["a"].to_pylist())["x"] for block in blocks]
    cells = 2 * 4 * 2
    assert max(shares) - min(shares) <= cells  # each cell within one of its expectation; independent rows spread 16 SD


def test_a_folder_of_parts_reads_back_and_verifies(tmp_path):
    release = make()
    recipe = Recipe.of(release, rows=330, copies=2, **SMALL)
    key = SeededStream(1).hand_out()

    def write(folder):
        work = WritePart(recipe=Inline(recipe), key=key, folder=str(folder))
        told = [work(number) for number in (5, 0, 3, 1, 2, 4, 3)]  # in any order, and one of them twice
        assert len({(one["name"], one["hash"]) for one in told}) == 6
        return WrittenTables(rows=(330, 330), hashes={one["name"]: one["hash"] for one in told})

    write_release(release, tmp_path / "larger", overwrite=False, csv=False, write_tables=write)
    assert (tmp_path / "larger" / part_name(2, 2)).is_file()
    assert [check.name for check in us.verify(tmp_path / "larger") if not check.passed] == []
    back = us.read_release(tmp_path / "larger")
    wanted = sample_again(release, rows=330, copies=2, stream=SeededStream(1), **SMALL)
    for copy in (1, 2):
        assert back.frame(copy).to_pylist() == wanted.frame(copy).to_pylist()
    (tmp_path / "larger" / part_name(2, 2)).unlink()
    with pytest.raises(InputError, match=r"lacks the file 'synthetic_2\.part-00002"):
        us.read_release(tmp_path / "larger")


def test_a_folder_that_a_worker_does_not_see_is_named(tmp_path):
    recipe = Recipe.of(make(), rows=330, copies=1, **SMALL)
    work = WritePart(recipe=Inline(recipe), key=SeededStream(1).hand_out(), folder=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="does not exist on a worker"):
        work(0)


def test_refusals(tmp_path, monkeypatch):
    release = make()
    for asked in (
        {"rows": 0},
        {"rows": 10**13},
        {"rows": True},
        {"rows": 10, "copies": 0},
        {"rows": 10, "copies": 2000},
    ):
        with pytest.raises(InputError):
            us.sample(release, **asked)
    with pytest.raises(InputError, match="as they are drawn"):
        us.sample(release, rows=10**11)
    with pytest.raises(InputError, match="go with engine 'spark'"):
        us.write_sample(release, tmp_path / "x", rows=10, master="local[2]")
    with pytest.raises(InputError, match="engine 'sparkle' is unknown"):
        us.write_sample(release, tmp_path / "x", rows=10, engine="sparkle")
    with pytest.raises(InputError, match="Parquet only"):
        us.write_sample(release, tmp_path / "x", rows=10, engine="spark", csv=True)
    posterior = make("ipf", draws="posterior", copies=2)
    with pytest.raises(UnsupportedError, match="one draw of the posterior"):
        sample_again(posterior, rows=330, copies=2, stream=SeededStream(1), **SMALL)
