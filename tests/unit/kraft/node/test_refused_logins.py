"""What a quorum node sends where a connection has not logged in."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response
from kraft.node.quorum_requests import refusal
from kraft.raft.wire import OFFERED
from tests.support.frames import parse_response_header, request_header


def test_every_offered_request_is_refused_in_its_version_and_no_other_one() -> None:
    error = ErrorCode.illegal_sasl_state
    for key, (first, last) in OFFERED.items():
        for version in range(first, last + 1):
            refused = refusal(request_header(key, version, 7, "admin"), error)
            assert refused is not None
            correlation_id, start = parse_response_header(key, version, refused[4:])

            assert correlation_id == 7
            response = read_response(key, version, refused[4:], start)
            # Other responses have errors of single items alone, and the items were not read.
            assert getattr(response, "error_code", error) is error
        assert refusal(request_header(key, last + 1, 7, "admin"), error) is None
    assert refusal(request_header(int(ApiKey.PRODUCE), 9, 7, "producer"), error) is None
