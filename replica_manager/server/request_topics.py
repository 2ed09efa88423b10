"""The shape that the topics of many requests have: a name, and partitions with an index each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class IndexedPartition(Protocol):
    """A partition of a topic of a request."""

    @property
    def partition_index(self) -> int:
        """The partition."""


P_co = TypeVar("P_co", bound=IndexedPartition, covariant=True)


class NamedTopic(Protocol[P_co]):
    """A topic of a request."""

    @property
    def name(self) -> str:
        """The topic."""

    @property
    def partitions(self) -> Sequence[P_co]:
        """Its partitions, some perhaps more than once."""
