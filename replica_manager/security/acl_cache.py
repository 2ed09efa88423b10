"""ACLs in memory, found by resource.

Pure and immutable: an update makes a new cache, so that a reader always sees one consistent state.

Source: Kafka ``AclAuthorizer`` (``matchingAcls``, ``updateCache``), ``ResourcePatternFilter``,
``AccessControlEntryFilter`` (KIP-290).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, product
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

WILDCARD: Final = "*"
NO_VERSION: Final = -1
_Id = TypeVar("_Id")


class VersionedAcls(NamedTuple):
    """The ACLs of one resource pattern, and the version of their znode; -1 without a znode."""

    entries: tuple[AccessControlEntry, ...]
    zk_version: int


_EntryFilter: TypeAlias = tuple[str | None, str | None, AclOperation, PermissionType]

NO_ACLS: Final = VersionedAcls((), NO_VERSION)


class AclBinding(NamedTuple):
    """One ACL with its resource pattern."""

    pattern: ResourcePattern
    entry: AccessControlEntry


class AclBindingFilter(NamedTuple):
    """A filter of ACLs; None and ANY match everything.

    The pattern type MATCH matches all ACLs that apply to the resource ``name``.
    """

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: PermissionType

    def matches(self, binding: AclBinding) -> bool:
        """Whether the filter matches the ACL."""
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

    @property
    def of_entry(self) -> _EntryFilter:
        """The part of the filter for the ACL entry, without the resource pattern."""
        return self.principal, self.host, self.operation, self.permission_type

    def exact_patterns(self) -> tuple[ResourcePattern, ...]:
        """The resource patterns that the filter names exactly, even without ACLs; else empty."""
        if self.resource_type is ResourceType.ANY or self.name is None:
            return ()
        if self.pattern_type is PatternType.MATCH:
            return ()
        return tuple(ResourcePattern(self.resource_type, self.name, kind) for kind in self._kinds())

    def _kinds(self) -> tuple[PatternType, ...]:
        if self.pattern_type is PatternType.ANY:
            return PatternType.LITERAL, PatternType.PREFIXED
        return (self.pattern_type,)


class FiltersByPattern:
    """Finds those of many filters that match a resource pattern and an ACL entry.

    A lookup takes no longer with 10,000 filters than with one.
    """

    def __init__(self, cache: AclCache, filters: Iterable[AclBindingFilter]) -> None:
        self._named: dict[ResourcePattern, dict[_EntryFilter, list[int]]] = {}
        self._nameless: dict[tuple[ResourceType, PatternType], dict[_EntryFilter, list[int]]] = {}
        for index, wanted in enumerate(filters):
            if wanted.name is None:
                kind = wanted.resource_type, wanted.pattern_type
                self._nameless.setdefault(kind, {}).setdefault(wanted.of_entry, []).append(index)
                continue
            for pattern in dict.fromkeys((*cache.named(wanted), *wanted.exact_patterns())):
                self._named.setdefault(pattern, {}).setdefault(wanted.of_entry, []).append(index)
        known = cache.acls if self._nameless else ()
        self.patterns = list(
            dict.fromkeys((*(each for each in known if self._of_kind(each)), *self._named))
        )
        """The resource patterns with ACLs that a filter may match, and all exactly named ones."""

    def first(self, pattern: ResourcePattern, entry: AccessControlEntry) -> int | None:
        """The index of the first filter that matches the ACL; None if none matches."""
        return min((places[0] for places in self._found(pattern, entry)), default=None)

    def all(self, pattern: ResourcePattern, entry: AccessControlEntry) -> Iterator[int]:
        """The indexes of all filters that match the ACL, in any order."""
        return chain.from_iterable(self._found(pattern, entry))

    def _found(self, pattern: ResourcePattern, entry: AccessControlEntry) -> list[list[int]]:
        keys = list(
            product(
                (None, entry.principal),
                (None, entry.host),
                (AclOperation.ANY, entry.operation),
                (PermissionType.ANY, entry.permission_type),
            )
        )
        of_pattern = [*self._of_kind(pattern), self._named.get(pattern, {})]
        return [found[key] for found in of_pattern for key in keys if key in found]

    def _of_kind(self, pattern: ResourcePattern) -> list[dict[_EntryFilter, list[int]]]:
        kinds = product(
            (ResourceType.ANY, pattern.resource_type),
            (PatternType.ANY, PatternType.MATCH, pattern.pattern_type),
        )
        return [self._nameless[kind] for kind in kinds if kind in self._nameless]


class AclCache:
    """All ACLs, with a lookup by resource."""

    def __init__(self, acls: Mapping[ResourcePattern, VersionedAcls]) -> None:
        """``acls`` by resource pattern; patterns without ACLs are left out."""
        self.acls = {pattern: found for pattern, found in acls.items() if found.entries}
        self._prefix_lengths: dict[ResourceType, tuple[int, ...]] = {}
        lengths: dict[ResourceType, set[int]] = {}
        for resource_type, name, pattern_type in self.acls:
            if pattern_type is PatternType.PREFIXED:
                lengths.setdefault(resource_type, set()).add(len(name))
        for resource_type, found_lengths in lengths.items():
            self._prefix_lengths[resource_type] = tuple(sorted(found_lengths))

    def updated(self, changes: Mapping[ResourcePattern, VersionedAcls]) -> AclCache:
        """A new cache in which ``changes`` replace the ACLs of their patterns."""
        return AclCache({**self.acls, **changes})

    def matching(self, resource_type: ResourceType, name: str) -> list[AccessControlEntry]:
        """The ACLs that apply to a resource: for a prefix, for ``*``, and for its name."""
        return [
            entry
            for pattern in self.patterns_of(resource_type, name)
            for entry in self.acls[pattern].entries
        ]

    def patterns_of(self, resource_type: ResourceType, name: str) -> list[ResourcePattern]:
        """The patterns with ACLs that apply to a resource: prefixes, ``*``, and its name."""
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
        """The ACLs that match a filter."""
        known = self.acls if wanted.name is None else _in_order(self.named(wanted))
        return [
            AclBinding(pattern, entry)
            for pattern in known
            if wanted.matches_pattern(pattern)
            for entry in self.acls[pattern].entries
            if wanted.matches_entry(entry)
        ]

    def named(self, wanted: AclBindingFilter) -> list[ResourcePattern]:
        """The patterns with ACLs that match a filter with a name; does not search all patterns."""
        assert wanted.name is not None, "a filter without a name matches every one"
        types = (
            ResourceType if wanted.resource_type is ResourceType.ANY else (wanted.resource_type,)
        )
        if wanted.pattern_type is PatternType.MATCH:
            return [each for kind in types for each in self.patterns_of(kind, wanted.name)]
        return [
            pattern
            for resource_type in types
            for pattern in wanted._replace(resource_type=resource_type).exact_patterns()
            if pattern in self.acls
        ]


class AclBindingFilters(Struct, frozen=True):
    """The filters of one request."""

    filters: tuple[AclBindingFilter, ...]

    def __iter__(self) -> Iterator[AclBindingFilter]:
        return iter(self.filters)

    def find(
        self, acls: Mapping[_Id, tuple[ResourcePattern, AccessControlEntry]], most: int
    ) -> list[list[_Id]]:
        """The ids of the matching ACLs for each filter, at most ``most`` + 1."""
        by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
        for pattern, entry in acls.values():
            by_pattern.setdefault(pattern, []).append(entry)
        cache = AclCache(
            {
                pattern: VersionedAcls(tuple(entries), NO_VERSION)
                for pattern, entries in by_pattern.items()
            }
        )
        found: dict[AclBindingFilter, list[_Id]] = {each: [] for each in self.filters}
        places = list(found.values())
        index = FiltersByPattern(cache, found)
        for acl_id, acl in acls.items():
            for place in index.all(*acl):
                if len(places[place]) <= most:
                    places[place].append(acl_id)
        return [found[each] for each in self.filters]


def _in_order(patterns: Iterable[ResourcePattern]) -> list[ResourcePattern]:
    """The patterns in the order of Kafka's ``ResourceOrdering``.

    Sorted by resource type and pattern type; names are in descending order.
    """
    by_name = sorted(patterns, key=lambda each: each.name, reverse=True)
    return sorted(by_name, key=lambda each: (each.resource_type, each.pattern_type))
