"""Answers that coroutines wait for, by the id of their requests."""

from __future__ import annotations

import asyncio

import pytest

from kafka_common.net.awaited_answers import AwaitedAnswers


async def asked(answers: AwaitedAnswers[str]) -> tuple[int, asyncio.Task[str]]:
    """A request that waits for its answer."""
    request_id = answers.new_id()

    async def ask() -> str:
        with answers.expected(request_id) as answer:
            return await answer

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    return request_id, task


def test_each_answer_reaches_the_request_with_its_id() -> None:
    async def steps() -> list[str]:
        answers = AwaitedAnswers[str]()
        (first, one), (second, other) = await asked(answers), await asked(answers)
        assert len(answers) == 2

        answers.answer(second, "b")
        answers.answer(first, "a")

        results = [await one, await other]
        assert len(answers) == 0
        return results

    assert asyncio.run(steps()) == ["a", "b"]


def test_an_answer_is_dropped_when_its_request_has_ended_or_has_one() -> None:
    async def steps() -> str:
        answers = AwaitedAnswers[str]()
        gone, cancelled = await asked(answers)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        request_id, task = await asked(answers)

        answers.answer(gone, "late")
        answers.refuse(gone, OSError("late"))
        answers.answer(request_id, "first")
        answers.answer(request_id, "second")
        answers.refuse(request_id, OSError("third"))

        return await task

    assert asyncio.run(steps()) == "first"


def test_a_refused_request_ends_by_its_error() -> None:
    async def steps() -> None:
        answers = AwaitedAnswers[str]()
        request_id, task = await asked(answers)

        answers.refuse(request_id, TimeoutError("too late"))

        with pytest.raises(TimeoutError, match="too late"):
            await task

    asyncio.run(steps())


def test_the_end_refuses_every_request_by_an_error_of_its_own() -> None:
    async def steps() -> list[object]:
        answers = AwaitedAnswers[str]()
        tasks = [(await asked(answers))[1] for _ in range(3)]

        answers.refuse_all(lambda: ConnectionAbortedError("the end"))

        return list(await asyncio.gather(*tasks, return_exceptions=True))

    errors = asyncio.run(steps())

    assert [str(error) for error in errors] == ["the end"] * 3
    assert len({id(error) for error in errors}) == 3


def test_the_end_cancels_every_request_that_has_no_answer_yet() -> None:
    async def steps() -> tuple[str, bool]:
        answers = AwaitedAnswers[str]()
        (answered, one), (_, other) = await asked(answers), await asked(answers)
        answers.answer(answered, "in time")

        answers.cancel_all()

        await asyncio.gather(other, return_exceptions=True)
        return await one, other.cancelled()

    assert asyncio.run(steps()) == ("in time", True)
