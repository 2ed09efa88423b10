"""Every command of ``zkctl``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import orjson


def all_commands() -> list[tuple[str, click.Command]]:
    root: click.Group = import_module("zkcontroller_cli.main").zkctl

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for member in command.list_commands(context):
                found = command.get_command(context, member)
                assert found is not None
                yield from below(f"{name} {member}", found)

    return list(below("zkctl", root))


def write_cluster_file(directory: Path, zookeeper: str) -> None:
    entry = {"connect": zookeeper, "is_embedded": False, "port": None, "process": None}
    broker = {"broker_id": 1, "port": 1, "process": None, "host": "127.0.0.1"}
    content = {"version": 1, "zookeeper": entry, "brokers": [broker]}
    (directory / "cluster.json").write_bytes(orjson.dumps(content))
