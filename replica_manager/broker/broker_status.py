"""``broker.json``: what tools on the same machine need to find a running broker.

The file is one JSON object in the first log directory.  It is written when the broker is ready, and
removed when the broker has stopped.  A broker that was killed leaves the file behind::

    {"pid": 4711, "broker_id": 1, "broker_epoch": 25, "started_at_ms": 1700000000000,
     "listeners": {"PLAINTEXT": "PLAINTEXT://host:9092"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, json

FILE_NAME: Final = "broker.json"


class BrokerStatus(Struct, frozen=True):
    """The content of ``broker.json``."""

    pid: int
    broker_id: int
    broker_epoch: int
    started_at_ms: int
    listeners: Mapping[str, str]
    """The advertised address of each listener, by listener name, with the bound port."""

    @staticmethod
    def read(log_dir: Path) -> BrokerStatus:
        """The status of the broker that runs there, or was killed there.

        OSError if it cannot be read (FileNotFoundError if there is none), ``msgspec.DecodeError``
        if it is not what a broker writes.
        """
        return json.decode((log_dir / FILE_NAME).read_bytes(), type=BrokerStatus)

    def write(self, log_dir: Path) -> None:
        """Writes the file atomically: no reader sees an incomplete file."""
        beside = log_dir / f"{FILE_NAME}.tmp"
        beside.write_bytes(json.encode(self) + b"\n")
        beside.replace(log_dir / FILE_NAME)


def remove_status(log_dir: Path) -> None:
    """Removes ``broker.json``; no error if there is none."""
    (log_dir / FILE_NAME).unlink(missing_ok=True)
