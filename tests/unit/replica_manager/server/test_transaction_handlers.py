"""Requests about transactions over the wire format: every version, every refusal, markers, offsets.

The broker reaches itself by a socket, as it reaches others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from msgspec.structs import replace
from typing_extensions import override

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import Broker, Endpoint, TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import write
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from tests.support.broker_world import broker, metadata
from tests.support.frames import request_header
from tests.support.group_api_world import GROUP, GroupApiWorld
from tests.support.log_world import batch
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import DeleteTopicZnode, TopicZnode

NONE: Final = ErrorCode.none
DENIED: Final = ErrorCode.transactional_id_authorization_failed
ID: Final = "ledger"
ORDERS: Final = TopicPartition("orders", 0)
PATIENCE_S: Final = 20


class TransactionWorld(GroupApiWorld):
    """A broker that coordinates every transactional id, and leads everything."""

    def __init__(self, executor: ThreadPoolExecutor, folder: Path, **properties: Any) -> None:
        super().__init__(
            executor,
            folder,
            transaction__state__log__num__partitions="1",
            transaction__state__log__replication__factor="1",
            **properties,
        )

    @override
    async def begin(self) -> None:
        self.transactions.start(1)
        self.groups.start(1)
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC, "orders", "bills"):
            self.lead(topic)
        self._serving: list[asyncio.Task[Any]] = []
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.announce("127.0.0.1")
        async with asyncio.timeout(PATIENCE_S):
            while (await self.list()).error_code is not NONE:
                await asyncio.sleep(0)

    def announce(self, host: str) -> None:
        """The broker says that it is to be reached there."""
        port = self._server.sockets[0].getsockname()[1]
        self.update(brokers=[Broker(1, (Endpoint(host, port, "PLAINTEXT", "PLAINTEXT"),), None)])

    def forget(self, topic: str) -> None:
        """As if no request had named the topic."""
        known = self.cache.snapshot
        named = {each: those for each, those in known.partitions.items() if each != topic}
        self.cache.snapshot = replace(known, partitions=named)

    @override
    async def end(self) -> None:
        self._server.close()
        await self.verification.stop()
        await self.transactions.stop()
        await asyncio.gather(*self._serving)
        await super().end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                response = await self.ask_raw(await reader.readexactly(size))
                writer.write(len(response).to_bytes(4, "big") + response)
        except asyncio.IncompleteReadError:
            writer.close()
            await writer.wait_closed()

    # What producers do.

    async def init(self, version: int = 5) -> tuple[ErrorCode, int, int]:
        response = await self.tell(
            "init_producer_id", version, transactional_id=ID, producer_id=-1, producer_epoch=-1,
            transaction_timeout=timedelta(seconds=60),
        )  # fmt: skip
        return response.error_code, response.producer_id, response.producer_epoch

    async def add(
        self, producer: tuple[int, int], *topics: str, version: int = 3
    ) -> dict[str, ErrorCode]:
        module = import_module(f"kio.schema.add_partitions_to_txn.v{version}.request")
        response = await self.tell(
            "add_partitions_to_txn", version,
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=tuple(
                module.AddPartitionsToTxnTopic(name=topic, partitions=(0,)) for topic in topics
            ),
        )  # fmt: skip
        return {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in response.results_by_topic_v3_and_below
        }

    async def add_offsets(self, producer: tuple[int, int], version: int = 4) -> ErrorCode:
        response = await self.tell(
            "add_offsets_to_txn", version, transactional_id=ID, producer_id=producer[0],
            producer_epoch=producer[1], group_id=GROUP,
        )  # fmt: skip
        error: ErrorCode = response.error_code
        return error

    async def commit_offsets(
        self, producer: tuple[int, int], *topics: str, version: int = 4
    ) -> dict[str, ErrorCode]:
        module = import_module(f"kio.schema.txn_offset_commit.v{version}.request")
        epoch = {"committed_leader_epoch": -1} if version >= 2 else {}
        response = await self.tell(
            "txn_offset_commit", version, transactional_id=ID, producer_id=producer[0],
            producer_epoch=producer[1], group_id=GROUP, generation_id=-1, member_id="",
            group_instance_id=None,
            topics=tuple(
                module.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=(
                        module.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=7, committed_metadata="", **epoch
                        ),
                    ),
                )
                for topic in topics
            ),
        )  # fmt: skip
        return {topic.name: topic.partitions[0].error_code for topic in response.topics}

    async def finish(
        self, producer: tuple[int, int], *, is_commit: bool, version: int = 4
    ) -> ErrorCode:
        response = await self.tell(
            "end_txn", version, transactional_id=ID, producer_id=producer[0],
            producer_epoch=producer[1], committed=is_commit,
        )  # fmt: skip
        error: ErrorCode = response.error_code
        return error

    async def produce(
        self, producer: tuple[int, int], topic: str, version: int = 11, sequence: int = 0
    ) -> ErrorCode:
        module = import_module(f"kio.schema.produce.v{version}.request")
        records = batch(
            producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence,
            is_transactional=True,
        )  # fmt: skip
        response = await self.tell(
            "produce", version, transactional_id=ID, acks=-1, timeout=timedelta(seconds=5),
            topic_data=(
                module.TopicProduceData(
                    name=topic,
                    partition_data=(module.PartitionProduceData(index=0, records=records),),
                ),
            ),
        )  # fmt: skip
        error: ErrorCode = response.responses[0].partition_responses[0].error_code
        return error

    async def list(self, *states: str) -> Any:
        return await self.tell(
            "list_transactions", 1, state_filters=states, producer_id_filters=(), duration_filter=-1
        )

    async def state(self) -> str:
        [found] = (await self.list()).transaction_states
        return str(found.transaction_state)

    async def settled(self) -> str:
        """The state once every marker is written."""
        async with asyncio.timeout(PATIENCE_S):
            while not (state := await self.state()).startswith("Complete"):
                await asyncio.sleep(0.01)
        return state

    def committed_end(self, tp: TopicPartition = ORDERS) -> int:
        """The last stable offset."""
        log = self.logs.log(tp)
        assert log is not None
        return log.last_stable_offset


@asynccontextmanager
async def coordinating(folder: Path) -> AsyncIterator[TransactionWorld]:
    with ThreadPoolExecutor(1) as executor:
        world = TransactionWorld(executor, folder)
        await world.begin()
        try:
            yield world
        finally:
            await world.end()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_transaction_from_end_to_end(tmp_path: Path, is_commit: bool) -> None:
    async with coordinating(tmp_path) as world:
        error, *rest = await world.init()
        assert error is NONE
        producer = rest[0], rest[1]
        assert await world.add(producer, "orders") == {"orders": NONE}
        assert await world.produce(producer, "orders") is NONE
        assert await world.add_offsets(producer) is NONE
        assert await world.commit_offsets(producer, "orders", "unknown") == {
            "orders": NONE,
            "unknown": ErrorCode.unknown_topic_or_partition,
        }
        assert world.committed_end() == 0
        assert await world.state() == "Ongoing"
        assert await world.finish(producer, is_commit=is_commit) is NONE
        assert await world.settled() == ("CompleteCommit" if is_commit else "CompleteAbort")
        # The record, and the marker.
        assert world.committed_end() == 2
        [topic] = (await world.offsets("orders")).topics
        assert topic.partitions[0].committed_offset == (7 if is_commit else -1)


async def test_markers_go_to_a_broker_that_was_nowhere_for_a_while(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        _, *rest = await world.init()
        producer = rest[0], rest[1]
        await world.add(producer, "orders")
        # No resolver takes that name.
        world.announce("broker..example")
        assert await world.produce(producer, "orders") is ErrorCode.not_enough_replicas
        assert await world.finish(producer, is_commit=True) is NONE
        await asyncio.sleep(0.3)
        assert await world.state() == "PrepareCommit"
        world.announce("127.0.0.1")
        assert await world.settled() == "CompleteCommit"


async def prepared(world: TransactionWorld) -> None:
    """A transaction is to be ended in a partition that no request has named since the start."""
    _, *rest = await world.init()
    producer = rest[0], rest[1]
    await world.add(producer, "orders")
    assert await world.produce(producer, "orders") is NONE
    world.forget("orders")
    assert await world.finish(producer, is_commit=True) is NONE


async def test_markers_wait_for_a_partition_that_no_request_has_named_yet(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        world.session.write(Create(TopicZnode.path("orders"), b"{}"))
        await prepared(world)

        world.update({"orders": {0: metadata(1)}})
        world.announce("127.0.0.1")

        assert await world.settled() == "CompleteCommit"
        assert world.committed_end() == 2


@pytest.mark.parametrize("is_marked", [True, False])
async def test_a_deleted_topic_needs_no_markers(tmp_path: Path, is_marked: bool) -> None:
    async with coordinating(tmp_path) as world:
        if is_marked:
            world.session.write(Create(TopicZnode.path("orders"), b"{}"))
            world.session.write(Create(DeleteTopicZnode.path("orders"), b""))
        await prepared(world)

        assert await world.settled() == "CompleteCommit"
        assert world.committed_end() == 0


async def test_records_of_partitions_not_added_to_the_transaction_are_refused(
    tmp_path: Path,
) -> None:
    async with coordinating(tmp_path) as world:
        _, *rest = await world.init()
        producer = rest[0], rest[1]
        assert await world.produce(producer, "orders", 11) is ErrorCode.transaction_abortable
        assert await world.produce(producer, "orders", 10) is ErrorCode.invalid_txn_state
        await world.add(producer, "orders")
        assert await world.produce(producer, "bills", 11) is ErrorCode.transaction_abortable
        zombie = producer[0], producer[1] - 1
        assert await world.produce(zombie, "orders") is ErrorCode.invalid_producer_epoch
        assert await world.produce(producer, "orders") is NONE
        # The transaction is open there; no one is asked any more.
        world.update(brokers=[broker(2)])
        assert await world.produce(producer, "orders", sequence=1) is NONE
        # Without a coordinator to ask the client tries again.
        assert await world.produce(producer, "bills") is ErrorCode.not_enough_replicas


async def test_offsets_of_groups_not_added_to_the_transaction_are_refused(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        _, *rest = await world.init()
        producer = rest[0], rest[1]
        abortable = ErrorCode.transaction_abortable
        assert await world.commit_offsets(producer, "orders") == {"orders": abortable}
        old = await world.commit_offsets(producer, "orders", version=3)
        assert old == {"orders": ErrorCode.invalid_txn_state}
        # What is wrong with the group comes first.
        world.groups.on_resigned(TopicPartition(OFFSETS_TOPIC, 0), None)
        moved = await world.commit_offsets(producer, "orders")
        assert moved == {"orders": ErrorCode.not_coordinator}


async def test_a_partition_is_not_served_if_the_topic_has_another_number_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with coordinating(tmp_path) as world:
        partitions = {str(number): [1] for number in range(3)}
        topic = json.dumps({"version": 2, "partitions": partitions}).encode()
        world.session.write(Create(TopicZnode.path(TRANSACTION_TOPIC), topic))

        world.transactions.on_led(TopicPartition(TRANSACTION_TOPIC, 0), 100)

        async with asyncio.timeout(PATIENCE_S):
            while "load-txns-for-partition-__transaction_state-0" not in caplog.text:
                await asyncio.sleep(0)
        assert (await world.init())[0] is ErrorCode.coordinator_load_in_progress


@pytest.mark.parametrize("is_old", [True, False])
async def test_old_clients_do_not_know_that_they_are_fenced(tmp_path: Path, is_old: bool) -> None:
    fenced = ErrorCode.invalid_producer_epoch if is_old else ErrorCode.producer_fenced
    version = 1 if is_old else 2

    async with coordinating(tmp_path) as world:
        _, producer_id, epoch = await world.init()
        await world.init()
        zombie = producer_id, epoch
        assert await world.add(zombie, "orders", version=version) == {"orders": fenced}
        assert await world.add_offsets(zombie, version) is fenced
        assert await world.finish(zombie, is_commit=True, version=version) is fenced


async def test_if_one_partition_cannot_join_none_does(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        _, *rest = await world.init()
        assert await world.add((rest[0], rest[1]), "orders", "unknown") == {
            "orders": ErrorCode.operation_not_attempted,
            "unknown": ErrorCode.unknown_topic_or_partition,
        }
        assert await world.state() == "Empty"


async def test_an_empty_id_is_described_as_not_begun(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.init()
        request = DescribeTransactionsRequest(transactional_ids=(ID,))  # type: ignore[arg-type]
        header = request_header(ApiKey.DESCRIBE_TRANSACTIONS, 0, 1, "test")
        # kio reads no time before 1970, and Kafka says -1.
        response = await world.ask_raw(header + write(request))
        assert b"\x06Empty" + (60_000).to_bytes(4, "big") + b"\xff" * 8 in response
        described = await world.tell("describe_transactions", 0, transactional_ids=("unknown",))
        [unknown] = described.transaction_states
        assert unknown.error_code is ErrorCode.transactional_id_not_found
        listed = await world.list("Empty", "Unheard")
        assert listed.unknown_state_filters == ("Unheard",)
        assert [each.transactional_id for each in listed.transaction_states] == [ID]


async def test_markers_say_what_became_of_each_partition(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        module = import_module("kio.schema.write_txn_markers.v1.request")

        async def write(coordinator_epoch: int) -> dict[str, ErrorCode]:
            response = await world.tell(
                "write_txn_markers", 1,
                markers=(
                    module.WritableTxnMarker(
                        producer_id=9, producer_epoch=0, transaction_result=True,
                        topics=tuple(
                            module.WritableTxnMarkerTopic(name=name, partition_indexes=(0,))
                            for name in ("orders", "unknown")
                        ),
                        coordinator_epoch=coordinator_epoch,
                    ),
                ),
            )  # fmt: skip
            [marker] = response.markers
            return {each.name: each.partitions[0].error_code for each in marker.topics}

        unknown = {"unknown": ErrorCode.unknown_topic_or_partition}
        assert await write(3) == {"orders": NONE} | unknown
        fenced = ErrorCode.transaction_coordinator_fenced
        assert await write(2) == {"orders": fenced} | unknown
        assert world.committed_end() == 1


async def test_who_may_do_nothing_does_nothing(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        _, *rest = await world.init()
        producer = rest[0], rest[1]
        world.authorize()
        assert (await world.init())[0] is DENIED
        assert await world.add(producer, "orders") == {"orders": DENIED}
        assert await world.add_offsets(producer) is DENIED
        assert await world.commit_offsets(producer, "orders") == {"orders": DENIED}
        assert await world.finish(producer, is_commit=True) is DENIED
        assert (await world.list()).transaction_states == ()
        response = await world.tell("describe_transactions", 0, transactional_ids=(ID,))
        assert response.transaction_states[0].error_code is DENIED
        refused = ErrorCode.cluster_authorization_failed
        asked = await world.tell("add_partitions_to_txn", 4, transactions=())
        assert asked.error_code is refused

        world.permit(ResourceType.TRANSACTIONAL_ID, ID, AclOperation.WRITE)
        topic_denied = ErrorCode.topic_authorization_failed
        assert await world.add(producer, "orders") == {"orders": topic_denied}
        assert await world.add_offsets(producer) is ErrorCode.group_authorization_failed
        world.permit(ResourceType.GROUP, GROUP, AclOperation.READ)
        assert await world.commit_offsets(producer, "orders") == {"orders": topic_denied}
        world.permit(ResourceType.TOPIC, "orders", AclOperation.WRITE)
        assert await world.add(producer, "orders") == {"orders": NONE}
        # To write an id is to describe it, and to write a topic is, too.
        response = await world.tell("describe_transactions", 0, transactional_ids=(ID,))
        [found] = response.transaction_states
        assert [each.topic for each in found.topics] == ["orders"]


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_about_several_transactions_at_once(tmp_path: Path, version: int) -> None:
    async with coordinating(tmp_path) as world:
        module = import_module(f"kio.schema.add_partitions_to_txn.v{version}.request")
        _, producer_id, epoch = await world.init()
        await world.add((producer_id, epoch), "orders")
        topics = tuple(
            module.AddPartitionsToTxnTopic(name=name, partitions=(0,))
            for name in ("orders", "bills")
        )
        response = await world.tell(
            "add_partitions_to_txn", version,
            transactions=tuple(
                module.AddPartitionsToTxnTransaction(
                    transactional_id=name, producer_id=producer_id, producer_epoch=epoch,
                    verify_only=True, topics=topics,
                )
                for name in (ID, "unknown")
            ),
        )  # fmt: skip
        found = {
            result.transactional_id: [
                topic.results_by_partition[0].partition_error_code for topic in result.topic_results
            ]
            for result in response.results_by_transaction
        }
        mapping = ErrorCode.invalid_producer_id_mapping
        assert found == {ID: [NONE, ErrorCode.transaction_abortable], "unknown": [mapping, mapping]}
