"""Takes the measurements of ``zkctl check perf``, one request after the other.

``zkctl`` does nothing else during a measurement.  Each check begins with one round that is not
counted: it opens connections, and waits for leaders that were elected just now.  The first round
that fails ends its check.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from zkcontroller.zookeeper.requests import Check, RolledBack, ZkTransaction
from zkcontroller.zookeeper.results import required
from zkcontroller.zookeeper.znodes import ControllerEpochZnode
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, say
from zkcontroller_cli.truth.perf_results import CLEANUP, PerfResult
from zkcontroller_cli.wire.logs import addresses_in
from zkcontroller_cli.wire.records import fetch_record, produce_record
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    connected,
    create_topic,
    delete_topics_named,
    error_text,
    metadata,
    raise_for,
    raise_for_code,
    timeout_of,
)
from zkcontroller_cli.wire.topic_state import topics_still_there
from zkcontroller_cli.wire.topics import creatable
from zkcontroller_cli.wire.versions import BrokerConnection
from zkcontroller_cli.znodes.session import ZooKeeper

ANSWER_S: Final = 10.0
"""Seconds that one request may take."""
RECORD_BYTES: Final = 1024
KEY: Final = b"zkctl-check-perf"
_MOST_REPLICAS: Final = 3
_RETRY_S: Final = 0.1


@dataclass(frozen=True)
class MeasuredPartition:
    """A partition to write to, and the address of its leader."""

    topic: str
    partition: int
    broker_id: int
    address: BrokerAddress


# ZooKeeper.


def measure_zookeeper(zookeeper: ZooKeeper, rounds: int, *, is_write: bool) -> list[PerfResult]:
    """Time reads of one znode and, if ``is_write``, transactions that only check its version.

    Such a transaction changes nothing, but like a write it goes through the leader into the logs
    of a quorum.
    """
    where = ",".join(f"{host}:{port}" for host, port in zookeeper.servers)
    path = ControllerEpochZnode.PATH

    def read() -> int:
        return required(path, zookeeper.read([path])[0]).zk_version

    def check() -> None:
        response = zookeeper.transaction(ZkTransaction([Check(path, version)]))
        if isinstance(response, RolledBack):
            raise Refused(f"{path} is not at version {version} any more: {response.code.name}")

    results = [_timed("zookeeper_read", where, rounds, read)]
    if is_write:
        version = read()
        results.append(_timed("zookeeper_write", where, rounds, check))
    return results


def _timed(check: str, where: str, rounds: int, ask: Callable[[], object]) -> PerfResult:
    result = PerfResult(check, where)
    try:
        ask()
        for _ in range(rounds):
            began_s = time.perf_counter()
            ask()
            result.times_ms.append((time.perf_counter() - began_s) * 1000)
    except CommandFailed as error:
        result.error = str(error)
    return result


# Brokers.


async def measure_controller(bootstrap: Bootstrap, rounds: int) -> PerfResult:
    """Time ListPartitionReassignments, which the controller's event thread must answer."""
    known = await metadata(bootstrap, Deadline(ANSWER_S), ())
    controller_id = int(known.controller_id)
    address = addresses_in(known).get(controller_id)
    if address is None:
        return PerfResult("controller", "no broker", error="the brokers know no controller")
    result = PerfResult("controller", str(address), controller_id)

    async def ask(connection: BrokerConnection) -> None:
        request = ListPartitionReassignmentsRequest(
            timeout=timeout_of(Deadline(ANSWER_S)), topics=()
        )
        response = await connection.request(request)
        assert isinstance(response, ListPartitionReassignmentsResponse), "request() answers in kind"
        raise_for_code("ListPartitionReassignments", response.error_code, response.error_message)

    await _rounds(bootstrap, result, address, rounds, ask)
    return result


async def measure_records(bootstrap: Bootstrap, topic: str | None, rounds: int) -> list[PerfResult]:
    """Time writing and reading a record at every leader of ``topic``, or of a temporary topic.

    The temporary topic is deleted, also after an error and after Ctrl-C.
    """
    if topic is not None:
        led = await _led(bootstrap, topic, Deadline(0))
        return await _through(bootstrap, led, rounds)
    name = f"zkctl-check-perf-{secrets.token_hex(8)}"
    results: list[PerfResult] = []
    creation = asyncio.ensure_future(_create(bootstrap, name))
    try:
        await asyncio.shield(creation)
        led = await _led(bootstrap, name, Deadline(ANSWER_S))
        results = await _through(bootstrap, led, rounds)
    except CommandFailed as error:
        results.append(PerfResult("produce", name, error=str(error)))
    finally:
        # Until it is over, a controller that has begun it may know no topic to delete.
        await asyncio.wait([creation])
        if not isinstance(creation.exception(), Refused):  # after another error it may exist
            results.append(await _delete(bootstrap, name))
            if (why := results[-1].error) is not None:
                say(f"topic {name} is not deleted: {why}")
    return results


async def _through(
    bootstrap: Bootstrap, partitions: list[MeasuredPartition], rounds: int
) -> list[PerfResult]:
    results: list[PerfResult] = []
    for each in partitions:
        where = f"{each.topic}-{each.partition} at {each.address}"
        produced = PerfResult("produce", where, each.broker_id)
        consumed = PerfResult("consume", where, each.broker_id)
        await _write_and_read(bootstrap, each, rounds, produced, consumed)
        results += [produced, consumed]
    return sorted(results, key=lambda each: (each.check != "produce", each.broker_id))


async def _write_and_read(
    bootstrap: Bootstrap,
    led: MeasuredPartition,
    rounds: int,
    produced: PerfResult,
    consumed: PerfResult,
) -> None:
    """In each round write a record with acks=all, and read it as a consumer."""
    partition = (led.topic, led.partition)
    offset = 0

    async def write(connection: BrokerConnection) -> None:
        nonlocal offset
        value = secrets.token_bytes(RECORD_BYTES)
        offset = await produce_record(connection, partition, KEY, value, Deadline(ANSWER_S))

    async def read(connection: BrokerConnection) -> None:
        await fetch_record(connection, partition, offset, Deadline(ANSWER_S))

    result = produced
    try:
        async with connected([led.address], Deadline(ANSWER_S), bootstrap.security) as connection:
            await _until_it_leads(connection, write)
            await read(connection)
            for _ in range(rounds):
                for result, step in ((produced, write), (consumed, read)):
                    began_s = time.perf_counter()
                    await step(connection)
                    result.times_ms.append((time.perf_counter() - began_s) * 1000)
    except CommandFailed as error:
        result.error = str(error)
        if result is produced:
            consumed.error = f"nothing was written: {error}"


async def _until_it_leads(
    connection: BrokerConnection, write: Callable[[BrokerConnection], Awaitable[None]]
) -> None:
    """Write the first record, again while the broker refuses it, as it may not lead yet."""
    deadline = Deadline(ANSWER_S)
    while True:
        try:
            return await write(connection)
        except Refused:
            if deadline.is_over:
                raise
        await asyncio.sleep(_RETRY_S)


async def _rounds(
    bootstrap: Bootstrap,
    result: PerfResult,
    address: BrokerAddress,
    rounds: int,
    ask: Callable[[BrokerConnection], Awaitable[None]],
) -> None:
    try:
        async with connected([address], Deadline(ANSWER_S), bootstrap.security) as connection:
            await ask(connection)
            for _ in range(rounds):
                began_s = time.perf_counter()
                await ask(connection)
                result.times_ms.append((time.perf_counter() - began_s) * 1000)
    except CommandFailed as error:
        result.error = str(error)


# The topic.


async def _led(bootstrap: Bootstrap, topic: str, deadline: Deadline) -> list[MeasuredPartition]:
    """One partition of the topic for each broker that leads one, sorted by broker id.

    Refused if the topic does not exist or has a partition without leader after the deadline.
    """
    while True:
        known = await metadata(bootstrap, Deadline(ANSWER_S), [topic])
        [found] = known.topics
        partitions = _leaders_of(known)
        is_whole = found.error_code is ErrorCode.none and found.partitions
        if is_whole and all(each.leader_id >= 0 for each in found.partitions):
            return [partitions[broker_id] for broker_id in sorted(partitions)]
        if deadline.is_over:
            code = found.error_code
            why = "a partition has no leader" if code is ErrorCode.none else error_text(code)
            raise Refused(f"topic {topic}: {why}")
        await asyncio.sleep(_RETRY_S)


def _leaders_of(known: MetadataResponse) -> Mapping[int, MeasuredPartition]:
    addresses = addresses_in(known)
    led: dict[int, MeasuredPartition] = {}
    for topic in known.topics:
        for each in topic.partitions:
            broker_id = int(each.leader_id)
            if broker_id in addresses and broker_id not in led:
                led[broker_id] = MeasuredPartition(
                    str(topic.name), int(each.partition_index), broker_id, addresses[broker_id]
                )
    return led


async def _create(bootstrap: Bootstrap, name: str) -> None:
    """Create a topic of which each live broker leads one partition, with up to three replicas."""
    known = await metadata(bootstrap, Deadline(ANSWER_S), ())
    brokers = sorted(addresses_in(known))
    count = min(_MOST_REPLICAS, len(brokers))
    assignment = ",".join(
        ":".join(str(brokers[(first + step) % len(brokers)]) for step in range(count))
        for first in range(len(brokers))
    )
    topic = creatable(name, None, None, {}, assignment)
    raise_for(await create_topic(bootstrap, Deadline(ANSWER_S), topic))


async def _delete(bootstrap: Bootstrap, name: str) -> PerfResult:
    """Delete the topic, and wait until neither brokers nor the controller know it any more."""
    result = PerfResult(CLEANUP, name)
    deadline = Deadline(ANSWER_S)
    try:
        [deleted] = await delete_topics_named(bootstrap, deadline, [name])
        raise_for(deleted)
        # A broker that does not name a topic may not know it yet.
        while (await topics_still_there(bootstrap, deadline, [name]))[name]:
            if deadline.is_over:
                raise TimedOut("it is still being deleted")
            await asyncio.sleep(_RETRY_S)
    except CommandFailed as error:
        result.error = f"{error}: {command_line('topic delete', name)}"
    return result
