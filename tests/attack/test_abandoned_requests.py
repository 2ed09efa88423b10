"""Clients that go away: in a frame, behind a request, and while they wait for an answer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import ApiKey
from tests.attack.campaign import Campaign
from tests.attack.checks import assert_descriptors_return, assert_serving
from tests.attack.conftest import NewBroker
from tests.attack.shapes import message
from tests.attack.values import useful
from tests.support.request_shapes import OFFERED

LONGEST_MS: Final = 2**31 - 1
CLIENTS: Final = 300
HALF_FRAMES: Final = 20
ANNOUNCED_BYTES: Final = 100 * 1024 * 1024
SENT_BYTES: Final = 50 * 1024 * 1024
QUEUED_BYTES: Final = 200_000_000
HELD_BYTES: Final = 400_000_000
"""Of resident memory for twenty half frames; a thousand megabytes were offered."""


def waiting(**values: Any) -> Callable[[str, str, str], Any]:
    """Useful values, but those fields otherwise."""

    def value(api: str, path: str, kafka_type: str) -> Any:
        name = path.rpartition(".")[2]
        return values[name] if name in values else useful(api, path, kafka_type)

    return value


LONG_POLLS: Final = {
    "Fetch": message(
        ApiKey.FETCH,
        12,
        waiting(max_wait=LONGEST_MS, min_bytes=LONGEST_MS, topic=b"attacked"),
    ),
    "Fetch of nothing": message(
        ApiKey.FETCH, 4, waiting(max_wait=LONGEST_MS, min_bytes=LONGEST_MS, topics=0)
    ),
    "Produce": message(ApiKey.PRODUCE, 8, waiting(acks=-1, timeout=LONGEST_MS)),
    "JoinGroup": message(
        ApiKey.JOIN_GROUP,
        4,
        waiting(rebalance_timeout=LONGEST_MS, session_timeout=1_800_000, group_id=b"waited"),
    ),
    "CreateTopics": message(ApiKey.CREATE_TOPICS, 5, waiting(timeout=LONGEST_MS)),
    "DeleteTopics": message(ApiKey.DELETE_TOPICS, 5, waiting(timeout=LONGEST_MS)),
    "DeleteRecords": message(ApiKey.DELETE_RECORDS, 2, waiting(timeout=LONGEST_MS)),
    "ElectLeaders": message(
        ApiKey.ELECT_LEADERS, 2, waiting(timeout=LONGEST_MS, topic_partitions=None)
    ),
}


@pytest.fixture(scope="module")
def campaign(new_broker: NewBroker) -> Iterator[Campaign]:
    with closing(Campaign(new_broker())) as campaign:
        yield campaign


@pytest.mark.parametrize("name", LONG_POLLS)
def test_who_is_waited_for_and_goes_away_leaves_no_descriptor(
    name: str, campaign: Campaign
) -> None:
    at_first = campaign.target.watch.read().descriptors
    asked = LONG_POLLS[name].framed()
    connections = [campaign.target.connect() for _ in range(CLIENTS)]
    for connection in connections:
        assert connection.send(asked)
    for connection in connections:
        connection.reset()

    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first)


def test_who_goes_away_behind_any_request_leaves_no_descriptor(campaign: Campaign) -> None:
    at_first = campaign.target.watch.read().descriptors
    for api_key, (_, last) in OFFERED.items():
        asked = message(api_key, last, useful)
        for part in (asked.framed(), asked.framed()[:-1], asked.framed()[:9]):
            connection = campaign.target.connect()
            connection.send(part)
            connection.reset()
        assert campaign.target.watch.is_alive, asked.name

    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first)
    assert campaign.target.watch.new_tracebacks() == []


def test_half_sent_frames_hold_no_more_memory_than_the_queue_allows(new_broker: NewBroker) -> None:
    target = new_broker(properties={"queued.max.request.bytes": str(QUEUED_BYTES)})
    with closing(Campaign(target)) as campaign:
        at_first = target.watch.read()
        half = struct.pack(">i", ANNOUNCED_BYTES) + b"\0" * SENT_BYTES
        connections = [target.connect() for _ in range(HALF_FRAMES)]
        for connection in connections:
            connection.send(half, patience_s=1)

        grown = target.watch.read().rss_bytes - at_first.rss_bytes
        for connection in connections:
            connection.reset()

        assert_serving(target)
        assert_descriptors_return(campaign, at_first.descriptors)
    assert grown <= HELD_BYTES


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 2**31 - 1, 104_857_601])
def test_a_frame_of_an_impossible_size_costs_its_connection_only(
    size: int, campaign: Campaign
) -> None:
    at_first = campaign.target.watch.read()
    with campaign.target.connect() as connection:
        connection.send(struct.pack(">i", size) + b"\0" * 1000)

        outcome = connection.await_answer(30)

    assert outcome.answer_bytes == 0
    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first.descriptors)
