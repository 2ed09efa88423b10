"""Well-formed requests whose znodes ZooKeeper must refuse: each is answered, and life goes on.

ZooKeeper closes the connection of a client that sends more than its ``jute.maxbuffer``.  A broker
that sent the same again after each new connection would be cut off for good: no topic could be
created any more, and the broker could not even end in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from tests.attack.checks import assert_serving
from tests.attack.conftest import NewBroker
from tests.attack.connections import RawConnection
from tests.attack.targets import BrokerTarget
from tests.support.topic_creation import create_topic
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

PARTITIONS: Final = 150_000
"""In a topic's znode each takes some ten bytes; ZooKeeper takes 1,048,575."""
TEXT: Final = "x" * 30_000
"""32,767 bytes is the most that a request may hold."""
TEXTS: Final = 40
TIMEOUT: Final = timedelta(seconds=20)


@pytest.fixture(scope="module")
def target(new_broker: NewBroker) -> BrokerTarget:
    """A broker with an authorizer; on its other listener everyone is a super user."""
    return new_broker(is_guarded=True)


def ask(target: BrokerTarget, api_key: ApiKey, version: int, **fields: object) -> Any:
    request = request_schema(api_key, version).request(**fields)
    with RawConnection(target.bystander_address) as connection:
        body = connection.call(api_key, version, write(request))
    return read_response(api_key, version, body)


def create(target: BrokerTarget, name: str, partitions: int = 1) -> ErrorCode:
    """Creates a topic as a super user."""
    with RawConnection(target.bystander_address) as connection:
        return create_topic(connection, name, partitions)


def add_partitions(target: BrokerTarget) -> Sequence[ErrorCode]:
    """To a topic that is there."""
    assert create(target, "growing") is ErrorCode.none
    part = request_schema(ApiKey.CREATE_PARTITIONS, 1).part
    assignment = part("CreatePartitionsAssignment", broker_ids=(0,))
    topic = part(
        "CreatePartitionsTopic",
        name="growing",
        count=PARTITIONS + 1,
        assignments=(assignment,) * PARTITIONS,
    )
    response = ask(
        target,
        ApiKey.CREATE_PARTITIONS,
        1,
        topics=(topic,),
        timeout=TIMEOUT,
        validate_only=False,
    )
    return [result.error_code for result in response.results]


def create_acls(target: BrokerTarget) -> Sequence[ErrorCode]:
    """All on one resource, and so in one znode."""
    part = request_schema(ApiKey.CREATE_ACLS, 1).part
    creations = tuple(
        part(
            "AclCreation",
            resource_type=2,
            resource_name="orders",
            resource_pattern_type=3,
            principal=f"User:{TEXT}{number}",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(TEXTS)
    )
    response = ask(target, ApiKey.CREATE_ACLS, 1, creations=creations)
    return [result.error_code for result in response.results]


def alter_configs(target: BrokerTarget) -> Sequence[ErrorCode]:
    """Keys that no broker knows, as those of a plugin, in the znode of this broker."""
    part = request_schema(ApiKey.ALTER_CONFIGS, 1).part
    configs = tuple(
        part("AlterableConfig", name=f"plugin.key.{number}", value=TEXT) for number in range(TEXTS)
    )
    resource = part("AlterConfigsResource", resource_type=4, resource_name="0", configs=configs)
    response = ask(target, ApiKey.ALTER_CONFIGS, 1, resources=(resource,), validate_only=False)
    return [result.error_code for result in response.responses]


@pytest.mark.parametrize(
    "oversized",
    [
        lambda target: [create(target, "huge", PARTITIONS)],
        add_partitions,
        create_acls,
        alter_configs,
    ],
    ids=["create_topic", "add_partitions", "create_acls", "alter_configs"],
)
def test_what_zookeeper_must_refuse_is_not_sent_and_life_goes_on(
    target: BrokerTarget, oversized: Any, request: pytest.FixtureRequest
) -> None:
    errors = oversized(target)

    assert ErrorCode.unknown_server_error in errors
    assert create(target, f"after-{request.node.callspec.id}") is ErrorCode.none
    assert target.watch.is_alive
    assert target.watch.new_tracebacks() == []
    assert_serving(target)


def test_the_broker_ends_in_order_after_all_of_it(
    target: BrokerTarget, attack_zookeeper: EmbeddedZooKeeper
) -> None:
    assert target.stop() == 0
    assert "Len error" not in attack_zookeeper.log_file.read_text()
