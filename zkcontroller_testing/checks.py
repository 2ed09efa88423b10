"""Checks the epochs in a cluster's state changes, and shows all brokers' changes on one page.

The records are those of ``state-changes.jsonl``; docs/state-changes-schema.md describes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from zkcontroller.state_changes.export import FILE_NAME

StateChangeRow: TypeAlias = Mapping[str, Any]

_HIDDEN: Final = frozenset({"schema_version", "time_ms", "host", "kind", "component", "broker_id"})


def read_state_changes(logs_directories: Mapping[int, Path]) -> list[StateChangeRow]:
    """The records of all brokers, in order of time; those of one broker keep their order."""
    rows: list[StateChangeRow] = []
    for directory in logs_directories.values():
        # Files of earlier hours have a suffix, and come first.
        for file in [*sorted(directory.glob(f"{FILE_NAME}.*")), directory / FILE_NAME]:
            if file.exists():
                rows += map(orjson.loads, _whole_lines(file.read_bytes()))
    return sorted(rows, key=lambda row: int(row["time_ms"]))


def _whole_lines(data: bytes) -> list[bytes]:
    """The complete lines of a file whose last line may still be being written."""
    return data[: data.rfind(b"\n") + 1].splitlines()


def page(rows: Iterable[StateChangeRow], journal: Sequence[tuple[float, str]] = ()) -> str:
    """The state changes and the steps of the test as text, a line each, in order of time."""
    lines = [(int(row["time_ms"]), _line(row)) for row in rows]
    lines += [(round(at_s * 1000), f"---------- test        {text}") for at_s, text in journal]
    lines.sort(key=lambda line: line[0])
    return "".join(f"{_clock(at_ms)} {text}\n" for at_ms, text in lines)


def _line(row: StateChangeRow) -> str:
    fields = " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in row.items()
        if name not in _HIDDEN
    )
    return f"{row['component']:<10} {row['broker_id']:>4} {row['kind']:<28} {fields}"


def _clock(at_ms: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.strftime("%H:%M:%S.%f")[:-3]


def epoch_faults(rows: Iterable[StateChangeRow]) -> list[str]:
    """The faults of the epochs, a sentence each; empty if there are none.

    Faults are: a controller's epoch that decreases in its log, two brokers elected in one
    controller epoch, a partition's leader epoch that decreases in a broker's log, and two leaders
    of a partition in one leader epoch.  A topic that was deleted, or has another id, is new.
    """
    found: list[str] = []
    controller_epochs: dict[int, int] = {}
    elected: dict[int, int] = {}
    leader_epochs: dict[tuple[int, str, int, str], int] = {}
    leaders: dict[tuple[str, int, str, int], int] = {}
    for row in rows:
        broker, kind = int(row["broker_id"]), str(row["kind"])
        if kind == "controller_elected":
            epoch = int(row["controller_epoch"])
            if elected.setdefault(epoch, broker) != broker:
                found.append(f"brokers {elected[epoch]} and {broker} have controller epoch {epoch}")
            if epoch < controller_epochs.get(broker, epoch):
                found.append(
                    f"broker {broker} is controller of epoch {epoch} after "
                    f"{controller_epochs[broker]}"
                )
            controller_epochs[broker] = epoch
        elif row.get("to_state") == "NonExistentPartition" or row.get("delete_partition"):
            topic = row.get("topic")
            leader_epochs = {key: each for key, each in leader_epochs.items() if key[1] != topic}
            leaders = {key: each for key, each in leaders.items() if key[0] != topic}
        elif kind in ("leader_started", "follower_started"):
            where = str(row["topic"]), int(row["partition"]), str(row.get("topic_id"))
            epoch = int(row["leader_epoch"])
            before = leader_epochs.get((broker, *where), epoch)
            if epoch < before:
                found.append(
                    f"broker {broker}: {where[0]}-{where[1]} has epoch {epoch} after {before}"
                )
            leader_epochs[broker, *where] = epoch
            if kind == "leader_started" and leaders.setdefault((*where, epoch), broker) != broker:
                found.append(
                    f"brokers {leaders[*where, epoch]} and {broker} lead {where[0]}-{where[1]} "
                    f"in leader epoch {epoch}"
                )
    return found
