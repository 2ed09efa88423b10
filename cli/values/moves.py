"""Partitions and their new replicas, as named on the command line or in a file.

On the command line a partition is ``TOPIC-PARTITION`` and a move ``TOPIC-PARTITION:BROKER,BROKER``;
a file is what ``kafka-reassign-partitions`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from zkcontroller_cli.console.errors import BadUsage

_FORM: Final = '{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…]}]}'
_FORM_OF_PARTITIONS: Final = '{"partitions":[{"topic":…,"partition":…}]}'
ANY_DIRECTORY: Final = "any"
"""The value in ``log_dirs`` that lets the broker choose the log directory."""


class NamedPartition(NamedTuple):
    """A partition that the user named."""

    topic: str
    partition: int


class Move(NamedTuple):
    """The new replicas of a partition, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()
    """For each replica ``any`` or an absolute path; empty: brokers choose all log directories."""

    @property
    def name(self) -> NamedPartition:
        """The partition that moves."""
        return NamedPartition(self.topic, self.partition)

    @property
    def directories(self) -> Mapping[int, str]:
        """By broker, the log directory that the move names for its replica."""
        named = zip(self.replicas, self.log_dirs, strict=False)
        return {broker: path for broker, path in named if path != ANY_DIRECTORY}


def parse_partition(text: str) -> NamedPartition:
    """Parse a partition such as ``orders-0``; BadUsage for another form."""
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not _is_number(partition):
        raise BadUsage(f"{text!r} is not TOPIC-PARTITION, such as orders-0")
    return NamedPartition(topic, int(partition))


def parse_move(text: str) -> Move:
    """Parse a move such as ``orders-0:1,2,3``; BadUsage for another form."""
    name, colon, listed = text.rpartition(":")
    brokers = listed.split(",")
    if not colon or not all(map(_is_number, brokers)):
        raise BadUsage(f"{text!r} is not TOPIC-PARTITION:BROKER,BROKER,…, such as orders-0:1,2")
    return Move(*parse_partition(name), tuple(map(int, brokers)))


def read_moves(file: Path) -> list[Move]:
    """Read the moves in a file of ``kafka-reassign-partitions``; BadUsage for another form."""
    try:
        content = _json_in(file)
        if content.get("version", 1) != 1:
            raise BadUsage(f"{file} has version {content['version']}, and only 1 is known")
        moves = [_move(entry, file) for entry in content["partitions"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadUsage(f"{file} is not of the form {_FORM}") from error
    if not moves:
        raise BadUsage(f"{file} names no partition")
    return moves


def read_partition_names(file: Path) -> list[NamedPartition]:
    """Read the partitions in a file of ``kafka-leader-election``; BadUsage for another form."""
    try:
        named = [NamedPartition(*_partition_of(each)) for each in _json_in(file)["partitions"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadUsage(f"{file} is not of the form {_FORM_OF_PARTITIONS}") from error
    if not named:
        raise BadUsage(f"{file} names no partition")
    return named


def _json_in(file: Path) -> Any:
    try:
        return orjson.loads(file.read_bytes())
    except OSError as error:
        raise BadUsage(f"cannot read {file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise BadUsage(f"{file} is not JSON: {error}") from error


def write_moves(file: Path, moves: Sequence[Move]) -> None:
    """Write moves as ``kafka-reassign-partitions`` reads them; BadUsage if the file exists."""
    partitions = [
        {**move._asdict(), "log_dirs": move.log_dirs or [ANY_DIRECTORY] * len(move.replicas)}
        for move in moves
    ]
    content = orjson.dumps({"version": 1, "partitions": partitions}) + b"\n"
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except OSError as error:
        raise BadUsage(f"cannot write {file}: {error.strerror}") from error


def named_moves(moves: Sequence[str], file: Path | None) -> list[Move]:
    """The moves on the command line, or in the file; BadUsage if both are given, or none."""
    if bool(moves) == (file is not None):
        raise BadUsage("name moves as TOPIC-PARTITION:BROKER,BROKER,… or give them in a --file")
    found = [parse_move(text) for text in moves] if file is None else read_moves(file)
    distinct(found)
    return found


def distinct(named: Sequence[Move] | Sequence[NamedPartition]) -> None:
    """Raise BadUsage if a partition is named twice."""
    seen = set()
    for each in named:
        if each[:2] in seen:
            raise BadUsage(f"{each.topic}-{each.partition} is named twice")
        seen.add(each[:2])


def _partition_of(entry: dict[str, object]) -> tuple[str, int]:
    topic, partition = entry["topic"], entry["partition"]
    if not isinstance(topic, str) or type(partition) is not int:
        raise TypeError("topic and partition")
    return topic, partition


def _move(entry: dict[str, object], file: Path) -> Move:
    topic, partition = _partition_of(entry)
    replicas = entry["replicas"]
    if not isinstance(replicas, list) or not all(type(broker) is int for broker in replicas):
        raise TypeError("replicas")
    if not replicas:
        raise BadUsage(f"{file}: {topic}-{partition} has an empty list of replicas")
    log_dirs = entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if not isinstance(log_dirs, list) or not all(isinstance(path, str) for path in log_dirs):
        raise TypeError("log_dirs")
    if len(log_dirs) != len(replicas):
        raise BadUsage(
            f"{file}: {topic}-{partition} has {len(replicas)} replicas and {len(log_dirs)} log_dirs"
        )
    for path in log_dirs:
        if path != ANY_DIRECTORY and not path.startswith("/"):
            raise BadUsage(
                f"{file}: {topic}-{partition}: {path!r} in log_dirs is neither any nor an "
                "absolute path"
            )
    is_any = all(path == ANY_DIRECTORY for path in log_dirs)
    return Move(topic, partition, tuple(replicas), () if is_any else tuple(log_dirs))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 1 << 31
