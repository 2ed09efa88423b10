"""Permissions at a quorum's controller."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32
from kio.static.protocol import RequestPayload

from kafka_common.acls import AclOperation, PatternType, PermissionType, ResourceType
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.cluster_requests import BrokerRegistrationRequest
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller_requests import ProcessBrokerHeartbeat, RegisterBroker
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from tests.support.quorum import CLUSTER_ID, in_the_end
from tests.support.secured_quorum import SecuredNode

CLUSTER: Final = "kafka-cluster"
SOON: Final = timedelta(seconds=10)


DENIED: Final = ErrorCode.cluster_authorization_failed


TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed


def acl_creation(*rules: tuple[ResourceType, str, AclOperation]) -> RequestPayload:
    """Rules that allow something to alice."""
    schema = request_schema(ApiKey.CREATE_ACLS, 3)
    return schema.request(
        creations=tuple(
            schema.part(
                "AclCreation",
                resource_type=i8(resource_type),
                resource_name=name,
                resource_pattern_type=i8(PatternType.LITERAL),
                principal="User:alice",
                host="*",
                operation=i8(operation),
                permission_type=i8(PermissionType.ALLOW),
            )
            for resource_type, name, operation in rules
        )
    )


def _any_rule_of(name: str | None) -> dict[str, object]:
    return {
        "resource_type_filter": i8(ResourceType.ANY),
        "resource_name_filter": name,
        "pattern_type_filter": i8(PatternType.ANY),
        "principal_filter": None,
        "host_filter": None,
        "operation": i8(AclOperation.ANY),
        "permission_type": i8(PermissionType.ANY),
    }


def acl_description(name: str | None = None) -> RequestPayload:
    return request_schema(ApiKey.DESCRIBE_ACLS, 3).request(**_any_rule_of(name))


async def allow(node: SecuredNode, *rules: tuple[ResourceType, str, AclOperation]) -> None:
    """The admin allows something to alice, and it counts."""
    async with node.client("admin") as admin:
        response = await admin.ask(acl_creation(*rules))
        assert codes(response.results) == [ErrorCode.none] * len(rules)

        async def is_known() -> bool:
            described = await admin.ask(acl_description())
            known = {
                (resource.resource_type, resource.resource_name, int(acl.operation))
                for resource in described.resources
                for acl in resource.acls
            }
            return known >= set(rules)

        await in_the_end(is_known, "the rules count")


def codes(rows: Any) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows]


def topic_creation(*names: str) -> RequestPayload:
    schema = request_schema(ApiKey.CREATE_TOPICS, 7)
    topics = tuple(
        schema.part(
            "CreatableTopic",
            name=name,
            num_partitions=i32(1),
            replication_factor=i16(1),
            assignments=(),
            configs=(),
        )
        for name in names
    )
    return schema.request(topics=topics, timeout=SOON, validate_only=False)


async def an_existing_topic(node: SecuredNode, name: str) -> UUID:
    """Its id; there is a broker for it."""
    controller = node.quorum.nodes[1].controller
    broker = await controller.ask(
        RegisterBroker(
            BrokerRegistrationRequest(
                9,
                CLUSTER_ID,
                UUID(int=77),
                (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
                (BrokerFeature("metadata.version", 1, 21),),
                log_dirs=(UUID(int=500),),
            )
        )
    )
    heartbeat = BrokerHeartbeat(9, broker.epoch, 10**6)
    assert not (await controller.ask(ProcessBrokerHeartbeat(heartbeat))).is_fenced
    async with node.client("admin") as admin:
        [topic] = (await admin.ask(topic_creation(name))).topics
    assert ErrorCode(topic.error_code) is ErrorCode.none
    found: UUID = topic.topic_id
    return found
