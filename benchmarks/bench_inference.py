"""What valid inference costs, and whether its intervals cover. Prints the tables of docs/benchmarks/answers.md.

python benchmarks/bench_inference.py [speed|table|saddlepoint|coverage] [--runs 200]
"""

from __future__ import annotations

import math
import sys
import time
import warnings

import numba
import numpy as np
import pyarrow as pa

import understudy as us
from understudy.core.questions import parse_question
from understudy.inference import latent_table
from understudy.inference.estimands import make_estimand
from understudy.inference.exact import beta_binomial, dirichlet_multinomial
from understudy.privacy.randomness.streams import SeededStream

PEOPLE = ROWS = 100


@numba.njit(cache=False)
def gibbs(released, rows, records, a1, a2, steps, width, seed):  # noqa: PLR0917
    """The paper's sampler: Beta updates of p and of each copy's p, and a Metropolis step for x."""
    np.random.seed(seed)  # numba compiles this form only
    copies = len(released)
    shares = np.empty(steps)
    weights = np.empty(records + 1)  # what of the target does not change: log C(n, x) - M log B(a1 + x, a2 + n - x)
    for y in range(records + 1):
        ways = math.lgamma(records + 1.0) - math.lgamma(y + 1.0) - math.lgamma(records - y + 1.0)
        beta = math.lgamma(a1 + y) + math.lgamma(a2 + records - y) - math.lgamma(a1 + a2 + records)
        weights[y] = ways - copies * beta
    x = records // 2
    for step in range(steps):
        p = np.random.beta(1 + x, 1 + records - x)
        slope = np.log(p) - np.log1p(-p)
        for i in range(copies):
            t = np.random.beta(a1 + released[i] + x, a2 + rows - released[i] + records - x)
            slope += np.log(t) - np.log1p(-t)
        new = x + np.random.randint(1, width + 1) * (1 if np.random.random() < 0.5 else -1)
        if 0 <= new <= records and np.log(np.random.random()) < weights[new] - weights[x] + (new - x) * slope:
            x = new
        shares[step] = p
    return shares


def effective(chain: np.ndarray) -> float:
    """Effective draws by Geyer's initial positive sequence."""
    centred = chain - chain.mean()
    size = 1 << (2 * len(chain) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    cov = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(chain)] / len(chain)
    pairs = cov[0:-1:2] + cov[1::2]
    stop = np.argmax(pairs <= 0) if (pairs <= 0).any() else len(pairs)
    return len(chain) * cov[0] / max(2 * pairs[:stop].sum() - cov[0], 1e-300)


def speed() -> None:
    print("CPU per 1,000 effective draws of a share: the paper's chain (numba) and the exact posterior (batch of 500)")
    print(f"{'M':>3} {'steps of 1':>12} {'tuned chain':>12} {'exact ms':>10} {'ratio':>9} {'to tuned':>9}")
    rng = np.random.default_rng(1)
    gibbs(np.array([30]), ROWS, PEOPLE, 15.65, 15.65, 10, 1, 1)
    for copies in (1, 2, 5, 10):
        alpha = ROWS / np.expm1(2 / copies)
        x = rng.binomial(PEOPLE, 0.25, 500)
        released = rng.binomial(ROWS, rng.beta(alpha + x, alpha + PEOPLE - x, (copies, 500))).T
        beta_binomial(released[:2], rows=ROWS, records=PEOPLE, alpha=(alpha, alpha)).draws(10, rng)  # libraries loaded
        costs: dict[int, float] = {}
        for width in (1, 3, 6, 10, 16):  # steps of one, and the best of several proposals
            spent, found = 0.0, []
            for row in range(4):
                start = time.process_time()
                chain = gibbs(released[row], ROWS, PEOPLE, alpha, alpha, 300_000, width, row)
                spent += time.process_time() - start
                found.append(effective(chain))
            costs[width] = spent / sum(found) * 1000
        start = time.process_time()
        posterior = beta_binomial(released, rows=ROWS, records=PEOPLE, alpha=(alpha, alpha))
        posterior.draws(1000, rng)
        exact = (time.process_time() - start) / 500
        one, best = costs[1], min(costs.values())
        print(
            f"{copies:>3} {1000 * one:>12.1f} {1000 * best:>12.1f} {1000 * exact:>10.4f} {one / exact:>9.0f} "
            f"{best / exact:>9.0f}"
        )


def table() -> None:
    print("A table of 5,000 cells and 100,000 people: CPU seconds")
    print(f"{'M':>3} {'columns':>8} {'evidence':>9} {'means':>7} {'1,000 draws':>12} {'method':>8}")
    rng = np.random.default_rng(2)
    cells, people = 5000, 100_000
    x = rng.multinomial(people, rng.dirichlet(np.full(cells, 0.5)))
    for copies in (1, 5):
        released = np.stack([rng.multinomial(people, rng.dirichlet(0.5 + x)) for _ in range(copies)])
        times = [time.process_time()]
        posterior = dirichlet_multinomial(released, records=people, alpha=0.5, prior=0.5)
        times.append(time.process_time())
        _ = posterior.cell_mean
        times.append(time.process_time())
        posterior.draws(1000, rng)
        times.append(time.process_time())
        spent = np.diff(times)
        print(
            f"{copies:>3} {len(posterior.latent.columns):>8,} {spent[0]:>9.2f} {spent[1]:>7.2f} {spent[2]:>12.2f} "
            f"{posterior.method:>8}"
        )


def saddlepoint() -> None:
    print("Saddlepoint against exact: error of the log evidence (nats), largest error of a cell mean (posterior sd)")
    rng = np.random.default_rng(3)
    limit = latent_table.LARGEST_WORK
    for cells, people in ((10, 100), (100, 1000), (1000, 10_000), (5000, 100_000)):
        x = rng.multinomial(people, rng.dirichlet(np.full(cells, 0.5)))
        released = rng.multinomial(people, rng.dirichlet(0.5 + x))[None]
        exact = dirichlet_multinomial(released, records=people, alpha=0.5, prior=0.5)
        latent_table.LARGEST_WORK = 0
        near = dirichlet_multinomial(released, records=people, alpha=0.5, prior=0.5)
        latent_table.LARGEST_WORK = limit
        spread = exact.draws(500, rng).std(axis=0) + 1e-9
        worst = np.abs((exact.cell_mean - near.cell_mean) / spread).max()
        print(f"{cells:>6,} cells {people:>8,} people {near.log_evidence - exact.log_evidence:>12.2e} {worst:>10.2e}")


QUESTIONS = (
    ("proportion(sex == 'F')", {}),
    ("proportion(smokes == 'yes', where=age < 28)", {}),
    ("count(health == 'bad')", {}),
    ("mean(age)", {}),
    ("quantile(age, 0.75)", {}),
    ("proportion(smokes == 'yes', where=sex == 'F') - proportion(smokes == 'yes', where=sex == 'M')", {}),
    ("crosstab(sex, health)", {}),
    ("association(sex, smokes)", {}),
    ("age ~ sex", {}),
    ("smokes ~ age + sex", {"event": "yes"}),
    ("age ~ sex", {"family": "poisson"}),
    ("health ~ sex", {"family": "multinomial"}),
    ("health ~ age + sex", {"family": "ordered"}),
)


def population() -> tuple[us.Schema, np.ndarray]:
    """A schema of 90 cells and the share of each in the population."""
    schema = us.Schema(
        attributes=(
            us.Attribute(name="sex", levels=("F", "M")),
            us.Attribute(name="age", edges=(16, 28, 42, 54, 64, 97), integer=True),
            us.Attribute(name="smokes", levels=("no", "yes"), missing=True),
            us.Attribute(name="health", levels=("bad", "fair", "good"), ordered=True),
        )
    )
    sex, age, smokes, health = np.indices(schema.shape())
    log = 0.1 * sex - 0.15 * (age - 2) ** 2 + np.array([0, -1, -3])[smokes] + 0.4 * (smokes == 1) * sex
    log = log + np.array([0, 0.7, 1.2])[health] - 0.3 * age * health - 0.15 * age * (smokes == 1)
    shares = np.exp(log)
    return schema, shares / shares.sum()


CASES = (
    ("dirichlet", us.PureDP(epsilon=9), "replace", 1),
    ("dirichlet", us.PureDP(epsilon=16), "replace", 2),
    ("histogram", us.PureDP(epsilon=1), "replace", 1),
    ("histogram", us.ZCDP(rho=0.05), "add_remove", 1),
    ("histogram", us.NonPrivate(), "replace", 3),
    ("ipf", us.PureDP(epsilon=2), "replace", 1),
)


def coverage(runs: int, people: int = 2000) -> dict[tuple[str, str], list[float]]:
    schema, shares = population()
    found: dict[tuple[str, str], list[float]] = {}
    print(f"Coverage of 95 percent intervals in percent: {people:,} people, {runs} releases of each kind")
    for method, budget, unit, copies in CASES:
        rng = np.random.default_rng(7)
        hits: dict[int, list[np.ndarray]] = {number: [] for number in range(len(QUESTIONS))}
        for run in range(runs):
            counts = rng.multinomial(people, shares.ravel())
            codes = np.unravel_index(np.repeat(np.arange(len(counts)), counts), shares.shape)
            data = pa.table(
                {
                    "sex": np.array(["F", "M"])[codes[0]],
                    "age": np.array([16, 28, 42, 54, 64])[codes[1]],
                    "smokes": pa.array(np.array(["no", "yes", None], object)[codes[2]]),
                    "health": np.array(["bad", "fair", "good"])[codes[3]],
                }
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                release = us.synthesize(
                    us.open_source(data, schema), method=method, budget=budget, unit=unit, copies=copies,
                    stream=SeededStream(run),
                )  # fmt: skip
            for number, (text, options) in enumerate(QUESTIONS):
                estimand = make_estimand(parse_question(text, schema, **options), schema)
                whole = counts.reshape(shares.shape) if estimand.of_counts else shares
                others = tuple(place for place, name in enumerate(schema.names) if name not in estimand.margin)
                groups = np.bincount(estimand.labels, weights=whole.sum(axis=others).ravel(), minlength=estimand.groups)
                truth = estimand.evaluate(groups[None, :].astype(float))[0]
                truth = np.floor(truth) if estimand.whole else truth
                try:
                    size = {} if isinstance(budget, us.NonPrivate) else {"draws": 1000}  # a rule draws nothing
                    answer = us.infer(release, text, rng=rng, **size, **options)
                except us.UnderstudyError:
                    continue
                low = np.array([one.low for one in answer.estimates])
                high = np.array([one.high for one in answer.estimates])
                hits[number].append((low <= truth) & (truth <= high))
        name = f"{method}_plain" if isinstance(budget, us.NonPrivate) else method
        print(f"\n{name}, {budget}, {unit}, {copies} table(s)")
        for number, (text, options) in enumerate(QUESTIONS):
            kind = parse_question(text, schema, **options).kind
            if not hits[number]:
                print(f"  {'refused':>6}  {kind:<12} {text}")
                continue
            share = 100 * float(np.mean(np.stack(hits[number])))
            found.setdefault((name, kind), []).append(share)
            refused = runs - len(hits[number])
            print(f"  {share:>6.1f}  {kind:<12} {text}{f'   ({refused} refused)' if refused else ''}", flush=True)
    return found


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if not word.startswith("--")][:1]
    wanted = asked[0] if asked and not asked[0].isdigit() else "all"
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else 200
    if wanted in ("speed", "all"):
        speed()
    if wanted in ("table", "all"):
        table()
    if wanted in ("saddlepoint", "all"):
        saddlepoint()
    if wanted in ("coverage", "all"):
        measured = coverage(runs)
        print({key: f"{min(value):.0f}-{max(value):.0f}" for key, value in measured.items()})
