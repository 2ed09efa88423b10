"""A broker and a quorum node at their limit of open files: connections take all that are left.

The limit of the running process is lowered, so that a few connections reach it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.alter_client_quotas.v0 import request as quotas
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from tests.attack.connections import RawConnection, is_serving
from tests.attack.record_client import START_MS, RecordClient
from tests.attack.targets import quorum_target
from tests.integration.broker_processes import BrokerProcess, wait_for
from tests.support.quorum import free_ports
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

TOPIC: Final = "orders"
LEFT: Final = 20
"""So many files may be opened beyond those that are open."""
MOST_CONNECTIONS: Final = 60
"""More than are left, and fewer than would fill the backlog as well."""
RECORDS: Final = 30
VALUES: Final = [b"%d " % number * 30 for number in range(RECORDS)]
SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter__broker__listener__name": "INTERNAL",
    "log__segment__bytes": "400",
    "log__flush__offset__checkpoint__interval__ms": "200",
    "replica__high__watermark__checkpoint__interval__ms": "200",
    "log__cleaner__dedupe__buffer__size": "4194304",
}
NAMES_THE_LIMIT: Final = "(ulimit -n)"
_numbers = count()


@contextmanager
def few_files(pid: int) -> Iterator[None]:
    """Lets a process open LEFT more files than it has; at the end as many as before."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    beyond_all = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (beyond_all + LEFT, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def connections_to(address: str) -> Iterator[None]:
    """Many connections that ask for nothing."""
    with ExitStack() as opened:
        for _ in range(MOST_CONNECTIONS):
            opened.enter_context(RawConnection(address))
        yield


# A broker.


@pytest.fixture
def broker(attack_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose topic has a leader; each segment takes two records."""
    chroot = f"{attack_zookeeper.connect}/limits-{next(_numbers)}"
    broker = BrokerProcess(tmp_path, chroot, 0, **SETTINGS)
    try:
        broker.start().ready()
        with closing(RecordClient(broker.address)) as client:
            wait_for(lambda: client.leaders(TOPIC) == {0: 0}, "a leader")
        yield broker
        broker.tell()
    finally:
        broker.end()


@pytest.fixture
def producer(broker: BrokerProcess) -> Iterator[Producer]:
    """A client that is connected before the limit is reached."""
    with closing(RecordClient(broker.address)) as client:
        yield Producer(client)


class Producer:
    """Writes the values one after the other, each until it is acknowledged."""

    def __init__(self, client: RecordClient) -> None:
        self._client = client
        self.refusals: set[ErrorCode] = set()
        self.acknowledged = 0

    def write(self, up_to: int, tries: int) -> None:
        """Writes until so many are acknowledged; tries at most so often."""
        for _ in range(tries):
            if self.acknowledged == up_to:
                return
            value = VALUES[self.acknowledged]
            error = self._client.produce(TOPIC, 0, value, self.acknowledged)
            if error is ErrorCode.none:
                self.acknowledged += 1
            else:
                self.refusals.add(error)


def assert_nothing_is_lost(broker: BrokerProcess) -> None:
    assert broker.is_running
    assert "Stopping serving logs in dir" not in broker.log()
    with closing(RecordClient(broker.address)) as new_client:
        assert list(new_client.read_all(TOPIC, 0).values()) == VALUES


def test_a_broker_without_descriptors_refuses_records_and_takes_them_later(
    broker: BrokerProcess, producer: Producer
) -> None:
    internal = str(broker.status["listeners"]["INTERNAL"]).removeprefix("INTERNAL://")
    producer.write(2, tries=2)
    with few_files(broker.status["pid"]):
        with connections_to(internal):
            broker.wait_for_line("Error while accepting connection: the process may open")
            producer.write(RECORDS, tries=20)

            assert producer.refusals == {ErrorCode.kafka_storage_error}
            assert broker.is_running
            assert NAMES_THE_LIMIT in broker.log()
        wait_for(lambda: is_serving(broker.address, 1.0), "a new client is served")
    wait_for(lambda: is_serving(internal, 1.0), "another broker is served")
    producer.write(RECORDS, tries=RECORDS)

    assert_nothing_is_lost(broker)


def test_clients_of_a_broker_leave_it_descriptors_for_segments(
    broker: BrokerProcess, producer: Producer
) -> None:
    producer.write(2, tries=2)
    with few_files(broker.status["pid"]):
        with connections_to(broker.address):
            broker.wait_for_line("accepts no connection for now")
            producer.write(6, tries=4)

            assert producer.acknowledged == 6
            assert NAMES_THE_LIMIT in broker.log()
        wait_for(lambda: is_serving(broker.address, 1.0), "a new client is served")
    producer.write(RECORDS, tries=RECORDS)

    assert producer.refusals == set()
    assert_nothing_is_lost(broker)


# A node of a quorum.


def set_quota(connection: RawConnection, user: str) -> ErrorCode:
    """Writes a record to the metadata log, and waits until it is committed."""
    entry = quotas.EntryData(
        entity=(quotas.EntityData(entity_type="user", entity_name=user),),
        ops=(quotas.OpData(key="producer_byte_rate", value=1.0, remove=False),),  # type: ignore[arg-type]
    )
    asked = quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    body = connection.call(ApiKey.ALTER_CLIENT_QUOTAS, 0, write(asked))
    response: Any = read_response(ApiKey.ALTER_CLIENT_QUOTAS, 0, body)
    error: ErrorCode = response.entries[0].error_code
    return error


def test_a_quorum_node_without_descriptors_commits_all_the_same(tmp_path: Path) -> None:
    [other] = free_ports(1)
    properties = {
        "controller.listener.names": "CONTROLLER,OTHER",
        "listeners": f"CONTROLLER://127.0.0.1:{{port}},OTHER://127.0.0.1:{other}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT",
        "metadata.log.segment.bytes": "2000",
        "metadata.log.segment.min.bytes": "1000",
    }
    users = [f"user-{number:0200d}" for number in range(RECORDS)]
    with quorum_target(tmp_path, properties) as node:
        log = tmp_path / "logs" / "console.log"
        segments = tmp_path / "data" / "__cluster_metadata-0"
        with RawConnection(f"127.0.0.1:{other}") as client, few_files(node.pid):
            wait_for(lambda: set_quota(client, users[0]) is ErrorCode.none, "a controller")
            with connections_to(node.address):
                wait_for(lambda: "Error while accepting" in log.read_text(), "no descriptor left")
                before = len(list(segments.glob("*.log")))

                assert {set_quota(client, user) for user in users[1:]} == {ErrorCode.none}

                assert len(list(segments.glob("*.log"))) > before + 2
                assert "with a spare descriptor" in log.read_text()
                assert NAMES_THE_LIMIT in log.read_text()
            wait_for(lambda: is_serving(node.address, 1.0), "a new client is served")
        assert node.watch.is_alive
        wait_for(lambda: "Files can be opened again" in log.read_text(), "the limit is left")
        assert node.watch.new_tracebacks() == []

    kept = KafkaMetadataLog.open(tmp_path / "data", MetadataLogConfig(), lambda: START_MS)
    with closing(kept):
        data, offset = b"", 0
        while offset < kept.end_offset:
            found = kept.read(offset, 2**30)
            offset = [header.next_offset for _, header in iterate_batches(found)][-1]
            data += found
        assert [user for user in users if user.encode() not in data] == []
