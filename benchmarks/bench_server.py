"""How quick is the server for readers? Pages and free answers of a five-attribute release, asked by many at once.

    python benchmarks/bench_server.py --users 50 --rate 20 --seconds 20

Wall times depend on the machine and on what else it does, so each is also given as a ratio: to the time in which the
same machine, at the same moment, computes a fixed piece of arithmetic (a sort of a million numbers).
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import httpx
import numpy as np

from understudy.api import serving
from understudy.cli.serve import make_demo

QUESTIONS = [
    "proportion(sex == 'F')", "proportion(smokes == 'yes')", "mean(age)", "crosstab(sex)", "median(age)",
    "proportion(education == 'tertiary')", "crosstab(region)", "count(sex == 'M')",
]  # fmt: skip


def yardstick() -> float:
    numbers = np.random.default_rng(0).random(1_000_000)
    begun = time.perf_counter()
    np.sort(numbers)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, all users together")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    tokens = make_demo(folder, 5000)
    site = folder / "site.toml"
    site.write_text(site.read_text().replace("[server]", "[server]\nrequests_per_minute = 1000000"))
    os.environ["UNDERSTUDY_DATABASE"] = "server.db"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ready, stop = threading.Event(), threading.Event()
    web = threading.Thread(target=lambda: serving.serve_web(site, port=port, ready=ready.set, stop=stop), daemon=True)
    web.start()
    ready.wait(120)
    headers = {"authorization": f"Bearer {tokens['analyst']}"}
    pages = ["/", "/releases/people", "/jobs"]
    asks = [f"/releases/people/ask?{urlencode({'question': one})}" for one in QUESTIONS]
    times: dict[str, list[float]] = {"pages": [], "answers": [], "first answers": []}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        for path in asks:  # computed once, and kept
            begun = time.perf_counter()
            client.get(path).raise_for_status()
            times["first answers"].append(time.perf_counter() - begun)

        def one(number: int) -> None:
            kind, path = ("pages", pages[number % 3]) if number % 2 else ("answers", asks[number // 2 % len(asks)])
            begun = time.perf_counter()
            client.get(path).raise_for_status()
            times[kind].append(time.perf_counter() - begun)

        measure = yardstick()
        with ThreadPoolExecutor(given.users) as users:
            begun = time.perf_counter()
            for number in range(int(given.rate * given.seconds)):
                time.sleep(max(0.0, begun + number / given.rate - time.perf_counter()))
                users.submit(one, number)
        spent = time.perf_counter() - begun
    stop.set()
    web.join(20)
    print(
        f"{given.users} users, {given.rate:g} requests a second asked for, {given.rate * given.seconds / spent:.1f} had"
    )
    print("| what | requests | median ms | p95 ms | p95 / yardstick |\n|---|---|---|---|---|")
    for name, found in times.items():
        middle, late = np.percentile(found, [50, 95])
        print(f"| {name} | {len(found)} | {1000 * middle:.0f} | {1000 * late:.0f} | {late / measure:.2f} |")


if __name__ == "__main__":
    main()
