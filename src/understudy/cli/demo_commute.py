"""The demonstration of commutes: a generated city, its release, and the map of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import understudy as us
from understudy.cli import commute_map as map_commands
from understudy.cli import ledger as ledger_commands
from understudy.cli import synthesize as synthesize_commands
from understudy.cli.output import say, show_command, show_table, working

if TYPE_CHECKING:
    from understudy.demo.commuters import World

JOBS = 120_000
ACCOUNT, EPSILON, DELTA = "commutes-2026", "2", "1e-5"
DATA, PLACES = "confidential/jobs.parquet", "places.parquet"
MADE = frozenset({DATA, PLACES, "budget.db", "map.html"})
SIZES = ((1, 4), (5, 19), (20, 99), (100, None))  # jobs at a workplace


def prepare(folder: Path, jobs: int) -> World:
    """Writes the files the story begins with."""
    from pyarrow import parquet

    from understudy.demo.commuters import make_world

    with working("generating a city"):
        world = make_world("city", jobs=jobs)
        parquet.write_table(world.places_table(), folder / PLACES)
        parquet.write_table(world.flows_table(), folder / DATA)
    return world


def tell(world: World) -> None:
    """The commands, one after the other, in the folder of the demonstration."""
    places = Path(PLACES)
    show_command(f"ledger create budget.db --account {ACCOUNT} --epsilon {EPSILON} --delta {DELTA} --fixed destination")
    ledger_commands.create(ledger=Path("budget.db"), account=ACCOUNT, epsilon=EPSILON, delta=DELTA, fixed="destination")
    budget = f"--epsilon {EPSILON} --delta {DELTA} --ledger budget.db --account {ACCOUNT}"
    show_command(f"synthesize {DATA} --method commute --places {PLACES} {budget} --out release")
    synthesize_commands.synthesize(
        data=[DATA],
        places=places,
        method="commute",
        epsilon=EPSILON,
        delta=DELTA,
        ledger=Path("budget.db"),
        account=ACCOUNT,
        out=Path("release"),
    )
    _compare(world)
    show_command("map release --out map.html")
    map_commands.draw_map(folder=Path("release"), out=Path("map.html"))


def _compare(world: World) -> None:
    """The average commute by the size of the workplace: what the release keeps, and what small workplaces lose."""
    parts = list(world.codes())
    true = tuple(np.concatenate([part[number] for part in parts]) for number in range(3))
    made = us.read_release("release").coded()
    sizes = world.jobs
    lines = []
    for least, most in SIZES:
        inside = (sizes >= least) & (sizes <= (most or sizes.max()))
        means = []
        for origin, destination, jobs in (true, made):
            keep = inside[destination] & (origin >= 0)
            miles = world.places.miles(origin[keep], destination[keep])
            means.append(float(np.average(miles, weights=jobs[keep])) if keep.any() else float("nan"))
        label = f"{least}-{most}" if most else f"{least} and more"
        lines.append((label, int(inside.sum()), *(f"{mean:.2f}" for mean in means)))
    names = ("jobs at the workplace", "workplaces", "mean miles, confidential", "mean miles, synthetic")
    show_table("INTERNAL: computed from confidential data, never published", names, lines, right=names[1:])


def point_out(out: Path) -> None:
    """What to look at."""
    for name, what in (
        ("map.html", "where the workers of any place live; open it in a browser, it needs no network"),
        ("release/README.md", "what the release is and promises, for an analyst"),
        ("release/synthetic_1.parquet", "the synthetic jobs"),
    ):
        say(f"  {out / name}: {what}")
