"""Responses that coroutines wait for, by the id of their requests."""

from __future__ import annotations

import asyncio

import pytest

from kafka_common.net.awaited_responses import AwaitedResponses


async def asked(responses: AwaitedResponses[str]) -> tuple[int, asyncio.Task[str]]:
    """A request that waits for its response."""
    request_id = responses.new_id()

    async def ask() -> str:
        with responses.expected(request_id) as response:
            return await response

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    return request_id, task


def test_each_answer_reaches_the_request_with_its_id() -> None:
    async def steps() -> list[str]:
        responses = AwaitedResponses[str]()
        (first, one), (second, other) = await asked(responses), await asked(responses)
        assert len(responses) == 2

        responses.complete(second, "b")
        responses.complete(first, "a")

        results = [await one, await other]
        assert len(responses) == 0
        return results

    assert asyncio.run(steps()) == ["a", "b"]


def test_an_answer_is_dropped_when_its_request_has_ended_or_has_one() -> None:
    async def steps() -> str:
        responses = AwaitedResponses[str]()
        gone, cancelled = await asked(responses)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        request_id, task = await asked(responses)

        responses.complete(gone, "late")
        responses.refuse(gone, OSError("late"))
        responses.complete(request_id, "first")
        responses.complete(request_id, "second")
        responses.refuse(request_id, OSError("third"))

        return await task

    assert asyncio.run(steps()) == "first"


async def test_a_refused_request_ends_by_its_error() -> None:
    responses = AwaitedResponses[str]()
    request_id, task = await asked(responses)

    responses.refuse(request_id, TimeoutError("too late"))

    with pytest.raises(TimeoutError, match="too late"):
        await task


def test_the_end_refuses_every_request_by_an_error_of_its_own() -> None:
    async def steps() -> list[object]:
        responses = AwaitedResponses[str]()
        tasks = [(await asked(responses))[1] for _ in range(3)]

        responses.refuse_all(lambda: ConnectionAbortedError("the end"))

        return list(await asyncio.gather(*tasks, return_exceptions=True))

    errors = asyncio.run(steps())

    assert [str(error) for error in errors] == ["the end"] * 3
    assert len({id(error) for error in errors}) == 3


def test_the_end_cancels_every_request_that_has_no_answer_yet() -> None:
    async def steps() -> tuple[str, bool]:
        responses = AwaitedResponses[str]()
        (answered, one), (_, other) = await asked(responses), await asked(responses)
        responses.complete(answered, "in time")

        responses.cancel_all()

        await asyncio.gather(other, return_exceptions=True)
        return await one, other.cancelled()

    assert asyncio.run(steps()) == ("in time", True)
