"""Record batches: Kafka's own bytes, round trips, and bytes that mean harm."""

from __future__ import annotations

import contextlib
import gzip
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import (
    CorruptRecord,
    InvalidRecord,
    UnpackedTooLarge,
    UnsupportedCompressionType,
)
from kafka_common.protocol import record_batch
from kafka_common.protocol.compression import (
    MOST_PARTS,
    Codec,
    pack,
    unpack,
    unpack_aside,
    unpack_lz4_of_magic_0,
)
from kafka_common.protocol.legacy_messages import down_converted, iterate_any
from kafka_common.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    MemoryRecords,
    assigned_header,
    encode_batch,
    is_intact,
    iterate_batch,
    iterate_batches,
    read_header,
    records_block,
)
from kafka_common.protocol.record_walk import finish, walk_records
from kafka_common.protocol.records import (
    EndTransactionMarker,
    Record,
    encode_records,
    iterate_records,
    zigzag,
)

KAFKAS: Final = {
    name: bytes.fromhex(text)
    for name, text in json.loads(
        (Path(__file__).parent / "data" / "record-batches-3.9.1.json").read_text()
    ).items()
}
RECORDS: Final = [
    Record(0, 1700000000123, b"k1", b"first value"),
    Record(1, 1700000000100, None, b"without a key"),
    Record(2, 1700000009999, b"k2", None),
    Record(3, 1700000000500, b"", bytes(300), ((b"h", b"x"), (b"empty", None))),
]
CODECS: Final = [codec for codec in Codec if codec is not Codec.NONE]

some_bytes = st.none() | st.binary(max_size=40)
some_records = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**40),
        some_bytes,
        some_bytes,
        st.lists(st.tuples(st.binary(max_size=5), some_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=40,
).map(lambda records: [r._replace(offset=i) for i, r in enumerate(records)])


def largest_timestamp_delta(block: bytes, position: int, count: int) -> int:
    return finish(walk_records(block, position, len(block), count)).largest_delta


def largest_timestamp(data: bytes, position: int, header: BatchHeader) -> int:
    block, start = records_block(data, position, header)
    return header.base_timestamp + largest_timestamp_delta(block, start, header.record_count)


def header_of(data: bytes) -> BatchHeader:
    header = read_header(data)
    assert header is not None
    return header


def moved(records: list[Record], offset: int) -> list[Record]:
    return [record._replace(offset=record.offset + offset) for record in records]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_kafkas_batches_are_read_whatever_their_codec(codec: Codec) -> None:
    data = KAFKAS[f"plain-{codec.name.lower()}"]
    header = header_of(data)

    assert header.size == len(data)
    assert header.codec is codec
    assert is_intact(data, 0, header)
    assert list(iterate_batch(data, 0, header)) == RECORDS
    assert largest_timestamp(data, 0, header) == header.max_timestamp == 1700000009999


def test_an_uncompressed_batch_equals_kafkas_byte_for_byte() -> None:
    assert encode_batch(RECORDS) == KAFKAS["plain-none"]


def test_an_idempotent_batch_equals_kafkas_and_its_sequences_wrap() -> None:
    ours = encode_batch(
        moved(RECORDS, 42),
        partition_leader_epoch=7,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=2147483646,
    )

    assert ours == KAFKAS["idempotent"]
    assert header_of(ours).last_sequence == 1


def test_a_transactional_batch_equals_kafkas() -> None:
    ours = encode_batch(
        moved(RECORDS, 42),
        partition_leader_epoch=7,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=5,
        is_transactional=True,
    )

    assert ours == KAFKAS["transactional"]


def test_records_of_a_batch_with_log_append_time_all_have_its_timestamp() -> None:
    data = KAFKAS["log-append-time"]
    header = header_of(data)

    assert header.is_log_append_time
    assert {r.timestamp for r in iterate_batch(data, 0, header)} == {header.max_timestamp}


@pytest.mark.parametrize(("name", "is_commit"), [("abort-marker", False), ("commit-marker", True)])
def test_transaction_markers_equal_kafkas(name: str, is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit, 12)
    ours = encode_batch(
        [Record(100, 1700000000000, *marker.encode())],
        partition_leader_epoch=8,
        producer_id=4711,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
    )

    assert ours == KAFKAS[name]
    record = next(iterate_batch(ours, 0, header_of(ours)))
    assert EndTransactionMarker.decode(record) == marker


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")],
)
def test_old_messages_are_read_with_their_own_offsets(magic: int, codec: str) -> None:
    data = KAFKAS[f"magic-{magic}-{codec}"]
    batches = list(iterate_batches(data))

    records = [record for place, header in batches for record in iterate_any(data, place, header)]

    assert all(is_intact(data, place, header) for place, header in batches)
    expected = moved(RECORDS[:3], 5)
    if magic == 0:
        expected = [record._replace(timestamp=-1) for record in expected]
    assert records == expected


def messages(data: bytes, magic: int, first_offset: int) -> bytes:
    """As :func:`down_converted`, without the head of a batch that fills the response."""
    converted = down_converted(data, magic, first_offset).data
    return converted[: sum(header.size for _, header in iterate_batches(converted))]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_for_old_consumers_equal_kafkas(magic: int) -> None:
    batch = encode_batch(moved(RECORDS[:3], 5))

    kafkas = KAFKAS[f"magic-{magic}-none"]
    assert messages(batch, magic, 5) == kafkas
    later = messages(batch, magic, 6)
    assert kafkas.endswith(later)
    assert [header.base_offset for _, header in iterate_batches(later)] == [6, 7]
    assert down_converted(batch, magic, 6).record_count == 2
    assert down_converted(kafkas, 1, 5).record_count == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_batches_are_wrapped_again_for_old_consumers(magic: int, codec: Codec) -> None:
    sent = moved(RECORDS[:3], 5)

    data, count = down_converted(encode_batch(sent, codec=codec), magic, 0)

    read = [r for at, header in iterate_batches(data) for r in iterate_any(data, at, header)]
    assert read == (sent if magic else [record._replace(timestamp=-1) for record in sent])
    assert count == len(sent)
    assert all(is_intact(data, at, header) for at, header in iterate_batches(data))


def test_old_consumers_get_no_markers_and_no_zstd() -> None:
    plain = KAFKAS["magic-0-none"]
    assert messages(KAFKAS["abort-marker"] + plain, 0, 0) == plain
    with pytest.raises(UnsupportedCompressionType):
        down_converted(KAFKAS["plain-zstd"], 1, 0)
    first = next(header.size for _, header in iterate_batches(plain))
    assert messages(plain + KAFKAS["plain-zstd"], 0, 0) == plain[:first]


def test_what_is_missing_for_an_old_consumer_is_the_head_of_a_batch_that_is_too_large() -> None:
    plain, marker = KAFKAS["magic-0-none"], KAFKAS["abort-marker"]

    filled = down_converted(plain + marker, 0, 0).data

    assert len(filled) == len(plain) + len(marker)
    head = filled[len(plain) :]
    assert head[:8] == b"\xff" * 8
    assert int.from_bytes(head[8:12], "big") == len(marker) + 1
    assert set(head[12:]) == {0}
    # A consumer that reads nothing but markers gets a head alone, larger than any response.
    assert down_converted(marker, 0, 0).data == b"\xff" * 8 + (61).to_bytes(4, "big")
    assert down_converted(b"", 0, 0) == (b"", 0)


def test_batches_that_are_converted_at_once_are_left_out_together() -> None:
    """Kafka converts 128 kB of batches at a time; zstd among them is found before any is sent."""
    batches = [encode_batch([Record(i, 0, None, bytes(60_000))]) for i in range(4)]
    zstd = encode_batch([Record(4, 0, None, b"x")], codec=Codec.ZSTD)

    def offsets(data: bytes) -> list[int]:
        converted = down_converted(data, 1, 0)
        found = [header.base_offset for _, header in iterate_batches(converted.data)]
        assert converted.record_count == len(found)
        return found

    assert offsets(b"".join(batches)) == [0, 1, 2, 3]
    assert offsets(b"".join(batches) + zstd) == [0, 1, 2]
    assert offsets(b"".join(batches[:3]) + zstd) == [0]


def test_a_frame_of_magic_0_begins_as_kafkas_whatever_checksum_its_reader_met() -> None:
    kafkas = KAFKAS["magic-0-lz4"]
    header = kafkas.index(bytes.fromhex("04224d18"))

    ours = down_converted(encode_batch(moved(RECORDS[:3], 5), codec=Codec.LZ4), 0, 0).data
    right = pack(Codec.LZ4, b"plain")

    assert kafkas[header : header + 7] in ours
    assert kafkas[header + 6] != right[6]
    assert unpack_lz4_of_magic_0(right) == b"plain"


@pytest.mark.parametrize("flags", ["6040", "6870", "4050"])
def test_the_checksum_of_every_header_is_mended(flags: str) -> None:
    """Flags, size of blocks: independent blocks, also with the content's size, and linked ones."""
    plain = bytes(range(256)) * 9
    block = cramjam.lz4.compress_block(plain, store_size=False)
    size = len(plain).to_bytes(8, "little") if int(flags[:2], 16) & 8 else b""
    end = bytes.fromhex("00000000")
    frame = bytes.fromhex("04224d18" + flags) + size + b"\x00"
    frame += len(block).to_bytes(4, "little") + bytes(block) + end

    assert unpack_lz4_of_magic_0(frame) == plain


def test_a_compacted_batch_keeps_its_offsets_and_says_when_tombstones_may_go() -> None:
    data = KAFKAS["compacted"]
    header = header_of(data)

    assert is_intact(data, 0, header)
    assert (header.base_offset, header.last_offset, header.record_count) == (20, 23, 1)
    assert header.delete_horizon_ms == 1700000105000
    assert list(iterate_batch(data, 0, header)) == [RECORDS[2]._replace(offset=22)]


def test_a_batch_that_lost_every_record_keeps_offsets_and_sequence() -> None:
    header = header_of(KAFKAS["empty"])

    assert (header.base_offset, header.last_offset, header.record_count) == (42, 45, 0)
    assert header.last_sequence == 8
    assert list(iterate_batch(KAFKAS["empty"], 0, header)) == []


def test_assigning_offset_and_epoch_leaves_the_checksum_alone() -> None:
    data = KAFKAS["plain-zstd"]
    header = header_of(data)

    assigned = assigned_header(
        data, 0, header, base_offset=77, partition_leader_epoch=5, max_timestamp=1700000009999
    )
    start = assigned.encode()

    assert header_of(start) == assigned
    assert start[17:] == data[17:HEADER_BYTES]
    assert list(iterate_batch(start + data[HEADER_BYTES:], 0, header_of(start))) == moved(
        RECORDS, 77
    )


def test_assigning_a_timestamp_computes_the_checksum_again() -> None:
    data = KAFKAS["plain-none"]

    assigned = assigned_header(
        data,
        0,
        header_of(data),
        base_offset=9,
        partition_leader_epoch=-1,
        max_timestamp=header_of(KAFKAS["log-append-time"]).max_timestamp,
        is_log_append_time=True,
    )

    assert assigned.encode() + data[HEADER_BYTES:] == KAFKAS["log-append-time"]
    assert assigned == header_of(KAFKAS["log-append-time"])._replace(base_offset=9)


def test_records_in_memory_give_the_batches_that_a_walk_over_the_bytes_finds() -> None:
    first, second = KAFKAS["plain-none"], KAFKAS["plain-zstd"]
    for data in (
        b"",
        first[:16],
        first[:60],
        first[:-1],
        first,
        first + second,
        first + second[:-1],
    ):
        records = MemoryRecords(data)

        assert list(records.batches()) == list(iterate_batches(data))
        assert records.first_header == read_header(data)
        assert len(records) == len(data)


def test_records_in_memory_parse_their_first_header_once(monkeypatch: pytest.MonkeyPatch) -> None:
    records = MemoryRecords(KAFKAS["plain-none"])
    header = records.first_header

    monkeypatch.setattr(record_batch, "read_header", lambda *_: None)

    assert records.first_header is header
    assert list(records.batches()) == [(0, header)]


def test_records_in_memory_that_no_batch_begins_with_are_corrupt_each_time() -> None:
    records = MemoryRecords(bytes(100))

    for _ in range(2):
        with pytest.raises(CorruptRecord):
            records.first_header  # noqa: B018
        with pytest.raises(CorruptRecord):
            list(records.batches())


@settings(max_examples=30, deadline=None)
@given(some_records, st.sampled_from(list(Codec)), st.integers(0, 2**60))
def test_what_is_encoded_is_decoded(records: list[Record], codec: Codec, offset: int) -> None:
    data = encode_batch(moved(records, offset), codec=codec)
    header = header_of(data)

    assert is_intact(data, 0, header)
    assert list(iterate_batch(data, 0, header)) == moved(records, offset)
    assert largest_timestamp(data, 0, header) == max(record.timestamp for record in records)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-70, 300)), min_size=1, max_size=200),
    st.integers(0, 60),
)
def test_the_look_at_columns_finds_the_largest_timestamp(
    runs: list[tuple[int, int]], size: int
) -> None:
    records = [
        Record(i, 1000 + delta, None, bytes(size + kind)) for i, (kind, delta) in enumerate(runs)
    ]
    data = encode_batch(records)

    assert largest_timestamp(data, 0, header_of(data)) == max(r.timestamp for r in records)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_broken_record_is_never_taken_for_a_whole_one(data: st.DataObject) -> None:
    records = [Record(i, 1000 + i, b"key", bytes(20)) for i in range(data.draw(st.integers(1, 50)))]
    block = bytearray(encode_records(records, 0, 1000))
    cut = data.draw(st.integers(1, len(block)))
    header = header_of(encode_batch(records))._replace(batch_length=49 + len(block) - cut)

    with pytest.raises(InvalidRecord):
        largest_timestamp(bytes(HEADER_BYTES) + bytes(block[:-cut]), 0, header)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_look_refuses_exactly_what_decoding_refuses(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 90))
    size = data.draw(st.sampled_from([0, 5, 70]))
    headers = ((b"h", b"v"),) * data.draw(st.integers(0, 1))
    records = [
        Record(i, 1000 + i % 7, b"key" if i % 50 else None, bytes(size), headers)
        for i in range(count)
    ]
    block = bytearray(encode_records(records, 0, 1000))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(block) - 1))
        block[place] = data.draw(
            st.sampled_from([0, 1, 2, 6, 7, 0x7F, 0x80, 0xFF, block[place] ^ 1])
        )

    try:
        decoded = list(iterate_records(bytes(block), 0, count, 0, 1000))
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            largest_timestamp_delta(bytes(block), 0, count)
    else:
        expected = max(record.timestamp for record in decoded) - 1000
        assert largest_timestamp_delta(bytes(block), 0, count) == expected


@pytest.mark.parametrize("size", [b"\x01", b"\xff\x68", b"\xff\xff\x01"])
def test_a_header_without_a_name_is_refused_however_its_length_is_written(size: bytes) -> None:
    block = bytearray(encode_records([Record(0, 1000, None, b"v", ((b"h", b"v"),))], 0, 1000))
    block[-4:-3] = size
    block[0] += 2 * (len(size) - 1)

    with pytest.raises(InvalidRecord):
        list(iterate_records(bytes(block), 0, 1, 0, 1000))
    with pytest.raises(InvalidRecord):
        largest_timestamp_delta(bytes(block), 0, 1)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_end_in_a_refusal_or_in_records(noise: bytes, place: int) -> None:
    data = bytearray(KAFKAS["plain-none"])
    data[place : place + len(noise)] = noise

    with contextlib.suppress(CorruptRecord, InvalidRecord):
        for position, header in iterate_batches(bytes(data)):
            read = list(iterate_any(bytes(data), position, header))
            assert all(isinstance(each, Record) for each in read)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48])
def test_a_length_that_no_batch_has_is_corrupt(length: int) -> None:
    data = bytearray(KAFKAS["plain-none"])
    struct.pack_into(">i", data, 8, length)

    with pytest.raises(CorruptRecord):
        read_header(bytes(data))


def test_a_batch_longer_than_what_is_there_is_left_out() -> None:
    whole = KAFKAS["plain-none"]
    huge = bytearray(whole)
    struct.pack_into(">i", huge, 8, 2**31 - 1)

    assert [place for place, _ in iterate_batches(whole + bytes(huge))] == [0]
    assert list(iterate_batches(whole[:-1])) == []


def test_a_record_count_of_two_billion_costs_nothing() -> None:
    data = bytearray(KAFKAS["plain-none"])
    struct.pack_into(">i", data, 57, 2**31 - 1)

    with pytest.raises(InvalidRecord):
        largest_timestamp(bytes(data), 0, header_of(bytes(data)))


def test_a_header_count_of_two_billion_is_refused() -> None:
    body = b"\x00" + zigzag(0) * 2 + zigzag(-1) * 2 + zigzag(2**31 - 1)
    data = bytearray(encode_batch([Record(0, 0, None, None)])[:HEADER_BYTES])
    data += zigzag(len(body)) + body
    struct.pack_into(">i", data, 8, len(data) - 12)

    with pytest.raises(InvalidRecord, match="headers"):
        list(iterate_batch(bytes(data), 0, header_of(bytes(data))))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_a_compressed_block_that_unpacks_to_too_much_is_refused(codec: Codec) -> None:
    packed = pack(codec, bytes(3_000_000))

    with pytest.raises(CorruptRecord, match="unpacks to more than"):
        unpack(codec, packed, limit=100_000)
    assert len(unpack(codec, packed, limit=3_000_000)) == 3_000_000


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_a_compressed_block_cut_anywhere_is_corrupt(codec: Codec) -> None:
    packed = pack(codec, bytes(range(256)) * 4)

    for end in range(len(packed)):
        try:
            assert unpack(codec, packed[:end]) != bytes(range(256)) * 4
        except CorruptRecord:
            continue


def test_a_bare_snappy_block_is_read_as_librdkafka_writes_it() -> None:
    assert unpack(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 99))) == b"abc" * 99


def test_gzip_members_one_after_the_other_are_one_stream() -> None:
    packed = pack(Codec.GZIP, b"one ") + pack(Codec.GZIP, b"two")

    assert unpack(Codec.GZIP, packed) == b"one two"
    assert zlib.decompress(pack(Codec.GZIP, b"one"), 31) == b"one"


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
@given(content=st.binary(max_size=200), times=st.integers(0, 300))
def test_pages_hold_what_unpack_gives(codec: Codec, content: bytes, times: int) -> None:
    plain = content * times
    packed = pack(codec, plain)

    pages, size = unpack_aside(codec, packed, len(plain))
    with pages:
        assert pages[:size] == plain
    if plain:
        with pytest.raises(UnpackedTooLarge):
            unpack_aside(codec, packed, len(plain) - 1)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_bytes_that_are_not_the_codecs_fill_no_pages(codec: Codec) -> None:
    with pytest.raises(CorruptRecord):
        unpack_aside(codec, pack(codec, bytes(range(256)) * 4)[:-9], 5000)


@pytest.mark.parametrize("sizes", [(0,), (1, 0, 5), (1023, 2000, 0), (3_000_000, 1)])
def test_gzip_members_of_any_size_are_read_one_after_the_other(sizes: Sequence[int]) -> None:
    plain = [bytes([place + 1]) * size for place, size in enumerate(sizes)]
    packed = b"".join(gzip.compress(each) for each in plain)

    assert unpack(Codec.GZIP, packed) == b"".join(plain)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY], ids=lambda codec: codec.name.lower())
def test_a_stream_of_too_many_parts_is_corrupt(codec: Codec) -> None:
    if codec is Codec.GZIP:
        packed = gzip.compress(b"") * (MOST_PARTS + 1)
    else:
        packed = pack(codec, b"") + b"\x00\x00\x00\x01\x00" * (MOST_PARTS + 1)

    with pytest.raises(CorruptRecord, match=f"more than {MOST_PARTS}"):
        unpack(codec, packed)


def test_a_walk_pauses_after_so_many_records_and_headers() -> None:
    data = encode_records([Record(0, 0, None, bytes(i % 7)) for i in range(5000)], 0, 0)
    headers = encode_records([Record(0, 0, None, None, ((b"", None),) * 5000)], 0, 0)

    assert len(list(walk_records(data, 0, len(data), 5000))) >= 4
    assert len(list(walk_records(headers, 0, len(headers), 1))) >= 4


def test_an_unknown_codec_is_corrupt() -> None:
    header = header_of(KAFKAS["plain-none"])._replace(attributes=5)

    with pytest.raises(CorruptRecord, match="Unknown compression type id: 5"):
        list(iterate_batch(KAFKAS["plain-none"], 0, header))


@pytest.mark.parametrize("wrong", [-3, 8192])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 5000, 8191, 8192, 8299, None])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_walk_says_whether_records_are_numbered_one_after_the_other(
    is_mixed: bool, place: int | None, wrong: int
) -> None:
    count = 8300
    deltas = list(range(count))
    if place is not None:
        deltas[place] = wrong
    block = encode_records(
        [
            Record(delta, 0, None, bytes(place % 7 if is_mixed else 5))
            for place, delta in enumerate(deltas)
        ],
        0,
        0,
    )

    walked = finish(walk_records(block, 0, len(block), count, counts=True))

    assert walked.is_counted is (deltas == list(range(count)))
    assert finish(walk_records(block, 0, len(block), count)).is_counted
