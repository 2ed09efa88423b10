"""Partitions as ZooKeeper has them, for ``zkctl history audit``: live, or exported before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from .errors import BadUsage
from .options import Settings

Row: TypeAlias = tuple[str, int, int, int, list[int], int]
_KEYS: Final = ("topic", "partition", "leader", "leader_epoch", "isr", "zk_version")


def from_file(path: Path) -> list[Row]:
    """The rows of a file written by ``zkctl partition list`` with ``-o json`` or ``-o jsonl``.

    Raises:
        BadUsage: it is no such file.
    """
    import orjson

    content = path.read_bytes()
    try:
        entries = (
            orjson.loads(content)
            if content.lstrip().startswith(b"[")
            else [orjson.loads(line) for line in content.splitlines() if line.strip()]
        )
        return _rows(entries)
    except (ValueError, KeyError, TypeError) as error:
        raise BadUsage(f"{path} is no output of zkctl partition list -o json: {error}") from None


def from_zookeeper(settings: Settings) -> list[Row]:
    """The rows of the state znodes, read now."""
    from .partitions import read_partitions
    from .zookeeper import open_zookeeper

    with open_zookeeper(settings) as zookeeper:
        return _rows(partition.row() for partition in read_partitions(zookeeper, None))


def _rows(entries: Iterable[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = []
    for entry in entries:
        topic, partition, leader, leader_epoch, isr, zk_version = (entry[key] for key in _KEYS)
        # A partition without a state znode has no leader yet: there is nothing to compare.
        if leader is not None:
            rows.append((str(topic), partition, leader, leader_epoch, list(isr), zk_version))
    return rows
