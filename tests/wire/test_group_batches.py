"""What the coordinator appends comes back as what it loads, packed or not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import CorruptRecord, InvalidRecord
from kafka_common.protocol import record_batch, records
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.legacy_messages import encode_messages
from replica_manager.coordinators.groups.batches import append_batch, loaded_batches, next_offset
from replica_manager.coordinators.groups.events import AppendGroupRecords, LoadedBatch, LoadedRecord
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.groups.requests import TransactionalProducer

RECORDS = st.lists(
    st.builds(SimpleRecord, st.binary(max_size=9), st.none() | st.binary(max_size=9)), min_size=1
)


@settings(deadline=None)
@given(RECORDS, st.sampled_from(Codec))
def test_an_append_is_loaded_again(written: list[SimpleRecord], codec: Codec) -> None:
    append = AppendGroupRecords(0, tuple(written), 1_700_000_000_000, -1, 5_000, 1)

    [batch] = loaded_batches(append_batch(append, codec))

    assert [(each.key, each.value) for each in batch.records] == written
    assert [each.offset for each in batch.records] == list(range(len(written)))
    assert (batch.producer_id, batch.is_transactional, batch.is_control) == (-1, False, False)


def test_a_batch_has_the_sequence_of_its_append() -> None:
    append = AppendGroupRecords(
        0, (SimpleRecord(b"key", b"value"),), 0, -1, 5_000, 1, TransactionalProducer(70, 3), 0
    )

    header = record_batch.read_header(append_batch(append))

    assert header is not None
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (70, 3, 0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_of_an_older_format_are_loaded(magic: int, codec: Codec) -> None:
    written = [records.Record(offset, 9, b"key", b"%d" % offset) for offset in (4, 5)]
    data = encode_messages(written, magic, codec)

    loaded = list(loaded_batches(data))

    assert [each for batch in loaded for each in batch.records] == [
        LoadedRecord(offset, b"key", b"%d" % offset) for offset in (4, 5)
    ]
    assert {(each.producer_id, each.is_transactional, each.is_control) for each in loaded} == {
        (-1, False, False)
    }
    assert next_offset(data) == 6


def test_a_marker_is_distinguished_from_an_offset_and_a_batch_that_is_cut_off_is_left_out() -> None:
    marker = records.EndTransactionMarker(True, 3).encode()
    transactional = record_batch.encode_batch(
        [records.Record(7, 0, *marker)], producer_id=70, is_transactional=True, is_control=True
    )

    loaded = list(loaded_batches(transactional + transactional[:-1]))

    assert loaded == [LoadedBatch((LoadedRecord(7, *marker),), 70, True, True)]


def test_a_batch_that_cannot_be_read_is_no_batch() -> None:
    whole = append_batch(AppendGroupRecords(0, (SimpleRecord(b"key", b"value"),), 0, -1, 5_000, 1))
    broken = bytearray(whole)
    broken[61] = 0x7F  # The length of the first record.

    with pytest.raises((CorruptRecord, InvalidRecord)):
        list(loaded_batches(bytes(broken)))
