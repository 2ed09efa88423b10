"""The rules of Kafka's access control lists in ZooKeeper: loaded, followed, changed.

A change is written by the version that was read, as often as it takes; then a note tells the other
brokers, who read the rules of that one resource again.  Notes are read again after each new
ZooKeeper session, because none is sent to a broker that is away.

All of this blocks and is called outside of the event loop, by one thread at a time: what is written
to the cache must be what was read last.

Source: Kafka ``AclAuthorizer`` (``updateResourceAcls``, ``loadAllAcls``), ``KafkaZkClient``
(``createAclPaths``), ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from replica_manager.security.acl_cache import (
    NO_ACLS,
    NO_VERSION,
    AclBinding,
    AclBindingFilter,
    AclCache,
    VersionedAcls,
)
from replica_manager.security.authorizer import Authorizer
from zkcontroller.errors import ZkControllerError, ZnodeCorrupt, ZooKeeperRefused
from zkcontroller.protocol.error_codes import error_code_for
from zkcontroller.zookeeper.kafka_acl_znodes import (
    AccessControlEntry,
    AclChangeZnode,
    AclZnode,
    PatternType,
    ResourcePattern,
    ResourceType,
    by_pascal_name,
    pascal_name,
)
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    CheckExists,
    Create,
    Delete,
    ListChildren,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.session import ZooKeeperSession

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
MAX_UPDATE_RETRIES: Final = 10
RETRY_BACKOFF_S: Final = 0.1

_Entries: TypeAlias = tuple[AccessControlEntry, ...]
_log = logging.getLogger("kafka.security.authorizer.AclAuthorizer")
_change_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")


class AclStore:
    """Keeps an authorizer's cache what ZooKeeper says."""

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
        self._last_changes = dict.fromkeys(AclChangeZnode.ROOTS, -1)

    def load(self) -> None:
        """Creates what is missing, leaves the watches for changes, then reads every rule."""
        with self._turn:
            self._session.create_missing(_paths())
            # First the watches, so that no change falls between them and the reading.
            for root in AclChangeZnode.ROOTS:
                self._last_changes[root] = max(map(_number, self._changes(root)), default=-1)
            self._authorizer.cache = AclCache(self._read(list(self._patterns())))

    def process_changes(self) -> None:
        """Acts on every note not seen yet, and leaves a watch for the next."""
        with self._turn:
            for root in AclChangeZnode.ROOTS:
                names = self._changes(root)
                unseen = [name for name in names if _number(name) > self._last_changes[root]]
                patterns = dict.fromkeys(self._changed_patterns(root, unseen))
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
                self._last_changes[root] = max(map(_number, names), default=-1)
                self._purge(root, names)

    def create(self, bindings: Sequence[AclBinding]) -> list[ErrorCode]:
        """Adds rules; an outcome for each."""
        by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
        for binding in bindings:
            by_pattern.setdefault(binding.pattern, []).append(binding.entry)
        outcomes: dict[ResourcePattern, ErrorCode] = {}
        with self._turn:
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
        """Removes the rules that filters mean; for each filter what it removed.

        A rule that several filters mean is told to the first.
        """
        removed: list[list[tuple[AclBinding, ErrorCode]]] = [[] for _ in filters]
        with self._turn:
            for pattern in self._authorizer.cache.patterns_matching(filters):
                found: dict[AccessControlEntry, int] = {}

                def without_those_meant(
                    entries: _Entries,
                    pattern: ResourcePattern = pattern,
                    found: dict[AccessControlEntry, int] = found,
                ) -> _Entries:
                    found.clear()
                    for entry in entries:
                        for index, wanted in enumerate(filters):
                            if wanted.matches(AclBinding(pattern, entry)):
                                found[entry] = index
                                break
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

    def _update(self, pattern: ResourcePattern, change: Callable[[_Entries], _Entries]) -> None:
        known = self._authorizer.cache.acls.get(pattern)
        current = known or self._read([pattern])[pattern]
        before = current.entries
        for _ in range(MAX_UPDATE_RETRIES + 1):
            wanted = change(current.entries)
            zk_version = self._write(pattern, wanted, current.zk_version)
            if zk_version is not None:
                updated = VersionedAcls(wanted, zk_version)
                self._authorizer.cache = self._authorizer.cache.updated({pattern: updated})
                if wanted != before:
                    _log.info("Updated ACLs for %s with new version %d", pattern, zk_version)
                    self._announce(pattern)
                return
            self._sleep(RETRY_BACKOFF_S)
            current = self._read([pattern])[pattern]
        raise ZooKeeperRefused(AclZnode.path(pattern), "BAD_VERSION again and again")

    def _write(self, pattern: ResourcePattern, entries: _Entries, zk_version: int) -> int | None:
        """The new version; None if somebody else was faster."""
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
        if isinstance(result, ZkCode):
            raise ZooKeeperRefused(path, result.name)
        return result.zk_version

    def _announce(self, pattern: ResourcePattern) -> None:
        change = AclChangeZnode(pattern)
        created = self._session.write(Create(change.create_path, change.encode(), sequential=True))
        if isinstance(created, ZkCode):
            raise ZooKeeperRefused(change.create_path, created.name)

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
        """As ``_read``, without what is corrupt: there the rules stay as they were."""
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
            [] if isinstance(names, ZkCode) else sorted(names)
            for names in self._session.perform(ListChildren(paths))
        ]

    def _changes(self, root: str) -> list[str]:
        """The names of the notes, oldest first; leaves a watch."""
        names = self._session.children(root, watch=True)
        if isinstance(names, ZkCode):
            raise ZooKeeperRefused(root, names.name)
        return sorted((name for name in names if _number(name) >= 0), key=_number)

    def _changed_patterns(self, root: str, names: Sequence[str]) -> list[ResourcePattern]:
        paths = [f"{root}/{name}" for name in names]
        patterns = []
        for path, znode in zip(paths, self._session.perform(ReadZnodes(paths)), strict=True):
            if isinstance(znode, ZkCode):
                _change_log.warning("read null data from %s", path)
                continue
            try:
                pattern = AclChangeZnode.decode(path, znode.data).pattern
            except ZnodeCorrupt as corrupt:
                _change_log.error("error processing change notification: %s", corrupt)
                continue
            if ResourceType.UNKNOWN is pattern.resource_type or pattern.pattern_type not in (
                PatternType.LITERAL,
                PatternType.PREFIXED,
            ):
                _change_log.error("error processing change notification: %s", pattern)
                continue
            patterns.append(pattern)
        return patterns

    def _purge(self, root: str, names: Sequence[str]) -> None:
        paths = [f"{root}/{name}" for name in names]
        now_ms = time.time_ns() // 1_000_000
        old = [
            path
            for path, stat in zip(paths, self._session.perform(CheckExists(paths)), strict=True)
            if not isinstance(stat, ZkCode) and now_ms - stat.ctime_ms > CHANGE_EXPIRATION_MS
        ]
        # Other brokers purge too: one that is gone already is as good.
        self._session.perform(UnfencedBatch([Delete(path, ANY_VERSION) for path in old]))


def _paths() -> list[str]:
    """What ``KafkaZkClient.createAclPaths`` makes sure of."""
    return [
        *AclChangeZnode.ROOTS,
        *(
            AclZnode.type_path(resource_type, pattern_type)
            for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
            for resource_type in ResourceType
            if resource_type not in (ResourceType.UNKNOWN, ResourceType.ANY)
        ),
    ]


def _decoded(path: str, znode: Znode | ZkCode) -> VersionedAcls:
    if znode is ZkCode.NO_NODE:
        return NO_ACLS
    if isinstance(znode, ZkCode):
        raise ZooKeeperRefused(path, znode.name)
    return VersionedAcls(AclZnode.decode(path, znode.data).entries, znode.zk_version)


def _number(name: str) -> int:
    """The sequence number of a note; -1 for a name without one."""
    digits = name.removeprefix(AclChangeZnode.PREFIX)
    is_number = digits != name and digits.isascii() and digits.isdigit() and len(digits) <= 10
    return int(digits) if is_number else -1


def _text(entry: AccessControlEntry) -> str:
    return (
        f"{entry.principal} has {entry.permission_type.name} permission for operations: "
        f"{pascal_name(entry.operation)} from hosts: {entry.host}"
    )
