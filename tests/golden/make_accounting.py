"""Writes accounting.json: values of Google's dp-accounting 0.6.0, an independent implementation.

pip install dp-accounting==0.6.0
python tests/golden/make_accounting.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

CASES = [
    (rho, delta) for rho in ("0.0001", "0.01", "0.1", "0.5", "2", "10") for delta in ("1e-12", "1e-9", "1e-6", "1e-3")
]
ORDERS = 1 + np.exp(np.linspace(np.log(1e-2), np.log(1e6), 200_001))


def zcdp_epsilons() -> list[dict[str, object]]:
    """rho-zCDP converted on a fine grid of Renyi orders."""
    found: list[dict[str, object]] = []
    for rho, delta in CASES:
        accountant = RdpAccountant(ORDERS)
        accountant.compose(dp_event.ZCDpEvent(float(rho)))
        found.append({"rho": rho, "delta": delta, "epsilon": float(accountant.get_epsilon(float(delta)))})
    return found


def gaussian_epsilons() -> list[dict[str, object]]:
    """The exact loss of one discrete Gaussian of a query with sensitivity 1, which any zCDP bound must exceed."""
    found: list[dict[str, object]] = []
    for sigma in (1, 3, 10):
        exact = pld.from_discrete_gaussian_mechanism(float(sigma), value_discretization_interval=1e-4)
        for delta in ("1e-9", "1e-6", "1e-3"):
            epsilon = float(exact.get_epsilon_for_delta(float(delta)))
            found.append({"sigma": sigma, "delta": delta, "epsilon": epsilon})
    return found


def laplace_epsilons() -> list[dict[str, object]]:
    """The exact loss of several discrete Laplace releases of sensitivity 1, which ours must exceed or meet."""
    found: list[dict[str, object]] = []
    for scale, times in ((1, 1), (2, 1), (10, 10), (20, 100), (100, 1000)):
        one = pld.from_discrete_laplace_mechanism(1 / scale, value_discretization_interval=1e-4)
        for delta in ("0", "1e-9", "1e-6"):
            if delta == "0" and times > 1:
                continue
            epsilon = float(one.self_compose(times).get_epsilon_for_delta(float(delta)))
            found.append({"scale": scale, "times": times, "delta": delta, "epsilon": epsilon})
    return found


def noise_and_choices() -> list[dict[str, object]]:
    """Normal noise beside choices whose loss has a range, as a law on its two ends, at the worst common offset.

    ``low`` and ``high``: delta with losses rounded down and up. Their grid is an exact part of the range, so that only
    normal losses are rounded.
    """
    found: list[dict[str, object]] = []
    for mu2, spread, choices, epsilon in (
        ("0.03", "0.04", 6, "1"), ("0.027", "0.03", 23, "1"), ("0.1", "0.2", 10, "2"), ("0.5", "0.3", 4, "1"),
        ("0.01", "0.1", 3, "0.3"), ("1.5", "0.4", 15, "10"),
    ):  # fmt: skip
        width, steps = float(spread), 40
        deltas: dict[str, list[float]] = {"low": [], "high": []}
        for place in range(4, steps, 4):
            offset = width * place / steps
            chance = np.expm1(offset - width) / np.expm1(-width)  # of the larger loss
            first = {0: np.log(chance), 1: np.log1p(-chance)}
            second = {0: first[0] - offset, 1: first[1] - offset + width}
            for kind, upwards in (("low", False), ("high", True)):
                one = pld.from_two_probability_mass_functions(
                    first, second, pessimistic_estimate=upwards, value_discretization_interval=width / steps
                )
                noise = pld.from_gaussian_mechanism(
                    1 / float(mu2) ** 0.5, pessimistic_estimate=upwards, value_discretization_interval=width / steps
                )
                whole = noise.compose(one.self_compose(choices))
                deltas[kind].append(float(whole.get_delta_for_epsilon(float(epsilon))))
        case: dict[str, object] = {"mu_squared": mu2, "range": spread, "choices": choices, "epsilon": epsilon}
        found.append(case | {kind: max(values) for kind, values in deltas.items()})
    return found


def main() -> None:
    values = {
        "zcdp": zcdp_epsilons(), "gaussian": gaussian_epsilons(), "laplace": laplace_epsilons(),
        "noise and choices": noise_and_choices(),
    }  # fmt: skip
    Path(__file__).with_name("accounting.json").write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
