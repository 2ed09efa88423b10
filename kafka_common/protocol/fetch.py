"""Reads and writes Fetch requests, and writes responses without copying their records.

A consumer or follower that keeps up sends hundreds of these requests a second, each with a few
partitions.  The records in a response may be any object with a length, such as a slice of a file:
it becomes a chunk of the response, and the connection sends it.

Source: Kafka ``FetchRequestData.json``, ``FetchResponse.json`` (versions 0 to 17).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from struct import Struct
from struct import error as struct_error
from typing import Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.primitives import (
    NO_TAGS,
    ZERO_UUID,
    Pieces,
    pieces,
    unsigned_varint,
    uuid_bytes,
)
from kafka_common.protocol.produce import NodeEndpoint, encoded_endpoints, tagged
from kafka_common.protocol.wire_reader import WireReader

FIRST_FLEXIBLE: Final = 12
TOPIC_IDS_SINCE: Final = 13
LAST_VERSION: Final = 17
_MAX_BYTES_SINCE: Final = 3
_ISOLATION_SINCE: Final = 4
_LOG_START_SINCE: Final = 5
_SESSIONS_SINCE: Final = 7
_LEADER_EPOCH_SINCE: Final = 9
_RACK_SINCE: Final = 11
_REPLICA_STATE_SINCE: Final = 15
_ENDPOINTS_SINCE: Final = 16

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_REPLICA_STATE: Final = Struct(">iq")
_REPLICA_STATE_TAG: Final = 1
_SESSION: Final = Struct(">ii")
_ERROR_AND_SESSION: Final = Struct(">hi")
_PARTITION_HEAD: Final = Struct(">ihq")
_ABORTED: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")
_LEADER: Final = Struct(">ii")
_MAX_INT32: Final = 2**31 - 1

TopicName: TypeAlias = str | UUID | None
"""The topic's name, or its id from version 13 on; None stands for an id of all zeros."""


class Sized(Protocol):
    """Any object that stands for records; its length is their number of bytes."""

    def __len__(self) -> int: ...


R = TypeVar("R", bound=Sized)


class FetchPartition(NamedTuple):
    """The request for one partition; -1 where the version has no such field."""

    topic_id: UUID | None
    """None before version 13, whose topics have names, and for an id of all zeros."""
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    """The leader epoch that the fetcher knows; -1: the leader does not check it."""
    last_fetched_epoch: int = -1
    """Leader epoch of the follower's last record; -1: do not look for a divergence."""
    log_start_offset: int = -1
    """The follower's log start offset; -1 from consumers."""


class FetchRequestData(NamedTuple):
    """A Fetch request of any version."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_read_committed: bool
    session_id: int
    session_epoch: int
    topics: Sequence[tuple[TopicName, Sequence[tuple[int, FetchPartition]]]]
    """(topic, [(partition, its request)])."""
    forgotten: Sequence[tuple[TopicName, Sequence[int]]]
    rack_id: str


class PartitionData(NamedTuple, Generic[R]):
    """One partition of a Fetch response."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: R | None
    """None, which is encoded as null, where the request or a conversion is refused; there are no
    bytes beside other errors."""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of each; None unless the request is read-committed."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """(leader epoch, end offset) where the logs diverge; None if they do not."""
    current_leader: tuple[int, int] | None = None
    """(leader, leader epoch) if the request went to the wrong broker; otherwise None."""


def read_fetch_request(version: int, data: bytes, offset: int) -> FetchRequestData:
    """The request that starts at ``offset``; InvalidFrame if it is malformed."""
    try:
        return _Reader(version, data, offset).read()
    except (IndexError, struct_error, UnicodeDecodeError):
        raise InvalidFrame("a Fetch request is cut short or garbled") from None


class _PartitionLayout(NamedTuple):
    """How a request version encodes a partition: its index, then the fields of FetchPartition."""

    layout: Struct
    places: tuple[int | None, ...]
    """Index of each field after ``topic_id`` in the unpacked values; None if there is no such."""
    written: Callable[[FetchPartition], tuple[int, ...]]
    """Returns the fields of a FetchPartition in the order of ``layout``."""


def _partition_layout(version: int) -> _PartitionLayout:
    layout = ["i"]
    places: dict[str, int] = {}

    def has(name: str, kind: str, since: int = 0) -> None:
        if version >= since:
            places[name] = len(layout)
            layout.append(kind)

    has("current_leader_epoch", "i", _LEADER_EPOCH_SINCE)
    has("fetch_offset", "q")
    has("last_fetched_epoch", "i", FIRST_FLEXIBLE)
    has("log_start_offset", "q", _LOG_START_SINCE)
    has("partition_max_bytes", "i")
    _, *fields = FetchPartition._fields
    return _PartitionLayout(
        Struct(">" + "".join(layout)),
        tuple(places.get(field) for field in fields),
        attrgetter(*places),
    )


_LAYOUTS: Final = [_partition_layout(version) for version in range(LAST_VERSION + 1)]


def write_fetch_request(version: int, request: FetchRequestData) -> bytes:
    """The body of a request; values that the version has no field for are left out."""
    with_pieces = pieces(is_flexible=version >= FIRST_FLEXIBLE)
    chunks = [] if version >= _REPLICA_STATE_SINCE else [_INT32.pack(request.replica_id)]
    chunks += [_INT32.pack(request.max_wait_ms), _INT32.pack(request.min_bytes)]
    if version >= _MAX_BYTES_SINCE:
        chunks.append(_INT32.pack(request.max_bytes))
    if version >= _ISOLATION_SINCE:
        chunks.append(b"\1" if request.is_read_committed else b"\0")
    if version >= _SESSIONS_SINCE:
        chunks.append(_SESSION.pack(request.session_id, request.session_epoch))
    chunks.append(with_pieces.length(len(request.topics)))
    layout, _, written = _LAYOUTS[version]
    for name, partitions in request.topics:
        chunks += [_topic_name(with_pieces, name), with_pieces.length(len(partitions))]
        for number, partition in partitions:
            chunks += [layout.pack(number, *written(partition)), with_pieces.tags]
        chunks.append(with_pieces.tags)
    if version >= _SESSIONS_SINCE:
        chunks.append(with_pieces.length(len(request.forgotten)))
        for name, numbers in request.forgotten:
            chunks += [_topic_name(with_pieces, name), with_pieces.length(len(numbers))]
            chunks += [_INT32.pack(number) for number in numbers]
            chunks.append(with_pieces.tags)
    if version >= _RACK_SINCE:
        chunks.append(with_pieces.string(request.rack_id))
    if version >= _REPLICA_STATE_SINCE and request.replica_id >= 0:
        state = _REPLICA_STATE.pack(request.replica_id, request.replica_epoch) + NO_TAGS
        chunks.append(tagged(_REPLICA_STATE_TAG, state))
    else:
        chunks.append(with_pieces.tags)
    return b"".join(chunks)


def _topic_name(with_pieces: Pieces, name: TopicName) -> bytes:
    return with_pieces.string(name) if isinstance(name, str) else uuid_bytes(name)


class _Reader(WireReader[bytes]):
    def __init__(self, version: int, data: bytes, position: int) -> None:
        super().__init__(data, position, is_flexible=version >= FIRST_FLEXIBLE)
        self._version = version
        self._layout, self._places, _ = _LAYOUTS[version]

    def read(self) -> FetchRequestData:
        version = self._version
        replica_id = -1 if version >= _REPLICA_STATE_SINCE else self._int32()
        max_wait_ms, min_bytes = self._int32(), self._int32()
        max_bytes = self._int32() if version >= _MAX_BYTES_SINCE else _MAX_INT32
        is_read_committed = version >= _ISOLATION_SINCE and self._byte() == 1
        session_id, session_epoch = 0, -1
        if version >= _SESSIONS_SINCE:
            session_id, session_epoch = _SESSION.unpack_from(self._data, self._at)
            self._at += _SESSION.size
        topics = [self._topic() for _ in range(self._count())]
        forgotten = (
            [self._forgotten() for _ in range(self._count())] if version >= _SESSIONS_SINCE else []
        )
        rack_id = self._text() if version >= _RACK_SINCE else ""
        state = self._tags(_REPLICA_STATE_TAG)
        replica_epoch = -1
        if state is not None and version >= _REPLICA_STATE_SINCE:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(state)
        return FetchRequestData(
            replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, is_read_committed,
            session_id, session_epoch, topics, forgotten, rack_id,
        )  # fmt: skip

    def _topic(self) -> tuple[TopicName, list[tuple[int, FetchPartition]]]:
        name = self._topic_name()
        topic_id = name if isinstance(name, UUID) else None
        partitions = [self._partition(topic_id) for _ in range(self._count())]
        self._skip_tags()
        return name, partitions

    def _partition(self, topic_id: UUID | None) -> tuple[int, FetchPartition]:
        values = self._layout.unpack_from(self._data, self._at)
        self._at += self._layout.size
        self._skip_tags()
        fields = [-1 if place is None else values[place] for place in self._places]
        return values[0], FetchPartition(topic_id, *fields)

    def _forgotten(self) -> tuple[TopicName, list[int]]:
        name = self._topic_name()
        partitions = [self._int32() for _ in range(self._count())]
        self._skip_tags()
        return name, partitions

    def _topic_name(self) -> TopicName:
        if self._version < TOPIC_IDS_SINCE:
            return self._text()
        raw = self._bytes(16)
        return None if raw == ZERO_UUID else UUID(bytes=raw)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _text(self) -> str:
        text = self._nullable_text()
        if text is None:
            raise InvalidFrame("a Fetch request says null where it must not")
        return text


def fetch_response(
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[TopicName, Sequence[PartitionData[R]]]],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> list[bytes | R]:
    """The body of the response in chunks: bytes, and the records objects unchanged."""
    with_pieces = pieces(is_flexible=version >= FIRST_FLEXIBLE)
    chunks: list[bytes | R] = []
    if version >= 1:
        chunks.append(_INT32.pack(throttle_ms))
    if version >= _SESSIONS_SINCE:
        chunks.append(_ERROR_AND_SESSION.pack(error_code, session_id))
    chunks.append(with_pieces.length(len(topics)))
    for name, partitions in topics:
        chunks.append(_topic_name(with_pieces, name))
        chunks.append(with_pieces.length(len(partitions)))
        for response in partitions:
            chunks.append(_head(version, with_pieces, response))
            if response.records is not None and len(response.records):
                chunks.append(response.records)
            if version >= FIRST_FLEXIBLE:
                chunks.append(_tagged_fields(response))
        chunks.append(with_pieces.tags)
    if version >= _ENDPOINTS_SINCE and endpoints:
        chunks.append(tagged(0, encoded_endpoints(endpoints)))
    else:
        chunks.append(with_pieces.tags)
    return chunks


def _head(version: int, with_pieces: Pieces, response: PartitionData[R]) -> bytes:
    """The fields of a partition before its records, including the length of the records."""
    out = _PARTITION_HEAD.pack(response.partition, response.error_code, response.high_watermark)
    if version >= _ISOLATION_SINCE:
        out += _INT64.pack(response.last_stable_offset)
    if version >= _LOG_START_SINCE:
        out += _INT64.pack(response.log_start_offset)
    if version >= _ISOLATION_SINCE:
        aborted = response.aborted_transactions
        out += with_pieces.length(-1 if aborted is None else len(aborted))
        for transaction in aborted or ():
            out += _ABORTED.pack(*transaction) + with_pieces.tags
    if version >= _RACK_SINCE:
        out += _INT32.pack(response.preferred_read_replica)
    return out + with_pieces.length(-1 if response.records is None else len(response.records))


def _tagged_fields(response: PartitionData[R]) -> bytes:
    if response.diverging_epoch is None and response.current_leader is None:
        return NO_TAGS
    fields = []
    if response.diverging_epoch is not None:
        fields.append((0, _EPOCH_END.pack(*response.diverging_epoch) + NO_TAGS))
    if response.current_leader is not None:
        fields.append((1, _LEADER.pack(*response.current_leader) + NO_TAGS))
    return unsigned_varint(len(fields)) + b"".join(
        unsigned_varint(tag) + unsigned_varint(len(value)) + value for tag, value in fields
    )
