"""Bytes from a peer that means harm, or is broken: one kind of error, little memory, no hang."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from kio.schema.index import api_key_map, schema_name_map

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.framing import parse_request_header
from kafka_common.protocol.messages import (
    read_request,
    read_response,
    request_type,
    response_type,
    write,
)
from kafka_common.protocol.primitives import unsigned_varint
from kafka_common.protocol.wire_guard import MOST_TAGS, checked
from tests.support.frames import parse_response_header
from tests.support.memory import peak_bytes

MUTANTS: Final = 10_000
MAX_BYTES_PER_FRAME_BYTE: Final = 400
"""What a message may take in memory per byte on the wire: some 100 bytes a field."""

HUGE_COMPACT: Final = b"\xff\xff\xff\xff\x07"
HUGE_FIXED: Final = struct.pack(">i", 2**31 - 1)

STOP_REPLICA_2_HEAD: Final = struct.pack(">iiqb", 1, 1, 1, 0)
LEADER_AND_ISR_1_HEAD: Final = struct.pack(">iiih", 1, 1, 1, 1) + b"a" + bytes(16)
NO_TAGS: Final = b"\x00"


def _frames() -> list[bytes]:
    path = Path(__file__).parent / "data" / "frames-3.9.1.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [bytes.fromhex(line["frame_hex"]) for line in lines if "frame_hex" in line]


def _mutant(random: Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(random.randint(1, 4)):
        position = random.randrange(len(data)) if data else 0
        match random.randrange(6):
            case 0:
                data[position : position + 1] = bytes([random.randrange(256)])
            case 1:
                data[position : position + 5] = HUGE_COMPACT
            case 2:
                data[position : position + 4] = HUGE_FIXED
            case 3:
                del data[position : position + random.randint(1, 20)]
            case 4:
                data[position:position] = random.randbytes(random.randint(1, 20))
            case _:
                del data[position:]
    return bytes(data)


def _read_frame(frame: bytes) -> None:
    header, offset = parse_request_header(frame)
    read_request(header.api_key, header.api_version, frame, offset)


def test_ten_thousand_mutants_end_in_a_message_or_in_invalid_frame() -> None:
    random = Random(391)
    frames = _frames()
    for frame in frames:
        _read_frame(frame)  # classes and walks are made outside of the measurement
    refused = 0
    longest_ms = 0.0
    tracemalloc.start()
    try:
        for _ in range(MUTANTS):
            mutant = _mutant(random, random.choice(frames))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            started = time.perf_counter()
            try:
                _read_frame(mutant)
            except InvalidFrame:
                refused += 1
            longest_ms = max(longest_ms, (time.perf_counter() - started) * 1000)
            peak = tracemalloc.get_traced_memory()[1] - before
            # 1 MiB on top: a mutated version loads a schema module for the first time.
            assert peak < MAX_BYTES_PER_FRAME_BYTE * len(mutant) + 2**20, mutant.hex()
    finally:
        tracemalloc.stop()

    assert MUTANTS / 3 < refused < MUTANTS
    assert longest_ms < 5000


def test_random_bytes_are_a_message_or_refused_in_every_version() -> None:
    random = Random(7)
    for api_key, name in api_key_map.items():
        for version in schema_name_map[name]:
            for read, type_of in ((read_request, request_type), (read_response, response_type)):
                message = type_of(api_key, version)
                for size in (0, 1, 7, 60):
                    for data in (
                        random.randbytes(size),
                        bytes(size),
                        HUGE_COMPACT * (size // 5 + 1),
                    ):
                        # By luck the bytes are a message; any other exception fails the test.
                        with suppress(InvalidFrame):
                            found = read(api_key, version, data)
                            assert type(found).__name__ == message.__name__


@pytest.mark.parametrize(
    ("api_key", "version", "data"),
    [
        pytest.param(3, 1, HUGE_FIXED, id="an array of structures"),
        pytest.param(3, 12, HUGE_COMPACT, id="a compact array of structures"),
        pytest.param(3, 12, b"\xff\xff\xff\xff\x0f", id="a compact array of 2^32 - 2 structures"),
        pytest.param(4, 1, LEADER_AND_ISR_1_HEAD + HUGE_FIXED, id="an array of numbers"),
        pytest.param(
            5, 2, STOP_REPLICA_2_HEAD + b"\x02\x02a" + HUGE_COMPACT, id="a compact array of numbers"
        ),
        pytest.param(3, 12, b"\x02" + bytes(16) + HUGE_COMPACT, id="a compact string"),
        pytest.param(3, 1, b"\0\0\0\x01\x7f\xff", id="a string"),
        pytest.param(3, 12, b"\x01\0\0" + HUGE_COMPACT, id="tagged fields"),
        pytest.param(1, 17, bytes(21) + b"\x01\x01\x01\x01\x01\x01" + HUGE_COMPACT, id="a size"),
    ],
)
def test_a_length_beyond_the_frame_is_refused_before_memory_is_reserved(
    api_key: int, version: int, data: bytes
) -> None:
    def refused() -> None:
        with pytest.raises(InvalidFrame):
            read_request(api_key, version, data)

    assert peak_bytes(refused) < 2**20


def test_an_array_cannot_be_longer_than_its_smallest_items_fit() -> None:
    # 200 topics of Metadata 12 take 18 bytes each at the least: an id, no name, no tagged field.
    with pytest.raises(InvalidFrame, match="200 items announced, 200 bytes left"):
        checked(request_type(3, 12), b"\xc9\x01" + bytes(200), 0)


def test_a_process_with_little_memory_survives_what_would_end_it_without_the_guard() -> None:
    # kio's allocations are Rust's: tracemalloc does not see them, and a failing one aborts.
    program = """
import resource
from kafka_common.errors import InvalidFrame
from kafka_common.protocol.messages import read_request, request_type
request_type(3, 12)
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
try:
    read_request(3, 12, bytes.fromhex("ffffffff0f"))
except InvalidFrame:
    print("alive")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert run.stdout == "alive\n", run.stderr[:500]


@pytest.mark.parametrize(
    ("api_key", "version", "data"),
    [
        pytest.param(5, 2, STOP_REPLICA_2_HEAD + b"\x00" + NO_TAGS, id="a compact array"),
        pytest.param(5, 2, STOP_REPLICA_2_HEAD + b"\x02\x00\x01\0\0", id="a compact string"),
        pytest.param(4, 1, LEADER_AND_ISR_1_HEAD + b"\xff\xff\xff\xff" + bytes(40), id="an array"),
        pytest.param(3, 1, b"\0\0\0\x01\xff\xff", id="a string"),
    ],
)
def test_null_is_refused_where_the_schema_has_none(api_key: int, version: int, data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        read_request(api_key, version, data)


def test_null_is_read_where_the_schema_has_it() -> None:
    assert _topics(read_request(3, 1, b"\xff\xff\xff\xff")) is None
    assert _topics(read_request(3, 12, b"\x00\x01\x00\x00")) is None
    assert _topics(read_request(3, 1, b"\0\0\0\0")) == ()


def _topics(request: Any) -> object:
    return request.topics


def test_unknown_tagged_fields_are_skipped_wherever_they_stand() -> None:
    clean: Any = read_request(3, 12, b"\x02" + bytes(16) + b"\x02a" + NO_TAGS + b"\x01\x00\x00")
    unknown = b"\x02\x07\x03abc\x09\x00"  # tag 7 of three bytes, tag 9 of none
    tagged = b"\x02" + bytes(16) + b"\x02a" + unknown + b"\x01\x00" + unknown

    assert read_request(3, 12, tagged) == clean
    assert read_request(3, 12, b"zz" + tagged, 2) == clean
    assert write(clean)[-4:] == b"\x00\x01\x00\x00"


def test_known_tagged_fields_are_read_next_to_unknown_ones() -> None:
    module = sys.modules[response_type(18, 3).__module__]
    known = write(
        module.ApiVersionsResponse(
            error_code=module.ErrorCode.none,
            api_keys=(),
            throttle_time=_no_time(),
            finalized_features_epoch=module.i64(5),
        )
    )
    assert known.endswith(b"\x01\x01\x08" + (5).to_bytes(8, "big"))
    with_unknown = known[:-11] + b"\x02" + known[-10:] + b"\x63\x02hi"

    response: Any = read_response(18, 3, with_unknown)

    assert response == read_response(18, 3, known)
    assert response.finalized_features_epoch == 5


def _no_time() -> object:
    empty: Any = read_response(18, 1, bytes(10))
    return empty.throttle_time


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x01\x01\x07" + bytes(8), id="announced shorter than it is"),
        pytest.param(b"\x01\x01\x09" + bytes(9), id="announced longer than it is"),
        pytest.param(b"\x02\x01\x08" + bytes(8) + b"\x01\x08" + bytes(8), id="twice"),
        pytest.param(b"\x02\x09\x00\x01\x08" + bytes(8), id="out of order"),
    ],
)
def test_a_tagged_field_that_contradicts_itself_is_refused(tags: bytes) -> None:
    with pytest.raises(InvalidFrame):
        read_response(18, 3, b"\0\0\x01\0\0\0\0" + tags)


def test_bytes_behind_a_message_are_ignored() -> None:
    assert _topics(read_request(3, 1, b"\0\0\0\0" + b"trailing")) == ()


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidFrame):
        read_request(3, 1, b"\0\0\0\x01\0\x01\xff")


def test_headers_cut_short_anywhere_are_refused() -> None:
    for frame in _frames():
        _, end = parse_request_header(frame)
        for size in range(end):
            with pytest.raises(InvalidFrame):
                parse_request_header(frame[:size])
    for size in range(5):
        with pytest.raises(InvalidFrame):
            parse_response_header(4, 7, bytes(5)[:size])


def many_tags(count: int) -> bytes:
    return unsigned_varint(count) + b"".join(
        unsigned_varint(1_000 + number) + b"\0" for number in range(count)
    )


@pytest.mark.parametrize("is_header", [True, False])
def test_a_section_of_too_many_tagged_fields_is_refused_before_they_are_skipped(
    is_header: bool,
) -> None:
    head = struct.pack(">hhih", 3, 12, 1, 1) + b"a"
    body = b"\0\0\0"  # every topic, and two booleans

    def read(tags: bytes) -> None:
        if is_header:
            parse_request_header(head + tags + body + NO_TAGS)
        else:
            read_request(3, 12, body + tags)

    read(many_tags(MOST_TAGS))
    with pytest.raises(InvalidFrame, match=f"{MOST_TAGS} are allowed"):
        read(many_tags(MOST_TAGS + 1))
