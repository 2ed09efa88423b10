"""ACLs in ZooKeeper: loads them, watches for changes, and writes changes.

A change is written only if the znode has the version that was read; else it is tried again, because
another broker has changed it.  Then a notification makes the other brokers read the ACLs of that
resource again.  After each new ZooKeeper session the notifications are read again, because the
watches of an expired session never fire.

All methods block and are called outside of the event loop.  A lock lets one thread at a time run,
so that the cache always gets the values that were read last.

Source: Kafka ``AclAuthorizer`` (``updateResourceAcls``, ``loadAllAcls``), ``KafkaZkClient``
(``createAclPaths``), ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    PatternType,
    ResourcePattern,
    ResourceType,
    by_pascal_name,
    pascal_name,
)
from kafka_common.errors import ZkControllerError, ZnodeCorrupt, ZooKeeperRefused
from kafka_common.protocol.error_codes import error_code_for
from replica_manager.security.acl_cache import (
    NO_ACLS,
    NO_VERSION,
    AclBinding,
    AclBindingFilter,
    AclCache,
    FiltersByPattern,
    VersionedAcls,
)
from replica_manager.security.authorizer import Authorizer
from zkcontroller.zookeeper.change_notifications import ZkNodeChangeNotificationListener
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode, AclZnode
from zkcontroller.zookeeper.requests import (
    Create,
    Delete,
    ListChildren,
    ReadZnodes,
    SetData,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession

MAX_UPDATE_RETRIES: Final = 10
RETRY_BACKOFF_S: Final = 0.1
MOST_UNPUBLISHED: Final = 500
"""The most patterns that are written to ZooKeeper before the cache is updated."""

_Entries: TypeAlias = tuple[AccessControlEntry, ...]
_log = logging.getLogger("kafka.security.authorizer.AclAuthorizer")
_change_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")


class AclStore:
    """Keeps an authorizer's cache up to date with ZooKeeper."""

    def __init__(
        self,
        session: ZooKeeperSession,
        authorizer: Authorizer,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._sleep = sleep
        self._turn = threading.Lock()
        self._written: dict[ResourcePattern, VersionedAcls] = {}
        """ACLs that were written to ZooKeeper but are not in the cache yet."""
        self._notifications = [
            ZkNodeChangeNotificationListener(session, root, AclChangeZnode.PREFIX)
            for root in AclChangeZnode.ROOTS
        ]

    def load(self) -> None:
        """Creates missing znodes, sets watches for changes, then reads every ACL."""
        with self._turn:
            self._session.create_missing(_paths())
            # The watches come first, so that no change is missed between them and the reads.
            for notifications in self._notifications:
                notifications.skip()
            self._authorizer.cache = AclCache(self._read(list(self._patterns())))

    def process_changes(self) -> None:
        """Handles every new notification, and sets a watch for the next."""
        with self._turn:
            for notifications in self._notifications:
                patterns = dict.fromkeys(_changed_patterns(notifications.unseen()))
                found = self._readable(list(patterns))
                for pattern, acls in found.items():
                    _log.info(
                        "Processing Acl change notification for %s, versionedAcls : %s, "
                        "zkVersion : %d",
                        pattern,
                        ", ".join(map(_text, acls.entries)),
                        acls.zk_version,
                    )
                if found:
                    self._authorizer.cache = self._authorizer.cache.updated(found)
                notifications.processed()

    def create(self, bindings: Sequence[AclBinding]) -> list[ErrorCode]:
        """Adds ACLs; returns one error code for each, NONE on success."""
        by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
        for binding in bindings:
            by_pattern.setdefault(binding.pattern, []).append(binding.entry)
        outcomes: dict[ResourcePattern, ErrorCode] = {}
        with self._turn, self._published():
            for pattern, added in by_pattern.items():
                try:
                    self._update(
                        pattern,
                        lambda entries, added=added: tuple(  # type: ignore[misc]
                            dict.fromkeys((*entries, *added))
                        ),
                    )
                except ZkControllerError as failure:
                    _log.error("Failed to update ACLs for %s: %s", pattern, failure)
                    outcomes[pattern] = error_code_for(failure)
                else:
                    outcomes[pattern] = ErrorCode.none
        return [outcomes[binding.pattern] for binding in bindings]

    def delete(
        self, filters: Sequence[AclBindingFilter]
    ) -> list[list[tuple[AclBinding, ErrorCode]]]:
        """Deletes the ACLs that match filters; returns the ACLs deleted for each filter.

        An ACL that matches several filters is in the result of the first one.
        """
        removed: list[list[tuple[AclBinding, ErrorCode]]] = [[] for _ in filters]
        with self._turn, self._published():
            meant = FiltersByPattern(self._authorizer.cache, filters)
            without_match = self._without_match(meant)
            for pattern in meant.patterns:
                if pattern in without_match:
                    continue
                found: dict[AccessControlEntry, int] = {}

                def without_those_meant(
                    entries: _Entries,
                    pattern: ResourcePattern = pattern,
                    found: dict[AccessControlEntry, int] = found,
                ) -> _Entries:
                    found.clear()
                    for entry in entries:
                        index = meant.first(pattern, entry)
                        if index is not None:
                            found[entry] = index
                    return tuple(entry for entry in entries if entry not in found)

                error = ErrorCode.none
                try:
                    self._update(pattern, without_those_meant)
                except ZkControllerError as failure:
                    _log.error("Failed to update ACLs for %s: %s", pattern, failure)
                    error = error_code_for(failure)
                for entry, index in found.items():
                    removed[index].append((AclBinding(pattern, entry), error))
        return removed

    def _without_match(self, meant: FiltersByPattern) -> set[ResourcePattern]:
        """The patterns without a matching ACL, if the cache is up to date with ZooKeeper.

        One read of all znodes checks that, which saves a write attempt for each pattern.
        """
        paths = [AclZnode.path(each) for each in meant.patterns]
        try:
            znodes = self._session.perform(ReadZnodes(paths))
        except ZooKeeperRefused:
            return set()  # each pattern is then read on its own
        found = set()
        for pattern, znode in zip(meant.patterns, znodes, strict=True):
            known = self._authorizer.cache.acls.get(pattern, NO_ACLS)
            if znode is ZkCode.NO_NODE:
                is_known = known is NO_ACLS
            else:
                is_known = isinstance(znode, Znode) and znode.zk_version == known.zk_version
            if is_known and all(meant.first(pattern, each) is None for each in known.entries):
                found.add(pattern)
        return found

    @contextmanager
    def _published(self) -> Iterator[None]:
        """At the end of the block, even after an error, puts the written ACLs into the cache."""
        try:
            yield
        finally:
            self._publish()

    def _publish(self) -> None:
        """Puts the written ACLs into the cache, which copies the whole cache."""
        if self._written:
            self._authorizer.cache = self._authorizer.cache.updated(self._written)
            self._written = {}

    def _update(self, pattern: ResourcePattern, change: Callable[[_Entries], _Entries]) -> None:
        known = self._authorizer.cache.acls.get(pattern)
        current = known or self._read([pattern])[pattern]
        for _ in range(MAX_UPDATE_RETRIES + 1):
            wanted = change(current.entries)
            zk_version = self._write(pattern, wanted, current.zk_version)
            if zk_version is not None:
                if known is not None or wanted:
                    self._written[pattern] = VersionedAcls(wanted, zk_version)
                if len(self._written) >= MOST_UNPUBLISHED:
                    self._publish()
                if wanted != current.entries:
                    _log.info("Updated ACLs for %s with new version %d", pattern, zk_version)
                    self._announce(pattern)
                return
            self._sleep(RETRY_BACKOFF_S)
            current = self._read([pattern])[pattern]
        raise ZooKeeperRefused(AclZnode.path(pattern), "BAD_VERSION again and again")

    def _write(self, pattern: ResourcePattern, entries: _Entries, zk_version: int) -> int | None:
        """Writes the ACLs; returns the znode's new version, None if another broker changed it."""
        path = AclZnode.path(pattern)
        data = AclZnode(entries).encode()
        if entries and zk_version == NO_VERSION:
            self._session.create_missing(
                [AclZnode.type_path(pattern.resource_type, pattern.pattern_type)]
            )
            result = self._session.write(Create(path, data))
        elif entries:
            result = self._session.write(SetData(path, data, zk_version))
        elif zk_version == NO_VERSION:
            return NO_VERSION
        else:
            result = self._session.write(Delete(path, zk_version))
            if result is ZkCode.NO_NODE:
                return NO_VERSION
        if result in (ZkCode.BAD_VERSION, ZkCode.NODE_EXISTS, ZkCode.NO_NODE):
            return None
        return required(path, result).zk_version

    def _announce(self, pattern: ResourcePattern) -> None:
        change = AclChangeZnode(pattern)
        self._notifications[AclChangeZnode.ROOTS.index(change.root)].create(
            change.create_path, change.encode()
        )

    def _read(self, patterns: Sequence[ResourcePattern]) -> dict[ResourcePattern, VersionedAcls]:
        paths = [AclZnode.path(pattern) for pattern in patterns]
        znodes = self._session.perform(ReadZnodes(paths))
        return {
            pattern: _decoded(path, znode)
            for pattern, path, znode in zip(patterns, paths, znodes, strict=True)
        }

    def _readable(
        self, patterns: Sequence[ResourcePattern]
    ) -> dict[ResourcePattern, VersionedAcls]:
        """As ``_read``, but logs and leaves out corrupt znodes: the cache keeps their old ACLs."""
        found: dict[ResourcePattern, VersionedAcls] = {}
        for pattern in patterns:
            try:
                found |= self._read([pattern])
            except ZnodeCorrupt as corrupt:
                _change_log.error("error processing change notification: %s", corrupt)
        return found

    def _patterns(self) -> Iterator[ResourcePattern]:
        """Every resource pattern that has a znode."""
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            root = AclZnode.root(pattern_type)
            types = [name for name in self._children([root])[0] if self._is_known(name)]
            resource_types = [by_pascal_name(ResourceType, name) for name in types]
            names_by_type = self._children([f"{root}/{name}" for name in types])
            for resource_type, names in zip(resource_types, names_by_type, strict=True):
                for name in names:
                    yield ResourcePattern(resource_type, name, pattern_type)

    def _is_known(self, type_name: str) -> bool:
        if by_pascal_name(ResourceType, type_name) is not ResourceType.UNKNOWN:
            return True
        _log.warning("Ignoring unknown ResourceType: %s", type_name)
        return False

    def _children(self, paths: Sequence[str]) -> list[list[str]]:
        return [
            sorted(optional(path, names) or ())
            for path, names in zip(paths, self._session.perform(ListChildren(paths)), strict=True)
        ]


def _changed_patterns(notifications: Iterable[tuple[str, bytes]]) -> Iterator[ResourcePattern]:
    for path, data in notifications:
        try:
            pattern = AclChangeZnode.decode(path, data).pattern
        except ZnodeCorrupt as corrupt:
            _change_log.error("error processing change notification: %s", corrupt)
            continue
        if ResourceType.UNKNOWN is pattern.resource_type or pattern.pattern_type not in (
            PatternType.LITERAL,
            PatternType.PREFIXED,
        ):
            _change_log.error("error processing change notification: %s", pattern)
            continue
        yield pattern


def _paths() -> list[str]:
    """The paths that ``KafkaZkClient.createAclPaths`` creates."""
    return [
        *AclChangeZnode.ROOTS,
        *(
            AclZnode.type_path(resource_type, pattern_type)
            for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            for resource_type in ResourceType
            if resource_type not in (ResourceType.UNKNOWN, ResourceType.ANY)
        ),
    ]


def _decoded(path: str, result: Znode | ZkCode) -> VersionedAcls:
    znode = optional(path, result)
    if znode is None:
        return NO_ACLS
    return VersionedAcls(AclZnode.decode(path, znode.data).entries, znode.zk_version)


def _text(entry: AccessControlEntry) -> str:
    return (
        f"{entry.principal} has {entry.permission_type.name} permission for operations: "
        f"{pascal_name(entry.operation)} from hosts: {entry.host}"
    )
