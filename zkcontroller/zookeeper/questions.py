"""The requests that a ZooKeeper session performs, with the type of each result.

The real session and the simulated one differ in :meth:`Questions._result_of` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import overload

from zkcontroller.zookeeper.requests import (
    CheckExists,
    Committed,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    Stat,
    UnfencedBatch,
    Write,
    WriteResult,
    Written,
    ZkCode,
    ZkRequest,
    ZkTransaction,
    Znode,
)


class Questions(ABC):
    """The requests of a session; a subclass sends them."""

    @overload
    def perform(
        self, request: ReadZnodes, session_id: int | None = None
    ) -> list[Znode | ZkCode]: ...
    @overload
    def perform(
        self, request: ListChildren, session_id: int | None = None
    ) -> list[list[str] | ZkCode]: ...
    @overload
    def perform(
        self, request: CheckExists, session_id: int | None = None
    ) -> list[Stat | ZkCode]: ...
    @overload
    def perform(
        self, request: FencedBatch | UnfencedBatch, session_id: int | None = None
    ) -> list[WriteResult]: ...
    @overload
    def perform(
        self, request: ZkTransaction, session_id: int | None = None
    ) -> Committed | RolledBack: ...
    @overload
    def perform(self, request: ZkRequest, session_id: int | None = None) -> object: ...

    def perform(self, request: ZkRequest, session_id: int | None = None) -> object:
        """The result of ``request``; blocks without limit while there is no connection.

        ``session_id``: the session in which the caller's work began; None takes the current
        session, or waits for the next.

        Raises:
            SessionExpired: the session in which the call began (or ``session_id``) is over.
            AuthenticationFailed: the server refused the credentials.
            ControllerMoved: the fence of a :class:`FencedBatch` failed.
            ZooKeeperRefused: ZooKeeper replied with an error code that no result type allows.
        """
        return self._result_of(request, session_id)

    @abstractmethod
    def _result_of(self, request: ZkRequest, session_id: int | None) -> object:
        """The result of ``request``, of the type that :meth:`perform` promises."""

    def read(self, path: str, *, watch: bool = False) -> Znode | ZkCode:
        """The data of one znode, or an error code."""
        return self.perform(ReadZnodes((path,), watch))[0]

    def children(self, path: str, *, watch: bool = False) -> list[str] | ZkCode:
        """The names of one znode's children, or an error code."""
        return self.perform(ListChildren((path,), watch))[0]

    def exists(self, path: str, *, watch: bool = False) -> Stat | ZkCode:
        """The stat of one znode, or an error code."""
        return self.perform(CheckExists((path,), watch))[0]

    def write(self, operation: Write) -> Written | ZkCode:
        """Performs one write without a fence."""
        return self.perform(UnfencedBatch((operation,)))[0]
