"""Runs Kafka's own integration tests, from its test jars, on our brokers.

``KafkaServer.scala`` beside this module stands in for the class by which they start a broker.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

STAND_IN: Final = Path(__file__).with_name("KafkaServer.scala")
PRINCIPALS: Final = Path(__file__).with_name("principals")
TIMEOUT_S: Final = 1800
_INSIDE: Final = ("InsideTheBroker", "Unable to find metric")
"""Failures of tests that look for something, or for a metric, in the JVM of a broker."""
_LOGGING: Final = """\
log4j.rootLogger=WARN, file
log4j.logger.org.apache.kafka.streams=INFO
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File=${broker.directory}/tests.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Outcome(NamedTuple):
    """What became of the tests of one class."""

    passed: int
    inside: int
    """Tests that ask for something inside the broker's process: they say nothing about ours."""
    failed: Mapping[str, str]
    """The message of each other test that failed, by its name without its arguments."""


def compiled(libs: Path) -> Path:
    """The folder with the stand-in's classes, compiled if its source is new."""
    digest = hashlib.sha256(STAND_IN.read_bytes()).hexdigest()[:12]
    classes = libs.parent / f"stand-in-{digest}"
    if classes.exists():
        return classes
    made = libs.parent / f"stand-in-{digest}.{os.getpid()}"
    services = made / "META-INF/services"
    services.mkdir(parents=True)
    subprocess.run(
        [
            *("java", "-cp", f"{libs}/*", "scala.tools.nsc.Main", "-nowarn"),
            *("-classpath", _jars(libs), "-d", str(made), str(STAND_IN)),
        ],
        check=True,
        timeout=TIMEOUT_S,
    )
    (services / "org.junit.jupiter.api.extension.Extension").write_text(
        "kafka.server.OnlyZooKeeper"
    )
    (made / "log4j.properties").write_text(_LOGGING)
    try:
        made.rename(classes)
    except OSError:  # Another worker was sooner.
        shutil.rmtree(made)
    return classes


def run(libs: Path, name: str, directory: Path) -> Outcome:
    """Runs the tests of a class, each on brokers of its own; ``directory`` has what they print."""
    zkctl = Path(sys.executable).with_name("zkctl")
    command = [
        *("java", "-Xmx2g", "-Djava.net.preferIPv4Stack=true"),
        f"-Dbroker.command={zkctl} broker start",
        f"-Dbroker.directory={directory}",
        *("-cp", f"{compiled(libs)}:{_jars(libs)}"),
        *("org.junit.platform.console.ConsoleLauncher", "execute", "--select-class", name),
        *("--details", "tree", "--disable-banner", "--reports-dir", str(directory)),
        *("--config", "junit.jupiter.extensions.autodetection.enabled=true"),
        *("--config", "junit.jupiter.execution.timeout.default=300s"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(PRINCIPALS)}
    with (
        (directory / "output").open("wb") as output,
        subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as tests,
    ):
        try:
            tests.wait(TIMEOUT_S)
        finally:
            tests.terminate()  # It ends its brokers, which SIGKILL would leave running.
    return _outcome(directory / "TEST-junit-jupiter.xml")


def _jars(libs: Path) -> str:
    # The stand-in comes before them, and what JUnit brings along after all others.
    return ":".join(sorted(map(str, libs.glob("*.jar")), key=lambda jar: "console" in jar))


def _outcome(report: Path) -> Outcome:
    passed = inside = 0
    failed = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        broken = next((each for each in case if each.tag in ("failure", "error")), None)
        if case.find("skipped") is not None:
            continue
        if broken is None:
            passed += 1
        elif any(each in (broken.text or "") for each in _INSIDE):
            inside += 1
        else:
            failed[case.get("name", "").partition("(")[0]] = (
                broken.get("message") or broken.text or ""
            )
    return Outcome(passed, inside, failed)
