"""The same requests about groups to Kafka's broker and to ours, and what is comparable."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode

from kafka_common.net.connection import Connection
from replica_manager.coordinators.groups.batches import loaded_batches
from replica_manager.coordinators.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

CLIENT = "peers"


def schema(api: str, version: int) -> Any:
    """The classes of a request; untyped, so that plain numbers do."""
    return import_module(f"kio.schema.{api}.v{version}.request")


class Side:
    """A broker that coordinates groups, over its socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        """``host:port``; another one after a restart."""
        self._connections: dict[str, Connection] = {}

    async def ask(self, client: str, request: Any) -> Any:
        """The answer; each client has a connection of its own."""
        if client not in self._connections:
            host, _, port = self.address.rpartition(":")
            self._connections[client] = await Connection.open(host, int(port), client_id=CLIENT)
        return await self._connections[client].request(request)

    async def move_to(self, address: str) -> None:
        """The clients go to another broker, or the same one after a restart."""
        await self.close()
        self.address = address

    async def close(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()


class Names:
    """Member ids are made up; each stands for the name of the client it was given to."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def give(self, member_id: str, name: str) -> None:
        if member_id:
            self._names.setdefault(member_id, name)

    def translated(self, value: Any) -> Any:
        """The value with names for ids, without times, and in an order of its own."""
        if isinstance(value, dict):
            return {
                key: self.translated(each) for key, each in value.items() if "throttle" not in key
            }
        if isinstance(value, list | tuple):
            return sorted((self.translated(each) for each in value), key=repr)
        if isinstance(value, ErrorCode):
            return value.name
        if isinstance(value, bytes):
            return self._names.get(value.decode("latin-1"), value)
        return self._names.get(value, value) if isinstance(value, str) else value

    def records(self, log: bytes) -> list[list[Any]]:
        """What stands in the log, batch by batch, without times.

        Within a batch Kafka's order is that of a hash table.
        """
        return [
            sorted((self._record(each.key or b"", each.value) for each in batch.records), key=repr)
            for batch in loaded_batches(log)
        ]

    def _record(self, raw_key: bytes, value: bytes | None) -> Any:
        key = decode_key(raw_key)
        if value is None:
            return key, None
        version = int.from_bytes(value[:2], "big")
        match key:
            case OffsetKey():
                offset = decode_offset_value(value)
                expires = offset.expire_timestamp_ms
                kept = None if expires is None else expires - offset.commit_timestamp_ms
                return (
                    key,
                    version,
                    offset._replace(commit_timestamp_ms=0, expire_timestamp_ms=kept),
                )
            case GroupKey():
                group = decode_group_value(value)
                assert abs(group.state_timestamp_ms / 1000 - time.time()) < 600
                members = [self.translated(each._asdict()) for each in group.members]
                plain = group._replace(state_timestamp_ms=0, members=())
                return key, version, self.translated(plain._asdict()), sorted(members, key=repr)
            case _:
                return key, value
