"""The same requests about groups to Kafka's broker and to our coordinator, and what is comparable.

Ours has no socket around it: requests and answers go through the bytes of their messages, the log
is a list of batches, and acknowledgements come with the next turn of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from importlib import import_module
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

from kio.schema.errors import ErrorCode

from replica_manager.groups.batches import append_batch, loaded_batches
from replica_manager.groups.config import GroupConfig
from replica_manager.groups.coordinator import GroupCoordinator
from replica_manager.groups.events import (
    Answer,
    Append,
    Appended,
    Elected,
    Input,
    Load,
    Loaded,
    LoadFinished,
    Startup,
    Tick,
)
from replica_manager.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from replica_manager.groups.requests import FetchOffsets
from replica_manager.server import group_answers, group_requests
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.messages import read_request, read_response, write
from zkcontroller.runtime.connection import Connection

CLIENT = "peers"


def schema(api: str, version: int) -> Any:
    """The classes of a request; untyped, so that plain numbers do."""
    return import_module(f"kio.schema.{api}.v{version}.request")


class Side(Protocol):
    """Somebody who coordinates groups."""

    def ask(self, client: str, request: Any) -> Awaitable[Any]:
        """The answer; each client has a connection of its own."""


class KafkaSide:
    """Kafka's broker, over its socket."""

    def __init__(self, address: str) -> None:
        self.address = address
        """``host:port``; another one after a restart."""
        self._connections: dict[str, Connection] = {}

    async def ask(self, client: str, request: Any) -> Any:
        if client not in self._connections:
            host, _, port = self.address.rpartition(":")
            self._connections[client] = await Connection.open(host, int(port), client_id=CLIENT)
        return await self._connections[client].request(request)

    async def close(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()


class OurSide:
    """Our coordinator, in this process."""

    def __init__(self, config: GroupConfig, partition_count: int) -> None:
        self.coordinator = GroupCoordinator(config, uuid4)
        self.log: dict[int, bytes] = {}
        self._end_offsets: Counter[int] = Counter()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._request_ids = count(1)
        self._ticker: asyncio.TimerHandle | None = None
        self.step(Startup(partition_count))
        # The first look for expired offsets is over before anybody asks, as in a broker.
        self.step(Tick())

    def lead(self, *partitions: int) -> None:
        for partition in partitions:
            self.step(Elected(partition, 0))

    def step(self, given: Input) -> None:
        for output in self.coordinator.step(given, int(time.time() * 1000)):
            match output:
                case Answer(request_id, result):
                    self._answers.pop(request_id).set_result(result)
                case Append():
                    self._append(output)
                case Load(partition, load_id):
                    self.step(Loaded(load_id, tuple(loaded_batches(self.log.get(partition, b"")))))
                    self.step(LoadFinished(load_id))
                case _:
                    pass
        self._set_ticker()

    def _append(self, append: Append) -> None:
        offset = self._end_offsets[append.partition]
        self._end_offsets[append.partition] += len(append.records)
        batch = append_batch(append)
        # What a leader assigns, outside of what the checksum covers: base offset, leader epoch 0.
        batch = offset.to_bytes(8, "big") + batch[8:12] + bytes(4) + batch[16:]
        self.log[append.partition] = self.log.get(append.partition, b"") + batch
        if append.append_id is not None:
            done = Appended(append.append_id, ErrorCode.none, offset)
            asyncio.get_running_loop().call_soon(self.step, done)

    def _set_ticker(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        deadline = self.coordinator.next_deadline_ms
        if deadline is not None and asyncio._get_running_loop() is not None:
            delay = max(deadline / 1000 - time.time(), 0)
            loop = asyncio.get_running_loop()
            self._ticker = loop.call_later(delay, self.step, Tick())

    async def ask(self, client: str, request: Any) -> Any:  # noqa: ARG002 - one for all clients
        api_key, version = ApiKey(request.__api_key__), request.__version__
        received = read_request(api_key, version, write(request))
        request_id = next(self._request_ids)
        match api_key:
            case ApiKey.JOIN_GROUP:
                value: Any = group_requests.read_join(
                    received, request_id, version, client_id=CLIENT, client_host="127.0.0.1"
                )
            case ApiKey.OFFSET_COMMIT:
                value = group_requests.read_commit(received, request_id)
            case _:
                value = _READERS[api_key](received, request_id)
        future = self._answers[request_id] = asyncio.get_running_loop().create_future()
        self.step(value)
        result = await future
        match api_key:
            case ApiKey.OFFSET_COMMIT:
                payload = group_answers.write_commit(result.errors, version)
            case ApiKey.OFFSET_FETCH:
                assert isinstance(value, FetchOffsets)
                payload = group_answers.write_fetch(result, value, version)
            case _:
                payload = _WRITERS[api_key](result, version)
        return read_response(api_key, version, write(payload))


_READERS: dict[ApiKey, Any] = {
    ApiKey.SYNC_GROUP: group_requests.read_sync,
    ApiKey.HEARTBEAT: group_requests.read_heartbeat,
    ApiKey.LEAVE_GROUP: group_requests.read_leave,
    ApiKey.OFFSET_FETCH: group_requests.read_fetch,
    ApiKey.OFFSET_DELETE: group_requests.read_delete_offsets,
    ApiKey.DELETE_GROUPS: group_requests.read_delete_groups,
    ApiKey.LIST_GROUPS: group_requests.read_list,
    ApiKey.DESCRIBE_GROUPS: group_requests.read_describe,
}

_WRITERS: dict[ApiKey, Any] = {
    ApiKey.JOIN_GROUP: group_answers.write_join,
    ApiKey.SYNC_GROUP: group_answers.write_sync,
    ApiKey.HEARTBEAT: group_answers.write_heartbeat,
    ApiKey.LEAVE_GROUP: group_answers.write_leave,
    ApiKey.OFFSET_DELETE: group_answers.write_delete_offsets,
    ApiKey.DELETE_GROUPS: group_answers.write_delete_groups,
    ApiKey.LIST_GROUPS: group_answers.write_list,
    ApiKey.DESCRIBE_GROUPS: group_answers.write_describe,
}


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
