"""Frames out of a stream of bytes, and headers in front of bodies."""

from __future__ import annotations

import pytest

from kafka_common.errors import InvalidFrame, UnsupportedVersion
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.framing import (
    RequestHeader,
    parse_request_header,
    response_header,
)
from tests.support.frames import parse_response_header, request_header


@pytest.mark.parametrize("client_id", [None, "", "1", "ünï"])
def test_request_headers_survive_a_round_trip_in_every_api_and_version(
    client_id: str | None,
) -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            has_none = (api.key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0)
            header = RequestHeader(api.key, version, -7, None if has_none else client_id)

            encoded = request_header(*header)

            assert parse_request_header(encoded + b"body") == (header, len(encoded))


def test_response_headers_survive_a_round_trip_in_every_api_and_version() -> None:
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            encoded = response_header(api.key, version, 2**31 - 1)

            assert parse_response_header(api.key, version, encoded + b"body") == (
                2**31 - 1,
                len(encoded),
            )


def test_headers_are_laid_out_as_kafka_does() -> None:
    assert request_header(7, 0, 5, "x") == bytes.fromhex("0007 0000 00000005")
    assert request_header(4, 1, 5, "x") == bytes.fromhex("0004 0001 00000005 0001 78")
    assert request_header(4, 7, 5, None) == bytes.fromhex("0004 0007 00000005 ffff 00")
    assert response_header(4, 7, 5) == bytes.fromhex("00000005 00")
    assert response_header(18, 4, 5) == bytes.fromhex("00000005")


def test_tagged_fields_of_headers_are_skipped() -> None:
    tags = b"\x02\x00\x03abc\x05\x00"
    header = request_header(4, 7, 5, "x")[:-1] + tags

    assert parse_request_header(header + b"body") == (RequestHeader(4, 7, 5, "x"), len(header))
    assert parse_response_header(4, 7, b"\0\0\0\x05" + tags + b"body") == (5, 4 + len(tags))


def test_a_client_id_that_is_not_utf_8_is_read_with_replacements() -> None:
    header, _ = parse_request_header(bytes.fromhex("0004 0001 00000005 0001 ff"))

    assert header.client_id == "\ufffd"


def test_an_api_that_kafka_does_not_have_is_unsupported() -> None:
    with pytest.raises(UnsupportedVersion):
        parse_request_header(bytes.fromhex("0400 0001 00000005 0000"))


@pytest.mark.parametrize(
    "header", ["", "0004", "0004000100000005", "000400010000000500", "0004000100000005fffe"]
)
def test_headers_that_end_early_or_have_a_negative_length_are_refused(header: str) -> None:
    with pytest.raises(InvalidFrame):
        parse_request_header(bytes.fromhex(header))
