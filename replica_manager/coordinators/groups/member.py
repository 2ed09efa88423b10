"""A member of a group: its subscription, its assignment, its parked requests.

Source: Kafka ``MemberMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from typing_extensions import override

from replica_manager.coordinators.groups.requests import Protocol

_BYTES_OF_PROTOCOL: Final = 150
"""Approximate memory of a protocol, without its name and its metadata."""


class Member:
    """One member of a group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """True until its first generation: the client does not know its id, for heartbeats."""
        self.parked_join: int | None = None
        """Request id of its parked JoinGroup, or None; only ``GroupMetadata`` sets it."""
        self.parked_sync: int | None = None
        """Request id of its parked SyncGroup, or None."""

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the member, without its assignment."""
        texts = (self.member_id, self.client_id, self.client_host, self.group_instance_id or "")
        return size_of(self.protocols) + sum(map(len, texts))

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_exempt_from_heartbeats(self) -> bool:
        """Whether a parked request pauses the session; a new member's session never pauses."""
        is_parked = self.parked_join is not None or self.parked_sync is not None
        return is_parked and not self.is_new

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for a protocol, which it must support."""
        return next(each.metadata for each in self.protocols if each.name == protocol_name)

    def vote(self, candidates: frozenset[str]) -> str:
        """The protocol that the member prefers among ``candidates``; it must support one."""
        return next(each.name for each in self.protocols if each.name in candidates)

    @override
    def __str__(self) -> str:
        instance = "None" if self.group_instance_id is None else f"Some({self.group_instance_id})"
        names = ", ".join(protocol.name for protocol in self.protocols)
        return (
            f"MemberMetadata(memberId={self.member_id}, groupInstanceId={instance},"
            f" clientId={self.client_id}, clientHost={self.client_host},"
            f" sessionTimeoutMs={self.session_timeout_ms},"
            f" rebalanceTimeoutMs={self.rebalance_timeout_ms}, supportedProtocols=List({names}))"
        )


def size_of(protocols: Iterable[Protocol]) -> int:
    """The approximate memory of protocols, in bytes."""
    return sum(_BYTES_OF_PROTOCOL + len(each.name) + len(each.metadata) for each in protocols)
