"""Changes the configuration of topics and brokers for AlterConfigs and IncrementalAlterConfigs.

Any broker can change a topic's configuration or the default of all brokers.  A broker's own
configuration is changed by that broker only, which checks whether it can apply the change.

Source: Kafka ``ConfigAdminManager.preprocess``, ``ZkAdminManager.alterConfigs``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from msgspec import Struct

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.model import ConfigResourceType, OpType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.sanitizer import DEFAULT_ENTITY
from replica_manager.configuration.config import DYNAMIC_BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigKey
from replica_manager.configuration.dynamic_keys import base_name
from replica_manager.configuration.topic_keys import TOPIC_KEYS
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import check_cluster, is_allowed
from replica_manager.server.configs import key_changes
from replica_manager.server.configs.altered_resources import resources_response
from replica_manager.server.configs.key_changes import (
    KeyChange,
    check_broker_config,
    check_changes,
    check_topic_config,
)
from replica_manager.server.configs.log_levels import change_levels, check_levels, check_node
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_slices
from replica_manager.server.topics.topic_creation import check_name

_log = logging.getLogger("kafka.server.ZkAdminManager")

Outcome: TypeAlias = tuple[ErrorCode, str | None]
AlterationRequest: TypeAlias = (
    "request_types.AlterConfigsRequest | request_types.IncrementalAlterConfigsRequest"
)
AlteredResource: TypeAlias = (
    "request_types.AlterConfigsResource | request_types.IncrementalAlterConfigsAlterConfigsResource"
)


async def altered(
    request: AlterationRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """Applies a request of either API; the response has one result per resource, in order."""
    is_incremental = context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS
    alteration = ConfigAlteration(
        broker, context, is_incremental=is_incremental, validate_only=request.validate_only
    )
    resources: Sequence[AlteredResource] = request.resources
    changes = [
        await aside(len(resource.configs), partial(_changes, resource))
        async for resource in in_slices(resources)
    ]
    outcomes = await alteration.run(changes)
    return await composed(
        len(outcomes),
        lambda: resources_response(
            context.api_key, context.api_version, request.resources, outcomes
        ),
    )


def refused(
    request: AlterationRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response of either API with ``error`` for every resource of the request."""
    outcomes = [(error, None)] * len(request.resources)
    return resources_response(context.api_key, context.api_version, request.resources, outcomes)


def _changes(resource: AlteredResource) -> ResourceChanges:
    return ResourceChanges(
        resource.resource_type,
        resource.resource_name,
        tuple(
            KeyChange(entry.name, getattr(entry, "config_operation", OpType.SET), entry.value)
            for entry in resource.configs
        ),
    )


class ResourceChanges(Struct, frozen=True):
    """The changes of one resource in a request."""

    resource_type: int
    name: str
    """The name of the topic or the id of the broker; empty for the default of all brokers."""
    changes: tuple[KeyChange, ...]


class ConfigAlteration:
    """One AlterConfigs or IncrementalAlterConfigs request."""

    def __init__(
        self,
        broker: BrokerContext,
        context: RequestContext,
        *,
        is_incremental: bool,
        validate_only: bool,
    ) -> None:
        """If not ``is_incremental``, the changes replace the resource's whole configuration."""
        self._broker = broker
        self._context = context
        self._is_incremental = is_incremental
        self._validate_only = validate_only

    async def run(self, resources: Sequence[ResourceChanges]) -> list[Outcome]:
        """Applies the changes; returns one result per resource, in order."""
        named = Counter((resource.resource_type, resource.name) for resource in resources)
        return [
            await self._outcome(resource)
            if named[resource.resource_type, resource.name] == 1
            else (ErrorCode.invalid_request, "Each resource must appear at most once.")
            async for resource in in_slices(resources)
        ]

    async def _outcome(self, resource: ResourceChanges) -> Outcome:
        try:
            await aside(len(resource.changes), partial(check_changes, resource.changes))
            match resource.resource_type:
                case ConfigResourceType.TOPIC:
                    await self._alter_topic(resource)
                case ConfigResourceType.BROKER:
                    await self._alter_broker(resource)
                case ConfigResourceType.BROKER_LOGGER if self._is_incremental:
                    self._alter_loggers(resource)
                case ConfigResourceType.CLIENT_METRICS:
                    raise RequestRefused(
                        ErrorCode.invalid_request,
                        "AlterConfigs is only supported for topics and brokers, but resource type "
                        "is CLIENT_METRICS",
                    )
                case unknown:
                    raise RequestRefused(
                        ErrorCode.invalid_request, f"Unknown resource type {unknown}"
                    )
        except RequestRefused as refused:
            return refused.error, refused.message
        except ZkControllerError as failure:
            self._log(
                logging.ERROR,
                f"Error processing alter configs request for {resource.name}: {failure}",
            )
            return error_code_for(failure), None
        return ErrorCode.none, None

    async def _alter_topic(self, resource: ResourceChanges) -> None:
        topic = resource.name
        if not is_allowed(
            self._broker,
            self._context,
            AclOperation.ALTER_CONFIGS,
            ResourceType.TOPIC,
            topic,
        ):
            raise RequestRefused(ErrorCode.topic_authorization_failed)
        if not topic:
            raise RequestRefused(
                ErrorCode.invalid_request, "Default topic resources are not allowed."
            )
        if topic not in self._broker.metadata_cache.snapshot.partitions:
            raise RequestRefused(
                ErrorCode.unknown_topic_or_partition, f"The topic '{topic}' does not exist."
            )
        check_name(topic)
        path = f"topics/{topic}"
        stored = (
            await self._broker.administration.admin.config_of(path) if self._is_incremental else {}
        )
        config = await _applied(resource.changes, stored, TOPIC_KEYS)
        if not await self._broker.administration.admin.is_topic(topic):
            raise RequestRefused(
                ErrorCode.unknown_topic_or_partition, f"Topic '{topic}' does not exist."
            )
        check_topic_config(topic, config, self._broker.config())
        if not self._validate_only:
            self._log(
                logging.INFO, f"Updating topic {topic} with new configuration : {_text(config)}"
            )
            await self._broker.administration.admin.change_config(path, config)

    async def _alter_broker(self, resource: ResourceChanges) -> None:
        own_id = self._own_id(resource.name)
        path = f"brokers/{DEFAULT_ENTITY if own_id is None else own_id}"
        reconfigured = self._broker.reconfiguring
        stored: dict[str, str] = {}
        if self._is_incremental:
            stored = await reconfigured.decoded(
                await self._broker.administration.admin.config_of(path),
                per_broker=own_id is not None,
            )
        config = await _applied(resource.changes, stored, DYNAMIC_BROKER_KEYS)
        after = check_broker_config(config, self._broker.config(), per_broker=own_id is not None)
        self._check_cluster()
        await reconfigured.check(after)  # reads files, so only for authorized clients
        if self._validate_only:
            return
        encoded = await reconfigured.encoded(config, broker_name=resource.name)
        if own_id is not None:
            await reconfigured.reload(after)
        who = "brokers" if own_id is None else f"broker {own_id}"
        self._log(logging.INFO, f"Updating {who} with new configuration : {_text(config)}")
        await self._broker.administration.admin.change_config(path, encoded)

    def _check_cluster(self) -> None:
        check_cluster(self._broker, self._context, AclOperation.ALTER_CONFIGS)

    def _alter_loggers(self, resource: ResourceChanges) -> None:
        self._check_cluster()
        check_node(resource.name, self._broker.broker_id)
        check_levels(resource.changes)
        if not self._validate_only:
            change_levels(resource.changes)
            for change in resource.changes:
                self._log(
                    logging.WARNING,
                    f"Updated the log level of {change.name} to {change.value}"
                    if change.operation == OpType.SET
                    else f"Unset the log level of {change.name}",
                )

    def _own_id(self, name: str) -> int | None:
        """This broker's id, None for the default of all brokers; RequestRefused for other names."""
        if not name:
            return None
        own_id = self._broker.broker_id
        check_node(name, own_id, "Unexpected broker id, expected")
        return own_id

    def _log(self, level: int, message: str) -> None:
        _log.log(level, "[Admin Manager on Broker %d]: %s", self._broker.broker_id, message)


async def _applied(
    changes: Sequence[KeyChange], config: Mapping[str, str], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """The configuration after the changes; a long list is applied in a thread."""
    return await aside(len(changes), partial(key_changes.apply, changes, config, keys))


def _text(config: dict[str, str]) -> str:
    return ",".join(
        f"{name} -> {'[hidden]' if _is_secret(name) else text}" for name, text in config.items()
    )


def _is_secret(name: str) -> bool:
    """Whether the value must not be logged; an unknown key may hold a secret."""
    key = TOPIC_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(base_name(name) or name)
    return key is None or key.type_name == "password"
