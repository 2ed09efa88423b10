"""Quotas of users, client ids and addresses.

Source: Kafka ``ClientQuotaControlManager``, ``QuotaConfigs`` (KIP-546, KIP-599, KIP-612).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict
from kraft.metadata.records import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

_INT: Final = ("an INT", 2**31 - 1)
_LONG: Final = ("a LONG", 2**63 - 1)
_KeyLimits: TypeAlias = dict[str, tuple[str, int] | None]
"""For each key the name of its integral type and its largest value; None allows any number."""

_USER_AND_CLIENT_KEYS: Final[_KeyLimits] = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_KEYS: Final[_KeyLimits] = {"connection_creation_rate": _INT}
_LARGEST_FRACTION: Final = 1e-6

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name, ordered by type; the name None means the type's default."""


class ClientQuotaAlteration(NamedTuple):
    """The new values of one entity's quota keys; None removes the key."""

    entity: QuotaEntity
    ops: tuple[tuple[str, float | None], ...]


class ClientQuotaControlManager:
    """Generates ClientQuotaRecords and holds the committed quotas."""

    def __init__(self, registry: SnapshotRegistry, is_resolvable: Callable[[str], bool]) -> None:
        """``is_resolvable`` checks whether a text is an address or a host name."""
        self._registry = registry
        self._logger = registry.logger("ClientQuotaControlManager")
        self._is_resolvable = is_resolvable
        self._quotas: TimelineDict[QuotaEntity, TimelineDict[str, float]] = TimelineDict(registry)

    def alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration]
    ) -> ControllerResult[dict[QuotaEntity, ApiError]]:
        """One result per entity.

        If an entity is named twice, the first alteration is written, and the result is an error.
        """
        records = BoundedRecords()
        results: dict[QuotaEntity, ApiError] = {}
        for alteration in alterations:
            entity = _ordered(alteration.entity)
            keys = [key for key, _ in alteration.ops]
            if entity in results or len(set(keys)) < len(keys):
                results[entity] = _invalid(f"Ignoring duplicate entity {dict(entity)}")
                continue
            try:
                altered = self._altered(entity, alteration)
            except ApiException as refused:
                results[entity] = refused.to_error()
                continue
            records.extend(altered)
            results[entity] = NO_ERROR
        return ControllerResult.atomic_of(records.to_tuple(), results)

    def _altered(
        self, entity: QuotaEntity, alteration: ClientQuotaAlteration
    ) -> list[VersionedRecord]:
        _check_entity(entity)
        keys = self._keys_of(dict(entity))
        current = self._quotas.get(entity)
        data = tuple(EntityData(*part) for part in alteration.entity)
        records = []
        for key, value in alteration.ops:
            before = None if current is None else current.get(key)
            if value is None:
                if before is not None:
                    records.append(ClientQuotaRecord(data, key, remove=True))
                continue
            _check_value(keys, key, value)
            if value != before:
                records.append(ClientQuotaRecord(data, key, value))
        return [VersionedRecord(record, 0) for record in records]

    def _keys_of(self, names: dict[str, str | None]) -> _KeyLimits:
        if IP not in names:
            return _USER_AND_CLIENT_KEYS
        if len(names) > 1:
            raise _refusal(
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        name = names[IP]
        if name is not None and not self._is_resolvable(name):
            raise _refusal(f"{name} is not a valid IP or resolvable host.")
        return _IP_KEYS

    def replay(self, record: ClientQuotaRecord) -> None:
        """Replays a committed change of one key."""
        entity = _ordered(tuple((part.entity_type, part.entity_name) for part in record.entity))
        quotas = self._quotas.get(entity)
        if record.remove:
            if quotas is not None:
                quotas.pop(record.key)
                if not quotas:
                    del self._quotas[entity]
            self._logger.info(
                "Replayed ClientQuotaRecord for %s removing %s.", _text(entity), record.key
            )
            return
        if quotas is None:
            quotas = self._quotas[entity] = TimelineDict(self._registry)
        quotas[record.key] = record.value
        self._logger.info(
            "Replayed ClientQuotaRecord for %s setting %s to %s.",
            _text(entity), record.key, record.value,
        )  # fmt: skip

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record for every quota at offset ``epoch``."""
        for entity, quotas in self._quotas.items(epoch=epoch):
            data = tuple(EntityData(*part) for part in entity)
            for key, value in quotas.items(epoch=epoch):
                yield VersionedRecord(ClientQuotaRecord(data, key, value), 0)

    def quotas(self, entity: QuotaEntity) -> dict[str, float]:
        """The quotas by key that are set for exactly that entity."""
        quotas = self._quotas.get(_ordered(entity))
        return {} if quotas is None else dict(quotas.items())


def _ordered(entity: QuotaEntity) -> QuotaEntity:
    return tuple(sorted(entity, key=lambda part: part[0]))


def _text(entity: QuotaEntity) -> str:
    listed = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{listed}}})"


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)


def _refusal(message: str) -> ApiException:
    return ApiException(ErrorCode.invalid_request, message)


def _check_entity(entity: QuotaEntity) -> None:
    if not entity:
        raise _refusal("Invalid empty client quota entity")
    previous = None
    for entity_type, name in entity:
        if entity_type == previous:
            raise _refusal(f"Invalid client quota entity, duplicate entity entry {entity_type}")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _refusal(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _refusal(f"Empty {entity_type} not supported")
        previous = entity_type


def _check_value(keys: _KeyLimits, key: str, value: float) -> None:
    if key not in keys:
        raise _refusal(f"Invalid configuration key {key}")
    # ``not value > 0`` refuses NaN too; Kafka accepts it.
    if not value > 0:
        raise _refusal(f"Quota {key} must be greater than 0")
    limit = keys[key]
    if limit is None:
        return
    type_name, largest = limit
    if value > largest:
        raise _refusal(f"Proposed value for {key} is too large for {type_name}.")
    if value % 1.0 > _LARGEST_FRACTION:
        raise _refusal(f"{key} cannot be a fractional value.")
