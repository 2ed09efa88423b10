"""When the first broker learned of a new controller, from the brokers' responses and logs.

Brokers and clients learn of a controller by its first UpdateMetadata.  There are two proofs of it:

* A broker's Metadata response names the new controller.
* If the same broker was elected again, its id proves nothing.  In a local cluster, a
  ``metadata_cached`` record of the new epoch in a broker's ``state-changes.jsonl`` does.  Brokers
  write none for an UpdateMetadata without partitions (neither do Kafka's); in a cluster without
  partitions the controller's ``update_metadata_sending`` record is the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from zkcontroller.state_changes.export import FILE_NAME
from zkcontroller.state_changes.record import Kind
from zkcontroller_cli.machine.cluster_file import ClusterFile

_READ_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FirstUpdate:
    """When the first broker, and when all, had received the new controller's UpdateMetadata.

    Times are milliseconds after the deletion of ``/controller``; None if not seen.
    """

    first_update_metadata_ms: float | None
    first_update_metadata_broker_id: int | None
    """None also if only the sending is known."""
    first_update_metadata_source: str | None
    """How it was seen: ``metadata``, ``state_changes`` or ``state_changes_sent``; None if not."""
    first_update_metadata_reason: str | None
    """Why no UpdateMetadata was seen; None if one was."""
    all_brokers_updated_ms: float | None
    """When the last broker had received it; None if one had not, or if it is not known."""


def unseen(reason: str) -> FirstUpdate:
    """The evidence if no UpdateMetadata was seen, with the reason."""
    return FirstUpdate(None, None, None, reason, None)


def from_metadata(after_ms: Mapping[int, float], brokers: int) -> FirstUpdate:
    """The evidence from Metadata responses.

    ``after_ms``: by broker that named the new controller, when it did; ``brokers``: how many were
    asked.
    """
    if not after_ms:
        return unseen("no broker named the new controller in its Metadata response in time")
    return _first_of(after_ms, brokers, "metadata")


def from_logs(logs: StateChangeLogs, epoch: int, deleted_at_ms: int) -> FirstUpdate:
    """The evidence for the controller of this epoch from the brokers' ``state-changes.jsonl``."""
    cached = logs.first_of(Kind.METADATA_CACHED, epoch)
    if cached:
        after_ms = {broker_id: float(at - deleted_at_ms) for broker_id, at in cached.items()}
        return _first_of(after_ms, len(logs.paths), "state_changes")
    sent = logs.first_of(Kind.UPDATE_METADATA_SENDING, epoch)
    if sent:
        first_ms = float(min(sent.values()) - deleted_at_ms)
        return FirstUpdate(first_ms, None, "state_changes_sent", None, None)
    return unseen("no broker's state-changes.jsonl shows an UpdateMetadata of the new epoch")


def _first_of(after_ms: Mapping[int, float], brokers: int, source: str) -> FirstUpdate:
    first = min(after_ms, key=after_ms.__getitem__)
    last_ms = max(after_ms.values()) if len(after_ms) == brokers else None
    return FirstUpdate(after_ms[first], first, source, None, last_ms)


class StateChangeLogs:
    """The records that brokers add to ``state-changes.jsonl`` after this object is created."""

    def __init__(self, cluster: ClusterFile) -> None:
        self.paths = {
            entry.broker_id: cluster.logs_directory(entry.broker_id) / FILE_NAME
            for entry in cluster.brokers
        }
        self._starts = {broker_id: _size(path) for broker_id, path in self.paths.items()}

    def first_of(self, kind: Kind, controller_epoch: int) -> dict[int, int]:
        """By broker id, the time (ms since 1970) of its first record of that kind and epoch."""
        found = {}
        for broker_id in self.paths:
            for record in self._records(broker_id, kind):
                if record.get("controller_epoch") == controller_epoch:
                    found[broker_id] = int(record["time_ms"])
                    break
        return found

    def _records(self, broker_id: int, kind: Kind) -> Iterator[dict[str, Any]]:
        path = self.paths[broker_id]
        # If the file is smaller now, the hour has changed and the broker began a new file.
        start = self._starts[broker_id] if _size(path) >= self._starts[broker_id] else 0
        try:
            with path.open("rb") as file:
                file.seek(start)
                lines = file.read(_READ_BYTES_MAX).split(b"\n")
        except FileNotFoundError:
            return
        wanted = f'"{kind}"'.encode()
        for line in lines[:-1]:  # the last line may be incomplete
            if wanted in line:
                record = orjson.loads(line)
                if record["kind"] == kind:
                    yield record


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
