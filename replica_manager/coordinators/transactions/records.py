"""The records of ``__transaction_state``: encoded and decoded byte for byte like Kafka's.

Every key and value begins with a version (int16).  Keys have version 0.  Values are written in
version 0; version 1 can be read, although only brokers without ZooKeeper write it (feature
``transaction.version``).  A tombstone is a key without a value.

Source: Kafka ``TransactionLogKey``, ``TransactionLogValue`` (JSON schemas), ``TransactionLog``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafka_common.errors import IllegalState, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.protocol.primitives import fixed_string
from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt, RecordReader
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transaction, Transit

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0
_FIRST_FLEXIBLE_VERSION: Final = 1

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">hqhib")
_TIMES: Final = Struct(">qq")
_NULL: Final = _INT32.pack(-1)
_LEAST_TOPIC_SIZE: Final = 2
"""Fewest bytes of a topic: bounds the number of topics by the bytes left."""
_STATES: Final = frozenset(state.value for state in TransactionState)


class TransactionRecordCorrupt(ZkControllerError):
    """Bytes that are not a record of ``__transaction_state``."""


# ---------------------------------------------------------------------- writing


def encode_key(transactional_id: str) -> bytes:
    return _INT16.pack(KEY_VERSION) + fixed_string(transactional_id)


def encode_value(transit: Transit) -> bytes:
    """The value of a record in version 0; in state Empty its partitions are null, as in Kafka."""
    topics: dict[str, list[int]] = {}
    for topic, partition in transit.partitions:
        topics.setdefault(topic, []).append(partition)
    pieces = [
        _HEAD.pack(
            VALUE_VERSION,
            transit.producer_id,
            transit.producer_epoch,
            transit.timeout_ms,
            transit.state.value,
        )
    ]
    if transit.state is TransactionState.EMPTY:
        if topics:
            raise IllegalState(f"An Empty transactional id has no partitions: {transit}")
        pieces.append(_NULL)
    else:
        pieces.append(_INT32.pack(len(topics)))
        for topic, partitions in topics.items():
            pieces += [fixed_string(topic), _INT32.pack(len(partitions))]
            pieces += [_INT32.pack(partition) for partition in partitions]
    pieces.append(_TIMES.pack(transit.last_update_ms, transit.start_ms))
    return b"".join(pieces)


# ---------------------------------------------------------------------- reading


def decode_key(data: bytes) -> str | None:
    """The transactional id in a key; None for the key of a newer coordinator.

    TransactionRecordCorrupt if the key is malformed.
    """
    try:
        reader = RecordReader(data, "key")
        return reader.string() if reader.int16() == KEY_VERSION else None
    except GroupRecordCorrupt as corrupt:
        raise TransactionRecordCorrupt(str(corrupt)) from None


def decode_value(transactional_id: str, data: bytes) -> Transaction:
    """The state in a value; TransactionRecordCorrupt if malformed or of an unknown version."""
    try:
        return _value(transactional_id, RecordReader(data, "value"))
    except GroupRecordCorrupt as corrupt:
        raise TransactionRecordCorrupt(str(corrupt)) from None


def _value(transactional_id: str, reader: RecordReader) -> Transaction:
    version = reader.int16()
    if not VALUE_VERSION <= version <= _FIRST_FLEXIBLE_VERSION:
        raise TransactionRecordCorrupt(f"value of version {version}")
    is_flexible = version == _FIRST_FLEXIBLE_VERSION
    producer_id, producer_epoch = reader.int64(), reader.int16()
    timeout_ms, state = reader.int32(), reader.int8()
    if state not in _STATES:
        raise TransactionRecordCorrupt(f"unknown transaction state id {state}")
    partitions = _partitions(reader, is_flexible=is_flexible)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    if is_flexible:
        reader.skip_tagged_fields()
    return Transaction(
        transactional_id,
        producer_id,
        timeout_ms,
        last_update_ms,
        producer_epoch=producer_epoch,
        state=TransactionState(state),
        partitions=partitions if state != TransactionState.EMPTY.value else (),
        start_ms=start_ms,
    )


def _partitions(reader: RecordReader, *, is_flexible: bool) -> list[TopicPartition]:
    def counted(item_size: int) -> range:
        count = reader.compact_count() if is_flexible else reader.int32()
        return range(reader.bounded_count(max(count, 0), item_size))

    partitions: list[TopicPartition] = []
    for _ in counted(_LEAST_TOPIC_SIZE):
        topic = reader.compact_string() if is_flexible else reader.string()
        partitions += [TopicPartition(topic, reader.int32()) for _ in counted(_INT32.size)]
        if is_flexible:
            reader.skip_tagged_fields()
    return partitions
