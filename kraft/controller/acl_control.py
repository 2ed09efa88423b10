"""The ACLs of a KRaft cluster: each ACL has an id, and filters select the ACLs to delete.

Source: Kafka ``AclControlManager`` (KIP-801).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    by_code,
    standard_acl_text,
)
from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.errors import IllegalState
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller.result import (
    MAX_RECORDS_PER_USER_OP,
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineSet
from kraft.metadata.records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


class StandardAcl(NamedTuple):
    """One ACL with its resource pattern."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclFilter(Protocol):
    """A filter of ACLs."""

    @property
    def resource_type(self) -> ResourceType: ...

    @property
    def pattern_type(self) -> PatternType: ...

    @property
    def operation(self) -> AclOperation: ...

    @property
    def permission_type(self) -> PermissionType: ...


class AclFilters(Protocol):
    """The filters of one request, in its order."""

    def __iter__(self) -> Iterator[AclFilter]: ...

    def find(self, acls: Mapping[UUID, StandardAcl], most: int) -> Sequence[Sequence[UUID]]:
        """The ids of the ACLs that each filter matches; at most ``most`` + 1 for each filter."""


class AclDeleteResult(NamedTuple):
    """The ACLs that one filter deleted, or an error."""

    error: ApiError
    deleted: tuple[StandardAcl, ...] = ()


class AclControlManager:
    """Generates ACL records and holds the committed ACLs."""

    def __init__(self, registry: SnapshotRegistry, new_acl_id: Callable[[], UUID]) -> None:
        """``new_acl_id`` makes a random id."""
        self._new_acl_id = new_acl_id
        self._logger = registry.logger("AclControlManager")
        self._acls_by_id: TimelineDict[UUID, StandardAcl] = TimelineDict(registry)
        self._existing: TimelineSet[StandardAcl] = TimelineSet(registry)

    def create_acls(self, acls: Iterable[StandardAcl]) -> ControllerResult[tuple[ApiError, ...]]:
        """Creates ACLs; returns one result per ACL.

        For an ACL that exists already the result is a success, and no record is written.
        """
        records = BoundedRecords()
        created: set[StandardAcl] = set()
        taken: set[UUID] = set()
        results = []
        for acl in acls:
            error = _error_of(acl)
            results.append(error)
            if error.is_failure or acl in self._existing or acl in created:
                continue
            acl_id = self._unused_id(taken)
            created.add(acl)
            taken.add(acl_id)
            records.append(VersionedRecord(_record(acl_id, acl), 0))
        return ControllerResult.atomic_of(records.to_tuple(), tuple(results))

    def delete_acls(self, filters: AclFilters) -> ControllerResult[tuple[AclDeleteResult, ...]]:
        """Deletes the ACLs that match, with one result per filter; each ACL is deleted once."""
        to_delete: dict[UUID, None] = {}
        results = []
        acls = self.acls()
        for wanted, matching in zip(
            filters, filters.find(acls, MAX_RECORDS_PER_USER_OP), strict=True
        ):
            try:
                _check_filter(wanted)
                added = [acl_id for acl_id in matching if acl_id not in to_delete]
                if len(to_delete) + len(added) > MAX_RECORDS_PER_USER_OP:
                    raise ApiException(
                        ErrorCode.policy_violation,
                        f"Cannot remove more than {MAX_RECORDS_PER_USER_OP} acls in a single "
                        "delete operation.",
                    )
            except ApiException as refused:
                results.append(AclDeleteResult(refused.to_error()))
                continue
            to_delete.update(dict.fromkeys(added))
            results.append(AclDeleteResult(NO_ERROR, tuple(map(acls.__getitem__, matching))))
        records = [
            VersionedRecord(RemoveAccessControlEntryRecord(acl_id), 0) for acl_id in to_delete
        ]
        return ControllerResult.atomic_of(records, tuple(results))

    def _unused_id(self, taken: Collection[UUID]) -> UUID:
        acl_id = self._new_acl_id()
        while acl_id in self._acls_by_id or acl_id in taken:
            acl_id = self._new_acl_id()
        return acl_id

    def replay(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Replays a committed record; IllegalState for the deletion of an unknown ACL."""
        if isinstance(record, AccessControlEntryRecord):
            acl = standard_acl(record)
            self._acls_by_id[record.id] = acl
            self._existing.add(acl)
            self._logger.info(
                "Replayed AccessControlEntryRecord for %s, setting %s",
                uuid_text(record.id), standard_acl_text(*acl),
            )  # fmt: skip
            return
        removed = self._acls_by_id.pop(record.id)
        if removed is None:
            raise IllegalState(f"Unable to replay {record}: no acl with that ID found.")
        self._existing.discard(removed)
        self._logger.info(
            "Replayed RemoveAccessControlEntryRecord for %s, removing %s",
            uuid_text(record.id), standard_acl_text(*removed),
        )  # fmt: skip

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record for every ACL at offset ``epoch``."""
        for acl_id, acl in self._acls_by_id.items(epoch=epoch):
            yield VersionedRecord(_record(acl_id, acl), 0)

    def acls(self, *, epoch: int | None = None) -> dict[UUID, StandardAcl]:
        """Every ACL by its id, at offset ``epoch`` or now (None)."""
        return dict(self._acls_by_id.items(epoch=epoch))


def _error_of(acl: StandardAcl) -> ApiError:
    pattern, entry = acl
    if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return _invalid(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return _invalid(f"Invalid patternType {pattern.pattern_type.name}")
    if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return _invalid(f"Invalid operation {entry.operation.name}")
    if entry.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        return _invalid(f"Invalid permissionType {entry.permission_type.name}")
    if not pattern.name:
        return _invalid("Resource name should not be empty")
    if ":" not in entry.principal:
        return _invalid(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return NO_ERROR


def _check_filter(wanted: AclFilter) -> None:
    if wanted.resource_type is ResourceType.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        raise ApiException(ErrorCode.invalid_request, "Unknown patternFilter.")
    if wanted.operation is AclOperation.UNKNOWN or wanted.permission_type is PermissionType.UNKNOWN:
        raise ApiException(ErrorCode.invalid_request, "Unknown entryFilter.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)


def _record(acl_id: UUID, acl: StandardAcl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id,
        acl.pattern.resource_type,
        acl.pattern.name,
        acl.pattern.pattern_type,
        acl.entry.principal,
        acl.entry.host,
        acl.entry.operation,
        acl.entry.permission_type,
    )


def standard_acl(record: AccessControlEntryRecord) -> StandardAcl:
    """The ACL in a record of the log."""
    return StandardAcl(
        ResourcePattern(
            by_code(ResourceType, record.resource_type),
            record.resource_name,
            by_code(PatternType, record.pattern_type),
        ),
        AccessControlEntry(
            record.principal,
            record.host,
            by_code(AclOperation, record.operation),
            by_code(PermissionType, record.permission_type),
        ),
    )
