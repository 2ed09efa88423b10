"""Asks brokers for values of configurations, and whether a topic still exists.

A topic that is being deleted is in no broker's Metadata any more, while its znodes and logs may
exist for long.  Until they are deleted the controller refuses to create a topic of that name, so
CreateTopics with ``validate_only`` shows whether the topic exists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.topic_reports import MIN_IN_SYNC
from zkcontroller_cli.wire.admin import BROKER, TOPIC
from zkcontroller_cli.wire.logs import addresses_in
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    connected,
    create_topic,
    metadata,
    parse_bootstrap,
)
from zkcontroller_cli.wire.topics import creatable

DELETE_TOPIC_ENABLE = "delete.topic.enable"
_NOT_THERE = (
    ErrorCode.none,
    # The controller checks these only if no topic of that name exists.
    ErrorCode.policy_violation,
    ErrorCode.invalid_topic_exception,
)


async def config_values(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str], key: str
) -> dict[str, str]:
    """By topic, the effective value of a key; a topic that the broker does not show is left out."""
    where = parse_bootstrap(bootstrap.servers)
    return await _values(where, bootstrap, deadline, TOPIC, topics, key)


async def min_in_sync_replicas(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str]
) -> dict[str, int]:
    """By topic, its effective ``min.insync.replicas``."""
    found = await config_values(bootstrap, deadline, topics, MIN_IN_SYNC)
    return {topic: int(value) for topic, value in found.items() if value.isdecimal()}


async def is_deletion_enabled(bootstrap: Bootstrap, deadline: Deadline) -> bool | None:
    """``delete.topic.enable`` of the controller; None if there is no controller or no value."""
    known = await metadata(bootstrap, deadline, ())
    address = addresses_in(known).get(int(known.controller_id))
    if address is None:
        return None
    named = [str(known.controller_id)]
    found = await _values([address], bootstrap, deadline, BROKER, named, DELETE_TOPIC_ENABLE)
    value = found.get(named[0])
    return None if value is None else value == "true"


async def topics_still_there(
    bootstrap: Bootstrap, deadline: Deadline, topics: Collection[str]
) -> dict[str, bool | None]:
    """By topic whether it exists, also while it is being deleted; None if that is not known.

    If Metadata has no such topic, the controller is asked whether it could be created, which
    creates nothing.
    """
    known = await metadata(bootstrap, deadline, sorted(topics))
    seen = {str(topic.name) for topic in known.topics if topic.error_code is ErrorCode.none}
    return {
        topic: True if topic in seen else await _is_name_taken(bootstrap, deadline, known, topic)
        for topic in topics
    }


async def _is_name_taken(
    bootstrap: Bootstrap, deadline: Deadline, known: MetadataResponse, topic: str
) -> bool | None:
    if not known.brokers:
        return None
    try:
        result = await create_topic(
            bootstrap, deadline, creatable(topic, 1, 1, {}, None), is_dry_run=True
        )
    except Refused:  # before Kafka 0.10.2 CreateTopics has no validate_only
        return None
    if result.error_code is ErrorCode.topic_already_exists:
        return True
    return False if result.error_code in _NOT_THERE else None


async def _values(
    where: Sequence[BrokerAddress],
    bootstrap: Bootstrap,
    deadline: Deadline,
    resource_type: int,
    names: Sequence[str],
    key: str,
) -> dict[str, str]:
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=i8(resource_type), resource_name=name, configuration_keys=(key,)
        )
        for name in names
    )
    if not resources:
        return {}
    async with connected(where, deadline, bootstrap.security) as connection:
        response = await connection.request(
            describe_configs.DescribeConfigsRequest(
                resources=resources, include_synonyms=False, include_documentation=False
            )
        )
    assert isinstance(response, DescribeConfigsResponse), "request() answers in kind"
    return {
        result.resource_name: config.value
        for result in response.results
        if result.error_code is ErrorCode.none
        for config in result.configs
        if config.name == key and config.value is not None
    }
