"""``controller_mutation_rate`` at a controller: above it partitions are refused, or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload
from typing_extensions import override

from kafka_common.api_error import ApiException
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.quorum_controller_requests import (
    AlterClientQuotas,
    ControllerRequest,
    CreateTopics,
)
from kraft.controller.quorum_controller_values import unlimited
from kraft.controller.topic_requests import CreatableTopicResult, PartitionChangeQuota
from kraft.metadata.records import ClientQuotaRecord, EntityData
from kraft.node.controller_apis.call import Controller
from kraft.node.quorum_requests import QuorumRequests
from kraft.node.quota_publisher import MutationQuotaPublisher
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.quotas.client_quotas import ClientKey
from replica_manager.quotas.mutation_quotas import MutationQuotas
from tests.support.frames import parse_response_header, request_header
from tests.support.quorum import in_the_end
from tests.support.secured_quorum import AUTHORIZED, secured_node
from tests.unit.kraft.node.permissions import an_existing_topic

STRICT, PERMISSIVE = 7, 5
KEY: Final = "controller_mutation_rate"
EXCEEDED: Final = ErrorCode.throttling_quota_exceeded


def creation(version: int, name: str, partitions: int = 1) -> RequestPayload:
    schema = request_schema(ApiKey.CREATE_TOPICS, version)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=i32(partitions),
        replication_factor=i16(1),
        assignments=(),
        configs=(),
    )
    return schema.request(topics=(topic,), timeout=timedelta(seconds=10), validate_only=False)


class Creating(Controller):
    """A controller that creates five partitions for every request."""

    @override
    async def ask(
        self,
        request: ControllerRequest,
        timeout_ms: int | None = None,
        apply_quota: PartitionChangeQuota = unlimited,
    ) -> Any:
        assert isinstance(request, CreateTopics)
        try:
            apply_quota(5)
        except ApiException as refused:
            return [CreatableTopicResult("t", refused.to_error())]
        return [CreatableTopicResult("t")]


class Requests:
    """A node with such a controller, and a client that may create one partition each second."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        mutations = MutationQuotas(1, lambda: self.now_ms)
        mutations.configure("clients/admin", {KEY: "1"})
        driver = cast(Any, SimpleNamespace(node=None))
        self._requests = QuorumRequests(driver, "cluster", Creating(), mutations=mutations)

    def create(self, version: int) -> tuple[ErrorCode, int, int]:
        """The error, the throttle time in the response, and how long the connection is muted."""
        key = int(ApiKey.CREATE_TOPICS)
        data = request_header(key, version, 7, "admin") + write(creation(version, "t"))
        frame: ResponseFrame = asyncio.run(
            self._requests.respond(data, Peer("CONTROLLER", "10.0.0.9"))
        )
        _, start = parse_response_header(key, version, frame.frame[4:])
        response: Any = read_response(key, version, frame.frame[4:], start)
        throttle_ms = response.throttle_time // timedelta(milliseconds=1)
        return ErrorCode(response.topics[0].error_code), throttle_ms, frame.mute_ms


def test_a_strict_version_is_refused_as_long_as_the_quota_is_used_up() -> None:
    requests = Requests()

    assert requests.create(STRICT) == (ErrorCode.none, 0, 0)
    assert requests.create(STRICT) == (EXCEEDED, 4_000, 4_000)
    requests.now_ms += 4_000
    assert requests.create(STRICT) == (ErrorCode.none, 0, 0)


def test_a_permissive_version_is_carried_out_and_waits() -> None:
    requests = Requests()

    assert requests.create(PERMISSIVE) == (ErrorCode.none, 4_000, 4_000)
    assert requests.create(PERMISSIVE) == (ErrorCode.none, 9_000, 9_000)


def record(name: str | None, value: float | None, *, entity_type: str = "user") -> Any:
    data = (EntityData(entity_type, name),)
    if value is None:
        return ClientQuotaRecord(data, KEY, remove=True)
    return ClientQuotaRecord(data, KEY, value)


@pytest.mark.parametrize(
    ("records", "snapshot", "bound"),
    [
        ([record("a b", 2.0)], None, 2.0),
        ([record(None, 3.0)], None, 3.0),
        ([record(None, 3.0), record("a b", 2.0), record("a b", None)], None, 3.0),
        ([record("c", 4.0, entity_type="client-id")], None, 4.0),
        ([ClientQuotaRecord((EntityData("user", "a b"),), "producer_byte_rate", 1.0)], None, None),
        ([record("1.2.3.4", 1.0, entity_type="ip")], None, None),
        ([record("a b", 2.0)], [], None),
        ([record("a b", 2.0)], [record("a b", 5.0)], 5.0),
    ],
)
def test_the_quotas_are_those_of_the_log(
    records: Sequence[ClientQuotaRecord],
    snapshot: Sequence[ClientQuotaRecord] | None,
    bound: float | None,
) -> None:
    mutations = MutationQuotas(11, lambda: 0)
    publisher = MutationQuotaPublisher(mutations)

    publisher.publish(records)
    if snapshot is not None:
        publisher.load(snapshot)

    key = mutations.quotas.key("a b", "c")
    assert mutations.quotas.bound(key) == bound
    assert isinstance(key, ClientKey)


async def test_a_quota_of_the_log_limits_what_a_broker_forwards(tmp_path: Path) -> None:
    async with secured_node(tmp_path, AUTHORIZED) as node:
        await an_existing_topic(node, "first")
        controller = node.quorum.nodes[1].controller
        quota = ClientQuotaAlteration((("user", "admin"),), ((KEY, 0.01),))
        await controller.ask(AlterClientQuotas((quota,)))
        mutations = node.quorum.mutations[1]

        async def is_known() -> bool:
            return mutations.quotas.bound(mutations.quotas.key("admin", "admin")) == 0.01

        await in_the_end(is_known, "the quota is known")
        async with node.client("admin") as admin:

            async def create(version: int, name: str) -> tuple[ErrorCode, bool]:
                response = await admin.forward("admin", creation(version, name))
                [topic] = response.topics
                return ErrorCode(topic.error_code), response.throttle_time > timedelta(0)

            assert await create(STRICT, "a") == (ErrorCode.none, False)
            assert await create(STRICT, "b") == (EXCEEDED, True)
            assert await create(PERMISSIVE, "c") == (ErrorCode.none, True)
