"""Protocols for topics in requests: a name, and partitions with an index each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar


class IndexedPartition(Protocol):
    """A partition in a request."""

    @property
    def partition_index(self) -> int:
        """The number of the partition."""


P_co = TypeVar("P_co", bound=IndexedPartition, covariant=True)


class NamedTopic(Protocol[P_co]):
    """A topic in a request."""

    @property
    def name(self) -> str:
        """The name of the topic."""

    @property
    def partitions(self) -> Sequence[P_co]:
        """The partitions of the topic; a client may name one more than once."""
