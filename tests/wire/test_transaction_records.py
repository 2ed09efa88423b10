"""Keys and values of ``__transaction_state``, byte for byte, and bytes that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.model import TopicPartition
from replica_manager.coordinators.transactions.records import (
    TransactionRecordCorrupt,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transit

ONGOING = Transit(
    TransactionState.ONGOING,
    1000,
    -1,
    3,
    -1,
    60_000,
    (TopicPartition("orders", 0), TopicPartition("payments", 7), TopicPartition("orders", 2)),
    1_700_000_000_000,
    1_700_000_000_123,
)
ONGOING_BYTES = bytes.fromhex(
    "0000" "00000000000003e8" "0003" "0000ea60" "01"
    "00000002"
    "0006" "6f7264657273" "00000002" "00000000" "00000002"
    "0008" "7061796d656e7473" "00000001" "00000007"
    "0000018bcfe5687b" "0000018bcfe56800"
)  # fmt: skip


def test_a_key() -> None:
    assert encode_key("billing") == b"\0\0\0\7billing"
    assert decode_key(b"\0\0\0\7billing") == "billing"
    assert decode_key(b"\0\1whatever") is None


def test_a_value() -> None:
    assert encode_value(ONGOING) == ONGOING_BYTES


def test_an_empty_one_has_no_partitions_at_all() -> None:
    empty = ONGOING._replace(state=TransactionState.EMPTY, partitions=(), start_ms=-1)
    assert encode_value(empty)[17:] == bytes.fromhex(
        "ffffffff" "0000018bcfe5687b" "ffffffffffffffff"
    )  # fmt: skip
    decoded = decode_value("billing", encode_value(empty))
    assert decoded.state is TransactionState.EMPTY
    assert decoded.start_ms == -1


def test_a_complete_one_has_none_left() -> None:
    complete = ONGOING._replace(state=TransactionState.COMPLETE_COMMIT, partitions=())
    assert encode_value(complete)[17:21] == bytes(4)


def test_a_flexible_value_is_read() -> None:
    # Version 1, with a tagged field that no one knows.
    data = bytes.fromhex(
        "0001" "00000000000003e8" "0003" "0000ea60" "02"
        "02" "07" "6f7264657273" "02" "00000009" "00"
        "0000018bcfe5687b" "0000018bcfe56800"
        "01" "05" "02" "abcd"
    )  # fmt: skip
    decoded = decode_value("billing", data)
    assert decoded.state is TransactionState.PREPARE_COMMIT
    assert list(decoded.partitions) == [TopicPartition("orders", 9)]
    assert decoded.last_update_ms == 1_700_000_000_123


_TOPICS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
_INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.builds(
        Transit,
        st.sampled_from([each for each in TransactionState if each is not TransactionState.EMPTY]),
        _INT64,
        st.just(-1),
        st.integers(-(2**15), 2**15 - 1),
        st.just(-1),
        st.integers(-(2**31), 2**31 - 1),
        st.lists(st.builds(TopicPartition, _TOPICS, st.integers(0, 2**31 - 1)), unique=True).map(
            tuple
        ),
        _INT64,
        _INT64,
    )
)
def test_what_is_written_is_read(transit: Transit) -> None:
    found = decode_value("billing", encode_value(transit))
    assert found.state is transit.state
    assert found.producer_id == transit.producer_id
    assert found.producer_epoch == transit.producer_epoch
    assert found.timeout_ms == transit.timeout_ms
    assert set(found.partitions) == set(transit.partitions)
    assert found.start_ms == transit.start_ms
    assert found.last_update_ms == transit.last_update_ms


@pytest.mark.parametrize("size", range(len(ONGOING_BYTES)))
def test_a_value_that_ends_early_is_corrupt(size: int) -> None:
    with pytest.raises(TransactionRecordCorrupt):
        decode_value("billing", ONGOING_BYTES[:size])


def test_unknown_versions_and_states_are_corrupt() -> None:
    with pytest.raises(TransactionRecordCorrupt, match="version 2"):
        decode_value("billing", b"\0\2" + ONGOING_BYTES[2:])
    with pytest.raises(TransactionRecordCorrupt, match="state id 8"):
        decode_value("billing", ONGOING_BYTES[:16] + b"\x08" + ONGOING_BYTES[17:])


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    with suppress(TransactionRecordCorrupt):
        assert (decode_key(data) or "").encode() in data
    with suppress(TransactionRecordCorrupt):
        assert len(decode_value("billing", data).partitions) <= len(data)
