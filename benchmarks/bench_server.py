"""How quick is the server for readers? Pages and free answers of a five-attribute release, asked by many at once.

    python benchmarks/bench_server.py --users 50 --rate 20 --seconds 20

The web process is a process of its own, as in use. The release has noisy tables of all pairs of its five attributes.
Half of the requests are pages; the others are answers, of which some were computed before (*kept*) and some were
never asked (*new*). Wall times depend on what else the machine does. So the load of the machine is printed, and the
processor time of the web process for one request, which depends on it much less.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import httpx
import numpy as np

import understudy as us
from understudy.api import serving
from understudy.demo.people import small_schema, write_people
from understudy.serving.web.listening import free_port

PEOPLE = 5000
KEPT = [
    "proportion(sex == 'F')", "proportion(smokes == 'yes')", "mean(age)", "crosstab(sex)", "median(age)",
    "proportion(education == 'tertiary')", "crosstab(region)", "count(sex == 'M')",
]  # fmt: skip
REGIONS = ("Capital", "Coast", "East", "Highlands", "Islands", "Lakes", "North", "West")
CONDITIONS = ("smokes == 'yes'", "sex == 'F'", *(f"education == '{one}'" for one in ("secondary", "tertiary")))
LEVELS = (0.9, 0.91, 0.92, 0.93, 0.94, 0.96, 0.97, 0.98)
NEW = [
    (f"proportion({what}, where=region == '{region}')", level)
    for level, what, region in product(LEVELS, CONDITIONS, REGIONS)
]  # every one is another answer: another share, or another level of its interval
TICKS = os.sysconf("SC_CLK_TCK")


def made(folder: Path) -> dict[str, str]:
    """A server's folder, with a release of all pairs; the tokens of its people."""
    (folder / "confidential").mkdir(parents=True)
    data, _ = write_people(folder / "confidential", PEOPLE)
    us.Ledger.create(folder / "budget.db").create_account(
        serving.DEMO_ACCOUNT, unit=us.Unit(), limit=us.ZCDP(rho=serving.DEMO_LIMIT)
    )
    us.synthesize(
        us.open_source(str(data), small_schema()), method="ipf", margins="2", budget=us.ZCDP(rho="0.1"),
        ledger=folder / "budget.db", account=serving.DEMO_ACCOUNT, out=folder / "release",
    )  # fmt: skip
    serving.prepare_demo(folder, folder / "release")
    return serving.demo_tokens(folder)


def processor_seconds(process: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, all users together")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    tokens = made(folder)
    site = folder / "site.toml"
    site.write_text(site.read_text().replace("[server]", "[server]\nrequests_per_minute = 1000000"))
    port = free_port()
    command = [sys.executable, "-m", "understudy.cli", "serve", "web", "--settings", str(site), "--port", str(port)]
    environment = {**os.environ, "UNDERSTUDY_DATABASE": "server.db"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as web:
        try:
            measure(given, web.pid, f"http://127.0.0.1:{port}", tokens["analyst"])
        finally:
            web.terminate()


def measure(given: argparse.Namespace, process: int, url: str, token: str) -> None:
    """Ask as many at once as wanted, and print what came of it."""
    pages = ["/", "/releases/people", "/jobs"]
    times: dict[str, list[float]] = {"pages": [], "kept answers": [], "new answers": []}
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=120) as client:
        for _ in range(600):
            try:
                client.get("/health").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.2)

        def asked(question: str, level: float = 0.95) -> None:
            body = {"question": question, "level": level}
            client.post("/api/releases/people/ask", json=body).raise_for_status()

        for question in KEPT:
            asked(question)
            client.get(f"/releases/people/ask?{urlencode({'question': question})}").raise_for_status()

        def one(number: int) -> None:
            kind = ("pages", "kept answers", "pages", "new answers")[number % 4]
            begun = time.perf_counter()
            if kind == "pages":
                client.get(pages[number // 2 % 3]).raise_for_status()
            elif kind == "kept answers":
                path = f"/releases/people/ask?{urlencode({'question': KEPT[number // 4 % len(KEPT)]})}"
                client.get(path).raise_for_status()
            else:
                asked(*NEW[number // 4 % len(NEW)])
            times[kind].append(time.perf_counter() - begun)

        load, used = os.getloadavg()[0], processor_seconds(process)
        begun = time.perf_counter()
        with ThreadPoolExecutor(given.users) as users:
            for number in range(int(given.rate * given.seconds)):
                time.sleep(max(0.0, begun + number / given.rate - time.perf_counter()))
                users.submit(one, number)
        spent = time.perf_counter() - begun
        requests = sum(map(len, times.values()))
        cpu = (processor_seconds(process) - used) / requests
    print(
        f"{given.users} users; asked for {given.rate:g} requests a second, had {requests / spent:.1f}; load {load:.1f}"
    )
    print(f"{1000 * cpu:.1f} ms of processor time for one request\n")
    print("| what | requests | median ms | p95 ms |\n|---|---|---|---|")
    for name, found in times.items():
        middle, late = np.percentile(found, [50, 95])
        print(f"| {name} | {len(found)} | {1000 * middle:.0f} | {1000 * late:.0f} |")


if __name__ == "__main__":
    main()
