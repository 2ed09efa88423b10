"""``DIR/cluster.json``: the processes and ports of a local cluster, for later commands.

``zkctl cluster start`` writes it after each process that it starts, so that after any error the
processes can be found and stopped.  After a stop the file stays, without processes, and the next
start uses the same brokers and ports.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.machine.processes import NO_METRICS, MetricsOptions, ProcessId

_VERSION: Final = 1
_LOOPBACK: Final = "127.0.0.1"


@dataclass
class ZooKeeperEntry:
    """The ZooKeeper of a local cluster: a child process, or an external server."""

    connect: str
    is_embedded: bool
    port: int | None = None
    process: ProcessId | None = None


@dataclass
class BrokerEntry:
    """One broker of a local cluster."""

    broker_id: int
    port: int
    process: ProcessId | None = None
    host: str = _LOOPBACK
    metrics: MetricsOptions = NO_METRICS

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive


@dataclass
class ClusterFile:
    """The content of ``cluster.json``, and the paths of files beside it."""

    directory: Path
    zookeeper: ZooKeeperEntry
    brokers: list[BrokerEntry] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return _path(self.directory)

    @property
    def zookeeper_connect(self) -> str:
        return self.zookeeper.connect

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)

    @property
    def processes(self) -> dict[str, ProcessId]:
        """The processes that still run, by a name for the user, as ``broker 1``."""
        named = {f"broker {broker.broker_id}": broker.process for broker in self.brokers}
        named["ZooKeeper"] = self.zookeeper.process
        return {name: process for name, process in named.items() if process and process.is_alive}

    def broker(self, broker_id: int) -> BrokerEntry | None:
        return next((b for b in self.brokers if b.broker_id == broker_id), None)

    def broker_directory(self, broker_id: int) -> Path:
        """The directory with server.properties, the broker's data and its log files."""
        return self.directory / f"broker-{broker_id}"

    def properties_path(self, broker_id: int) -> Path:
        return self.broker_directory(broker_id) / "server.properties"

    def data_directory(self, broker_id: int) -> Path:
        """The broker's ``log.dirs``."""
        return self.broker_directory(broker_id) / "data"

    def logs_directory(self, broker_id: int) -> Path:
        """The directory of state-change.log, controller.log, server.log, state-changes.jsonl."""
        return self.broker_directory(broker_id) / "logs"

    def console_path(self, broker_id: int) -> Path:
        """The file with the output of the broker's process."""
        return self.broker_directory(broker_id) / "console.log"

    @property
    def zookeeper_directory(self) -> Path:
        return self.directory / "zookeeper"

    def save(self) -> None:
        """Replace the file atomically."""
        self.directory.mkdir(parents=True, exist_ok=True)
        content = {
            "version": _VERSION,
            "zookeeper": asdict(self.zookeeper),
            "brokers": [asdict(broker) for broker in self.brokers],
        }
        draft = self.path.with_suffix(".json.tmp")
        draft.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
        os.replace(draft, self.path)

    @classmethod
    def load(cls, directory: Path) -> ClusterFile | None:
        """The cluster of a directory, None if there is none; Refused if its file cannot be read."""
        path = _path(directory)
        try:
            content = orjson.loads(path.read_bytes())
            zookeeper = content["zookeeper"]
            return cls(
                # Absolute, as a broker's process must not depend on the current directory.
                directory.absolute(),
                ZooKeeperEntry(**{**zookeeper, "process": _process(zookeeper["process"])}),
                [
                    BrokerEntry(
                        **{
                            **b,
                            "process": _process(b["process"]),
                            "metrics": MetricsOptions(**b.get("metrics", {})),
                        }
                    )
                    for b in content["brokers"]
                ],
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Refused(
                f"{path} is not a cluster file of zkctl: {error!r}; stop its processes by hand, "
                "then move it away"
            ) from error


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Lock the cluster against other starts and stops; Refused if one is in progress."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "cluster.lock").open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"another zkctl is starting or stopping the cluster in {directory}: "
                "wait until it has ended"
            ) from None
        yield


def _path(directory: Path) -> Path:
    return directory / "cluster.json"


def _process(value: dict[str, Any] | None) -> ProcessId | None:
    return None if value is None else ProcessId(int(value["pid"]), str(value["started"]))
