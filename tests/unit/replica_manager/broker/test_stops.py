"""The stops of a broker's parts."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

from replica_manager.broker.stops import Stops, StopStep


def test_parts_stop_in_kafkas_order_whatever_the_order_in_which_they_were_made() -> None:
    stops, called = Stops(), list[str]()

    async def note(what: str) -> None:
        called.append(what)

    for step in reversed(StopStep):
        stops.add(step, partial(note, step.value))
    stops.add(StopStep.RECORDS, partial(note, "groups"), partial(note, "fetchers"))

    asyncio.run(stops.run(""))

    assert called == [
        "following",
        "listeners",
        "producer ids",
        "records",
        "groups",
        "fetchers",
        "storage",
        "controller",
        "metadata",
        "executor",
    ]


def test_a_stop_that_fails_is_logged_and_keeps_no_other_from_being_tried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stops, called = Stops(), list[str]()

    async def fail() -> None:
        raise OSError("the disk is gone")

    async def close() -> None:
        called.append("closed")

    stops.add(StopStep.STORAGE, fail)
    stops.add(StopStep.METADATA, close)

    with caplog.at_level(logging.ERROR):
        asyncio.run(stops.run("[KafkaServer id=1] "))

    assert called == ["closed"]
    assert caplog.messages == ["[KafkaServer id=1] Error while shutting down"]


def test_the_parts_see_that_the_broker_stops_while_they_are_stopped() -> None:
    stops, seen = Stops(), list[bool]()

    async def look() -> None:
        seen.append(stops.is_stopping())

    stops.add(StopStep.FOLLOWING, look)

    assert not stops.is_stopping()
    asyncio.run(stops.run(""))

    assert seen == [True]
