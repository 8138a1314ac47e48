"""One-run audit: published values, false alarms, power; and commands as black boxes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from understudy.auditing.sampled_audit import (
    command_runner,
    one_run_audit,
    one_run_lower_bound,
    one_run_p_value,
    one_run_power,
    sampled_audit,
)
from understudy.errors import InputError


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "epsilon"),
    [
        (10, 10, 10, 0, 1.05187),
        (1000, 1000, 800, 0, 1.2543),
        (1000, 200, 190, 1e-5, 2.3936),
        (200, 200, 190, 1e-5, 2.3970),
    ],
)
def test_values(canaries, guesses, right, delta, epsilon):
    assert one_run_lower_bound(canaries, guesses, right, delta=delta) == pytest.approx(epsilon, abs=5e-5)


def test_all_right_by_hand():
    """Ten of ten: q^10 = 0.05."""
    q = 0.05**0.1
    assert one_run_lower_bound(10, 10, 10) == pytest.approx(np.log(q / (1 - q)))
    assert one_run_p_value(10, 10, 0, 1.0, 0.0) == 1
    assert one_run_lower_bound(10, 10, 5) == 0


def randomised_response(epsilon):
    """Each canary's presence told truthfully with probability e^eps/(1+e^eps): exactly epsilon-DP for add_remove."""

    def score(included, seed):
        truthful = np.random.default_rng([seed, 1]).random(len(included)) < 1 / (1 + np.exp(-epsilon))
        return np.where(truthful, included, ~included).astype(float)

    return score


def test_a_sound_mechanism_passes_and_a_loud_one_is_caught():
    """False alarms have probability at most 1e-3 in each of five runs with fixed seeds; power is stated."""
    for seed in range(5):
        sound = one_run_audit(randomised_response(1.0), canaries=600, claimed=1.0, seed=seed)
        assert not sound.caught, sound.describe()
    loud = one_run_audit(randomised_response(2.0), canaries=600, claimed=1.0, seed=9)
    assert loud.power > 0.999
    assert loud.caught
    assert "caught" in loud.describe()
    assert loud.epsilon_low < 2.0


def test_fewer_guesses_take_the_surest_canaries():
    def score(included, seed):
        noise = np.random.default_rng([seed, 2]).normal(size=len(included))
        return included * 3.0 + noise

    few = one_run_audit(score, canaries=400, guesses=60, claimed=0.5, seed=4)
    assert few.guesses == 60
    assert few.right >= 55


def test_power_grows_with_the_number_of_canaries():
    powers = [one_run_power(m, m, claimed=1.0, delta=0.0, alpha=1e-3, factor=1.5) for m in (50, 200, 800)]
    assert powers == sorted(powers)
    assert powers[0] < 0.5
    assert powers[-1] > 0.9
    assert one_run_power(2, 2, claimed=5.0, delta=0.0, alpha=1e-3, factor=2) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: one_run_lower_bound(10, 11, 5),
        lambda: one_run_lower_bound(10, 5, 6),
        lambda: one_run_lower_bound(10, 0, 0),
        lambda: one_run_lower_bound(10, 5, 5, delta=1.0),
        lambda: one_run_lower_bound(10, 5, 5, alpha=0.0),
        lambda: one_run_audit(lambda included, seed: [1.0], canaries=5, claimed=1),
        lambda: one_run_audit(lambda included, seed: included * np.nan, canaries=5, claimed=1),
        lambda: one_run_audit(lambda included, seed: included, canaries=5, claimed=0),
        lambda: one_run_audit(lambda included, seed: included, canaries=5, claimed=np.inf),
    ],
)
def test_bad_input(call):
    with pytest.raises(InputError):
        call()


@pytest.fixture
def tool(tmp_path):
    """A program that adds no noise at all, and the two neighbouring inputs it is tried on."""
    script = tmp_path / "tool.py"
    script.write_text(
        "import sys\n"
        "count = int(open(sys.argv[1]).read())\n"
        "seed = int(sys.argv[3])\n"
        "open(sys.argv[2], 'w').write(f'count,parity\\n{count},{seed % 2}\\n')\n"
    )
    inputs = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for number, path in enumerate(inputs):
        path.write_text(str(10 + number))
    return f"{sys.executable} {script} {{input}} {{output}} {{seed}}", inputs


def test_a_command_without_noise_is_caught(tool):
    template, inputs = tool
    found = sampled_audit(command_runner(template, inputs), claimed=0.5, runs=40, alpha=0.05)
    assert found.caught


def writing(content):
    """A command that writes these bytes, and some that are no text to its standard output."""
    code = f"import sys; sys.stdout.buffer.write(bytes([255])); open(sys.argv[2],'wb').write({content})"
    return f'{sys.executable} -c "{code}" {{input}} {{output}}'


def test_headers_are_passed_over_and_the_rest_is_read(tool):
    command = command_runner(writing("b'name,2\\nother,3\\n1.0,2.0\\n\\n3.0\\n'"), tool[1])
    assert command(0, 1).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("tool {input}", "{output}"),
        ("no-such-program-here {input} {output}", "could not be started"),
        (f"{sys.executable} -c pass {{input}} {{output}}", "wrote nothing"),
        (f"{sys.executable} -c exit(3) {{input}} {{output}}", "exit code 3"),
        ("tool '{input} {output}", "never closed"),
        (writing("b'\\xff\\xfe'"), "not a CSV file in UTF-8"),
        (writing("b'1.0,x\\n2.0,3.0\\n'"), "not a number"),
        (writing("b'a,b\\n'"), "no number"),
    ],
)
def test_a_command_that_fails_is_refused(tool, template, message):
    with pytest.raises(InputError, match=message):
        command_runner(template, tool[1])(0, 1)


def test_inputs_must_be_two_files(tool, tmp_path):
    with pytest.raises(InputError, match="two neighbouring"):
        command_runner(tool[0], tool[1][:1])
    with pytest.raises(InputError, match="does not exist"):
        command_runner(tool[0], [tool[1][0], tmp_path / "none"])
