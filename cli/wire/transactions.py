"""Lists and describes transactions by coordinators, and producers by the leaders of partitions.

Source: Kafka ``TransactionsCommand``, KIP-664.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Any, Final, NamedTuple

from kio.schema.describe_producers.v0 import request as describe_producers_request
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.list_transactions.v1.response import ListTransactionsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1 import request as markers_request
from kio.schema.write_txn_markers.v1.response import WriteTxnMarkersResponse
from kio.static.primitive import i16, i32, i64

from kafka_common.protocol.numeric_fields import OF_THE_CLASS, with_numbers
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.coordinators import (
    CoordinatorBroker,
    CoordinatorType,
    KeyResult,
    ask_coordinators,
    list_by_every_broker,
)
from zkcontroller_cli.wire.logs import addresses_in, ask_broker, leaders_in
from zkcontroller_cli.wire.requests import (
    Deadline,
    connected,
    raise_for_code,
)
from zkcontroller_cli.wire.versions import BrokerConnection

_PARTITIONS_PER_REQUEST: Final = 500

_StateWithNumbers: Any = with_numbers(TransactionState)
_DescribedWithNumbers: Any = make_dataclass(
    DescribeTransactionsResponse.__name__,
    [
        (each.name, each.type, field(metadata=each.metadata))
        if each.name != "transaction_states"
        else (each.name, tuple[_StateWithNumbers, ...], field())
        for each in fields(DescribeTransactionsResponse)
    ],
    namespace={name: getattr(DescribeTransactionsResponse, name) for name in OF_THE_CLASS},
    frozen=True,
    slots=True,
    kw_only=True,
)
"""DescribeTransactionsResponse with the start as a number of milliseconds.

Outside a transaction the start is -1, which kio cannot hold as a time.
"""

Producers = dict[NamedPartition, "tuple[Producer, ...] | str"]


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator describes it.

    ``started_at_ms`` is None outside a transaction.
    """

    transactional_id: str
    coordinator: CoordinatorBroker
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_at_ms: int | None
    partitions: tuple[NamedPartition, ...]


class Producer(NamedTuple):
    """The state of a producer in one partition, from DescribeProducers.

    ``start_offset`` is None outside a transaction; ``coordinator_epoch`` is -1 before the
    producer's first transaction marker.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_record_at_ms: int
    start_offset: int | None


async def list_transactions(
    bootstrap: Bootstrap,
    deadline: Deadline,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int | None = None,
) -> list[TransactionListing]:
    """The transactional ids of every coordinator that match the filters, sorted by id.

    CannotConnect if a broker is not reached, as its ids would be missing.
    """
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(map(ProducerId, producer_ids)),
        duration_filter=i64(-1 if longer_than_ms is None else longer_than_ms),
    )

    async def ask(connection: BrokerConnection) -> ListTransactionsResponse:
        response = await connection.request(request)
        assert isinstance(response, ListTransactionsResponse), "request() answers in kind"
        return response

    # While a coordinator moves, two brokers may list the same id.
    by_id: dict[str, TransactionListing] = {}
    for broker_id, response in await list_by_every_broker(bootstrap, deadline, "transactions", ask):
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise Refused(f"broker {broker_id} knows no such state: {names}")
        for each in response.transaction_states:
            name = str(each.transactional_id)
            by_id[name] = TransactionListing(
                name, broker_id, int(each.producer_id), each.transaction_state
            )
    return [by_id[name] for name in sorted(by_id)]


async def describe_transactions(
    bootstrap: Bootstrap, deadline: Deadline, transactional_ids: Sequence[str]
) -> dict[str, TransactionDescription | None]:
    """Each transactional id as its coordinator describes it; None if the coordinator lacks the id.

    Refused if a coordinator does not describe one of them.
    """

    async def ask(connection: BrokerConnection, keys: Sequence[str]) -> Mapping[str, KeyResult]:
        response = await connection.request_as(
            DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, keys))),
            _DescribedWithNumbers,
        )
        return {
            str(each.transactional_id): KeyResult(each.error_code, each)
            for each in response.transaction_states
        }

    found: dict[str, TransactionDescription | None] = {}
    responses = await ask_coordinators(
        bootstrap, deadline, CoordinatorType.TRANSACTIONAL_ID, transactional_ids, ask
    )
    for name, (coordinator, (code, state)) in responses.items():
        if code is ErrorCode.transactional_id_not_found:
            found[name] = None
            continue
        raise_for_code(f"transactional id {name}", code)
        found[name] = _transaction(coordinator, state)
    return found


def _transaction(coordinator: CoordinatorBroker, state: Any) -> TransactionDescription:
    started_ms = int(state.transaction_start_time)
    return TransactionDescription(
        str(state.transactional_id),
        coordinator,
        int(state.producer_id),
        int(state.producer_epoch),
        state.transaction_state,
        round(state.transaction_timeout.total_seconds() * 1000),
        started_ms if started_ms >= 0 else None,
        tuple(
            sorted(
                NamedPartition(str(topic.topic), int(partition))
                for topic in state.topics
                for partition in topic.partitions
            )
        ),
    )


async def describe_producers(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    partitions: Sequence[NamedPartition],
    broker_id: int | None = None,
) -> Producers:
    """By partition, its producers, or a text why they are not known.

    Asks the partition's leader, or the broker ``broker_id`` if that is given.
    """
    leaders = leaders_in(known)
    by_broker: defaultdict[int, list[NamedPartition]] = defaultdict(list)
    for partition in partitions:
        leader = leaders.get(partition, -1)
        by_broker[leader if broker_id is None else broker_id].append(partition)
    addresses = addresses_in(known)

    def asking(
        those: Sequence[NamedPartition],
    ) -> Callable[[BrokerConnection], Awaitable[Producers]]:
        return lambda connection: _producers(connection, those)

    found: Producers = {}
    responses = await asyncio.gather(
        *(
            ask_broker(addresses.get(broker), deadline, bootstrap.security, asking(those))
            for broker, those in by_broker.items()
        )
    )
    for (broker, those), response in zip(by_broker.items(), responses, strict=True):
        if isinstance(response, dict):
            found |= response
        else:
            why = "LEADER_NOT_AVAILABLE" if broker == -1 else f"broker {broker}: {response}"
            found |= dict.fromkeys(those, why)
    return {
        each: found.get(each, "no answer") if each in leaders else "UNKNOWN_TOPIC_OR_PARTITION"
        for each in partitions
    }


async def _producers(
    connection: BrokerConnection, partitions: Sequence[NamedPartition]
) -> Producers:
    found: Producers = {}
    for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
        topics: defaultdict[str, list[i32]] = defaultdict(list)
        for topic, partition in partitions[start : start + _PARTITIONS_PER_REQUEST]:
            topics[topic].append(i32(partition))
        response = await connection.request(
            describe_producers_request.DescribeProducersRequest(
                topics=tuple(
                    describe_producers_request.TopicRequest(
                        name=TopicName(topic), partition_indexes=tuple(those)
                    )
                    for topic, those in topics.items()
                )
            )
        )
        assert isinstance(response, DescribeProducersResponse), "request() answers in kind"
        for described in response.topics:
            for each in described.partitions:
                named = NamedPartition(str(described.name), int(each.partition_index))
                found[named] = (
                    tuple(
                        Producer(
                            *named,
                            int(state.producer_id),
                            int(state.producer_epoch),
                            int(state.coordinator_epoch),
                            int(state.last_sequence),
                            int(state.last_timestamp),
                            int(state.current_txn_start_offset)
                            if state.current_txn_start_offset >= 0
                            else None,
                        )
                        for state in sorted(each.active_producers, key=lambda p: p.producer_id)
                    )
                    if each.error_code is ErrorCode.none
                    else each.error_code.name.upper()
                )
    return found


async def write_abort_marker(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    partition: NamedPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Let the partition's leader write an abort marker for a producer; Refused if it does not.

    A coordinator epoch below 0 (the producer has no marker yet) is sent as 0.
    """
    leader = leaders_in(known).get(partition, -1)
    address = addresses_in(known).get(leader)
    text = f"{partition.topic}-{partition.partition}"
    if address is None:
        raise Refused(f"{text} has no leader that could write the marker; nothing was done")
    marker = markers_request.WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
        transaction_result=False,
        topics=(
            markers_request.WritableTxnMarkerTopic(
                name=TopicName(partition.topic), partition_indexes=(i32(partition.partition),)
            ),
        ),
        coordinator_epoch=i32(max(0, coordinator_epoch)),
    )
    async with connected([address], deadline, bootstrap.security) as connection:
        response = await connection.request(
            markers_request.WriteTxnMarkersRequest(markers=(marker,))
        )
    assert isinstance(response, WriteTxnMarkersResponse), "request() answers in kind"
    codes = [
        each.error_code
        for written in response.markers
        for topic in written.topics
        for each in topic.partitions
    ]
    raise_for_code(
        f"{text}, broker {leader}", codes[0] if codes else ErrorCode.unknown_server_error
    )
