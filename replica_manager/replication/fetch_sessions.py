"""Fetch sessions on the broker's side: later requests name only changed partitions.

:class:`FetchSessionCache` turns each Fetch request into a context.  The context says which
partitions are to be read, in which order, and afterwards which of the results the response must
contain.  The cache has a limited number of slots.  A client without a slot gets session id 0 and
names every partition in each request.

A partition that returned records moves to the end of its session.  So each partition is read in
turn, even if the byte limit of a response never suffices for all.

Source: Kafka 3.9 ``FetchSession.scala`` (KIP-227; topic ids KIP-516).  Kafka splits the cache into
eight shards, each under its own lock; the event loop needs one.  A high watermark that came with a
divergence is sent again; Kafka does not repeat it, so an idle follower keeps its old one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct, field
from typing_extensions import override

from kafka_common.protocol.fetch import FetchPartition
from kafka_common.topic_names import LONGEST_NAME
from replica_manager.replication.fetch_session import CachedPartition, FetchSession
from replica_manager.replication.fetch_values import (
    FINAL_SESSION_EPOCH,
    FIRST_TOPIC_ID_VERSION,
    NO_SESSION,
    FetchMetadata,
    FetchPartitionData,
    TopicIdPartition,
    next_session_epoch,
)

EVICTION_MS: Final = 120_000
"""Any client may evict a session unused for longer, a larger session one in use for longer."""
MAX_SESSION_ID: Final = 2**31 - 1
MOST_PARTITIONS: Final = 1_000_000
"""Limit for all sessions together, some 400 MB; a client beyond the limit gets no session."""

_T = TypeVar("_T")
_Fetched: TypeAlias = Mapping[TopicIdPartition, FetchPartitionData]
Steps: TypeAlias = Generator[None, None, _T]
"""Work for each partition, which yields so that other requests are handled in between."""
_log = logging.getLogger("kafka.server.FetchManager")


class SessionFetchResponse(NamedTuple):
    """A Fetch response without its frame."""

    error: ErrorCode
    session_id: int
    partitions: Mapping[TopicIdPartition, FetchPartitionData]


class _NoSession:
    """The base of a request that has no session, or none yet."""

    __slots__ = ()

    def response_partitions(self, fetched: _Fetched) -> Steps[_Fetched]:
        """The partitions of the response: all that were read.  Stores nothing."""
        yield from ()
        return fetched

    def throttled(self) -> SessionFetchResponse:
        """The empty response for a throttled client: no error and no session."""
        return SessionFetchResponse(ErrorCode.none, NO_SESSION, {})


@dataclass(frozen=True, slots=True)
class SessionError(_NoSession):
    """The request does not fit its session; nothing is read."""

    error: ErrorCode

    def partitions(self) -> Iterator[tuple[TopicIdPartition, FetchPartition]]:
        """No partitions: after a session error none is read."""
        return iter(())

    def respond(self, _: _Fetched, __: int) -> Steps[SessionFetchResponse]:
        """A response with the error and session id 0."""
        yield from ()
        return SessionFetchResponse(self.error, NO_SESSION, {})

    @override
    def response_partitions(self, fetched: _Fetched) -> Steps[_Fetched]:
        yield from ()
        return {}


@dataclass(frozen=True, slots=True)
class SessionlessFetch(_NoSession):
    """A full request without a session."""

    fetch_infos: Mapping[TopicIdPartition, FetchPartition]

    def partitions(self) -> Iterator[tuple[TopicIdPartition, FetchPartition]]:
        """The partitions to read, in the order of the request."""
        return iter(self.fetch_infos.items())

    def respond(self, fetched: _Fetched, _: int) -> Steps[SessionFetchResponse]:
        """A response with every partition that was read, and session id 0."""
        yield from ()
        return SessionFetchResponse(ErrorCode.none, NO_SESSION, fetched)


@dataclass(frozen=True, slots=True)
class FullFetch(_NoSession):
    """A full request that opens a session, if the cache has room for it."""

    cache: FetchSessionCache
    fetch_infos: Mapping[TopicIdPartition, FetchPartition]
    uses_topic_ids: bool
    is_from_follower: bool

    def partitions(self) -> Iterator[tuple[TopicIdPartition, FetchPartition]]:
        """The partitions to read, in the order of the request."""
        return iter(self.fetch_infos.items())

    def respond(self, fetched: _Fetched, now_ms: int) -> Steps[SessionFetchResponse]:
        """A response with every partition that was read and the new session's id; 0 if none."""
        session_id = yield from self.cache._create(self, fetched, now_ms)
        return SessionFetchResponse(ErrorCode.none, session_id, fetched)


class IncrementalFetch(Struct, frozen=True):
    """An incremental request of a session."""

    session: FetchSession
    epoch: int
    """The epoch in the request; the session's epoch is the next one, or newer if a later request
    came meanwhile."""
    topic_names: Mapping[UUID, str] = field(default_factory=dict)

    def partitions(self) -> Iterator[tuple[TopicIdPartition, FetchPartition]]:
        """The partitions to read, in the order of the session."""
        for cached in list(self.session.partitions.values()):
            if cached.topic is None and cached.topic_id is not None:
                cached.topic = self.topic_names.get(cached.topic_id)
            name = TopicIdPartition(cached.topic_id, cached.topic, cached.partition)
            yield name, cached.fetch_info

    def respond(self, fetched: _Fetched, _: int) -> Steps[SessionFetchResponse]:
        """A response with only the changed partitions."""
        session = self.session
        if not self._is_next():
            return self._out_of_turn()
        changed: dict[TopicIdPartition, FetchPartitionData] = {}
        for partition, result in fetched.items():
            yield
            key = session.key(partition)
            cached = session.partitions.get(key)  # a later request may have dropped it meanwhile
            if cached is not None and cached.must_be_in_response(result):
                changed[partition] = result
                if len(result.records) > 0:
                    session.partitions[key] = session.partitions.pop(key)
        return SessionFetchResponse(ErrorCode.none, session.session_id, changed)

    def response_partitions(self, fetched: _Fetched) -> Steps[_Fetched]:
        """The partitions that :meth:`respond` would return; stores nothing."""
        if not self._is_next():
            return {}
        session = self.session
        changed: dict[TopicIdPartition, FetchPartitionData] = {}
        for partition, result in fetched.items():
            yield
            cached = session.partitions.get(session.key(partition))
            if cached is not None and cached.is_changed(result):
                changed[partition] = result
        return changed

    def throttled(self) -> SessionFetchResponse:
        """A response without partitions; the session is unchanged."""
        if not self._is_next():
            return self._out_of_turn()
        return SessionFetchResponse(ErrorCode.none, self.session.session_id, {})

    def _is_next(self) -> bool:
        return self.session.epoch == next_session_epoch(self.epoch)

    def _out_of_turn(self) -> SessionFetchResponse:
        session = self.session
        _log.info(
            "Incremental fetch session %d expected epoch %d, but got %d.  Possible duplicate "
            "request.",
            session.session_id,
            next_session_epoch(self.epoch),
            session.epoch,
        )
        return SessionFetchResponse(ErrorCode.invalid_fetch_session_epoch, session.session_id, {})


FetchContext: TypeAlias = SessionError | SessionlessFetch | FullFetch | IncrementalFetch


class FetchSessionCache:
    """Every fetch session of a broker, at most ``slots`` of them."""

    def __init__(
        self,
        slots: int,
        new_session_id: Callable[[], int],
        eviction_ms: int = EVICTION_MS,
        on_evicted: Callable[[], None] = lambda: None,
    ) -> None:
        """``new_session_id`` draws a number in 1 … 2147483647.

        ``on_evicted`` is called when a session loses its slot to another.
        """
        self._on_evicted = on_evicted
        self._slots = slots
        self._new_session_id = new_session_id
        self._eviction_ms = eviction_ms
        # In the order of last use, the longest unused session first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def total_partitions(self) -> int:
        """The partitions of all sessions: gauge ``NumIncrementalFetchPartitionsCached``."""
        return sum(session.size for session in self._sessions.values())

    def context(
        self,
        api_version: int,
        metadata: FetchMetadata,
        fetch_infos: Mapping[TopicIdPartition, FetchPartition],
        forgotten: Iterable[TopicIdPartition],
        topic_names: Mapping[UUID, str],
        *,
        is_from_follower: bool,
        now_ms: int,
    ) -> Steps[FetchContext]:
        """The context of a Fetch request; a full request closes the session it names."""
        uses_topic_ids = api_version >= FIRST_TOPIC_ID_VERSION
        if metadata.is_full:
            self._sessions.pop(metadata.session_id, None)
            if metadata.epoch == FINAL_SESSION_EPOCH:
                return SessionlessFetch(fetch_infos)
            return FullFetch(self, fetch_infos, uses_topic_ids, is_from_follower)
        session = self._sessions.get(metadata.session_id)
        if session is None:
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != metadata.epoch:
            return SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionError(ErrorCode.fetch_session_topic_id_error)
        # From here on the same request is out of turn if it comes again between two steps.
        session.epoch = next_session_epoch(session.epoch)
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        yield from session.update(fetch_infos, forgotten)
        if len(session.partitions) > session.size and not (
            (yield from _are_names_short(fetch_infos))
            and self._has_room(len(session.partitions) - session.size)
        ):
            self._sessions.pop(session.session_id, None)
            return SessionError(ErrorCode.fetch_session_id_not_found)
        if not session.partitions:
            self._sessions.pop(session.session_id, None)
            return SessionlessFetch(fetch_infos)
        session.size = len(session.partitions)
        return IncrementalFetch(session, metadata.epoch, topic_names)

    def _has_room(self, count: int) -> bool:
        """Whether the cache may hold ``count`` more partitions; they are to be counted at once."""
        return self.total_partitions + count <= MOST_PARTITIONS

    def _create(self, request: FullFetch, fetched: _Fetched, now_ms: int) -> Steps[int]:
        # No step from the count to the session, whose size is counted from then on.
        if not (yield from _are_names_short(fetched)) or not self._has_room(len(fetched)):
            return NO_SESSION
        has_slot = len(self._sessions) < self._slots
        if not has_slot and not self._evict(request.is_from_follower, len(fetched), now_ms):
            return NO_SESSION
        session = FetchSession(
            self._free_session_id(),
            request.is_from_follower,
            request.uses_topic_ids,
            now_ms,
            now_ms,
            {},
            size=len(fetched),
        )
        # No client knows its id before the response.
        self._sessions[session.session_id] = session
        for partition, result in fetched.items():
            yield
            cached = CachedPartition(*partition, request.fetch_infos[partition])
            cached.remember(result)
            session.partitions[session.key(partition)] = cached
        return session.session_id

    def _free_session_id(self) -> int:
        session_id = self._new_session_id()
        # This loop takes at most as many steps as there are sessions.
        while session_id in self._sessions:
            session_id = 1 if session_id == MAX_SESSION_ID else session_id + 1
        return session_id

    def _evict(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        """Evicts a session to make room for a new one; False if none may be evicted.

        ``is_privileged`` (it is a follower's) and ``size`` describe the new session.
        """
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.last_used_ms <= self._eviction_ms:
            candidates = [s for s in self._sessions.values() if self._may_evict(s, is_privileged)]
            if not candidates:
                return False
            victim = min(candidates, key=lambda session: session.rank)
            if (is_privileged, size, 0) < victim.rank:
                return False
        del self._sessions[victim.session_id]
        self._on_evicted()
        return True

    def _may_evict(self, session: FetchSession, is_privileged: bool) -> bool:
        """Whether a new session may evict ``session`` although it was used lately.

        True if ``session`` was in use for longer than ``eviction_ms``, or if the new session is a
        follower's and ``session`` is a consumer's.
        """
        is_old = session.last_used_ms - session.created_ms > self._eviction_ms
        return is_old or (is_privileged and not session.is_privileged)


def _are_names_short(partitions: Iterable[TopicIdPartition]) -> Steps[bool]:
    """Whether a topic can have each of the names: a request may contain names of 32 KB."""
    for each in partitions:
        yield
        if len(each.topic or "") > LONGEST_NAME:
            return False
    return True
