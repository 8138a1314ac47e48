"""A Spark session fit for confidential data: found or started, checked, and with its failures put into words.

Messages of Spark may quote values of the data, so only the name of an error's condition is passed on.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from understudy.errors import DisclosureError, InputError, InternalError, MissingExtraError

JAVA_VERSION = 17  # what Spark 4 needs at least
CONNECT_SECONDS = 20  # for a master that does not answer
DEFAULT_PORT = 7077
# What keeps rows and keys from being read on the way and on the workers' disks.
PROTECTIONS = {
    "spark.authenticate": "processes prove that they belong to the application",
    "spark.network.crypto.enabled": "what is sent between machines is encrypted",
    "spark.io.encryption.enabled": "what is spilled and shuffled to disks is encrypted",
}
QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
# For one machine where Python does the work and the JVM only hands it out: compiling its code for a speed that it never
# needs took 7 of the 16 CPU seconds of a first count, and half of what it took later.
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NOT_THERE = {  # conditions that are about names alone
    "PATH_NOT_FOUND": "there is nothing at a path that was named. Check the URI, and that Spark may read it.",
    "TABLE_OR_VIEW_NOT_FOUND": "its catalogue has no table or view of that name.",
    "PARSE_SYNTAX_ERROR": "the query is not SQL that Spark understands.",
}
ALLOW = "allow_insecure_cluster=True (--allow-insecure-cluster)"


def session_for(master: str | None, *, allow_insecure_cluster: bool = False, jvm_reads: bool = True) -> Any:
    """The active Spark session (as ``spark-submit`` and notebooks give one), or a new one on ``master``.

    ``jvm_reads`` says whether rows will pass through Spark's JVM; one that only hands out tasks can be a light one.
    """
    sql = import_spark()
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        stated = str(active.sparkContext.master)
        if master is not None and master != stated:
            raise InputError(
                f"a Spark session on {stated} is running already; leave master out, or stop that session first "
                f"(master is {master})."
            )
        check_protection(active, allow_insecure_cluster=allow_insecure_cluster)
        return active
    submitted = os.environ.get("PYSPARK_GATEWAY_PORT") is not None or "spark.master" in _submitted()
    if master is None and not submitted:
        raise InputError(
            "engine 'spark' needs to know where: say master, for example local[*] or spark://host:7077, or start this "
            "program with spark-submit."
        )
    if not submitted:
        check_java()
        _check_master(str(master))
        if not is_local(str(master)) and not allow_insecure_cluster:
            _refuse_unprotected(str(master), _defaults())
    session = _start(sql, master, submitted, light=not jvm_reads)
    check_protection(session, allow_insecure_cluster=allow_insecure_cluster)
    return session


def import_spark() -> Any:
    """``pyspark.sql``, or what to install."""
    try:
        import pyspark
        from pyspark import sql
    except ImportError as problem:
        raise MissingExtraError(
            f"engine 'spark' needs pyspark ({problem}); install it with: pip install 'understudy[spark]'. Files that "
            "fit one machine need no Spark: leave the engine out."
        ) from None
    if int(pyspark.__version__.partition(".")[0]) != 4:
        raise InputError(f"pyspark {pyspark.__version__} is installed; engine 'spark' is made for 4.x.")
    return sql


def check_java() -> None:
    """Refuses, in words, a machine without Java or with one that Spark cannot use."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    where = f"JAVA_HOME is {home}" if home else "there is none on the PATH, and JAVA_HOME is not set"
    if java is None:
        raise InputError(
            f"engine 'spark' needs Java {JAVA_VERSION} or newer: {where}. On Debian or Ubuntu: apt-get install "
            "default-jre-headless. Files that fit one machine need no Spark: leave the engine out."
        )
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise InputError(f"{java} cannot be run ({type(problem).__name__}); set JAVA_HOME to another Java.") from None
    version = java_version(told.stderr + told.stdout)
    if version is None or version < JAVA_VERSION:
        found = "of unknown version" if version is None else f"Java {version}"
        raise InputError(
            f"{java} is {found}; Spark needs Java {JAVA_VERSION} or newer. Set JAVA_HOME to the folder of one."
        )


def java_version(text: str) -> int | None:
    """The major version in the output of ``java -version``.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def is_local(master: str) -> bool:
    """Whether everything runs in one process of this machine: nothing travels, and nobody else can be asked to run it.

    >>> [is_local(text) for text in ("local[2]", "local", "spark://127.0.0.1:7077", "local-cluster[2,1,1024]", "yarn")]
    [True, True, False, False, False]
    """
    return re.fullmatch(r"local(\[[^\]]*\])?", master) is not None


def check_protection(session: Any, *, allow_insecure_cluster: bool) -> None:
    """Refuses a cluster over which a key or a row could be read by others, unless told that this is intended."""
    master = str(session.sparkContext.master)
    if is_local(master) or allow_insecure_cluster:
        return
    _refuse_unprotected(master, dict(session.sparkContext.getConf().getAll()))


def _refuse_unprotected(master: str, settings: dict[str, str]) -> None:
    off = [name for name in PROTECTIONS if settings.get(name, "false").lower() != "true"]
    if off:
        listed = "\n".join(f"  {name}: {PROTECTIONS[name]}" for name in off)
        raise DisclosureError(
            f"the cluster at {master} is not protected: confidential rows and the key of the random draws would travel "
            f"where others may read them. These settings are not true:\n{listed}\nSet them (spark-submit --conf "
            f"{off[0]}=true, or spark-defaults.conf), or say {ALLOW} if its network and disks are protected otherwise."
        )


def _defaults() -> dict[str, str]:
    """The settings a new session would have: SPARK_CONF_DIR/spark-defaults.conf, then PYSPARK_SUBMIT_ARGS."""
    found: dict[str, str] = {}
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else None)
    file = Path(folder) / "spark-defaults.conf" if folder else None
    if file is not None and file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            parts = re.split(r"[\s=]+", line.strip(), maxsplit=1)
            if len(parts) == 2 and not parts[0].startswith("#"):
                found[parts[0]] = parts[1].strip()
    return found | _submitted()


def _submitted() -> dict[str, str]:
    """The --conf, --master and --driver-java-options of PYSPARK_SUBMIT_ARGS."""
    text = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation mark that is not closed; Spark will say so
        words = text.split()
    found = {}
    for flag, word in pairwise(words):
        if flag == "--conf" and "=" in word:
            name, _, value = word.partition("=")
            found[name] = value
        elif flag == "--master":
            found["spark.master"] = word
        elif flag == "--driver-java-options":
            found["spark.driver.extraJavaOptions"] = word
    return found


def _check_master(master: str) -> None:
    """A standalone master that does not answer is named now; Spark itself would try for a minute and then give up."""
    if is_local(master) or master in ("yarn",) or master.startswith(("k8s://", "local-cluster[")):
        return
    if not master.startswith("spark://"):
        raise InputError(
            f"master ({master!r}) is not one Spark knows: local[*], spark://host:7077, yarn or k8s://https://host:port."
        )
    for place in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if not host:
            raise InputError(f"master ({master!r}) must name a host and a port, such as spark://host:7077.")
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=CONNECT_SECONDS):
            return
    raise InputError(
        f"no Spark master answers at {master} (waited {CONNECT_SECONDS} seconds at most). Is it running, and may this "
        "machine reach it?"
    )


def _start(sql: Any, master: str | None, submitted: bool, *, light: bool) -> Any:
    """A new session. Workers of a local one use this Python; on a cluster PYSPARK_PYTHON says which."""
    builder = sql.SparkSession.builder.appName("understudy")
    for name, value in QUIET.items():
        builder = builder.config(name, value)
    if master is not None:
        builder = builder.master(master)
    if master is not None and is_local(master) and not submitted:
        # Nothing of a local run is for other machines, not even a port.
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            builder = builder.config(name, "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
        if light and "spark.driver.extraJavaOptions" not in _defaults():
            builder = builder.config("spark.driver.extraJavaOptions", LIGHT_JAVA)
    before = os.environ.get("PYSPARK_PYTHON")
    if before is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        return builder.getOrCreate()
    except Exception as problem:
        tried = " after trying for a minute" if str(master).startswith("spark://") else ""
        raise InputError(
            f"Spark could not be started on {master or 'the submitted master'}{tried} ({_condition(problem)}). Is Java "
            f"{JAVA_VERSION} in place, a Spark master of the same version there, and its settings complete?"
        ) from None
    finally:
        if before is None:
            del os.environ["PYSPARK_PYTHON"]


@contextlib.contextmanager
def explained_failures(what: str) -> Iterator[None]:
    """Turns a failure of Spark into ours, without its text: it may quote values of the data."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as problem:
        raise _explained(problem, what) from None


def _explained(problem: Exception, what: str) -> Exception:
    text = str(problem)
    missing = re.search(r"ModuleNotFoundError: No module named '([A-Za-z0-9_.]+)'", text)
    if missing:
        return InputError(
            f"{what} failed: the Python of the workers has no package '{missing.group(1)}'. Send an environment with "
            "understudy along (spark-submit --archives), or set PYSPARK_PYTHON to one that has it on every machine."
        )
    if "PYTHON_VERSION_MISMATCH" in text or "Python in worker has different version" in text:
        return InputError(f"{what} failed: the workers run another version of Python than this program.")
    fault = re.search(r"TaskError: ([A-Za-z]+)", text)
    if fault and fault.group(1) == "DataChangedError":
        return InputError("the data changed between two scans; nothing may write to them during a run.")
    if fault:
        return InternalError(f"{what} failed in a task ({fault.group(1)}).")
    condition = _condition(problem)
    if condition in NOT_THERE:
        return InputError(f"{what} failed in Spark ({condition}): {NOT_THERE[condition]}")
    return InputError(
        f"{what} failed in Spark ({condition}). Its message may quote confidential values and is not shown; "
        "Spark's own log has it."
    )


def _condition(problem: Exception) -> str:
    """The public name of what went wrong."""
    condition = None
    with contextlib.suppress(Exception):
        condition = getattr(problem, "getCondition", lambda: None)()
    if condition:
        return str(condition)
    java = re.search(r"([A-Za-z]+(?:Exception|Error))", str(problem))
    return java.group(1) if java else type(problem).__name__
