"""``zkctl znode``: shows znodes, decoded if this project knows their format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zkcontroller_cli.console.options import VerbGroup, reads, settings
from zkcontroller_cli.console.render import Layout, Row, named

if TYPE_CHECKING:
    from kafka_common.json_values import JsonObject
    from zkcontroller.zookeeper.requests import ZkCode
    from zkcontroller_cli.znodes.session import ZooKeeper

T = TypeVar("T")

_STAT_KEYS: Final = (
    "czxid",
    "mzxid",
    "ctime_ms",
    "mtime_ms",
    "zk_version",
    "cversion",
    "aversion",
    "ephemeral_owner",
    "data_length",
    "num_children",
    "pzxid",
)


@click.group("znode", cls=VerbGroup)
def command() -> None:
    """Read what ZooKeeper holds, decoded."""


@command.command("ls")
@click.argument("path", default="/")
@click.option("--stat", "with_stat", is_flag=True, help="Show each znode's metadata as well.")
@reads
def ls(path: str, with_stat: bool) -> None:
    """The children of PATH.

    Examples:
      zkctl znode ls /brokers/ids
      zkctl znode ls /brokers/topics --stat
    """
    from zkcontroller_cli.znodes.session import existing, open_zookeeper

    path = _clean(path)
    with open_zookeeper(settings()) as zookeeper:
        names = existing(path, zookeeper.children([path])[0])
        paths = [_child(path, name) for name in names]
        stats = zookeeper.stats(paths) if with_stat else ()
    rows: list[Row] = [{"path": child} for child in paths]
    if with_stat:
        # A znode that was deleted between the two reads is not listed.
        rows = [
            {**row, **_stat(result)}
            for row, result in zip(rows, stats, strict=True)
            if isinstance(result, tuple)
        ]
    keys = ("path", *(_STAT_KEYS if with_stat else ()))
    columns = ("path", "zk_version", "num_children", "data_length", "ephemeral_owner", "mtime_ms")
    shown = columns if with_stat else ("path",)
    settings().renderer.rows(rows, named("path", *shown, keys=keys))


@command.command("get")
@click.argument("path")
@click.option("--stat", "with_stat", is_flag=True, help="Show the znode's metadata as well.")
@reads
def get(path: str, with_stat: bool) -> None:
    """What PATH holds, decoded; the text as it is where its content is unknown or corrupt.

    Examples:
      zkctl znode get /controller
      zkctl znode get /brokers/topics/orders/partitions/0/state --stat
    """
    from zkcontroller_cli.znodes.session import existing, open_zookeeper

    path = _clean(path)
    with open_zookeeper(settings()) as zookeeper:
        znode = existing(path, zookeeper.read([path])[0])
        stat = existing(path, zookeeper.stats([path])[0]) if with_stat else None
    record = {"path": path, "zk_version": znode.zk_version, **_content(path, znode.data)}
    settings().renderer.record({**record, **(_stat(stat) if stat else {})}, named("path"))


@command.command("tree")
@click.argument("path", default="/")
@click.option("--depth", type=click.IntRange(min=0), help="Levels below PATH  [default: all]")
@click.option("--stat", "with_stat", is_flag=True, help="Show each znode's metadata as well.")
@reads
def tree(path: str, depth: int | None, with_stat: bool) -> None:
    """PATH and everything below it, decoded, parents before their children.

    Examples:
      zkctl znode tree /admin
      zkctl znode tree / --depth 2 -o name
    """
    from zkcontroller_cli.znodes.session import open_zookeeper

    root = _clean(path)
    with open_zookeeper(settings()) as zookeeper:
        paths = sorted(_walk(zookeeper, root, depth), key=lambda found: found.split("/"))
        znodes = list(map(_readable, paths, zookeeper.read(paths)))
        stats: Sequence[Any] = zookeeper.stats(paths) if with_stat else [None] * len(paths)
    rows = [
        {
            "path": found,
            "depth": _depth(found, root),
            "zk_version": znode.zk_version,
            **_content(found, znode.data),
            **(_stat(stat) if isinstance(stat, tuple) else {}),
        }
        for found, znode, stat in zip(paths, znodes, stats, strict=True)
        if znode is not None
    ]
    columns = ("path", "zk_version", "data", *(("num_children",) if with_stat else ()))
    keys = ("path", "depth", "zk_version", "data", "raw", "is_corrupt")
    settings().renderer.rows(rows, Layout(lambda row: str(row["path"]), columns, keys))


def _walk(zookeeper: ZooKeeper, root: str, depth: int | None) -> list[str]:
    """Every path from ``root`` down, read level by level in bulk."""
    from zkcontroller.zookeeper.requests import ZkCode
    from zkcontroller_cli.znodes.session import existing

    existing(root, zookeeper.stats([root])[0])
    level, found = [root], [root]
    while level and (depth is None or _depth(level[0], root) < depth):
        level = [
            _child(parent, name)
            for parent, names in zip(level, zookeeper.children(level), strict=True)
            # A znode whose children may not be read may not be read either: that is the warning.
            if not isinstance(names, ZkCode)
            for name in names
        ]
        found += level
    return found


def _readable(path: str, result: T | ZkCode) -> T | None:
    """The result; None if the znode is missing, or after a warning if ZooKeeper refuses it."""
    from kafka_common.errors import ZooKeeperRefused
    from zkcontroller.zookeeper.results import optional
    from zkcontroller_cli.console.options import say

    try:
        return optional(path, result)
    except ZooKeeperRefused as refused:
        say(f"warning: {refused}: not shown")
        return None


def _content(path: str, data: bytes) -> JsonObject:
    """The decoded data; if it is corrupt, the text itself, after a warning."""
    from kafka_common.errors import ZnodeCorrupt
    from zkcontroller.zookeeper.znodes import describe
    from zkcontroller_cli.console.options import say

    raw = data.decode("utf-8", "backslashreplace")
    try:
        return {"data": describe(path, data), "raw": raw, "is_corrupt": False}
    except ZnodeCorrupt as error:
        say(f"warning: {error}")
        return {"data": raw, "raw": raw, "is_corrupt": True}


def _stat(stat: Any) -> dict[str, int]:
    return dict(zip(_STAT_KEYS, stat, strict=True))


def _clean(path: str) -> str:
    return "/" + "/".join(_parts(path))


def _parts(path: str) -> Iterator[str]:
    return filter(None, path.split("/"))


def _child(parent: str, name: str) -> str:
    return f"{parent.rstrip('/')}/{name}"


def _depth(path: str, root: str) -> int:
    return len(list(_parts(path))) - len(list(_parts(root)))
