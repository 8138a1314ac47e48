"""``understudy audit`` and ``understudy calibrate``."""

from __future__ import annotations

import json

import pytest


def test_the_example_of_the_help(run):
    shown = run("audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --epsilon 2").stdout
    assert "2.3979" in shown
    assert "0.0107422" in shown
    document = json.loads(run("audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --epsilon 2 --json").stdout)
    assert document["epsilon"] == pytest.approx(2.397895, abs=1e-6)
    assert document["witness"] == {
        "likely": [1, 4],
        "unlikely": [0, 5],
        "output": [5, 0],
        "loss": pytest.approx(2.397895, abs=1e-6),
    }
    at = document["at"]
    assert at["delta"] == pytest.approx(0.003526, abs=1e-6)
    assert at["definition_6"] == pytest.approx(0.010742, abs=1e-6)
    assert at["definition_6_is"] == "exact"


@pytest.mark.parametrize(
    ("command", "epsilon"),
    [
        ("posterior_mean --prior 0.5,0.5 --rows 5 --records 5", 5.493061),
        ("laplace --scale 0.5 --records 5", 2),
        ("laplace --scale 0.5 --records 5 --no-clamped --cells 3", 4),
        ("geometric --scale 2 --records 5 --unit add_remove", 0.5),
        ("geometric --scale 2 --records 5 --clamped", 0.5),
        ("geometric --scale 2 --records 5 --copies 3", 3),
        ("randomised_response --truth 0.5 --records 3", 1.098612),
        ("gaussian --scale 2 --records 5", "infinite"),
        ("sampling --rate 0.5 --records 3", "infinite"),
        ("swapping --rate 0.5 --records 3", "infinite"),
        ("suppression --threshold 3 --records 4 --cells 3", "infinite"),
        ("coarsening --partition 0,1/2 --records 3", "infinite"),
        ("subsample_binomial --rate 0.5 --trials 3 --probability 0.5 --records 3", "infinite"),
    ],
)
def test_every_mechanism_has_a_command(run, command, epsilon):
    document = json.loads(run(f"audit {command} --epsilon 1 --json").stdout)
    assert document["epsilon"] == (epsilon if isinstance(epsilon, str) else pytest.approx(epsilon, abs=1e-6))
    assert 0 <= document["at"]["delta"] <= 1
    run(f"audit {command} --epsilon 1")


def test_a_matrix_from_a_file(folder, run, refused):
    (folder / "p.csv").write_text("0.9,0.1\n0.2,0.8\n")
    pram = json.loads(run("audit pram --matrix p.csv --records 2 --json").stdout)
    assert pram["epsilon"] == pytest.approx(2.0794, abs=1e-4)
    one = json.loads(run("audit matrix --matrix p.csv --records 1 --json").stdout)
    assert one["epsilon"] == pytest.approx(2.0794, abs=1e-4)
    (folder / "bad.csv").write_text("a,b\n1,2\n")
    refused("audit pram --matrix bad.csv --records 2", says="numbers only")
    refused("audit pram --matrix none.csv --records 2", says="does not exist")


def test_figures_are_written(folder, run, refused):
    pytest.importorskip("matplotlib")
    run("audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --epsilon 2 --plot map.svg --plot-curve curve.png")
    assert (folder / "map.svg").read_text().lstrip().startswith("<?xml")
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    refused("audit dirichlet --prior 1,1 --rows 2 --records 2 --plot map.bmp", says="must end in")


def test_calibrate(folder, run):
    size = "--records 15 --rows 15 --cells 233726"
    exact = json.loads(run(f"calibrate dirichlet --epsilon 4.6 --delta 1e-5 {size} --json").stdout)
    assert exact["prior"] == pytest.approx(0.01229, abs=5e-6)
    theorem = f"calibrate dirichlet --epsilon 4.6 --delta 1e-5 --guarantee probabilistic {size} --rule theorem --json"
    assert json.loads(run(theorem).stdout)["prior"] == pytest.approx(0.03852, abs=5e-6)
    noise = json.loads(run("calibrate geometric --epsilon 1 --margins 3 --json").stdout)
    assert noise["scale"] == 6
    assert "0.152309" in run(f"calibrate dirichlet --epsilon 4.6 --delta 1e-5 {size} --compare").stdout


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("audit dirichlett --records 3", "did you mean 'dirichlet'"),
        ("audit dirichlet --records 3", "needs --prior and --rows"),
        ("audit dirichlet --prior 0.5,0.5 --rows 5", "--records"),
        ("audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --scale 1", "does not know --scale"),
        ("audit dirichlet --prior 0.5,0 --rows 5 --records 5", "must be positive"),
        ("audit dirichlet --prior 0.5,x --rows 5 --records 5", "must be a number"),
        ("audit dirichlet --prior 0.5,0.5 --cells 2 --rows 5 --records 5", "--cells goes with one number"),
        ("audit dirichlet --prior 0.5,0.5 --rows 0 --records 5", "rows"),
        ("audit dirichlet --prior 0.5,0.5 --rows 5 --records 5 --epsilon x", "epsilon"),
        ("audit coarsening --partition a/b --records 3", "groups of cell numbers"),
        ("audit sampling --rate 2 --records 3", "rate"),
        ("audit sampling --rate 0.5 --records 1000000 --epsilon 1", "limited"),
        ("calibrate laplace --epsilon 1", "mechanism"),
        ("calibrate dirichlet --epsilon 1", "give records, rows, cells"),
        ("calibrate geometric", "no budget"),
        ("calibrate geometric --epsilon 1 --compare", "show priors"),
    ],
)
def test_bad_input_is_refused(refused, command, says):
    refused(command, says=says)
