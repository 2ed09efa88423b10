"""Batches that a few bytes make expensive to check."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from kafka_common.protocol.compression import Codec, pack
from kafka_common.protocol.record_batch import HEADER_BYTES
from kafka_common.protocol.records import zigzag

NO_PRODUCER: Final = (-1, -1, -1)
_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def block(lengths: Sequence[int], count: int, key: bytes | None = None) -> tuple[bytes, int]:
    """About ``count`` records, whose values have these lengths in turn; how many they are."""
    unit = b""
    for length in lengths:
        field = b"\x01" if key is None else zigzag(len(key)) + key
        body = b"\x00\x00\x00" + field + zigzag(length) + bytes(length) + b"\x00"
        unit += zigzag(len(body)) + body
    rounds = count // len(lengths)
    return unit * rounds, rounds * len(lengths)


def one_record_of_headers(count: int) -> bytes:
    """One record with so many empty headers."""
    body = b"\x00\x00\x00\x01\x01" + zigzag(count) + b"\x00\x01" * count
    return zigzag(len(body)) + body


def enveloped(
    packed: bytes, count: int, codec: Codec, producer: tuple[int, int, int] = NO_PRODUCER
) -> bytes:
    """A batch of magic 2 around those bytes, with the right checksum."""
    body = struct.pack(">hiqqqhii", codec, count - 1, 0, 0, *producer, count) + packed
    head = struct.pack(">qiibI", 0, HEADER_BYTES - 12 + len(packed), -1, 2, crc32c(body))
    return head + body


def packed_batch(
    records: bytes, count: int, codec: Codec, producer: tuple[int, int, int] = NO_PRODUCER
) -> bytes:
    """A sound envelope around these records."""
    return enveloped(pack(codec, records), count, codec, producer)


def old_messages(count: int) -> bytes:
    """So many messages of magic 1, one after the other."""
    body = b"\x01\x00" + struct.pack(">qii", 0, -1, -1)
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    return message * count


class Hostile(NamedTuple):
    """A batch, and how a broker answers it."""

    data: bytes
    error: ErrorCode
    version: int = 11


def every_kind() -> dict[str, Callable[[], Hostile]]:
    """By what is expensive about each; a function makes it, for some take megabytes."""
    too_large, corrupt = ErrorCode.message_too_large, ErrorCode.corrupt_message
    invalid, none = ErrorCode.invalid_record, ErrorCode.none
    empty_member, empty_block = gzip.compress(b""), b"\x00\x00\x00\x01\x00"
    return {
        "16 MB of records whose lengths alternate": lambda: Hostile(
            packed_batch(*block([0, 0, 1, 1], 2_200_000), Codec.ZSTD), too_large
        ),
        "as many records as are allowed, of alternating lengths": lambda: Hostile(
            packed_batch(*block([0, 0, 1, 1], 120_000), Codec.ZSTD), none
        ),
        "a count of one for 16 MB of records": lambda: Hostile(
            packed_batch(block([0, 0, 1, 1], 2_200_000)[0], 1, Codec.ZSTD), invalid
        ),
        "400,000 records in gzip": lambda: Hostile(
            packed_batch(*block([3, 1, 4, 1, 5, 9, 2, 6], 400_000), Codec.GZIP), none
        ),
        "50,000 empty members of gzip": lambda: Hostile(
            enveloped(empty_member * 50_000, 1, Codec.GZIP), corrupt
        ),
        "100,000 empty blocks of snappy": lambda: Hostile(
            enveloped(_XERIAL_HEADER + empty_block * 100_000, 1, Codec.SNAPPY), corrupt
        ),
        "more headers than are allowed": lambda: Hostile(
            packed_batch(one_record_of_headers(2_000_001), 1, Codec.LZ4), too_large
        ),
        "300,000 headers in one record": lambda: Hostile(
            packed_batch(one_record_of_headers(300_000), 1, Codec.LZ4), none
        ),
        "a value of more bytes than may be unpacked": lambda: Hostile(
            packed_batch(*block([64 * 1024 * 1024], 1), Codec.ZSTD), too_large
        ),
        "uncompressed records of alternating lengths": lambda: Hostile(
            packed_batch(*block([0, 0, 1, 1], 100_000), Codec.NONE), none
        ),
        "30,000 messages of an old format": lambda: Hostile(old_messages(30_000), none, 2),
    }
