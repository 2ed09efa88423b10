"""ACLs in ZooKeeper: loads them, follows changes, writes changes.

A change is written at the version that was read, and tried again if another broker was faster; then
a notification makes the other brokers read the rules of that one resource again.  Notifications are
read again after each new ZooKeeper session, because ZooKeeper fires no watch of a session that is
over.

All of this blocks and is called outside of the event loop, by one thread at a time: what is written
to the cache must be what was read last.

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
"""So many patterns are written before the cache has them."""

_Entries: TypeAlias = tuple[AccessControlEntry, ...]
_log = logging.getLogger("kafka.security.authorizer.AclAuthorizer")
_change_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")


class AclStore:
    """Keeps an authorizer's cache equal to ZooKeeper."""

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
        """What this request has written, and the cache does not have yet; each pattern once."""
        self._notifications = [
            ZkNodeChangeNotificationListener(session, root, AclChangeZnode.PREFIX)
            for root in AclChangeZnode.ROOTS
        ]

    def load(self) -> None:
        """Creates missing znodes, leaves the watches for changes, then reads every ACL."""
        with self._turn:
            self._session.create_missing(_paths())
            # First the watches, so that no change falls between them and the reading.
            for notifications in self._notifications:
                notifications.skip()
            self._authorizer.cache = AclCache(self._read(list(self._patterns())))

    def process_changes(self) -> None:
        """Handles every new notification, and leaves a watch for the next."""
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
        """Adds ACLs; one result each."""
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
        """Deletes the ACLs that filters match; for each filter the deleted ones.

        An ACL that several filters match is reported for the first.
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
        """The patterns of which no rule is meant, by ZooKeeper: asked for all of them together."""
        paths = [AclZnode.path(each) for each in meant.patterns]
        try:
            znodes = self._session.perform(ReadZnodes(paths))
        except ZooKeeperRefused:
            return set()  # each is asked for by itself
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
        """What is written within is in the cache at the end, also after an error."""
        try:
            yield
        finally:
            self._publish()

    def _publish(self) -> None:
        """Takes what was written over into the cache, which costs a copy of all of it."""
        if self._written:
            self._authorizer.cache = self._authorizer.cache.updated(self._written)
            self._written = {}

    def _update(self, pattern: ResourcePattern, change: Callable[[_Entries], _Entries]) -> None:
        known = self._authorizer.cache.acls.get(pattern)
        current = known or self._read([pattern])[pattern]
        before = current.entries
        for _ in range(MAX_UPDATE_RETRIES + 1):
            wanted = change(current.entries)
            zk_version = self._write(pattern, wanted, current.zk_version)
            if zk_version is not None:
                if known is not None or wanted:
                    self._written[pattern] = VersionedAcls(wanted, zk_version)
                if len(self._written) >= MOST_UNPUBLISHED:
                    self._publish()
                if wanted != before:
                    _log.info("Updated ACLs for %s with new version %d", pattern, zk_version)
                    self._announce(pattern)
                return
            self._sleep(RETRY_BACKOFF_S)
            current = self._read([pattern])[pattern]
        raise ZooKeeperRefused(AclZnode.path(pattern), "BAD_VERSION again and again")

    def _write(self, pattern: ResourcePattern, entries: _Entries, zk_version: int) -> int | None:
        """The new version; None if another broker was faster."""
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
        """As ``_read``, without corrupt znodes, whose ACLs stay as they were."""
        found: dict[ResourcePattern, VersionedAcls] = {}
        for pattern in patterns:
            try:
                found |= self._read([pattern])
            except ZnodeCorrupt as corrupt:
                _change_log.error("error processing change notification: %s", corrupt)
        return found

    def _patterns(self) -> Iterator[ResourcePattern]:
        """Every pattern that has a znode."""
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
