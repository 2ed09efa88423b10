"""What a file holds, unpacked: whichever way it is packed, and up to its damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest

from kafka_history.readers.content import (
    STEP_BYTES,
    Content,
    beginning_of,
    digest_of,
    size_of,
)
from tests.support.memory import peak_bytes

TEXT = b"".join(b"[2026-11-20 18:08:31,404] INFO line %d\n" % (n**3) for n in range(40_000))


def zst(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content))


def plain(content: bytes) -> bytes:
    return content


FORMATS = pytest.mark.parametrize(
    ("name", "packed"),
    [("a.log", plain), ("a.log.gz", gzip.compress), ("a.log.zst", zst)],
    ids=["plain", "gzip", "zst"],
)
PACKED = pytest.mark.parametrize(
    ("name", "packed"), [("a.log.gz", gzip.compress), ("a.log.zst", zst)], ids=["gzip", "zst"]
)
Packer = Callable[[bytes], bytes]


@FORMATS
def test_every_format_gives_the_same_bytes_from_any_place(
    tmp_path: Path, name: str, packed: Packer
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(TEXT))

    for start in (0, 1, STEP_BYTES - 1, STEP_BYTES, 3 * STEP_BYTES + 7, len(TEXT) - 1, len(TEXT)):
        content = Content(path, start, step_bytes=100_000)
        assert b"".join(content) == TEXT[start:], start
        assert content.damage is None
    assert beginning_of(path, 1_000) == TEXT[:1_000]
    assert size_of(path) == len(TEXT)


@PACKED
def test_a_file_of_several_packed_parts_is_read_to_its_end(
    tmp_path: Path, name: str, packed: Packer
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(TEXT[:100_000]) + packed(TEXT[100_000:]))

    assert b"".join(Content(path)) == TEXT


@PACKED
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "changed"])
def test_damage_ends_a_file_and_a_sentence_says_where(
    tmp_path: Path, name: str, packed: Packer, is_cut: bool
) -> None:
    path = tmp_path / name
    whole = packed(TEXT)
    middle = len(whole) * 3 // 4
    path.write_bytes(whole[:middle] if is_cut else whole[:middle] + b"\xff" * 5_000)

    content = Content(path)
    read = b"".join(content)

    # What was changed may be unpacked for some bytes before it is found out.
    assert TEXT.startswith(read if is_cut else read[: len(TEXT) // 3])
    assert len(read) > len(TEXT) // 3
    kind = "gzip" if name.endswith(".gz") else "zst"
    assert (content.damage or "").startswith(f"damaged {kind}, {len(read)} bytes came out of it: ")
    assert digest_of(path) is None
    assert size_of(path) == len(read)


@pytest.mark.parametrize("name", ["a.log.gz", "a.log.zst"])
def test_a_file_that_is_not_what_its_name_says_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no packed file at all, of whatever kind, and not a short one either")

    content = Content(path)

    assert list(content) == []
    assert "0 bytes came out of it: " in (content.damage or "")
    assert beginning_of(path, 10) == b""


@PACKED
def test_a_file_that_unpacks_to_much_more_takes_bounded_memory(
    tmp_path: Path, name: str, packed: Packer
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(bytes(64 << 20)))

    assert size_of(path) == 64 << 20
    assert peak_bytes(lambda: size_of(path)) < 4 << 20


def test_a_file_that_is_gone_cannot_be_read(tmp_path: Path) -> None:
    content = Content(tmp_path / "a.log", 5)

    assert list(content) == []
    assert content.damage == "cannot be read behind byte 5: No such file or directory"
