"""The partition states in ZooKeeper for ``zkctl history audit``: read now, or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Settings

Row: TypeAlias = tuple[str, int, int, int, list[int], int]
_KEYS: Final = ("topic", "partition", "leader", "leader_epoch", "isr", "zk_version")


def from_file(path: Path) -> list[Row]:
    """The rows of a file written by ``zkctl partition list`` with ``-o json`` or ``-o jsonl``.

    Raises:
        BadUsage: the file is not such output.
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


def from_zookeeper(settings: Settings) -> tuple[list[Row], str | None]:
    """The rows of the state znodes, read now, and the cluster id; None if there is no id."""
    from zkcontroller.zookeeper.requests import Znode
    from zkcontroller.zookeeper.znodes import ClusterIdZnode
    from zkcontroller_cli.znodes.partitions import read_partitions
    from zkcontroller_cli.znodes.session import decoded, open_zookeeper

    with open_zookeeper(settings) as zookeeper:
        (known,) = zookeeper.read([ClusterIdZnode.PATH])
        named = decoded(ClusterIdZnode.decode, known.data) if isinstance(known, Znode) else None
        rows = _rows(partition.row() for partition in read_partitions(zookeeper, None))
    return rows, None if named is None else named.cluster_id


def must_be_same(cluster_id: str | None, of_logs: Sequence[str]) -> None:
    """Refuse to compare the logs of one cluster with the ZooKeeper of another.

    ``of_logs``: the cluster ids in the logs; if empty, nothing is checked.

    Raises:
        Refused: the id of ZooKeeper's cluster is not among them.
    """
    if of_logs and cluster_id not in of_logs:
        zookeepers = (
            f"cluster {cluster_id}" if cluster_id else "no cluster (/cluster/id is missing)"
        )
        raise Refused(
            f"the logs are of cluster {' and '.join(of_logs)}, and this ZooKeeper is of "
            f"{zookeepers}: check -z and its chroot"
        )


def _rows(entries: Iterable[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = []
    for entry in entries:
        topic, partition, leader, leader_epoch, isr, zk_version = (entry[key] for key in _KEYS)
        # A partition without a state znode has no leader yet: there is nothing to compare.
        if leader is not None:
            rows.append((str(topic), partition, leader, leader_epoch, list(isr), zk_version))
    return rows
