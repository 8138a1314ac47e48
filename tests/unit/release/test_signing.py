"""A signed release: any flipped byte is found, keys stay out of releases, and what does not verify is not signed."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import understudy as us
from understudy.demo.commuters import make_world
from understudy.errors import DisclosureError, InputError
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.signing import (
    DOMAIN,
    check_signature,
    encode,
    message_of,
    read_public_key,
    read_signature,
    statement,
)

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 30, 60, 100), integer=True),
    )
)
ROWS = pa.table({"sex": ["F", "M", "M", "F"] * 25, "age": [5, 35, 59, 99] * 25})
VERIFIER = Path(__file__).resolve().parents[3] / "docs" / "verify_release.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a ledger, a key pair, and three signed releases: of a table, sampled from it, of commutes."""
    place = tmp_path_factory.mktemp("signing")
    us.make_signing_key(place / "agency.key")
    us.make_signing_key(place / "other.key")
    ledger = us.Ledger.create(place / "budget.db")
    ledger.create_account("people", unit="replace", limit=us.PureDP(epsilon=2))
    table = us.synthesize(
        us.open_source(ROWS, SCHEMA), method="independent", budget=us.PureDP(epsilon=1), out=place / "table", csv=True,
        ledger=ledger.path, account="people",
    )  # fmt: skip
    us.sample(table, rows=300, copies=2).write(place / "sampled")
    world = make_world("town", seed=8)
    commutes = us.open_commutes(world.flows_table(), places=world.places)
    budget = us.ApproxDP(epsilon=2, delta="1e-5")
    us.synthesize(commutes, method="commute", budget=budget, out=place / "commutes", cut_miles="4")
    us.sign(place / "table", key=place / "agency.key", ledger=ledger.path)
    us.sign(place / "sampled", key=place / "agency.key")
    us.sign(place / "commutes", key=place / "agency.key")
    return place


@pytest.fixture
def table(place, tmp_path):
    return Path(shutil.copytree(place / "table", tmp_path / "table"))


def failed(folder, key):
    return [check.name for check in us.verify(folder, key=key) if not check.passed]


def stand_alone(folder, key):
    """The verifier of the documentation, in a process that can import the standard library and cryptography only."""
    code = f"""
import importlib.abc, runpy, sys
class Only(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in sys.stdlib_module_names | {{"cryptography", "_cffi_backend"}}:
            raise ImportError("not allowed: " + name)
sys.meta_path.insert(0, Only())
try:
    import understudy
except ImportError:
    pass
else:
    sys.exit(99)
sys.argv = ["verify_release.py", {str(folder)!r}, {str(key)!r}]
runpy.run_path({str(VERIFIER)!r}, run_name="__main__")
"""
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("kind", ["table", "sampled", "commutes"])
def test_every_kind_of_release_can_be_signed_and_read(place, kind):
    folder = place / kind
    checks = us.verify(folder, key=place / "agency.key.pub")
    assert [check.name for check in checks][:2] == ["files", "signature"]
    assert all(check.passed for check in checks), checks
    assert all(check.passed for check in us.verify(folder))
    assert us.read_release(folder).copies >= 1
    assert failed(folder, place / "other.key.pub") == ["signature"]
    run = stand_alone(folder, place / "agency.key.pub")
    assert run.returncode == 0, run.stdout + run.stderr
    assert read_signature(folder).key_id in run.stdout
    assert stand_alone(folder, place / "other.key.pub").returncode == 1


def found_wrong(folder, key, name):
    """A check fails; or the manifest is none any more, and the folder is refused as a whole."""
    if name != "manifest.json":
        return failed(folder, key)
    try:
        return failed(folder, key)
    except InputError:
        return True


def positions(size):
    return sorted({0, 1, size // 3, size // 2, size - 2, size - 1})


@pytest.mark.parametrize("kind", ["table", "sampled", "commutes"])
def test_a_flipped_byte_in_any_file_is_found(place, tmp_path, kind):
    folder = Path(shutil.copytree(place / kind, tmp_path / kind))
    names = sorted(file.name for file in folder.iterdir())
    assert {"manifest.json", "signature.json", "README.md", "measurements.parquet", "synthetic_1.parquet"} <= set(names)
    for name in names:
        file = folder / name
        right = file.read_bytes()
        for position in positions(len(right)):
            for bit in (1, 0x20):  # the second changes the case of a letter
                changed = bytearray(right)
                changed[position] ^= bit
                file.write_bytes(changed)
                assert found_wrong(folder, place / "agency.key.pub", name), (name, position, bit)
        file.write_bytes(right)
    assert not failed(folder, place / "agency.key.pub")


@pytest.mark.parametrize(("name", "step"), [("manifest.json", 7), ("signature.json", 1)])
def test_every_byte_of_what_is_signed_counts(place, table, name, step):
    public = read_public_key(place / "agency.key.pub")
    file = table / name
    right = file.read_bytes()
    found = 0
    for position in range(0, len(right), step):
        changed = bytearray(right)
        changed[position] ^= 1 << position % 8
        file.write_bytes(changed)
        with pytest.raises(InputError):
            check_signature(table, public)
        found += 1
    assert found > 300
    file.write_bytes(right)
    assert "signed by" in check_signature(table, public)


@pytest.mark.parametrize("name", ["manifest.json", "signature.json", "synthetic_1.parquet", "README.md"])
def test_the_stand_alone_verifier_finds_a_flipped_byte(place, table, name):
    file = table / name
    right = file.read_bytes()
    for position in (0, len(right) // 2, len(right) - 1):
        changed = bytearray(right)
        changed[position] ^= 0x20
        file.write_bytes(changed)
        run = stand_alone(table, place / "agency.key.pub")
        assert run.returncode == 1, (position, run.stdout, run.stderr)
        assert run.stdout.startswith("NOT IN ORDER: ")


def test_the_stand_alone_verifier_looks_at_the_list_of_files(place, table):
    (table / "more.txt").write_text("more")
    assert "more.txt" in stand_alone(table, place / "agency.key.pub").stdout
    (table / "more.txt").unlink()
    (table / "README.md").unlink()
    assert "README.md" in stand_alone(table, place / "agency.key.pub").stdout
    (table / "signature.json").unlink()
    assert "signature.json" in stand_alone(table, place / "agency.key.pub").stdout
    assert stand_alone(table, place / "agency.key").returncode == 1
    assert len(VERIFIER.read_text().splitlines()) <= 200


def test_a_missing_signature_is_a_failure(place, table):
    (table / "signature.json").unlink()
    assert failed(table, place / "agency.key.pub") == ["signature"]
    assert not [check for check in us.verify(table) if not check.passed]


def test_a_signature_of_another_release_does_not_fit(place, table):
    shutil.copy(place / "sampled" / "signature.json", table / "signature.json")
    assert failed(table, place / "agency.key.pub") == ["signature"]


def test_a_forger_with_a_key_of_his_own_is_found(place, table, tmp_path):
    (table / "signature.json").unlink()
    us.sign(table, key=place / "other.key")
    assert failed(table, place / "agency.key.pub") == ["signature"]
    stated = json.loads((table / "signature.json").read_text())
    stated["key_id"] = read_signature(place / "table").key_id
    (table / "signature.json").write_bytes(encode(stated))
    assert failed(table, place / "agency.key.pub") == ["signature"]


def test_nothing_hides_in_a_signature_file(place, table):
    """Also without a key: the file is in the release, so it must hold what it is for and no more."""
    file = table / "signature.json"
    right = json.loads(file.read_text())
    for changed in (
        {**right, "remark": "Anna Smith, 1962"},
        {**right, "version": 2},
        {**right, "key_id": "Anna Smith"},
        {**right, "ledger_head": "Anna Smith"},
        {**right, "signature": right["signature"].upper()},
        [right],
    ):
        file.write_bytes(encode(changed))
        assert [check.name for check in us.verify(table) if not check.passed] == ["files"]
        with pytest.raises(InputError, match=r"signature\.json") as caught:
            us.read_release(table)
        assert "Anna" not in str(caught.value)
    file.unlink()
    file.symlink_to(place / "table" / "signature.json")
    with pytest.raises(InputError, match="plain file"):
        us.read_release(table)


def test_the_message_is_separated_by_purpose_and_lengths():
    one = statement(key_id="a" * 64, manifest_sha256="b" * 64, ledger_head=None)
    assert message_of(one, b"x").startswith(DOMAIN)
    assert message_of(one, encode(one)) != message_of(one, b"")
    two = statement(key_id="a" * 64, manifest_sha256="b" * 64, ledger_head="c" * 64)
    assert message_of(one, b"x") != message_of(two, b"x")


def test_the_ledgers_head_is_signed(place, table):
    ledger = us.Ledger.open(place / "budget.db", writable=False)
    signature = read_signature(table)
    assert signature.ledger_head == ledger.head()
    stated = {**signature.to_json(), "ledger_head": None}
    (table / "signature.json").write_bytes(encode(stated))
    assert failed(table, place / "agency.key.pub") == ["signature"]


def test_a_ledger_without_the_charge_is_refused(place, table, tmp_path):
    (table / "signature.json").unlink()
    other = us.Ledger.create(tmp_path / "other.db")
    other.create_account("people", unit="replace", limit=us.PureDP(epsilon=2))
    with pytest.raises(InputError, match="not in order"):
        us.sign(table, key=place / "agency.key", ledger=other.path)
    assert read_signature(table) is None
    seeded = us.synthesize(
        us.open_source(ROWS, SCHEMA), method="independent", budget=us.PureDP(epsilon=1), stream=SeededStream(1)
    ).write(tmp_path / "seeded")
    with pytest.raises(InputError, match="without a ledger"):
        us.sign(seeded, key=place / "agency.key", ledger=place / "budget.db")


def test_a_release_that_does_not_verify_is_not_signed(place, table):
    (table / "signature.json").unlink()
    (table / "README.md").write_text("other words")
    with pytest.raises(InputError, match="does not pass verify"):
        us.sign(table, key=place / "agency.key")
    assert read_signature(table) is None


def test_a_signed_release_is_not_signed_over(place, table):
    before = (table / "signature.json").read_bytes()
    with pytest.raises(InputError, match="signed already"):
        us.sign(table, key=place / "other.key")
    assert (table / "signature.json").read_bytes() == before


def test_the_private_key_is_for_its_owner_and_in_no_release(place):
    private, public = place / "agency.key", place / "agency.key.pub"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    secret = [line for line in private.read_bytes().splitlines() if not line.startswith(b"-----")]
    assert secret
    for folder in ("table", "sampled", "commutes"):
        for file in (place / folder).iterdir():
            assert not any(line in file.read_bytes() for line in secret)
    assert not any(line in public.read_bytes() for line in secret)


def test_keys_are_never_overwritten_and_never_in_a_release(place, table, tmp_path):
    before = (place / "agency.key").read_bytes()
    with pytest.raises(InputError, match="never overwritten"):
        us.make_signing_key(place / "agency.key")
    assert (place / "agency.key").read_bytes() == before
    (tmp_path / "new.key.pub").write_text("mine")
    with pytest.raises(InputError, match="never overwritten"):
        us.make_signing_key(tmp_path / "new.key")
    assert not (tmp_path / "new.key").exists()
    with pytest.raises(DisclosureError, match="release folder"):
        us.make_signing_key(table / "agency.key")
    with pytest.raises(DisclosureError, match="release folder"):
        us.sign(place / "table", key=shutil.copy(place / "agency.key", table / "agency.key"))
    with pytest.raises(InputError, match="does not exist"):
        us.make_signing_key(tmp_path / "absent" / "agency.key")


def test_a_private_key_that_others_can_read_is_refused(place, table, tmp_path):
    (table / "signature.json").unlink()
    copied = Path(shutil.copy(place / "agency.key", tmp_path / "copied.key"))
    copied.chmod(0o640)
    with pytest.raises(DisclosureError, match="read by others"):
        us.sign(table, key=copied)


def test_what_is_no_key_is_refused_without_being_shown(place, table, tmp_path):
    (table / "signature.json").unlink()
    private, public = place / "agency.key", place / "agency.key.pub"
    with pytest.raises(InputError, match="not a private key"):
        us.sign(table, key=_private(tmp_path / "public", public.read_bytes()))
    with pytest.raises(InputError, match=r"give the \.pub file") as caught:
        us.verify(table, key=private)
    secret = private.read_text().splitlines()[1]
    assert secret not in str(caught.value)
    broken = private.read_bytes().replace(b"MC4C", b"MC4D")
    with pytest.raises(InputError, match="not a private key") as caught:
        us.sign(table, key=_private(tmp_path / "broken", broken))
    assert secret[6:] not in str(caught.value)
    assert caught.value.__cause__ is None
    for missing in (us.sign, us.verify):
        with pytest.raises(InputError, match="cannot be read"):
            missing(table, key=tmp_path / "absent")


def _private(file, data):
    file.write_bytes(data)
    os.chmod(file, 0o600)
    return file


def test_a_signed_release_is_still_a_release_and_can_be_replaced(place, table):
    us.read_release(place / "sampled").write(table, overwrite=True)
    assert read_signature(table) is None
    assert not [check for check in us.verify(table) if not check.passed]
