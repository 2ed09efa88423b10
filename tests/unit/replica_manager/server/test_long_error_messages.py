"""An error message that quotes a long value of the client is clipped, and the answer arrives."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import read_response
from kafka_common.protocol.primitives import MAX_STRING_BYTES
from kafka_common.protocol.responses import LONGEST_MESSAGE, clipped, write_response
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.handlers import list_groups
from tests.support.request_shapes import requests_with
from tests.unit.replica_manager.server.large_world import LargeWorld

LONG: Final = "x" * MAX_STRING_BYTES
REQUESTS: Final = {
    api_key: list(requests)
    for api_key, requests in groupby(requests_with(LONG), lambda each: int(each.__api_key__))
    # Its refusals have points in time of -1, which kio does not read.
    if api_key != ApiKey.CREATE_DELEGATION_TOKEN
}
QUOTING: Final = (
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)
"""Their errors quote what the client sent."""


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> LargeWorld:
    return LargeWorld(executor, tmp_path, broker__id="1", auto__create__topics__enable="false")


@pytest.mark.parametrize("api_key", REQUESTS, ids=lambda api_key: APIS[api_key].name)
async def test_the_longest_strings_of_a_request_are_answered(
    world: LargeWorld, api_key: int, caplog: pytest.LogCaptureFixture
) -> None:
    await world.fill(1)
    # Their reader is as strict as that of a client of Kafka.
    responses = [await world.ask(request) for request in REQUESTS[api_key]]
    await world.end()

    assert not [each for each in caplog.records if "Error when handling" in each.getMessage()]
    if api_key in QUOTING:
        assert any(
            LONG[: LONGEST_MESSAGE // 2] in repr(each) and "…" in repr(each) for each in responses
        )


@pytest.mark.parametrize("version", [0, 2])
def test_an_answer_that_cannot_be_encoded_is_refused_and_the_connection_kept(
    world: LargeWorld, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = response_schema(ApiKey.LIST_GROUPS, version)
    group = schema.part("ListedGroup", group_id=LONG + "y", protocol_type="consumer")
    impossible = schema.response(
        error_code=ErrorCode.none, groups=(group,) if version < 3 else None
    )

    async def list_groups_impossibly(*_: object) -> Any:
        return impossible

    monkeypatch.setattr(list_groups, "handle", list_groups_impossibly)
    response = asyncio.run(world.tell("list_groups", version))

    assert response.error_code is ErrorCode.unknown_server_error
    assert not world.is_closed


def test_a_message_that_fits_is_left_as_it_is() -> None:
    response = one_refusal("é" * (MAX_STRING_BYTES // 2))

    assert read_response(ApiKey.ALTER_CONFIGS, 2, write_response(response)) == response


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_one_byte_too_long_is_clipped(version: int) -> None:
    response = one_refusal("é" * (MAX_STRING_BYTES // 2 + 1), version)

    sent: Any = read_response(ApiKey.ALTER_CONFIGS, version, write_response(response))

    assert sent.responses[0].error_message == "é" * LONGEST_MESSAGE + "…"
    assert clipped(sent.responses[0].error_message) == sent.responses[0].error_message


def one_refusal(message: str, version: int = 2) -> Any:
    schema = response_schema(ApiKey.ALTER_CONFIGS, version)
    row = schema.part(
        "AlterConfigsResourceResponse",
        error_code=ErrorCode.invalid_config,
        error_message=message,
        resource_type=2,
        resource_name="orders",
    )
    return schema.response(responses=(row,))
