"""Applies ACLs and SCRAM credentials in the metadata log to the authorizer and logins.

Source: Kafka ``AclPublisher``, ``ScramPublisher``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from kafka_common.acls import AccessControlEntry, ResourcePattern
from kafka_common.protocol.scram import MECHANISMS_BY_TYPE, ScramCredential
from kraft.controller.acl_control import standard_acl
from kraft.metadata.records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from replica_manager.security.acl_cache import (
    NO_VERSION,
    AclBinding,
    AclCache,
    VersionedAcls,
)
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.standard_authorizer import StandardAuthorizer

_log: Final = logging.getLogger("kafka.server.metadata.AclPublisher")


class AclPublisher:
    """Keeps an authorizer's ACLs equal to the log."""

    name = "AclPublisher"

    record_types = frozenset((AccessControlEntryRecord, RemoveAccessControlEntryRecord))

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        self._by_id: dict[UUID, AclBinding] = {}
        self._by_pattern: dict[ResourcePattern, dict[UUID, AccessControlEntry]] = {}

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Applies the changes; the authorizer sees all of them at once."""
        changed = dict.fromkeys(self._apply(records))
        self._authorizer.cache = self._authorizer.cache.updated(
            {pattern: self._rules_of(pattern) for pattern in changed}
        )

    def load(self, records: Sequence[MetadataRecord]) -> None:
        """Replaces all ACLs."""
        self._by_id.clear()
        self._by_pattern.clear()
        changed = dict.fromkeys(self._apply(records))
        self._authorizer.cache = AclCache({each: self._rules_of(each) for each in changed})

    def caught_up(self) -> None:
        """Ends the authorizer's initial load, so that it decides from now on."""
        self._authorizer.complete_initial_load()

    def _apply(self, records: Sequence[MetadataRecord]) -> Iterable[ResourcePattern]:
        """Applies records one by one, and yields the resource pattern of each changed ACL."""
        for record in records:
            match record:
                case AccessControlEntryRecord():
                    yield self._put(record.id, AclBinding(*standard_acl(record)))
                case RemoveAccessControlEntryRecord(acl_id):
                    removed = self._by_id.pop(acl_id, None)
                    if removed is None:
                        _log.error("The log removes rule %s, which it has not", acl_id)
                        continue
                    del self._by_pattern[removed.pattern][acl_id]
                    yield removed.pattern
                case _:
                    raise AssertionError(f"{record} is not asked for")

    def _put(self, acl_id: UUID, binding: AclBinding) -> ResourcePattern:
        self._by_id[acl_id] = binding
        self._by_pattern.setdefault(binding.pattern, {})[acl_id] = binding.entry
        return binding.pattern

    def _rules_of(self, pattern: ResourcePattern) -> VersionedAcls:
        found = self._by_pattern[pattern]
        if not found:
            del self._by_pattern[pattern]
        return VersionedAcls(tuple(dict.fromkeys(found.values())), NO_VERSION)


class ScramPublisher:
    """Keeps the users' SCRAM credentials equal to the log."""

    name = "ScramPublisher"

    record_types = frozenset((UserScramCredentialRecord, RemoveUserScramCredentialRecord))

    def __init__(self, credentials: ScramCredentials) -> None:
        self._credentials = credentials

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Applies the changes."""
        for record in records:
            match record:
                case UserScramCredentialRecord():
                    credential = ScramCredential(
                        record.salt, record.stored_key, record.server_key, record.iterations
                    )
                    self._put(record.mechanism, record.name, credential)
                case RemoveUserScramCredentialRecord(name, mechanism):
                    self._put(mechanism, name, None)
                case _:
                    raise AssertionError(f"{record} is not asked for")

    def load(self, records: Sequence[MetadataRecord]) -> None:
        """Replaces all credentials."""
        self._credentials.clear()
        self.publish(records)

    def caught_up(self) -> None:
        """Does nothing: a credential can be used as soon as it is known."""

    def _put(self, mechanism: int, name: str, credential: ScramCredential | None) -> None:
        known = MECHANISMS_BY_TYPE.get(mechanism)
        if known is not None:
            self._credentials.put(known.mechanism_name, name, credential)
