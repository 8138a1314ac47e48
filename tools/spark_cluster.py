#!/usr/bin/env python3
"""A real Spark cluster on this machine's loopback: a master and workers as separate processes, from the pip package.

For trying out what runs on a cluster, and for the tests of faults. Everything listens on 127.0.0.1 only, and
authentication and encryption of network and disks are on, under a secret made for this cluster and kept in a file that
only its user can read.

    python tools/spark_cluster.py --workers 2 --folder /tmp/cluster

prints one line of JSON with the master's address, the folder of settings (for SPARK_CONF_DIR) and the process ids, and
runs until it is interrupted or its standard input is closed. Then, in another terminal:

    export SPARK_CONF_DIR=/tmp/cluster/conf
    understudy synthesize people.parquet --schema people.toml --epsilon 1 --out release/ \\
        --engine spark --master spark://127.0.0.1:PORT
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 120
STOP_SECONDS = 20
HOST = "127.0.0.1"


@dataclass
class Cluster:
    """The processes of a cluster; a context manager that stops what it started, by process id."""

    folder: Path
    workers: int = 2
    cores: int = 1
    memory: str = "1g"
    settings: dict[str, str] = field(default_factory=dict)
    secure: bool = True

    def __post_init__(self) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = _free_port()

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    def __enter__(self) -> Cluster:
        self._write_settings()
        try:
            self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
            self._wait_for("master", "I have been elected leader")
            for number in range(1, self.workers + 1):
                self._start(
                    f"worker-{number}", "org.apache.spark.deploy.worker.Worker", self.master,
                    "--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(self.folder / "work"),
                )  # fmt: skip
            for number in range(1, self.workers + 1):
                self._wait_for(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the workers first, so that they do not complain of a master that left."""
        for process in reversed(list(self.processes.values())):
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def describe(self) -> dict[str, Any]:
        pids = {name: process.pid for name, process in self.processes.items()}
        return {"master": self.master, "conf": str(self.conf), "pids": pids}

    def _write_settings(self) -> None:
        for name in ("conf", "log", "local", "work", "events"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.master.rest.enabled": "false",
            "spark.executor.memory": "512m",
            "spark.executor.cores": str(self.cores),
            "spark.local.dir": str(self.folder / "local"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.folder / 'events'}",
        }
        if self.secure:
            settings |= {
                "spark.authenticate": "true",
                "spark.authenticate.secret": secrets.token_hex(32),
                "spark.network.crypto.enabled": "true",
                "spark.io.encryption.enabled": "true",
            }
        file = self.conf / "spark-defaults.conf"
        file.touch(0o600)
        file.write_text("".join(f"{name} {value}\n" for name, value in (settings | self.settings).items()))

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        command = [
            str(self.home / "bin" / "spark-class"), kind, *arguments, "--host", HOST, "--webui-port", "0",
            "--properties-file", str(self.conf / "spark-defaults.conf"),
        ]  # fmt: skip
        environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.conf),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        with self._log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def _wait_for(self, name: str, text: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while text not in self._log(name).read_text(errors="replace"):
            if self.processes[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the {name} did not start; see {self._log(name)}.")
            time.sleep(0.2)

    def _log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="for settings, logs and temporary files")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a further setting of Spark")
    parser.add_argument("--insecure", action="store_true", help="without authentication and encryption")
    given = parser.parse_args()
    settings = dict(text.split("=", 1) for text in given.conf)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Cluster(
        folder=given.folder.absolute(), workers=given.workers, cores=given.cores, memory=given.memory,
        settings=settings, secure=not given.insecure,
    ) as cluster:  # fmt: skip
        print(json.dumps(cluster.describe()), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
