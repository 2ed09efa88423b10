"""Partitions and their new replicas as they are named on the command line or in a file.

On the command line a partition is ``TOPIC-PARTITION`` and a move ``TOPIC-PARTITION:BROKER,BROKER``;
a file is what ``kafka-reassign-partitions`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from .errors import BadUsage

_FORM: Final = '{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…]}]}'


class NamedPartition(NamedTuple):
    """A partition that the user named."""

    topic: str
    partition: int


class Move(NamedTuple):
    """Where a partition shall have its replicas, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


def parse_partition(text: str) -> NamedPartition:
    """``orders-0``; BadUsage if it is not of that form."""
    topic, dash, partition = text.rpartition("-")
    if not dash or not topic or not _is_number(partition):
        raise BadUsage(f"{text!r} is not TOPIC-PARTITION")
    return NamedPartition(topic, int(partition))


def parse_move(text: str) -> Move:
    """``orders-0:1,2,3``; BadUsage if it is not of that form."""
    name, colon, listed = text.rpartition(":")
    brokers = listed.split(",")
    if not colon or not all(map(_is_number, brokers)):
        raise BadUsage(f"{text!r} is not TOPIC-PARTITION:BROKER,BROKER,…")
    return Move(*parse_partition(name), tuple(map(int, brokers)))


def read_moves(file: Path) -> list[Move]:
    """The moves in a file of ``kafka-reassign-partitions``; BadUsage if it is none.

    Its ``log_dirs`` must not name directories: replicas go where their broker puts them.
    """
    try:
        content = orjson.loads(file.read_bytes())
    except OSError as error:
        raise BadUsage(f"cannot read {file}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise BadUsage(f"{file} is not JSON: {error}") from error
    try:
        return [_move(entry, file) for entry in content["partitions"]]
    except (KeyError, TypeError, ValueError) as error:
        raise BadUsage(f"{file} is not of the form {_FORM}") from error


def distinct(named: Sequence[Move] | Sequence[NamedPartition]) -> None:
    """BadUsage if a partition is named twice."""
    seen = set()
    for each in named:
        if each[:2] in seen:
            raise BadUsage(f"{each.topic}-{each.partition} is named twice")
        seen.add(each[:2])


def _move(entry: dict[str, object], file: Path) -> Move:
    topic, partition, replicas = entry["topic"], entry["partition"], entry["replicas"]
    log_dirs = entry.get("log_dirs", [])
    if not isinstance(log_dirs, list) or any(directory != "any" for directory in log_dirs):
        raise BadUsage(f"{file}: log_dirs of {topic}-{partition} may only be any")
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError("topic and partition")
    if not isinstance(replicas, list) or not all(type(broker) is int for broker in replicas):
        raise TypeError("replicas")
    return Move(topic, partition, tuple(replicas))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 1 << 31
