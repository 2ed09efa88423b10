"""The dynamic configurations of topics, brokers and client metrics.

The changes of one resource are accepted or refused together.  They must pass the validator, the
resource must exist, and an operator's policy may refuse them.  The policy gets only the keys that
the request names.

Source: Kafka ``ConfigurationControlManager`` (KIP-248, KIP-339).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.errors import ConfigInvalid
from kafka_common.java import parse_int, split_by_commas
from kafka_common.model import ConfigResourceType, OpType
from kraft.controller.config_schema import (
    ALL_BROKERS,
    AlterConfigPolicy,
    ConfigResource,
    ConfigSchema,
    ConfigurationValidator,
    ConfigValues,
    EffectiveConfig,
    effective_topic_config,
)
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict
from kraft.metadata.records import ConfigRecord

MIN_IN_SYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
_NO_CONFIGS: Final[Mapping[str, str]] = {}


class ConfigOperation(NamedTuple):
    """One operation on a key; ``value`` is ignored for DELETE."""

    op_type: OpType
    value: str | None


ConfigOperations: TypeAlias = Mapping[str, ConfigOperation]
DescribedConfigs: TypeAlias = ApiError | dict[str, str]


def _anything_exists(_resource: ConfigResource) -> None:
    pass


class ConfigurationControlManager:
    """Generates ConfigRecords and holds the committed configurations."""

    def __init__(
        self,
        registry: SnapshotRegistry,
        schema: ConfigSchema,
        validator: ConfigurationValidator,
        *,
        static_config: Mapping[str, str],
        node_id: int,
        existence_checker: Callable[[ConfigResource], None] = _anything_exists,
        alter_config_policy: AlterConfigPolicy | None = None,
    ) -> None:
        """``existence_checker`` raises ApiException for a resource that does not exist."""
        self._registry = registry
        self._logger = registry.logger("ConfigurationControlManager")
        self._schema = schema
        self._validator = validator
        self._static_config = static_config
        self._this_node = ConfigResource(ConfigResourceType.BROKER, str(node_id))
        self._existence_checker = existence_checker
        self._policy = alter_config_policy
        self._configs: TimelineDict[ConfigResource, TimelineDict[str, str]] = TimelineDict(registry)

    # ------------------------------------------------------------------ generate

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigOperations],
        *,
        is_newly_created: bool = False,
    ) -> ControllerResult[dict[ConfigResource, ApiError]]:
        """Applies operations, with one result per resource.

        With ``is_newly_created`` the resources need not exist yet.
        """
        records = BoundedRecords()
        errors: dict[ConfigResource, ApiError] = {}
        for resource, operations in changes.items():
            try:
                altered = self._altered(resource, operations)
                self._validate(resource, altered, (), is_newly_created=is_newly_created)
            except ApiException as refused:
                errors[resource] = refused.to_error()
            else:
                records.extend(altered)
                errors[resource] = NO_ERROR
        return ControllerResult.atomic_of(records.to_tuple(), errors)

    def legacy_alter_configs(
        self,
        new_configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        is_newly_created: bool = False,
    ) -> ControllerResult[dict[ConfigResource, ApiError]]:
        """Replaces whole configurations: keys that are not named are deleted."""
        records = BoundedRecords()
        errors: dict[ConfigResource, ApiError] = {}
        for resource, configs in new_configs.items():
            current = self._current(resource)
            altered = [
                _record(resource, key, value)
                for key, value in configs.items()
                if _is_worth_writing(resource, current.get(key), value)
            ]
            deleted = [_record(resource, key, None) for key in current if key not in configs]
            try:
                self._validate(resource, altered, deleted, is_newly_created=is_newly_created)
            except ApiException as refused:
                errors[resource] = refused.to_error()
            else:
                records.extend((*altered, *deleted))
                errors[resource] = NO_ERROR
        return ControllerResult.atomic_of(records.to_tuple(), errors)

    def _altered(
        self, resource: ConfigResource, operations: ConfigOperations
    ) -> list[VersionedRecord]:
        current = self._current(resource)
        records = []
        for key, operation in operations.items():
            before = current.get(key)
            after = self._applied(resource, key, operation, before)
            if _is_worth_writing(resource, before, after):
                records.append(_record(resource, key, after))
        return records

    def _applied(
        self, resource: ConfigResource, key: str, operation: ConfigOperation, before: str | None
    ) -> str | None:
        op_type, value = operation
        if op_type is OpType.SET:
            return value
        if op_type is OpType.DELETE:
            return None
        schema = self._schema.key(resource.resource_type, key)
        if schema is None or not schema.is_list:
            raise ApiException(
                ErrorCode.invalid_config,
                f"Can't {op_type.name} to key {key} because its type is not LIST.",
            )
        if value is None:
            raise ApiException(
                ErrorCode.invalid_request, f"Can't {op_type.name} null to key {key}."
            )
        whole = schema.default if before is None else before
        parts = [part for part in (whole or "").split(",") if part]
        for part in split_by_commas(value):
            if op_type is OpType.APPEND and part not in parts:
                parts.append(part)
            elif op_type is OpType.SUBTRACT and part in parts:
                parts.remove(part)
        return ",".join(parts)

    def _validate(
        self,
        resource: ConfigResource,
        altered: Sequence[VersionedRecord],
        implicitly_deleted: Sequence[VersionedRecord],
        *,
        is_newly_created: bool,
    ) -> None:
        existing = self._current(resource)
        whole = dict(existing)
        named: dict[str, str | None] = {}
        for record in _config_records(altered):
            named[record.name] = record.value
            _set_or_drop(whole, record)
        for record in _config_records(implicitly_deleted):
            _set_or_drop(whole, record)
        try:
            self._validator.validate(resource, whole, existing)
        except ConfigInvalid as invalid:
            raise ApiException(ErrorCode.invalid_config, str(invalid)) from invalid
        if not is_newly_created:
            self._existence_checker(resource)
        if self._policy is not None:
            # The policy does not get the keys that AlterConfigs deletes because the request does
            # not name them (KAFKA-14195).
            self._policy.validate(resource, named)

    # ------------------------------------------------------------------ replay

    def replay(self, record: ConfigRecord) -> None:
        """Replays a committed change of one key."""
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._configs.get(resource)
        self._log_change(record)
        if record.value is None:
            if configs is not None:
                configs.pop(record.name)
                if not configs:
                    del self._configs[resource]
            return
        if configs is None:
            configs = self._configs[resource] = TimelineDict(self._registry)
        configs[record.name] = record.value

    def _log_change(self, record: ConfigRecord) -> None:
        if not self._logger.isEnabledFor(logging.INFO):
            return
        kind = record.resource_type
        key = self._schema.key(kind, record.name)
        is_known = kind in ConfigResourceType._value2member_map_
        shown = "null" if record.value is None else record.value
        self._logger.info(
            "Replayed ConfigRecord for ConfigResource(type=%s, name='%s') which set configuration "
            "%s to %s",
            ConfigResourceType(kind).name if is_known else "UNKNOWN", record.resource_name,
            record.name, "[hidden]" if key is None or key.is_sensitive else shown,
        )  # fmt: skip

    def delete_topic_configs(self, topic: str) -> None:
        """Deletes all keys of a topic, when the topic's deletion is replayed."""
        self._configs.pop(ConfigResource(ConfigResourceType.TOPIC, topic))

    # ------------------------------------------------------------------ reads

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record for every key that is set at offset ``epoch``."""
        for resource, configs in self._configs.items(epoch=epoch):
            for key, value in configs.items(epoch=epoch):
                yield _record(resource, key, value)

    def configs(self, resource: ConfigResource) -> dict[str, str]:
        """The values that are set for that resource itself, by key."""
        return self._current(resource)

    def describe_configs(
        self, epoch: int | None, resources: Mapping[ConfigResource, Sequence[str]]
    ) -> dict[ConfigResource, DescribedConfigs]:
        """The values set at offset ``epoch``, or errors; an empty list of keys means every key."""
        described: dict[ConfigResource, DescribedConfigs] = {}
        for resource, keys in resources.items():
            try:
                self._validator.validate_resource(resource)
            except ApiException as refused:
                described[resource] = refused.to_error()
                continue
            configs = self._configs.get(resource, epoch=epoch)
            found = dict(configs.items(epoch=epoch)) if configs is not None else {}
            described[resource] = {
                key: found[key] for key in (keys or tuple(found)) if key in found
            }
        return described

    def topic_config(self, topic: str, name: str) -> EffectiveConfig:
        """The value of a topic's key, inherited if it is not set; KeyError for an unknown key."""
        key = self._schema.key(ConfigResourceType.TOPIC, name)
        if key is None:
            raise KeyError(name)
        return effective_topic_config(
            key, *self._inherited(), self._values(ConfigResource(ConfigResourceType.TOPIC, topic))
        )

    def effective_topic_configs(self, creation_configs: Mapping[str, str]) -> list[EffectiveConfig]:
        """Every effective key of a topic created with these configurations, by name."""
        inherited = self._inherited()
        entries = (
            effective_topic_config(key, *inherited, creation_configs)
            for key in self._schema.topic_keys()
        )
        return sorted(entries, key=lambda entry: entry.name)

    def is_unclean_leader_election_enabled(self, topic: str) -> bool:
        """Whether the topic allows unclean leader election."""
        value = self.topic_config(topic, UNCLEAN_LEADER_ELECTION_ENABLE).value
        return value is not None and value.lower() == "true"

    def min_in_sync_replicas(self, topic: str) -> int:
        """The effective ``min.insync.replicas`` of the topic; 1 if the value is no number."""
        number = parse_int(self.topic_config(topic, MIN_IN_SYNC_REPLICAS).value or "")
        return 1 if number is None else number

    def _inherited(self) -> tuple[ConfigValues, ConfigValues, ConfigValues]:
        return self._static_config, self._values(ALL_BROKERS), self._values(self._this_node)

    def _values(self, resource: ConfigResource) -> ConfigValues:
        # Do not copy: every change of a partition's leader reads values of its topic.
        return self._configs.get(resource) or _NO_CONFIGS

    def _current(self, resource: ConfigResource) -> dict[str, str]:
        configs = self._configs.get(resource)
        return {} if configs is None else dict(configs.items())


def _is_worth_writing(resource: ConfigResource, before: str | None, after: str | None) -> bool:
    # A broker reloads its key stores even if the same value is set again (KAFKA-14136).
    return before != after or resource.resource_type == ConfigResourceType.BROKER


def _record(resource: ConfigResource, key: str, value: str | None) -> VersionedRecord:
    return VersionedRecord(ConfigRecord(resource.resource_type, resource.name, key, value), 0)


def _config_records(records: Iterable[VersionedRecord]) -> Iterable[ConfigRecord]:
    return (record.record for record in records if isinstance(record.record, ConfigRecord))


def _set_or_drop(configs: dict[str, str], record: ConfigRecord) -> None:
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
