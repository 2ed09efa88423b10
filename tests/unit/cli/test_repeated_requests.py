"""A change that the controller is asked for again: what a refusal of the repetition says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponseBroker
from kio.schema.types import BrokerId
from kio.static.primitive import i16, i32
from kio.static.protocol import ResponsePayload

from kafka_common.net.client_security import PLAINTEXT
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import response_type
from tests.support.messages import random_message
from tests.support.wire_peer import HANG_UP, WirePeer

admin: Any = import_module("zkcontroller_cli.wire.admin")
errors: Any = import_module("zkcontroller_cli.console.errors")
moves: Any = import_module("zkcontroller_cli.values.moves")
options: Any = import_module("zkcontroller_cli.console.options")
requests: Any = import_module("zkcontroller_cli.wire.requests")
scram: Any = import_module("zkcontroller_cli.wire.scram")
topics: Any = import_module("zkcontroller_cli.wire.topics")
users: Any = import_module("zkcontroller_cli.values.users")

FIRST_TRY: Final = 2
"""Its connection: the first one asks who the controller is."""
ORDERS_0: Final = moves.NamedPartition("orders", 0)


class Said(NamedTuple):
    """How one partition or topic was answered."""

    error: str | None
    reason: str | None


async def created(bootstrap: Any, deadline: Any, *, is_dry_run: bool = False) -> Said:
    wanted = topics.creatable("orders", 1, 1, {}, None)
    result = await requests.create_topic(bootstrap, deadline, wanted, is_dry_run=is_dry_run)
    return Said(result.error_code.name.upper(), result.error_message)


async def created_in_a_dry_run(bootstrap: Any, deadline: Any) -> Said:
    return await created(bootstrap, deadline, is_dry_run=True)


async def deleted(bootstrap: Any, deadline: Any) -> Said:
    [result] = await requests.delete_topics_named(bootstrap, deadline, ["orders"])
    return Said(result.error_code.name.upper(), result.error_message)


async def grown(bootstrap: Any, deadline: Any) -> Said:
    result = await admin.add_partitions(bootstrap, deadline, "orders", 2, None, is_dry_run=False)
    return Said(result.error_code.name.upper(), result.error_message)


async def cancelled(bootstrap: Any, deadline: Any) -> Said:
    [verdict] = await admin.reassign(bootstrap, deadline, [(ORDERS_0, None)])
    return Said(verdict.error, verdict.reason)


async def elected(bootstrap: Any, deadline: Any) -> Said:
    [verdict] = await admin.elect(bootstrap, deadline, [ORDERS_0], is_unclean=False)
    return Said(verdict.error, verdict.reason)


async def user_deleted(bootstrap: Any, deadline: Any) -> Said:
    change = users.CredentialChange("anna", "SCRAM-SHA-256", None)
    refusal = (await scram.alter_credentials(bootstrap, deadline, [change]))["anna"]
    return Said(refusal.error, refusal.reason)


class Change(NamedTuple):
    """A request, and how a controller refuses it that has carried it out before."""

    ask: Callable[[Any, Any], Awaitable[Said]]
    api_key: ApiKey
    refusal: ErrorCode


CHANGES: Final = (
    Change(created, ApiKey.CREATE_TOPICS, ErrorCode.topic_already_exists),
    Change(deleted, ApiKey.DELETE_TOPICS, ErrorCode.unknown_topic_or_partition),
    Change(grown, ApiKey.CREATE_PARTITIONS, ErrorCode.invalid_partitions),
    Change(cancelled, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ErrorCode.no_reassignment_in_progress),
    Change(user_deleted, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ErrorCode.resource_not_found),
)


async def asked(
    change: Change,
    *,
    hangs_up_at: ApiKey | None,
    refusal: ErrorCode | None = None,
    is_gone_then: bool = False,
    has_moved: bool = False,
) -> Said:
    """What the caller gets of a controller that hangs up once, and then refuses.

    ``has_moved``: instead of hanging up, it is the controller no more.
    """

    async def answer(key: int, version: int, _: Any) -> ResponsePayload | object:
        if peer.connections > FIRST_TRY and is_gone_then:
            return HANG_UP
        if key == hangs_up_at and peer.connections == FIRST_TRY:
            return HANG_UP
        if key == ApiKey.API_VERSIONS:
            known = (ApiKey.METADATA, 12), (change.api_key, 7), (ApiKey.API_VERSIONS, 0)
            return ApiVersionsResponse(
                error_code=ErrorCode.none,
                api_keys=tuple(
                    ApiVersion(api_key=i16(each), min_version=i16(0), max_version=i16(most))
                    for each, most in known
                ),
            )
        kind = response_type(key, version)
        if key == ApiKey.METADATA:
            here = MetadataResponseBroker(
                node_id=BrokerId(1), host="127.0.0.1", port=i32(peer.port), rack=None
            )
            return filled(kind, brokers=(here,), controller_id=BrokerId(1), topics=())
        if has_moved and peer.connections == FIRST_TRY:
            moved: Any = filled(kind)
            refused: ResponsePayload = replace(moved, error_code=ErrorCode.not_controller)
            return refused
        code = change.refusal if refusal is None else refusal
        answered = filled(kind, error_code=code, name="orders", user="anna")
        if isinstance(answered, AlterPartitionReassignmentsResponse | ElectLeadersResponse):
            return replace(answered, error_code=ErrorCode.none)
        return answered

    peer = WirePeer(answer)
    await peer.listen()
    try:
        bootstrap = options.Bootstrap(f"127.0.0.1:{peer.port}", PLAINTEXT)
        return await change.ask(bootstrap, requests.Deadline(30))
    finally:
        await peer.close()


def filled(kind: type[ResponsePayload], **fixed: Any) -> ResponsePayload:
    """A response of that class, with one element in each list, and these values at any depth."""
    values: Mapping[str, Any] = {"error_code": ErrorCode.none, "error_message": "it says no"}
    return random_message(Random(1), kind, {**values, **fixed}, (1,))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.api_key.name)
def test_a_refusal_that_the_lost_first_try_may_have_caused_is_no_refusal(change: Change) -> None:
    said = asyncio.run(asked(change, hangs_up_at=change.api_key))

    assert said.error == "REQUEST_TIMED_OUT"
    assert said.reason is not None
    assert said.reason.startswith(
        "it says no, when it was asked again; whether an earlier try did it is not known, for "
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.api_key.name)
@pytest.mark.parametrize("hangs_up_at", [None, ApiKey.API_VERSIONS], ids=["answers", "unsent"])
def test_a_refusal_of_a_request_that_was_sent_once_stays_one(
    change: Change, hangs_up_at: ApiKey | None
) -> None:
    said = asyncio.run(asked(change, hangs_up_at=hangs_up_at))

    assert said == (change.refusal.name.upper(), "it says no")


def test_a_refusal_for_another_reason_stays_one_and_a_dry_run_has_done_nothing() -> None:
    create = CHANGES[0]
    dry = create._replace(ask=created_in_a_dry_run)

    invalid = asyncio.run(
        asked(create, hangs_up_at=create.api_key, refusal=ErrorCode.invalid_replication_factor)
    )
    checked = asyncio.run(asked(dry, hangs_up_at=create.api_key))

    assert invalid == ("INVALID_REPLICATION_FACTOR", "it says no")
    assert checked == ("TOPIC_ALREADY_EXISTS", "it says no")


@pytest.mark.parametrize(
    "change",
    [CHANGES[3], Change(elected, ApiKey.ELECT_LEADERS, ErrorCode.election_not_needed)],
    ids=lambda change: change.api_key.name,
)
def test_a_controller_that_has_moved_is_looked_for_again(change: Change) -> None:
    said = asyncio.run(asked(change, hangs_up_at=None, has_moved=True))

    assert said == (change.refusal.name.upper(), "it says no")


def test_a_change_whose_answer_never_came_is_not_said_to_have_failed() -> None:
    with pytest.raises(errors.TimedOut, match="whether an earlier try did it is not known, for"):
        asyncio.run(asked(CHANGES[0], hangs_up_at=CHANGES[0].api_key, is_gone_then=True))


async def test_a_list_of_credentials_that_kafka_never_answers_names_the_right_that_may_lack() -> (
    None
):
    """Kafka 3.9.1 meets a NullPointerException while it refuses the list of all users."""
    has_ended = asyncio.Event()

    async def answer(key: int, _: int, __: Any) -> ResponsePayload | object:
        if key != ApiKey.API_VERSIONS:
            await has_ended.wait()
            return HANG_UP
        known = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0), (ApiKey.API_VERSIONS, 0)
        return ApiVersionsResponse(
            error_code=ErrorCode.none,
            api_keys=tuple(
                ApiVersion(api_key=i16(each), min_version=i16(0), max_version=i16(most))
                for each, most in known
            ),
        )

    peer = WirePeer(answer)
    await peer.listen()
    try:
        bootstrap = options.Bootstrap(f"127.0.0.1:{peer.port}", PLAINTEXT)
        with pytest.raises(errors.TimedOut, match="without Describe on the cluster"):
            await scram.describe_credentials(bootstrap, requests.Deadline(0.1))
    finally:
        has_ended.set()
        await peer.close()
