"""Kill the web process, the worker and the database at random moments, with kill -9, while eight analysts buy answers.

    python tests/stress/kill_server.py --kills 200 --store sqlite --out kills.json
    python tests/stress/kill_server.py --kills 200 --store postgres --out kills.json

With ``postgres`` the ledger and the server's tables are in a PostgreSQL of the script's own, which is killed too. After
every few kills, and at the end, everything that was approved is finished by a worker that nobody kills, and the books
are compared: no answer without a charge, no charge without an answer, nothing over any limit, every version of the
release verifies, and the ledger's chain and the log are sound.

Kills come in batches, each with a server of its own and a seed. With ``--out`` a batch that is done is kept, and a
second run goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import understudy as us
from tests.postgres_cluster import Cluster
from understudy.api import serving
from understudy.demo.people import make_people, small_schema
from understudy.errors import UnderstudyError
from understudy.serving.database.connecting import Database
from understudy.serving.database.jobs import FAILED, committed, jobs_of, retry
from understudy.serving.database.log import problems
from understudy.serving.settings import database_target, read_settings
from understudy.serving.worker.working import Worker

ANALYSTS, LIMIT, ALLOWANCE = 8, Fraction(2), Fraction(1, 10)
SETTINGS = """
[server]
answer_seconds = 0.5
secure_cookies = false
requests_per_minute = 1000000

[[dataset]]
name = "people"
ledger = "{ledger}"
account = "people"
data = "people.parquet"
"""
LEVELS = {
    "smokes": ("yes", "no"),
    "education": ("secondary", "tertiary"),
    "sex": ("F", "M"),
    "region": ("Capital", "Coast", "East", "Highlands", "Lakes", "West"),
}


class Stress:
    """A server in a temporary folder, its processes, and what was seen."""

    def __init__(self, store: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="understudy-kill-"))
        self.cluster = Cluster() if store == "postgres" else None
        ledger = "budget.db"
        os.environ["UNDERSTUDY_DATABASE"] = "server.db"
        if self.cluster is not None:
            os.environ["UNDERSTUDY_DATABASE"] = self.cluster.fresh()
            os.environ["STRESS_LEDGER"] = self.cluster.fresh()
            ledger = "env:STRESS_LEDGER"
        self.ledger_name = ledger if ledger.startswith("env:") else str(self.folder / ledger)
        (self.folder / "site.toml").write_text(SETTINGS.format(ledger=ledger))
        schema = small_schema()
        data = self.folder / "people.parquet"
        pq.write_table(make_people(1000).select(list(schema.names)), data)
        us.Ledger.create(self.ledger_name).create_account("people", unit="replace", limit=us.ZCDP(rho=LIMIT))
        us.synthesize(
            us.open_source(str(data), schema), method="independent", budget=us.ZCDP(rho="0.1"),
            ledger=self.ledger_name, account="people", out=self.folder / "release",
        )  # fmt: skip
        self.site = self.folder / "site.toml"
        self.tokens = []
        for number in range(ANALYSTS):
            serving.serve_project(self.site, f"p{number}", dataset="people", allowance=str(float(ALLOWANCE)))
            self.tokens.append(serving.serve_token(self.site, f"a{number}", role="analyst", project=f"p{number}"))
        serving.serve_publish(self.site, self.folder / "release", name="people", dataset="people")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.stop = threading.Event()
        self.pace = 4.0
        self.said: Counter[str] = Counter()
        self.failed = 0
        self.summary: dict[str, Any] = {}
        self.asked, self.kills = 0, {"web": 0, "worker": 0, "database": 0}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "understudy.cli", "serve", name, "--settings", str(self.site)]
        command += ["--port", str(self.port)] if name == "web" else []
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.kills[name] += 1
        if name == "database":
            assert self.cluster is not None
            self.cluster.kill()
            self.cluster.start()
            return
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def keep_running(self) -> None:
        """What systemd does: a process that ended is started again."""
        for name in ("web", "worker"):
            if name not in self.processes or self.processes[name].poll() is not None:
                self.start(name)

    def wait_for_web(self) -> None:
        """A web process that never comes up would be no test."""
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)

    def analyst(self, number: int) -> None:
        """Buys small answers without end; what fails is tried again later."""
        draw = random.Random(number)
        server = us.connect(f"http://127.0.0.1:{self.port}", token=self.tokens[number])
        while not self.stop.is_set():
            about, group = draw.sample(sorted(LEVELS), 2)
            level, inside = draw.choice(LEVELS[about]), draw.choice(LEVELS[group])
            question = f"proportion({about} == '{level}', where={group} == '{inside}')"
            try:
                server.infer(question, width=draw.uniform(0.15, 0.6), wait=2)
                self.asked += 1
            except UnderstudyError as problem:
                self.said[str(problem)[:60]] += 1
                time.sleep(2)

    def books(self) -> list[str]:
        """Finish what was approved, then compare the books; every sentence is a failure."""
        settings = read_settings(self.site)
        database = Database.open(database_target(settings))
        for job in database.read(lambda session: jobs_of(session, state=FAILED, most=100_000)):
            self.failed += 1
            retry(database, job.id)
        worker = Worker(settings, "people", database, say=lambda text: print(f"  {text}") if "failed" in text else None)
        with worker.alone():
            while worker.run_once():
                pass
        ledger = us.Ledger.open(self.ledger_name)
        jobs = database.read(lambda session: jobs_of(session, most=100_000))
        charged = {str(entry.run): entry for entry in ledger.entries("people") if entry.kind == "charge"}
        answered = {job.id for job in jobs if job.state == "done"}
        runs = {job.id for job in jobs}
        found = [f"{job} has an answer and no charge" for job in answered - charged.keys()]
        found += [f"{run} was charged and has no answer" for run in charged if run in runs and run not in answered]
        ended = ("done", "waiting", "refused", "shared")
        found += [f"{job.id} is {job.state} after recovery" for job in jobs if job.state not in ended]
        for job in jobs:
            if job.id in answered & charged.keys() and charged[job.id].charged["rho"] != job.rho:
                found.append(f"{job.id} was charged another price than was shown")
        if ledger.account("people").spent["rho"] > LIMIT:
            found.append("the account is over its limit")
        for number in range(ANALYSTS):
            if database.read(lambda s, name=f"p{number}": committed(s, project=name)) > ALLOWANCE:
                found.append(f"project p{number} is over its allowance")
        found += ledger.verify().problems
        found += database.read(problems)
        versions = database.read(lambda session: session.rows("SELECT number FROM versions ORDER BY number"))
        newest = settings.releases / "people" / str(versions[-1][0])
        found += [f"version {versions[-1][0]}: {check.detail}" for check in us.verify(newest) if not check.passed]
        if len(versions) - 1 != len(answered):
            found.append(f"{len(answered)} answers made {len(versions) - 1} versions")
        found += us.verify_ledger(self.ledger_name, against=newest).problems
        self.summary = {"kills": dict(self.kills), "answers": len(answered), "jobs": len(jobs),
                        "failed and taken up": self.failed, "problems": found}  # fmt: skip
        print(self.said.most_common(4))
        print(json.dumps(self.summary), flush=True)
        return found

    def run(self, kills: int, seed: int, every: int, pace: float) -> dict[str, Any]:
        """One batch; what was counted, with everything that is wrong."""
        self.pace = pace
        draw = random.Random(seed)
        analysts = [threading.Thread(target=self.analyst, args=(number,), daemon=True) for number in range(ANALYSTS)]
        targets = ["web", "worker", "worker", "worker"] + (["database"] if self.cluster is not None else [])
        self.keep_running()
        time.sleep(8)
        for one in analysts:
            one.start()
        found: list[str] = []
        for number in range(1, kills + 1):
            self.wait_for_web()
            time.sleep(draw.expovariate(1 / self.pace))
            self.kill(draw.choice(targets))
            self.keep_running()
            if number % every == 0 and number < kills:
                for name in ("worker", "web"):
                    self.processes[name].kill()
                    self.processes[name].wait()
                found += self.books()
                self.keep_running()
        self.stop.set()
        for process in self.processes.values():
            process.kill()
            process.wait()
        found += self.books()
        return {**self.summary, "problems": list(dict.fromkeys(found))}

    def close(self) -> None:
        self.stop.set()
        for process in self.processes.values():
            process.kill()
            process.wait()
        if self.cluster is not None:
            self.cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="all together, those of earlier runs too")
    parser.add_argument("--batch", type=int, default=25, help="kills of one server")
    parser.add_argument("--every", type=int, default=13, help="kills between two comparisons of the books")
    parser.add_argument("--pace", type=float, default=2.0, help="mean seconds between two kills, once the site answers")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=2026, help="of the first batch; the next one has the next")
    parser.add_argument("--out", type=Path, help="where batches are kept, to be added to")
    asked: Any = parser.parse_args()
    kept: dict[str, dict[str, Any]] = json.loads(asked.out.read_text()) if asked.out and asked.out.exists() else {}
    seed = asked.seed
    while True:
        done = [one for name, one in kept.items() if name.startswith(asked.store)]
        if sum(sum(one["kills"].values()) for one in done) >= asked.kills:
            break
        while f"{asked.store} {seed}" in kept:
            seed += 1
        stress = Stress(asked.store)
        try:
            kept[f"{asked.store} {seed}"] = stress.run(min(asked.batch, asked.kills), seed, asked.every, asked.pace)
        finally:
            stress.close()
        if asked.out:
            asked.out.write_text(json.dumps(kept, indent=1))
    together: Counter[str] = Counter()
    for one in done:
        together.update(one["kills"])
        together.update({"answers": one["answers"], "jobs": one["jobs"]})
    found = [problem for one in done for problem in one["problems"]]
    print(json.dumps({"store": asked.store, "batches": len(done), **together}))
    print("nothing is wrong" if not found else "\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
