"""A real PostgreSQL for the tests: a cluster in a temporary folder, which can be killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

OWNER = "postgres"  # the server refuses to run as root


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``; they are often not on the PATH."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


def missing() -> str | None:
    """Why no PostgreSQL can be started here; nothing if one can."""
    if programs() is None:
        return "needs PostgreSQL, and there is no initdb on the PATH or in /usr/lib/postgresql"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(OWNER)
        except KeyError:
            return f"needs the user {OWNER}: PostgreSQL does not run as root"
    return None


class Cluster:
    """One server on a port of its own."""

    def __init__(self) -> None:
        found = programs()
        if found is None:
            raise RuntimeError(missing())
        self._programs = found
        self.folder = Path(tempfile.mkdtemp(prefix="understudy-postgres-"))
        self.folder.chmod(0o777)
        self._data = self.folder / "data"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._server: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        self._as_owner("initdb", "-D", str(self._data), "-U", OWNER, "-A", "trust", "--no-sync", "-E", "UTF8")
        self.start()

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        return (
            ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", *command]
            if os.geteuid() == 0
            else command
        )

    def _as_owner(self, program: str, *arguments: str) -> None:
        subprocess.run(self._command(program, *arguments), check=True, capture_output=True, cwd=self.folder)

    def start(self) -> None:
        """Start it, and wait until it answers; after a kill it recovers first."""
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}",
                    "-c", "max_connections=60", "-c", "shared_buffers=16MB"]  # fmt: skip
        self._server = subprocess.Popen(
            self._command("postgres", "-D", str(self._data), "-p", str(self.port), *settings),
            stdout=subprocess.DEVNULL, stderr=(self.folder / "log").open("ab"), cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        for _ in range(600):
            ready = subprocess.run(
                [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
            )
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """Every process of the server, with kill -9."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            self._server = None

    def address(self, schema: str) -> str:
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/postgres?options={quote(f'-csearch_path={schema}')}"

    def fresh(self) -> str:
        """The address of a new, empty schema."""
        import psycopg

        self._schemas += 1
        name = f"t{self._schemas}"
        with psycopg.connect(f"postgresql://{OWNER}@127.0.0.1:{self.port}/postgres") as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.address(name)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
