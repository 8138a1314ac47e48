"""What people install: the same bytes from the same commit, a bill of materials, a recipe and a container that agree
with the project, and a demonstration that needs no extra."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools import sbom

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
LOCK = REPOSITORY / "packaging" / "lock.txt"
RECIPE = REPOSITORY / "packaging" / "recipe.yaml"
CONTAINER = REPOSITORY / "packaging" / "Containerfile"
SCHEMA = REPOSITORY / "tests" / "golden" / "schemas" / "cyclonedx.schema.json"
ON_CONDA = {"duckdb": "python-duckdb"}  # names on conda-forge that differ from those of the package index
OPTIONAL = (
    "pandas", "sklearn", "matplotlib", "jinja2", "starlette", "uvicorn", "httpx", "psycopg", "pyspark", "pyreadstat",
    "polars", "statsmodels", "numpyro", "jax", "mlcroissant", "jsonschema", "yaml", "playwright", "hypothesis",
)  # fmt: skip


def tracked() -> list[str]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git checkout: the files of the project are not known")
    return [name for name in run.stdout.split("\0") if name and (REPOSITORY / name).is_file()]


def built(folder: Path, *, mode: int, when: int) -> dict[str, bytes]:
    """Wheel and sdist of a copy of the project whose files have other modes and times."""
    for name in tracked():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((REPOSITORY / name).read_bytes())
        place.chmod(mode)
        os.utime(place, (when, when))
    run = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--target", "wheel"],
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1750000000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return {file.name: file.read_bytes() for file in (folder / "dist").iterdir()}


@pytest.mark.full
def test_wheel_and_sdist_are_the_same_bytes_twice(tmp_path):
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling: install the extra 'dev'")
    first = built(tmp_path / "first", mode=0o644, when=1_600_000_000)
    second = built(tmp_path / "second", mode=0o664, when=1_700_000_000)
    assert sorted(first) == [
        f"understudy-{PROJECT['version']}-py3-none-any.whl",
        f"understudy-{PROJECT['version']}.tar.gz",
    ]
    assert first == second


@pytest.fixture
def wheel(tmp_path):
    place = tmp_path / "understudy-9.9-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(
            "understudy-9.9.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: understudy\nVersion: 9.9\nLicense-Expression: MIT\n\nText: more\n",
        )
    return place


def test_the_bill_of_materials_has_the_form_of_cyclonedx(wheel):
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema: install the extra 'dev'")
    bill = sbom.bill(LOCK.read_text(), wheel)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(bill)
    assert bill == sbom.bill(LOCK.read_text(), wheel)  # no time and no random number in it
    refs = [bill["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bill["components"])]
    assert len(set(refs)) == len(refs)
    assert [one["ref"] for one in bill["dependencies"]] == refs
    assert set(bill["dependencies"][0]["dependsOn"]) < set(refs)


def test_the_bill_of_materials_leaves_nothing_out(wheel):
    bill = sbom.bill(LOCK.read_text(), wheel)
    listed = {(one["name"], one["version"]) for one in bill["components"]}
    assert listed == set(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    assert {one["name"] for one in bill["components"] if one["scope"] == "excluded"} >= {"hatchling"}


@pytest.mark.parametrize("damage", ["numpy\n", "numpy==1.0\n", "-e .\n"])
def test_a_lock_that_cannot_be_read_is_refused(damage):
    with pytest.raises(SystemExit, match="lock"):
        sbom.components("# needed by the wheel\n" + damage)


def bounds() -> dict[str, str]:
    return dict(one.split(">=") for one in PROJECT["dependencies"])


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def test_the_lock_has_every_dependency_in_a_version_that_the_project_allows():
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    assert {
        name: pins.get(name) for name, least in bounds().items() if version(pins.get(name, "0")) < version(least)
    } == {}


def test_the_conda_recipe_agrees_with_the_project():
    yaml = pytest.importorskip("yaml", reason="needs pyyaml, which mkdocs brings: install the extra 'dev'")
    recipe = yaml.safe_load(RECIPE.read_text())
    assert recipe["schema_version"] == 1
    assert recipe["context"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    wanted = {f"{ON_CONDA.get(name, name)} >={least}" for name, least in bounds().items()}
    assert set(recipe["requirements"]["run"]) == {*wanted, f"python {PROJECT['requires-python']}"}
    assert f"python {PROJECT['requires-python']}" in recipe["requirements"]["host"]
    assert recipe["build"]["noarch"] == "python"
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {at}" for name, at in PROJECT["scripts"].items()]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert (REPOSITORY / recipe["about"]["license_file"]).exists()


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, with continued lines joined and comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined)]


def test_the_containerfile_is_sound():
    found = instructions(CONTAINER.read_text())
    words = [word for word, _ in found]
    assert set(words) <= {"FROM", "ENV", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}  # no ADD, which fetches
    assert words.count("FROM") == 1
    image = found[0][1]
    assert re.fullmatch(r"[a-z.]+/[a-z/]+:\d[\w.-]*", image), "a full name and a version, never latest"
    assert version(image.partition(":")[2])[:2] >= version(PROJECT["requires-python"])[:2]
    installed = [part.strip() for word, rest in found if word == "RUN" for part in rest.split("&&") if " pip " in part]
    assert len(installed) == 2
    assert {"--require-hashes", "/opt/understudy/lock.txt"} <= set(shlex.split(installed[0]))
    assert {"--no-deps", "--no-index"} <= set(shlex.split(installed[1]))
    assert [rest for word, rest in found if word == "USER"][-1] not in ("root", "0")
    assert words.index("USER") > words.index("RUN")
    assert json.loads(dict(found)["ENTRYPOINT"]) == list(PROJECT["scripts"])
    for word, rest in found:
        if word == "COPY" and not rest.startswith("dist/"):
            assert (REPOSITORY / rest.split()[0]).exists(), rest
    assert not re.search(r"(?i)(token|password|secret)\s*=", CONTAINER.read_text())


DEMONSTRATION = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["understudy", "demo", "--out", {out!r}, "--rows", "1000"]
from understudy.cli.main import main
main()
"""


def test_the_demonstration_needs_no_extra(tmp_path):
    """``pip install understudy`` alone gives ``understudy demo``: every optional package is made absent here."""
    code = DEMONSTRATION.format(absent=OPTIONAL, out=str(tmp_path / "demo"))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "demo" / "release" / "manifest.json").exists()
