"""Asks every broker what it knows of the cluster, and the controller whether it works."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final
from uuid import UUID

from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13 import request as fetch
from kio.schema.fetch.v13.response import FetchResponse
from kio.schema.list_offsets.v6 import request as list_offsets
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from kafka_common.net.client_security import ClientSecurity
from kafka_common.protocol.api_versions import ApiKey
from zkcontroller_cli.console.errors import ApiNotKnown, CommandFailed, NotLetIn, TimedOut
from zkcontroller_cli.diagnosis.findings import Evidence, Place
from zkcontroller_cli.diagnosis.looks import Silence
from zkcontroller_cli.diagnosis.reading import BrokerReading, ClusterReading, LogDir
from zkcontroller_cli.wire.admin import BROKER
from zkcontroller_cli.wire.controller import probe_controller
from zkcontroller_cli.wire.metadata import answer_of, lacking_topics
from zkcontroller_cli.wire.metadata_responses import CachedState, expected_state
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    ask_metadata,
    connected,
    parse_bootstrap,
)
from zkcontroller_cli.wire.versions import BrokerConnection
from zkcontroller_cli.znodes.partitions import PartitionView
from zkcontroller_cli.znodes.registrations import LiveBroker
from zkcontroller_cli.znodes.session import now_ms

MOST_COMPARED: Final = 10_000
"""The most topics or partitions in one comparison with a broker.

It bounds the under-replicated partitions whose log end offsets are compared, the topics missing in
a Metadata response that are asked for by name, and the topics that are fetched from.
"""

_RULES_WITHOUT: Final = {
    "Metadata": ("B02", "B03", "B04", "M01", "M02", "M03", "L01", "L02", "S02"),
    "Fetch": ("L01", "L02", "M02", "S02"),
    "DescribeLogDirs": ("L01", "L02", "S02"),
    "DescribeConfigs": ("S02",),
}
"""By request, in the order sent, the rules that cannot be checked when that request fails."""

_SESSION_TIMEOUT: Final = "zookeeper.session.timeout.ms"
_LATEST: Final = -1
_FETCH_BY_ID: Final = 13
"""The first version of Fetch that names topics by their ids (Kafka 3.1)."""
_NO_OFFSET: Final = -1
_DEBUGGING_REPLICA: Final = -2
"""With this replica id a follower answers ListOffsets too, with its own log end offset.

Source: Kafka ``ListOffsetsRequest``.
"""


async def read_brokers(
    reading: ClusterReading, security: ClientSecurity, named: str | None = None
) -> None:
    """Fill ``reading`` with the responses of every registered broker and of the controller.

    ``named``, as ``host:port,host:port``, are further addresses where unregistered brokers may
    listen.  The addresses in the brokers' metadata and in earlier looks are tried as well.
    """
    reading.security_protocol = security.protocol
    probe = asyncio.create_task(_probe(reading, security))
    brokers = await asyncio.gather(
        *(_ask(reading, each, security) for _, each in sorted(reading.registrations.items()))
    )
    for broker in brokers:
        broker.differing = _differing(reading, broker)
    reading.brokers = brokers
    targets = {broker for _, missing in reading.slow_moves for broker in missing}
    for broker_id in sorted(reading.hiding_log_dirs() & targets):
        where = f"DescribeLogDirs of broker {broker_id}"
        reading.leave_unchecked(["R01"], where, "whether its new replicas grow is not known")
    reading.probe = await probe
    await asyncio.gather(
        _read_unregistered(reading, security, named), _read_caught_up(reading, security)
    )


async def _ask(
    cluster: ClusterReading, registration: LiveBroker, security: ClientSecurity
) -> BrokerReading:
    broker_id = registration.broker.broker_id
    reading = BrokerReading(broker_id)
    address = registration.address_by(security.protocol)
    if address is None:
        _record_not_asked(cluster, reading, f"it has no {security.protocol} listener")
        return reading
    began_ms = now_ms()
    request = "Metadata"
    try:
        deadline = Deadline(cluster.broker_s)
        async with connected([BrokerAddress(*address)], deadline, security) as connection:
            response = await ask_metadata(connection)
            cluster.silences.pop(broker_id, None)
            _record_answer_time(cluster, broker_id, now_ms() - began_ms)
            _take_metadata(reading, response)
            _note_topic_ids(cluster, reading)
            await _read_unknown_topics(cluster, reading, connection)
            request = "Fetch"
            await _read_refused_topics(cluster, reading, connection)
            request = "DescribeLogDirs"
            await _read_log_dirs(cluster, reading, connection)
            request = "DescribeConfigs"
            await _read_session_timeout(cluster, reading, connection)
    except NotLetIn as error:
        _record_not_asked(cluster, reading, str(error))
    except CommandFailed as error:
        if request == "Metadata":
            _record_silence(cluster, reading, error, began_ms)
        else:
            where = f"{request} of broker {broker_id}"
            cluster.leave_unchecked(_RULES_WITHOUT[request], where, str(error))
    return reading


def _record_not_asked(cluster: ClusterReading, reading: BrokerReading, why: str) -> None:
    reading.error, reading.is_asked = why, False
    cluster.leave_unchecked(
        _RULES_WITHOUT["Metadata"], f"Metadata of broker {reading.broker_id}", why
    )


def _record_silence(
    cluster: ClusterReading, reading: BrokerReading, error: CommandFailed, began_ms: int
) -> None:
    """Record that a broker did not answer Metadata: rule B02 reports it, the others cannot run."""
    reading.error = str(error)
    broker_id = reading.broker_id
    if isinstance(error, TimedOut):
        silence = Silence(began_ms, now_ms()).joined(cluster.silences.get(broker_id))
        cluster.silences[broker_id] = silence
        _record_answer_time(cluster, broker_id, silence.until_ms - silence.since_ms)
    where = f"Metadata of broker {broker_id}"
    cluster.leave_unchecked(["S02"], where, str(error))
    for rule in _RULES_WITHOUT["Metadata"]:
        if rule not in ("B02", "S02"):
            cluster.notes[rule] = "a broker does not answer: see B02"


def _record_answer_time(cluster: ClusterReading, broker_id: int, took_ms: int) -> None:
    """Remember the longest time in ms that the broker took to answer, or that zkctl waited."""
    longest_ms = cluster.longest_answers_ms.get(broker_id, 0)
    cluster.longest_answers_ms[broker_id] = max(took_ms, longest_ms)


def _take_metadata(reading: BrokerReading, response: MetadataResponse) -> None:
    answer = answer_of(response)
    reading.cluster_id = answer.cluster_id
    reading.live_brokers = frozenset(answer.brokers)
    reading.addresses = {
        broker_id: (broker.host, broker.port) for broker_id, broker in answer.brokers.items()
    }
    reading.topic_ids = answer.topic_ids
    reading.partitions = answer.partitions


def _note_topic_ids(cluster: ClusterReading, reading: BrokerReading) -> None:
    """Note that M02 is not checked: before inter-broker protocol 2.8 a broker has no topic ids."""
    if reading.partitions and not reading.topic_ids:
        cluster.notes["M02"] = (
            f"broker {reading.broker_id} names no topic ids: "
            "that needs inter.broker.protocol.version 2.8 or later"
        )


async def _read_unknown_topics(
    cluster: ClusterReading, reading: BrokerReading, connection: BrokerConnection
) -> None:
    """Ask by name why Metadata lacks topics: unknown to the broker, or not authorized."""
    if not reading.live_brokers:
        # Rule B04 reports it, but not of a broker that has only just registered.
        if cluster.registration_ages_s.get(reading.broker_id, 0.0) <= cluster.patience_s:
            cluster.notes["B04"] = (
                f"broker {reading.broker_id} has just registered, and has taken nothing from the "
                "controller yet; look again in a minute"
            )
        return
    known = {topic for topic, _ in reading.partitions}
    led = {view.topic for view in cluster.partitions if view.state is not None}
    lacking = sorted(led - known - set(cluster.deletions))
    if not lacking:
        return
    if len(lacking) > MOST_COMPARED:
        cluster.notes["M01"] = f"{MOST_COMPARED:,} of {len(lacking):,} missing topics are asked for"
    unknown, refused = await lacking_topics(connection, lacking[:MOST_COMPARED])
    reading.unknown_topics.extend(unknown)
    if refused:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        where = f"Metadata of broker {reading.broker_id}"
        cluster.leave_unchecked(("M01", "M02"), where, f"{refused[0]}{more}")


async def _read_refused_topics(
    cluster: ClusterReading, reading: BrokerReading, connection: BrokerConnection
) -> None:
    """Find topics whose id in the broker's ``partition.metadata`` differs from the topic's znode.

    Metadata cannot show that: it returns the id that the controller sent.  So one partition of
    each topic is fetched by topic id, and the broker refuses with INCONSISTENT_TOPIC_ID.
    """
    _, newest = (await connection.ask_versions()).get(ApiKey.FETCH, (0, -1))
    ids = {topic.topic: topic.topic_id for topic in cluster.topics}
    asked: dict[UUID, PartitionView] = {}
    for view in cluster.partitions:
        topic_id = ids.get(view.topic)
        if (
            topic_id is not None
            and topic_id == reading.topic_ids.get(view.topic)
            and reading.broker_id in view.assignment.replicas
            and view.topic not in cluster.deletions
        ):
            asked.setdefault(topic_id, view)
    if not asked:
        return
    if newest < _FETCH_BY_ID:
        cluster.notes["M02"] = (
            f"broker {reading.broker_id} takes no Fetch by topic id, as Kafka 3.1 and later do: "
            "whether it refuses a topic for its id is not seen"
        )
        return
    if len(asked) > MOST_COMPARED:
        cluster.notes["M02"] = f"{MOST_COMPARED:,} of {len(asked):,} topics are fetched from"
    response = await connection.request(
        fetch.FetchRequest(
            max_wait=i32Timedelta.parse(timedelta()),
            min_bytes=i32(0),
            max_bytes=i32(0),
            topics=tuple(
                fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=(
                        fetch.FetchPartition(
                            partition=i32(view.partition),
                            fetch_offset=i64(_NO_OFFSET),
                            partition_max_bytes=i32(0),
                        ),
                    ),
                )
                for topic_id, view in islice(asked.items(), MOST_COMPARED)
            ),
            forgotten_topics_data=(),
        )
    )
    assert isinstance(response, FetchResponse), "request() answers in kind"
    reading.refused_topics = [
        asked[topic.topic_id].topic
        for topic in response.responses
        for partition in topic.partitions
        if topic.topic_id is not None and partition.error_code is ErrorCode.inconsistent_topic_id
    ]


async def _read_log_dirs(
    cluster: ClusterReading, reading: BrokerReading, connection: BrokerConnection
) -> None:
    try:
        described = await connection.request(DescribeLogDirsRequest(topics=None))
    except ApiNotKnown as error:  # before Kafka 1.0
        cluster.notes["L01"] = cluster.notes["L02"] = str(error)
        return
    assert isinstance(described, DescribeLogDirsResponse), "request() answers in kind"
    reading.log_dirs = _log_dirs(described)
    if not reading.log_dirs:
        # Every broker has a directory.  Version 2 has no error code for the whole response: when
        # the client is not authorized, the response just names no directory.
        where = f"DescribeLogDirs of broker {reading.broker_id}"
        cluster.leave_unchecked(("L01", "L02"), where, "no directory is named: not allowed")


def _log_dirs(response: DescribeLogDirsResponse) -> list[LogDir]:
    return [
        LogDir(
            each.log_dir,
            None if each.error_code is ErrorCode.none else each.error_code.name.upper(),
            {
                (str(topic.name), int(partition.partition_index)): int(partition.partition_size)
                for topic in each.topics
                for partition in topic.partitions
                if not partition.is_future_key
            },
        )
        for each in response.results
    ]


async def _read_session_timeout(
    cluster: ClusterReading, reading: BrokerReading, connection: BrokerConnection
) -> None:
    try:
        response = await _own_configs(connection, [reading.broker_id], [_SESSION_TIMEOUT])
    except ApiNotKnown as error:
        cluster.notes["S02"] = str(error)
        return
    [result] = response.results
    value = next((each.value for each in result.configs if each.name == _SESSION_TIMEOUT), None)
    if value is not None and value.isdecimal():
        reading.session_timeout_ms = int(value)
    else:
        where = f"DescribeConfigs of broker {reading.broker_id}"
        code = result.error_code
        what = f"no {_SESSION_TIMEOUT}" if code is ErrorCode.none else code.name.upper()
        cluster.leave_unchecked(["S02"], where, what)


async def _own_configs(
    connection: BrokerConnection, broker_ids: Iterable[int], keys: Sequence[str] | None
) -> DescribeConfigsResponse:
    """Ask one broker for the configurations of brokers; a broker returns only its own."""
    response = await connection.request(
        describe_configs.DescribeConfigsRequest(
            resources=tuple(
                describe_configs.DescribeConfigsResource(
                    resource_type=i8(BROKER),
                    resource_name=str(broker_id),
                    configuration_keys=None if keys is None else tuple(keys),
                )
                for broker_id in broker_ids
            ),
            include_synonyms=False,
            include_documentation=False,
        )
    )
    assert isinstance(response, DescribeConfigsResponse), "request() answers in kind"
    return response


def _differing(
    reading: ClusterReading, broker: BrokerReading
) -> list[tuple[PartitionView, CachedState]]:
    """Partitions whose state in the broker's metadata cache differs from ZooKeeper's."""
    return [
        (view, cached)
        for view in reading.partitions
        if view.topic not in reading.deletions
        and (cached := broker.partitions.get((view.topic, view.partition))) is not None
        and expected_state(view, cached) is not None
    ]


async def _probe(reading: ClusterReading, security: ClientSecurity) -> Evidence | None:
    """Ask the controller for its reassignments, which only its event thread can answer.

    None when it answered, or when it could not be asked.  Kafka has ListPartitionReassignments
    since 2.4; an older controller is not probed.
    """
    broker_id = None if reading.controller is None else reading.controller.broker_id
    registration = None if broker_id is None else reading.registrations.get(broker_id)
    if registration is None:
        reading.notes["C01"] = (
            f"KRaft controller {broker_id} holds /controller: zkctl migration check says what that "
            "means"
            if reading.is_kraft
            else "there is no registered controller to ask"
        )
        return None
    address = registration.address_by(security.protocol)
    where = f"ListPartitionReassignments of broker {broker_id}"
    if address is None:
        reading.leave_unchecked(["C01"], where, f"it has no {security.protocol} listener")
        return None
    try:
        code = await probe_controller(address, security, reading.broker_s)
    except ApiNotKnown as error:
        reading.notes["C01"] = str(error)
        return None
    except NotLetIn as error:
        reading.leave_unchecked(["C01"], where, str(error))
        return None
    except CommandFailed as error:
        return Evidence(where, str(error))
    if code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
        return Evidence(where, code.name.upper())
    if code is not ErrorCode.none:
        reading.leave_unchecked(["C01"], where, code.name.upper())
    return None


# Brokers that are not registered.


async def _read_unregistered(
    reading: ClusterReading, security: ClientSecurity, named: str | None
) -> None:
    registered = {each.address_by(security.protocol) for each in reading.registrations.values()}
    suspects: dict[tuple[str, int], str] = {}
    if reading.earlier is not None:
        for broker_id, seen in reading.earlier.brokers.items():
            if broker_id not in reading.registrations:
                suspects[seen.host, seen.port] = f"as broker {broker_id} in an earlier look"
    for broker in reading.brokers:
        for broker_id, address in broker.addresses.items():
            if broker_id not in reading.registrations:
                suspects[address] = f"as broker {broker_id} in the metadata of {broker.broker_id}"
    for address in parse_bootstrap(named or "") if named else ():
        suspects.setdefault((address.host, address.port), "by -b or the cluster's file")
    found = await asyncio.gather(
        *(
            _unregistered_broker(reading, BrokerAddress(*address), source, security)
            for address, source in suspects.items()
            if address not in registered
        )
    )
    reading.strangers = [place for place in found if place is not None]


async def _unregistered_broker(
    reading: ClusterReading, address: BrokerAddress, source: str, security: ClientSecurity
) -> Place | None:
    """The finding that an unregistered broker of this cluster answers at an address, else None."""
    where = f"DescribeConfigs of {address}, known {source}"
    try:
        async with connected([address], Deadline(reading.broker_s), security) as connection:
            cluster_id = (await ask_metadata(connection, ())).cluster_id
            if cluster_id != reading.cluster_id:
                return None  # a broker of another cluster
            own = await _own_configs(connection, reading.registrations, ["broker.id"])
    except ApiNotKnown as error:
        reading.leave_unchecked(["B01"], where, str(error))
        return None
    except NotLetIn as error:
        reading.leave_unchecked(["B01"], where, str(error))
        return None
    except CommandFailed:
        return None  # nothing answers there
    codes = [result.error_code for result in own.results]
    if ErrorCode.none in codes:
        return None  # a registered broker under another address
    refused = [code for code in codes if code is not ErrorCode.invalid_request]
    if refused:
        reading.leave_unchecked(["B01"], where, refused[0].name.upper())
        return None
    return Place(Evidence(where, "it answers, and is none of the registered brokers"))


# Replicas that have the whole log of the leader, and are not in sync.


async def _read_caught_up(reading: ClusterReading, security: ClientSecurity) -> None:
    answering = {broker.broker_id for broker in reading.brokers if broker.error is None}
    short = [
        (view, missing)
        for view in reading.partitions
        if view.state is not None
        and view.topic not in reading.deletions
        and view.state.leader in answering
        and (
            missing := [
                broker
                for broker in view.assignment.replicas
                if broker not in view.state.in_sync_replicas and broker in answering
            ]
        )
    ]
    if len(short) > MOST_COMPARED:
        reading.notes["P10"] = f"{MOST_COMPARED:,} of {len(short):,} partitions are compared"
        short = short[:MOST_COMPARED]
    led: defaultdict[int, list[PartitionView]] = defaultdict(list)
    followed: defaultdict[int, list[PartitionView]] = defaultdict(list)
    for view, missing in short:
        assert view.state is not None
        led[view.state.leader].append(view)
        for broker in missing:
            followed[broker].append(view)
    # The leaders are asked first: a follower that later reaches that offset had caught up.
    leaders = await _log_ends(reading, led, security)
    followers = await _log_ends(reading, followed, security)
    for broker, views in sorted(followed.items()):
        for view in views:
            assert view.state is not None
            end = leaders.get((view.state.leader, view.topic, view.partition))
            has = followers.get((broker, view.topic, view.partition))
            if end is not None and has is not None and has >= end:
                reading.caught_up.append((view, broker, has))


async def _log_ends(
    reading: ClusterReading, asked: Mapping[int, Sequence[PartitionView]], security: ClientSecurity
) -> dict[tuple[int, str, int], int]:
    """Log end offsets by broker, topic and partition; an entry is missing where it was refused."""

    async def ask(broker_id: int, views: Sequence[PartitionView]) -> ListOffsetsResponse | None:
        address = reading.registrations[broker_id].address_by(security.protocol)
        assert address is not None, "it answered there"
        topics: defaultdict[str, list[list_offsets.ListOffsetsPartition]] = defaultdict(list)
        for view in views:
            topics[view.topic].append(
                list_offsets.ListOffsetsPartition(
                    partition_index=i32(view.partition), timestamp=i64(_LATEST)
                )
            )
        request = list_offsets.ListOffsetsRequest(
            replica_id=BrokerId(_DEBUGGING_REPLICA),
            isolation_level=i8(0),
            topics=tuple(
                list_offsets.ListOffsetsTopic(name=TopicName(name), partitions=tuple(those))
                for name, those in topics.items()
            ),
        )
        try:
            async with connected(
                [BrokerAddress(*address)], Deadline(reading.broker_s), security
            ) as connection:
                response = await connection.request(request)
        except CommandFailed as error:
            reading.leave_unchecked(["P10"], f"ListOffsets of broker {broker_id}", str(error))
            return None
        assert isinstance(response, ListOffsetsResponse), "request() answers in kind"
        return response

    responses = await asyncio.gather(*(ask(broker_id, views) for broker_id, views in asked.items()))
    log_ends = {}
    for broker_id, response in zip(asked, responses, strict=True):
        refused: defaultdict[ErrorCode, list[str]] = defaultdict(list)
        for topic in () if response is None else response.topics:
            for each in topic.partitions:
                if each.error_code is ErrorCode.none:
                    key = (broker_id, str(topic.name), int(each.partition_index))
                    log_ends[key] = int(each.offset)
                else:
                    refused[each.error_code].append(f"{topic.name}-{each.partition_index}")
        for code, names in refused.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            what = f"{code.name.upper()} for {names[0]}{more}"
            reading.leave_unchecked(["P10"], f"ListOffsets of broker {broker_id}", what)
    return log_ends
