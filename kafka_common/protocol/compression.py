"""The codecs of record batches: the records' bytes as one block, packed and unpacked.

gzip comes from zlib.  snappy has the framing of xerial's Java streams; a bare snappy block, as
librdkafka writes it, is read too.  lz4 is an LZ4 frame and zstd a zstd frame.  The unpacked size is
limited, because a few kilobytes of hostile zstd hold gigabytes.  The number of gzip members or
snappy blocks is limited too.

Source: Kafka ``CompressionType``, ``SnappyCompression``, ``Lz4Compression``, ``ZstdCompression``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import Final

import cramjam

from kafka_common.errors import CorruptRecord, UnpackedTooLarge

Buffer = bytes | bytearray | memoryview

MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""A batch that unpacks to more bytes is refused; Kafka has no limit."""

MOST_PARTS: Final = 8 * 1024
"""Members of a gzip stream, or blocks of a snappy stream, in one batch.

Kafka has no limit.  Its clients write one gzip member, or snappy blocks of 32 KiB each; 8,192
blocks of that size hold 256 MiB.
"""

GZIP_DEFAULT_LEVEL: Final = -1
LZ4_DEFAULT_LEVEL: Final = 9
ZSTD_DEFAULT_LEVEL: Final = 3

_INT32: Final = Struct(">i")
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _INT32.pack(1) + _INT32.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_UINT32_LE: Final = Struct("<I")
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""Header of an LZ4 frame: magic, independent blocks of at most 64 KiB, header checksum."""
_LZ4_HEADER_OF_MAGIC_0: Final = bytes.fromhex("04224d1860401a")
_LZ4_MAGIC: Final = _LZ4_HEADER[:4]
_LZ4_FLAGS_AND_BLOCKS_END: Final = 6
_LZ4_SIZE_FLAG: Final = 0x08
_LZ4_SIZE_BYTES: Final = 8
_XXH32_PRIMES: Final = (0, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_UINT32_MAX: Final = 0xFFFFFFFF
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
"""The bit in a block's length that says that the block is not compressed."""
_GZIP_WINDOW: Final = 31
"""The ``wbits`` of zlib for a window of 32 KiB with gzip's header and trailer."""
_FIRST_FED_BYTES: Final = 1024
_MOST_FED_BYTES: Final = 1024 * 1024
"""The largest piece of input given to zlib at once.

The first gzip member is given in pieces of this size, because most streams have only one member.
Later members begin with pieces of ``_FIRST_FED_BYTES``, which double: zlib copies the input that
lies beyond a member's end.
"""
_PIECE_BYTES: Final = 1024 * 1024
"""The most bytes of a gzip stream that are unpacked in one call."""

_FIRST_GUESS: Final = 8
"""The output buffer is at first this many times the block's size; it grows if needed."""


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final = tuple(Codec)
"""Codecs by number: ten times faster than ``Codec(number)``."""

CODECS_BY_NAME: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Codecs by the values of ``compression.type``, except ``producer``."""


def codec_of(attributes: int) -> Codec:
    """The codec in a batch's attributes; CorruptRecord if no codec has that number."""
    number = attributes & 0x07
    if number >= len(_CODECS):
        raise CorruptRecord(f"Unknown compression type id: {number}")
    return _CODECS[number]


def pack(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """``data`` compressed; ``level`` is for gzip, lz4 and zstd, None means Kafka's default."""
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
    """``data`` decompressed; CorruptRecord if it is malformed.

    Raises UnpackedTooLarge, a CorruptRecord, if the result has more than ``limit`` bytes; codec
    NONE is not limited.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _unpack_gzip(data, limit)
        case Codec.SNAPPY:
            return _unpack_snappy(bytes(data), limit)
        case Codec.LZ4 | Codec.ZSTD:
            return _unpack_frame(codec, bytes(data), limit)


def unpack_aside(codec: Codec, data: Buffer, limit: int) -> tuple[mmap, int]:
    """Decompresses in a worker thread: memory pages with the unpacked bytes, and their number.

    Raises as :func:`unpack`; codec NONE is limited too.  Allocating or freeing a ``bytes`` of many
    megabytes would stop all other threads; with pages they go on.  The caller closes the pages.
    """
    pages = mmap(-1, max(limit, 1))
    try:
        return pages, _unpack_into(codec, data, limit, pages)
    except BaseException:
        pages.close()
        raise


def _unpack_into(codec: Codec, data: Buffer, limit: int, pages: mmap) -> int:
    match codec:
        case Codec.NONE:
            if len(data) > limit:
                raise _too_much(limit)
            pages[: len(data)] = bytes(data)
            return len(data)
        case Codec.GZIP:
            size = 0
            for piece in _gzip_pieces(data):
                if size + len(piece) > limit:
                    raise _too_much(limit)
                pages[size : size + len(piece)] = piece
                size += len(piece)
            return size
        case Codec.SNAPPY:
            size = 0
            with memoryview(pages) as room:
                for block in _snappy_blocks(bytes(data)):
                    try:
                        block_size = cramjam.snappy.decompress_raw_len(block)
                        if size + block_size > limit:
                            raise _too_much(limit)
                        with room[size : size + block_size] as part:
                            cramjam.snappy.decompress_raw_into(block, part)
                    except cramjam.DecompressionError as failure:
                        raise _no_snappy(failure) from None
                    size += block_size
            return size
        case Codec.LZ4 | Codec.ZSTD:
            unpacked = _decompressed_into(codec, bytes(data), pages)
            if unpacked is None or unpacked > limit:
                raise _too_much(limit)
            return unpacked


def _too_much(limit: int) -> UnpackedTooLarge:
    return UnpackedTooLarge(f"A compressed batch unpacks to more than {limit} bytes")


def _unpack_gzip(data: Buffer, limit: int) -> bytes:
    unpacked = bytearray()
    for piece in _gzip_pieces(data):
        unpacked += piece
        if len(unpacked) > limit:
            raise _too_much(limit)
    return bytes(unpacked)


def _gzip_pieces(data: Buffer) -> Iterator[bytes]:
    """The unpacked bytes of all members, in pieces, as Java's ``GZIPInputStream`` reads them."""
    position, members = 0, 0
    with memoryview(data) as view:
        while position < len(view):
            members += 1
            if members > MOST_PARTS:
                raise CorruptRecord(f"A gzip batch has more than {MOST_PARTS} members")
            unpacker = zlib.decompressobj(_GZIP_WINDOW)
            fed = _MOST_FED_BYTES if members == 1 else _FIRST_FED_BYTES
            try:
                while not unpacker.eof:
                    if unpacker.unconsumed_tail:
                        yield unpacker.decompress(unpacker.unconsumed_tail, _PIECE_BYTES)
                        continue
                    if position == len(view):
                        raise CorruptRecord("A gzip batch ends too early")
                    more = view[position : position + fed]
                    position += len(more)
                    fed = min(2 * fed, _MOST_FED_BYTES)
                    yield unpacker.decompress(more, _PIECE_BYTES)
            except zlib.error as failure:
                raise CorruptRecord(f"A gzip batch cannot be unpacked: {failure}") from None
            position -= len(unpacker.unused_data)


def _pack_snappy(data: memoryview) -> bytes:
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_INT32.pack(len(block)), block)
    return b"".join(pieces)


def _pack_lz4(data: memoryview, level: int) -> bytes:
    """An LZ4 frame of independent blocks; Kafka's Java clients refuse dependent ones."""
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


def pack_lz4_of_magic_0(data: Buffer) -> bytes:
    """An LZ4 frame as clients of magic 0 expect it: the checksum of its header covers its magic.

    Source: Kafka ``Lz4BlockOutputStream`` (KAFKA-3160).
    """
    return _LZ4_HEADER_OF_MAGIC_0 + pack(Codec.LZ4, data)[len(_LZ4_HEADER) :]


def unpack_lz4_of_magic_0(data: bytes, limit: int = MAX_UNPACKED_BYTES) -> bytes:
    """As :func:`unpack`, whatever the checksum of the frame's header is."""
    end = _LZ4_FLAGS_AND_BLOCKS_END
    if data.startswith(_LZ4_MAGIC) and len(data) > end:
        if data[len(_LZ4_MAGIC)] & _LZ4_SIZE_FLAG:
            end += _LZ4_SIZE_BYTES
        checksum = _xxh32(data[len(_LZ4_MAGIC) : end]) >> 8 & 0xFF
        data = data[:end] + bytes((checksum,)) + data[end + 1 :]
    return unpack(Codec.LZ4, data, limit)


def _xxh32(data: bytes) -> int:
    """The hash XXH32, with seed 0, of fewer than 16 bytes."""
    value = (_XXH32_PRIMES[5] + len(data)) & _UINT32_MAX
    whole = len(data) & ~3
    for (word,) in _UINT32_LE.iter_unpack(data[:whole]):
        value = _rotated(value + word * _XXH32_PRIMES[3], 17) * _XXH32_PRIMES[4] & _UINT32_MAX
    for byte in data[whole:]:
        value = _rotated(value + byte * _XXH32_PRIMES[5], 11) * _XXH32_PRIMES[1] & _UINT32_MAX
    value = (value ^ value >> 15) * _XXH32_PRIMES[2] & _UINT32_MAX
    value = (value ^ value >> 13) * _XXH32_PRIMES[3] & _UINT32_MAX
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32_MAX
    return (value << bits | value >> (32 - bits)) & _UINT32_MAX


def _unpack_snappy(data: bytes, limit: int) -> bytes:
    pieces: list[bytes] = []
    room = limit
    for block in _snappy_blocks(data):
        try:
            if cramjam.snappy.decompress_raw_len(block) > room:
                raise _too_much(limit)
            pieces.append(bytes(cramjam.snappy.decompress_raw(block)))
        except cramjam.DecompressionError as failure:
            raise _no_snappy(failure) from None
        room -= len(pieces[-1])
    return b"".join(pieces)


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of a xerial stream; data without xerial's header is one bare block."""
    if not data.startswith(_XERIAL_MAGIC):
        yield data
        return
    position, blocks = len(_XERIAL_HEADER), 0
    while position < len(data):
        blocks += 1
        if blocks > MOST_PARTS:
            raise CorruptRecord(f"A snappy batch has more than {MOST_PARTS} blocks")
        if position + _INT32.size > len(data):
            raise CorruptRecord("A snappy batch ends within a block's length")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= size <= len(data) - position:
            raise CorruptRecord(f"A snappy block of {size} bytes, {len(data) - position} are there")
        yield data[position : position + size]
        position += size


def _no_snappy(failure: cramjam.DecompressionError) -> CorruptRecord:
    return CorruptRecord(f"A snappy batch cannot be unpacked: {failure}")


def _unpack_frame(codec: Codec, data: bytes, limit: int) -> bytes:
    room = min(limit, len(data) * _FIRST_GUESS + 1024)
    while True:
        unpacked = bytearray(room)
        size = _decompressed_into(codec, data, unpacked)
        if size is not None:
            return bytes(memoryview(unpacked)[:size])
        if room >= limit:
            raise _too_much(limit)
        room = min(limit, room * _FIRST_GUESS)


def _decompressed_into(codec: Codec, data: bytes, room: bytearray | mmap) -> int | None:
    """Unpacks a frame into ``room``: the number of bytes, or None if ``room`` is too small."""
    unpacker = cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd
    try:
        return int(unpacker.decompress_into(data, room))
    except cramjam.DecompressionError as failure:
        # cramjam has one exception for all errors: only its text says that the room was too small.
        if "whole buffer" in str(failure):
            return None
        raise CorruptRecord(f"A {codec.name.lower()} batch cannot be unpacked: {failure}") from None
