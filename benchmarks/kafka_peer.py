"""A real Kafka 3.9.1, to measure and to talk with: its broker as a process, its tools as commands.

The jars come from ``scripts/fetch-kafka.sh``; ``KAFKA_LIBS`` names another folder that holds them.
Heap, collector and logging are those of Kafka's own start script and ``log4j.properties``; a broker
that runs for seconds, and each tool, has JVM options that let it start soon.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from benchmarks.broker_process import BrokerProcess

VERSION: Final = "3.9.1"
OLDER_VERSION: Final = "2.8.2"
"""The last Kafka whose tools take ``--zookeeper``."""
JMX_EXPORTER_VERSION: Final = "1.0.1"

_PERFORMANCE_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# A second compiler and a parallel collector pay off after minutes.
_BRIEF_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
# logger -> (level, file); what is named here goes to its own file only, the rest to server.log.
_LOGGERS: Final = {
    "kafka.controller": ("TRACE", "controller.log"),
    "org.apache.kafka.controller": ("INFO", "controller.log"),
    "state.change.logger": ("INFO", "state-change.log"),
    "kafka.request.logger": ("WARN", "kafka-request.log"),
    "kafka.network.RequestChannel$": ("WARN", "kafka-request.log"),
    "kafka.log.LogCleaner": ("INFO", "log-cleaner.log"),
    "kafka.authorizer.logger": ("INFO", "kafka-authorizer.log"),
}


class KafkaUnavailableError(Exception):
    """No jars or no Java; the sentence says what to do."""


def kafka_libs(version: str = VERSION) -> Path:
    """Folder with the jars of that Kafka; KafkaUnavailableError if there is none."""
    named = os.environ.get("KAFKA_LIBS") if version == VERSION else None
    return _libs(named, f"kafka-{version}", f"kafka_2.??-{version}", f" {version}")


def application_libs() -> Path:
    """Folder with Kafka Streams, Connect and MirrorMaker; KafkaUnavailableError without it."""
    return _libs(
        os.environ.get("KAFKA_APPLICATIONS_LIBS"),
        f"kafka-applications-{VERSION}",
        f"kafka-streams-{VERSION}",
        " applications",
    )


def kafka_tests_libs() -> Path:
    """Folder with Kafka's own tests and what runs them; KafkaUnavailableError without it."""
    return _libs(
        os.environ.get("KAFKA_TESTS_LIBS"),
        f"kafka-tests-{VERSION}",
        f"kafka_2.??-{VERSION}-test",
        " tests",
    )


def jmx_exporter() -> Path:
    """The agent that shows Kafka's metrics to Prometheus; KafkaUnavailableError without it."""
    default = Path.home() / ".cache" / "zkcontroller" / f"jmx-exporter-{JMX_EXPORTER_VERSION}"
    libs = Path(os.environ.get("JMX_EXPORTER_LIBS", default))
    agent = libs / f"jmx_prometheus_javaagent-{JMX_EXPORTER_VERSION}.jar"
    if not agent.exists():
        raise KafkaUnavailableError(f"no {agent}: run scripts/fetch-kafka.sh jmx-exporter")
    return agent


def classes_file(libs: Path) -> Path:
    """Where the classes of the Kafka in ``libs`` are kept for this Java.

    KafkaUnavailableError without a Java.  The JVM itself sees whether the jars are still the same.
    """
    java = shutil.which("java")
    if java is None:
        raise KafkaUnavailableError("no java on the PATH")
    real = Path(java).resolve()
    whose = hashlib.sha256(f"{real} {real.stat().st_mtime_ns} {libs}".encode()).hexdigest()[:16]
    return libs.parent / f"classes-{whose}.jsa"


def brief_options(libs: Path) -> list[str]:
    """For a JVM of some seconds: one compiler, and the classes that were recorded, if any."""
    file = classes_file(libs)
    if not file.exists():
        return list(_BRIEF_OPTIONS)
    # What does not fit is loaded from the jars; a note about it would be among a tool's lines.
    return [*_BRIEF_OPTIONS, f"-XX:SharedArchiveFile={file}", "-Xshare:auto", "-Xlog:disable"]


def _libs(named: str | None, folder: str, artifact: str, argument: str) -> Path:
    """The folder of jars that holds ``artifact``: ``named``, or ``folder`` of those fetched.

    ``argument`` is what the script is given for it.
    """
    libs = Path(named or Path.home() / ".cache" / "zkcontroller" / folder / "libs")
    if not any(libs.glob(f"{artifact}.jar")):
        raise KafkaUnavailableError(
            f"no {artifact} in {libs}: run scripts/fetch-kafka.sh{argument}"
        )
    if shutil.which("java") is None:
        raise KafkaUnavailableError("no java on the PATH")
    return libs


class KafkaBroker(BrokerProcess):
    """``kafka.Kafka`` in ZooKeeper mode; ``log_levels`` names other levels than Kafka's own."""

    name = "kafka 3.9.1"

    def __init__(
        self,
        broker_id: int,
        zookeeper: str,
        directory: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        log_levels: Mapping[str, str] | None = None,
        heap: str = "1G",
        libs: Path | None = None,
        is_brief: bool = False,
    ) -> None:
        """``libs`` holds another Kafka than 3.9.1.

        A broker that ``is_brief`` starts soon, and is slower than Kafka's own after a minute.
        """
        super().__init__(broker_id, zookeeper, directory, overrides)
        self._libs = libs
        self._log_levels = log_levels or {}
        self._heap = heap
        self._is_brief = is_brief
        self.jvm_options: Sequence[str] = ()
        """More of them, for the next start."""

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        return [*self.start_command(), str(properties)]

    def start_command(self) -> list[str]:
        """What starts a broker: the file of its properties, and overrides, come behind it."""
        log4j = self.directory / "log4j.properties"
        log4j.write_text(_log4j(self._log_levels))
        libs = self._libs or kafka_libs()
        fast = (f"-Xms{self._heap}", *_PERFORMANCE_OPTIONS)
        return [
            "java",
            f"-Xmx{self._heap}",
            *(brief_options(libs) if self._is_brief else fast),
            *self.jvm_options,
            f"-Dkafka.logs.dir={self.logs}",
            f"-Dlog4j.configuration=file:{log4j}",
            "-cp",
            f"{libs}/*",
            "kafka.Kafka",
        ]


def kafka_tool(main_class: str, *arguments: str, libs: Path | None = None) -> list[str]:
    """The command line of one of Kafka's tools; ``libs`` holds another Kafka than ours."""
    libs = libs or kafka_libs()
    java = ["java", "-Xmx256M", *brief_options(libs)]
    return [*java, "-cp", f"{libs}/*", main_class, *arguments]


def run_kafka_tool(
    main_class: str,
    *arguments: str,
    timeout_s: float = 60,
    stdin: str = "",
    libs: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """One of Kafka's tools, e.g. ``org.apache.kafka.tools.TopicCommand``, or a Java source file."""
    return subprocess.run(
        kafka_tool(main_class, *arguments, libs=libs),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _log4j(levels: Mapping[str, str]) -> str:
    """Kafka's own ``log4j.properties``, with other levels where asked for."""
    appenders = {"server.log": "kafkaAppender"} | {
        file: file.removesuffix(".log").replace("-", "") + "Appender"
        for _, file in _LOGGERS.values()
    }
    lines = [
        "log4j.rootLogger=INFO, stdout, kafkaAppender",
        "log4j.appender.stdout=org.apache.log4j.ConsoleAppender",
    ]
    for file, appender in appenders.items():
        lines += [
            f"log4j.appender.{appender}=org.apache.log4j.DailyRollingFileAppender",
            f"log4j.appender.{appender}.DatePattern='.'yyyy-MM-dd-HH",
            f"log4j.appender.{appender}.File=${{kafka.logs.dir}}/{file}",
        ]
    for appender in ("stdout", *appenders.values()):
        lines += [
            f"log4j.appender.{appender}.layout=org.apache.log4j.PatternLayout",
            f"log4j.appender.{appender}.layout.ConversionPattern=[%d] %p %m (%c)%n",
        ]
    for logger, (level, file) in _LOGGERS.items():
        lines += [
            f"log4j.logger.{logger}={levels.get(logger, level)}, {appenders[file]}",
            f"log4j.additivity.{logger}=false",
        ]
    return "\n".join(lines) + "\n"
