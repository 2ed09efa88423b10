"""Keeps what a JVM has loaded for Kafka, so that the next one starts in half the processor time.

``python -m benchmarks.kafka_classes`` runs a broker once for each Kafka that was fetched, and has
the JVM write its classes beside the jars, as they are after loading (class data sharing).  Tests
start hundreds of these JVMs for some seconds each.  Measurements start theirs as Kafka does.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.kafka_peer import (
    OLDER_VERSION,
    VERSION,
    KafkaBroker,
    KafkaUnavailableError,
    classes_file,
    kafka_libs,
)
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper


def record(libs: Path) -> Path:
    """The file with the classes of the Kafka in ``libs``, written now if it is not there.

    Raises ``OSError`` where it cannot be written, and what :class:`KafkaBroker` raises.
    """
    file = classes_file(libs)
    if file.exists():
        return file
    with tempfile.TemporaryDirectory(dir=file.parent) as directory:
        written = Path(directory) / "classes.jsa"
        with EmbeddedZooKeeper(Path(directory) / "zookeeper") as zookeeper:
            broker = KafkaBroker(
                1,
                f"{zookeeper.connect}/kafka",
                Path(directory) / "kafka",
                heap="256M",
                libs=libs,
                is_brief=True,
            )
            broker.jvm_options = (f"-XX:ArchiveClassesAtExit={written}",)
            try:
                broker.start()
                broker.stop()
            finally:
                broker.kill()
        # Several may do this at once; each of the files is right.
        os.replace(written, file)
    return file


def main() -> None:
    """Prints a line for each Kafka."""
    for version in (VERSION, OLDER_VERSION):
        try:
            print(f"the classes of Kafka are in {record(kafka_libs(version))}")
        except KafkaUnavailableError as missing:
            print(f"no classes of Kafka are recorded: {missing}")
        except OSError as error:
            # Every JVM loads its classes by itself then.
            print(f"the classes of Kafka could not be recorded: {error}")


if __name__ == "__main__":
    main()
