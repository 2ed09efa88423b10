"""Configurations over the Kafka protocol.

Any broker is asked for those of topics and of the brokers' default, each broker for its own
configuration and its loggers.

Source: Kafka ``ConfigCommand``, KIP-133, KIP-339, KIP-412.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.describe_configs.v4 import request as describe_request
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as alter_request
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.config_entities import BROKER, LOGGER, TOPIC, ConfigEntity
from zkcontroller_cli.values.config_plan import APPEND, SET, SUBTRACT, UNSET, PlannedKey
from zkcontroller_cli.values.config_values import ConfigSetting, PlaceOfValue
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    BrokerRefusal,
    Deadline,
    connected,
    metadata,
    parse_bootstrap,
    raise_for_code,
    refusal_of,
)

_RESOURCE_TYPES: Final = {TOPIC: 2, BROKER: 4, LOGGER: 8}
_SOURCES: Final = {
    0: "unknown",
    1: "topic",
    2: "dynamic_broker",
    3: "dynamic_default_broker",
    4: "static_broker",
    5: "default",
    6: "dynamic_broker_logger",
}
_TYPES: Final = (
    "unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password",
)  # fmt: skip
_OPERATIONS: Final = {SET: 0, UNSET: 1, APPEND: 2, SUBTRACT: 3}
_ENTITIES_PER_REQUEST: Final = 200


async def describe_configs(
    bootstrap: Bootstrap,
    deadline: Deadline,
    entities: Sequence[ConfigEntity],
    *,
    is_documented: bool = False,
) -> dict[ConfigEntity, dict[str, ConfigSetting]]:
    """Every setting of each entity (topic, broker, or loggers of a broker), by key.

    Refused if an entity does not exist.  For the default of all brokers only the keys that are set.
    """
    found: dict[ConfigEntity, dict[str, ConfigSetting]] = {}
    for where, part in await _by_destination(bootstrap, deadline, entities):
        async with connected(where, deadline, bootstrap.security) as connection:
            response = await connection.request(
                describe_request.DescribeConfigsRequest(
                    resources=tuple(
                        describe_request.DescribeConfigsResource(
                            resource_type=_type_of(entity),
                            resource_name=_wire_name(entity),
                            configuration_keys=None,
                        )
                        for entity in part
                    ),
                    include_synonyms=True,
                    include_documentation=is_documented,
                )
            )
        assert isinstance(response, DescribeConfigsResponse), "request() answers in kind"
        responses = {(each.resource_type, each.resource_name): each for each in response.results}
        for entity in part:
            result = responses[_type_of(entity), _wire_name(entity)]
            _raise_for(entity, result)
            settings = map(_setting, result.configs)
            found[entity] = {each.name: each for each in sorted(settings, key=_name_of)}
    return found


async def alter_configs(
    bootstrap: Bootstrap,
    deadline: Deadline,
    changes: Mapping[ConfigEntity, Sequence[PlannedKey]],
    *,
    is_dry_run: bool,
) -> dict[ConfigEntity, BrokerRefusal | None]:
    """Change single keys; by entity the refusal, or None if its keys were changed.

    A broker changes all keys of an entity or none.  Dry run: it only checks the change.
    """
    refusals: dict[ConfigEntity, BrokerRefusal | None] = {}
    for where, part in await _by_destination(bootstrap, deadline, list(changes)):
        async with connected(where, deadline, bootstrap.security) as connection:
            response = await connection.request(
                alter_request.IncrementalAlterConfigsRequest(
                    resources=tuple(_resource(entity, changes[entity]) for entity in part),
                    validate_only=is_dry_run,
                )
            )
        assert isinstance(response, IncrementalAlterConfigsResponse), "request() answers in kind"
        responses = {(each.resource_type, each.resource_name): each for each in response.responses}
        for entity in part:
            result = responses[_type_of(entity), _wire_name(entity)]
            refusals[entity] = refusal_of(result.error_code, result.error_message)
    return refusals


async def known_entities(bootstrap: Bootstrap, deadline: Deadline, kind: str) -> list[ConfigEntity]:
    """Every topic if ``kind`` is TOPIC, else every live broker."""
    known = await metadata(bootstrap, deadline, None if kind == TOPIC else ())
    if kind == TOPIC:
        names = sorted(str(topic.name) for topic in known.topics if topic.name is not None)
    else:
        names = [str(number) for number in sorted(broker.node_id for broker in known.brokers)]
    return [ConfigEntity(kind, name) for name in names]


def _resource(
    entity: ConfigEntity, changes: Sequence[PlannedKey]
) -> alter_request.AlterConfigsResource:
    return alter_request.AlterConfigsResource(
        resource_type=_type_of(entity),
        resource_name=_wire_name(entity),
        configs=tuple(
            alter_request.AlterableConfig(
                name=change.name,
                config_operation=i8(_OPERATIONS[change.operation]),
                value=change.wanted,
            )
            for change in changes
        ),
    )


async def _by_destination(
    bootstrap: Bootstrap, deadline: Deadline, entities: Sequence[ConfigEntity]
) -> list[tuple[list[BrokerAddress], list[ConfigEntity]]]:
    """Group entities by the brokers to ask: one broker about itself, any broker about the rest."""
    by_broker: dict[str, list[ConfigEntity]] = defaultdict(list)
    rest: list[ConfigEntity] = []
    for entity in entities:
        is_of_one = entity.kind in (BROKER, LOGGER) and not entity.is_default
        (by_broker[entity.name] if is_of_one else rest).append(entity)
    anywhere = parse_bootstrap(bootstrap.servers)
    parts = [
        (anywhere, rest[start : start + _ENTITIES_PER_REQUEST])
        for start in range(0, len(rest), _ENTITIES_PER_REQUEST)
    ]
    if by_broker:
        known = await metadata(bootstrap, deadline, ())
        addresses = {
            str(each.node_id): BrokerAddress(each.host, each.port) for each in known.brokers
        }
        for name, part in by_broker.items():
            if name not in addresses:
                raise Refused(
                    f"there is no broker {name} among the live ones: {', '.join(sorted(addresses))}"
                )
            parts.append(([addresses[name]], part))
    return parts


def _raise_for(entity: ConfigEntity, response: DescribeConfigsResult) -> None:
    if response.error_code is ErrorCode.unknown_topic_or_partition:
        raise Refused(f"there is no {entity.text}; zkctl topic list shows all")
    raise_for_code(entity.text, response.error_code, response.error_message)


def _setting(config: DescribeConfigsResourceResult) -> ConfigSetting:
    return ConfigSetting(
        config.name,
        config.value,
        _source(config.config_source),
        _TYPES[config.config_type] if config.config_type < len(_TYPES) else "unknown",
        config.read_only,
        config.is_sensitive,
        tuple(
            PlaceOfValue(each.name, each.value, _source(each.source)) for each in config.synonyms
        ),
        config.documentation,
    )


def _name_of(setting: ConfigSetting) -> str:
    return setting.name


def _source(number: int) -> str:
    return _SOURCES.get(int(number), "unknown")


def _type_of(entity: ConfigEntity) -> i8:
    return i8(_RESOURCE_TYPES[entity.kind])


def _wire_name(entity: ConfigEntity) -> str:
    return "" if entity.is_default else entity.name
