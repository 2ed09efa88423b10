"""The codecs of record batches: the records' bytes as one block, packed and unpacked.

gzip is zlib's; snappy carries the framing of xerial's Java streams, but a bare snappy block is read
too, as librdkafka writes them; lz4 is an LZ4 frame and zstd a zstd frame.  What a block unpacks to
is limited, for a few kilobytes of hostile zstd hold gigabytes.

Source: Kafka ``CompressionType``, ``SnappyCompression``, ``Lz4Compression``, ``ZstdCompression``.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam

from zkcontroller.errors import CorruptRecord

Buffer = bytes | bytearray | memoryview

MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""More than this in one batch is refused; Kafka has no limit."""

GZIP_DEFAULT_LEVEL: Final = -1
LZ4_DEFAULT_LEVEL: Final = 9
ZSTD_DEFAULT_LEVEL: Final = 3

_INT32: Final = Struct(">i")
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _INT32.pack(1) + _INT32.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_UINT32_LE: Final = Struct("<I")
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""Magic, version 1 with independent blocks, blocks of 64 KiB, and the checksum of these."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
"""In a block's length: it is not compressed."""
_GZIP_WINDOW: Final = 31
"""zlib's word for: 32 KiB of window, gzip's header and trailer."""

_FIRST_GUESS: Final = 8
"""A block is expected to unpack to at most so many times its size; if not, the room grows."""


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final = tuple(Codec)
"""By number: a lookup costs a tenth of what the enumeration's own does."""

CODECS_BY_NAME: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Values of ``compression.type``, without ``producer``."""


def codec_of(attributes: int) -> Codec:
    """The codec named by a batch's attributes; CorruptRecord if there is none of that number."""
    number = attributes & 0x07
    if number >= len(_CODECS):
        raise CorruptRecord(f"Unknown compression type id: {number}")
    return _CODECS[number]


def pack(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """``data`` packed; ``level`` is for gzip, lz4 and zstd, None means Kafka's default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            packer = zlib.compressobj(
                GZIP_DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW
            )
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _pack_snappy(memoryview(data))
        case Codec.LZ4:
            return _pack_lz4(memoryview(data), LZ4_DEFAULT_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(
                cramjam.zstd.compress(data, ZSTD_DEFAULT_LEVEL if level is None else level)
            )


def unpack(codec: Codec, data: Buffer, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """``data`` unpacked; CorruptRecord if it is not the codec's or gives more than ``limit``."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _unpack_gzip(data, limit)
        case Codec.SNAPPY:
            return _unpack_snappy(bytes(data), limit)
        case Codec.LZ4 | Codec.ZSTD:
            return _unpack_frame(codec, bytes(data), limit)


def _too_much(limit: int) -> CorruptRecord:
    return CorruptRecord(f"A compressed batch unpacks to more than {limit} bytes")


def _unpack_gzip(data: Buffer, limit: int) -> bytes:
    """Every member of the stream, as Java's ``GZIPInputStream`` reads it."""
    unpacked = bytearray()
    rest: Buffer = data
    while rest:
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            unpacked += unpacker.decompress(rest, limit - len(unpacked) + 1)
        except zlib.error as failure:
            raise CorruptRecord(f"A gzip batch cannot be unpacked: {failure}") from None
        if len(unpacked) > limit:
            raise _too_much(limit)
        if not unpacker.eof:
            raise CorruptRecord("A gzip batch ends too early")
        rest = unpacker.unused_data
    return bytes(unpacked)


def _pack_snappy(data: memoryview) -> bytes:
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_INT32.pack(len(block)), block)
    return b"".join(pieces)


def _pack_lz4(data: memoryview, level: int) -> bytes:
    """A frame of independent blocks: Kafka's Java clients refuse blocks that refer to others."""
    pieces = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        if level == LZ4_DEFAULT_LEVEL:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(plain):
            pieces += (_UINT32_LE.pack(len(block)), block)
        else:
            pieces += (_UINT32_LE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    pieces.append(_UINT32_LE.pack(0))
    return b"".join(pieces)


def _unpack_snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unpack_snappy_block(data, limit)
    pieces: list[bytes] = []
    position, total = len(_XERIAL_HEADER), 0
    while position < len(data):
        if position + _INT32.size > len(data):
            raise CorruptRecord("A snappy batch ends within a block's length")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= size <= len(data) - position:
            raise CorruptRecord(f"A snappy block of {size} bytes, {len(data) - position} are there")
        pieces.append(_unpack_snappy_block(data[position : position + size], limit - total))
        total += len(pieces[-1])
        position += size
    return b"".join(pieces)


def _unpack_snappy_block(block: bytes, limit: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit:
            raise _too_much(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as failure:
        raise CorruptRecord(f"A snappy batch cannot be unpacked: {failure}") from None


def _unpack_frame(codec: Codec, data: bytes, limit: int) -> bytes:
    unpacker = cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd
    room = min(limit, len(data) * _FIRST_GUESS + 1024)
    while True:
        unpacked = bytearray(room)
        try:
            size = unpacker.decompress_into(data, unpacked)
        except cramjam.DecompressionError as failure:
            # The only way to tell a room that was too small: cramjam has one error for all.
            if "whole buffer" not in str(failure):
                raise CorruptRecord(
                    f"A {codec.name.lower()} batch cannot be unpacked: {failure}"
                ) from None
        else:
            return bytes(memoryview(unpacked)[:size])
        if room >= limit:
            raise _too_much(limit)
        room = min(limit, room * _FIRST_GUESS)
