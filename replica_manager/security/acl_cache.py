"""ACLs in memory, found by resource.

Pure and never changed: an update makes the next cache, so that who asks meanwhile sees one state.

Source: Kafka ``AclAuthorizer`` (``matchingAcls``, ``updateCache``), ``ResourcePatternFilter``,
``AccessControlEntryFilter`` (KIP-290).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from zkcontroller.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

WILDCARD: Final = "*"
NO_VERSION: Final = -1


class VersionedAcls(NamedTuple):
    """The ACLs of one pattern, and the version of their znode; -1: no znode."""

    entries: tuple[AccessControlEntry, ...]
    zk_version: int


NO_ACLS: Final = VersionedAcls((), NO_VERSION)


class AclBinding(NamedTuple):
    """One ACL with its resource pattern."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclBindingFilter(NamedTuple):
    """A filter of ACLs; None and ANY match all.

    MATCH as the type of pattern means the rules that apply to the resource called ``name``.
    """

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: PermissionType

    def matches(self, binding: AclBinding) -> bool:
        """Whether the filter matches that ACL."""
        return self.matches_pattern(binding.pattern) and self.matches_entry(binding.entry)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (PermissionType.ANY, entry.permission_type)
        )

    def exact_patterns(self) -> tuple[ResourcePattern, ...]:
        """The patterns that the filter names completely, with or without ACLs; else none."""
        if self.resource_type is ResourceType.ANY or self.name is None:
            return ()
        if self.pattern_type is PatternType.MATCH:
            return ()
        kinds = (
            (PatternType.LITERAL, PatternType.PREFIXED)
            if self.pattern_type is PatternType.ANY
            else (self.pattern_type,)
        )
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in kinds)


class AclCache:
    """All ACLs, found by resource."""

    def __init__(self, acls: Mapping[ResourcePattern, VersionedAcls]) -> None:
        """Patterns without an ACL are left out."""
        self.acls = {pattern: found for pattern, found in acls.items() if found.entries}
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}
        lengths: dict[ResourceType, set[int]] = {}
        for resource_type, name, pattern_type in self.acls:
            if pattern_type is PatternType.PREFIXED:
                lengths.setdefault(resource_type, set()).add(len(name))
        for resource_type, found_lengths in lengths.items():
            self._prefix_lengths[resource_type] = tuple(sorted(found_lengths))

    def updated(self, changes: Mapping[ResourcePattern, VersionedAcls]) -> AclCache:
        """The cache with these new ACLs for those patterns."""
        return AclCache({**self.acls, **changes})

    def matching(self, resource_type: ResourceType, name: str) -> list[AccessControlEntry]:
        """The ACLs that apply to a resource: by prefix, by ``*``, by its name."""
        return [
            entry
            for pattern in self.patterns_of(resource_type, name)
            for entry in self.acls[pattern].entries
        ]

    def patterns_of(self, resource_type: ResourceType, name: str) -> list[ResourcePattern]:
        """The patterns with ACLs that match a resource: prefixes, ``*``, its name."""
        found = [
            ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        ]
        found.append(ResourcePattern(resource_type, WILDCARD))
        if name != WILDCARD:
            found.append(ResourcePattern(resource_type, name))
        return [pattern for pattern in found if pattern in self.acls]

    def bindings(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """The ACLs that a filter matches."""
        return [binding for binding in self._bindings() if wanted.matches(binding)]

    def patterns_matching(self, filters: Iterable[AclBindingFilter]) -> list[ResourcePattern]:
        """The patterns whose ACLs one of the filters may match."""
        wanted = list(filters)
        exact = [pattern for each in wanted for pattern in each.exact_patterns()]
        known = [p for p in self.acls if any(each.matches_pattern(p) for each in wanted)]
        return list(dict.fromkeys(known + exact))

    def _bindings(self) -> Iterator[AclBinding]:
        for pattern, found in self.acls.items():
            for entry in found.entries:
                yield AclBinding(pattern, entry)
