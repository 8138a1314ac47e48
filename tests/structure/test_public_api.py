"""The public calls keep their names, and no submodule takes one of them over."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import understudy as us

# What programs outside call. Names are added as they come and never taken away.
STABLE = (
    "read_schema",
    "open_source",
    "open_commutes",
    "read_places",
    "plan",
    "synthesize",
    "resume",
    "advise",
    "evaluate",
    "infer",
    "report",
    "tradeoff",
    "read_release",
    "wrap",
    "verify",
    "sign",
    "make_signing_key",
    "draft_schema",
    "export",
    "commute_map",
    "PureDP",
    "ApproxDP",
    "ProbabilisticDP",
    "ZCDP",
    "NonPrivate",
    "Unit",
    "Schema",
    "Attribute",
    "Geometric",
    "DiscreteGaussian",
    "audit",
    "calibrate",
    "DirichletMultinomial",
    "PosteriorMeanMultinomial",
    "RoundedLaplace",
    "Matrix",
)


def submodules() -> list[str]:
    return sorted(
        module.name
        for module in pkgutil.walk_packages(us.__path__, "understudy.")
        if not module.name.endswith("__main__")
    )


def test_the_stable_names_are_public():
    assert set(STABLE) <= set(us.__all__)
    assert set(us.__all__) <= set(dir(us))
    assert len(us.__all__) == len(set(us.__all__))


def test_every_submodule_can_be_imported_and_no_public_name_becomes_a_module():
    for name in submodules():
        importlib.import_module(name)
    for name in us.__all__:
        value = getattr(us, name)
        assert not isinstance(value, ModuleType), f"us.{name} is a module now"
        if not name.startswith("__"):
            assert callable(value), f"us.{name} cannot be called"


def test_importing_submodules_first_rebinds_nothing():
    """In a fresh process: the submodule import comes before the first use of the name."""
    code = (
        "import importlib, types, understudy as us\n"
        f"for name in {submodules()!r}: importlib.import_module(name)\n"
        "bad = [name for name in us.__all__ if isinstance(getattr(us, name), types.ModuleType)]\n"
        "print(bad)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in us.__all__ if not name.startswith("__")])
def test_every_public_name_is_explained(name):
    assert inspect.getdoc(getattr(us, name)), f"us.{name} has no docstring"


@pytest.mark.parametrize("name", [name for name in us.__all__ if inspect.isfunction(getattr(us, name))])
def test_every_public_function_shows_an_executed_example(name):
    assert ">>>" in (inspect.getdoc(getattr(us, name)) or ""), f"the docstring of us.{name} has no example"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="synthesise"):
        us.synthesise  # noqa: B018
