"""Starts a Spark session that logs almost nothing, and reports failures in one sentence.

Spark logs to stderr from the moment its JVM starts.  Here it logs fatal errors only, to a file; its
last line is shown if the JVM does not start.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kafka_common.errors import ZkControllerError
from kafka_common.process.java_runtime import find_java
from kafka_history.readers.problems import HistoryInvalid

DEFAULT_MASTER: Final = "local[*]"
DEFAULT_MEMORY: Final = "2g"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable with the port of the JVM, set by spark-submit for the program it runs."""

_LOG4J: Final = """\
status = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c: %m%n%ex{3}
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
"""

# Spark generates a method for each stage of a query.  Without this flag the JIT leaves methods of
# more than 8,000 bytes to the interpreter.
_JVM_FLAGS: Final = "-XX:-DontCompileHugeMethods"
_BRIEF_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM with little work, as in an ingest, where the workers need the cores: 18 s of processor
time instead of 30."""

_NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    # No log line may end the job: a value that cannot be cast becomes null.
    "spark.sql.ansi.enabled": "false",
    # Ignoring such files would give wrong findings without any error.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Findings depend on these, so they are set even if the user's configuration has other values."""

_DEFAULTS: Final = {
    "spark.app.name": "zkctl history",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # If true, each function call makes three more calls to the JVM, to name its line in errors.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Small files are packed: 10,000 of them are some dozens of tasks, not 10,000.
    "spark.sql.files.openCostInBytes": "131072",
    "spark.sql.files.maxPartitionBytes": "67108864",
    "spark.executor.extraJavaOptions": _JVM_FLAGS,
    "spark.sql.debug.maxToStringFields": "20",
    # One writer per cluster and day at once; without it each task sorts all its rows first.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.parquet.compression.codec": "zstd",
    # A worker makes values of a whole batch, which take some ten times its bytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8388608",
}
"""Defaults, used where neither spark-submit nor spark-defaults.conf sets a value."""

_HERE: Final = {"spark.sql.shuffle.partitions": "8"}
"""Defaults for one machine; on a cluster Spark's own number is better."""

_SHELL: Final = {"spark.app.name": "pyspark-shell", "spark.ui.showConsoleProgress": "true"}
"""Settings that a JVM started from Python has by default; they are not the user's."""

_SMALL: Final = {
    # One task and one job for each query: splitting or compiling it would take longer.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Broadcasting the smaller table of a join would be a further job.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Settings for few rows on one machine."""


class SparkFailed(ZkControllerError):
    """Spark could not start, or a job of it failed; the message is one sentence."""


def start_spark(
    master: str = DEFAULT_MASTER,
    *,
    memory: str = DEFAULT_MEMORY,
    settings: dict[str, str] | None = None,
    is_brief: bool = False,
    is_small: bool = False,
) -> SparkSession:
    """The session on ``master``, one per process; ``memory`` is the heap of the JVM it starts.

    ``is_brief``: the JVM has little work; it starts sooner, and would be slow with much work.
    ``is_small``: as ``is_brief``, for few rows (:data:`.soundness.SMALL_ROWS`).

    The user's configuration, in ``spark-defaults.conf`` or for ``spark-submit``, overrides the
    settings made here, except those on which findings depend.  Under ``spark-submit`` the JVM runs
    already, and its own master and memory are used.

    Raises:
        HistoryInvalid: ``memory`` is no size.
        NotInstalled: no Java of version 17 or newer.
        SparkFailed: the JVM or the master did not come up.
    """
    if not re.fullmatch(r"\d+[kmgKMG]", memory):
        raise HistoryInvalid(f"memory {memory!r} is no size such as 2g or 900m")
    is_submitted = _GATEWAY in os.environ
    is_local = master.startswith("local") and not is_submitted
    if SparkContext._active_spark_context is None and not is_submitted:
        flags = f"{_JVM_FLAGS} {_BRIEF_FLAGS}" if is_brief or is_small else _JVM_FLAGS
        _launch(memory, flags, is_local=is_local)
    wished = {**_DEFAULTS, **(_HERE if is_local else {})}
    if is_small and is_local:
        wished |= _SMALL
    builder = SparkSession.builder
    for key, value in {**_unsaid({**wished, **(settings or {})}), **_NEEDED}.items():
        builder = builder.config(key, value)
    try:
        session = (builder if is_submitted else builder.master(master)).getOrCreate()
    except Exception as error:  # noqa: BLE001  (py4j and pyspark have no common base)
        where = "where spark-submit said" if is_submitted else f"on {master}"
        raise SparkFailed(f"Spark did not start {where}: {first_line(error)}") from None
    session.sparkContext.setLogLevel("FATAL")
    return session


def _unsaid(settings: dict[str, str]) -> dict[str, str]:
    """The settings that the user's configuration does not set."""
    SparkContext._ensure_initialized()
    said = SparkConf()
    return {
        key: value
        for key, value in settings.items()
        if said.get(key, _SHELL.get(key)) == _SHELL.get(key)
    }


def _launch(memory: str, flags: str, *, is_local: bool) -> None:
    """Starts the JVM with its stderr written to a file."""
    java = Path(find_java(wanted_by="Spark"))
    if java.is_absolute():
        os.environ["JAVA_HOME"] = str(java.parent.parent)
    folder = Path(tempfile.mkdtemp(prefix="zkctl-spark-"))
    config = folder / "log4j2.properties"
    config.write_text(_LOG4J)
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-memory {memory} "
        f"--driver-java-options '{flags} -Dlog4j2.configurationFile={config}' pyspark-shell"
    )
    # Workers parse logs, so they need the packages of this interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local:
        # If the host name does not resolve, Spark would take the address of any interface.
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    noise = folder / "stderr"
    try:
        with noise.open("wb") as stderr:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]  # pyspark types none of it
                popen_kwargs={"stderr": stderr}
            )
    except PySparkRuntimeError as error:
        said = [line for line in noise.read_text(errors="replace").splitlines() if line.strip()]
        reason = said[-1] if said else first_line(error)
        raise SparkFailed(f"the JVM of Spark did not start: {reason}") from None
    SparkContext._ensure_initialized(gateway=gateway)


def first_line(error: BaseException) -> str:
    """A short text for an error of Spark: the first line of its innermost cause."""
    text = str(error)
    if "OutOfMemoryError" in text or "Java heap space" in text:
        return "Spark ran out of memory; give it more with --memory"
    if "No space left on device" in text:
        return "no space left on the disk"
    causes = re.findall(
        r"(?m)^(?:Caused by: )?(?:[\w$]+\.)+([\w$]+(?:Exception|Error)): ?(.*)$", text
    )
    if causes:
        name, message = causes[-1]
        return f"{name}: {message}".rstrip(": ")
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
