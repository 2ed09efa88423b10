"""The door between the threads."""

from __future__ import annotations

import threading

import pytest

from kafka_common.errors import EventQueueFull
from zkcontroller.core.events import (
    BrokerChange,
    BrokerModifications,
    ControlledShutdown,
    ControllerChange,
    Event,
    Expire,
    RegisterBrokerAndReelect,
    TopicChange,
    UncleanLeaderElectionEnable,
    UpdateMetadataResponseReceived,
)
from zkcontroller.runtime.event_queue import EventQueue


class Fixture:
    def __init__(self, request_capacity: int = 10) -> None:
        self.now_ms = 0.0
        self.preempted: list[tuple[Event, str]] = []
        self.queue = EventQueue(
            monotonic_ms=lambda: self.now_ms,
            preempt=lambda event: self.preempted.append((event, threading.current_thread().name)),
            request_capacity=request_capacity,
        )

    def take_all(self) -> list[Event]:
        taken = []
        while (queued := self.queue.take(0)) is not None:
            taken.append(queued.event)
        return taken


def test_events_come_out_in_the_order_in_which_they_were_put() -> None:
    f = Fixture()
    f.queue.put(BrokerChange())
    f.queue.put(TopicChange())
    f.queue.put(ControllerChange())

    assert len(f.queue) == 3
    assert f.take_all() == [BrokerChange(), TopicChange(), ControllerChange()]
    assert len(f.queue) == 0


def test_put_stamps_the_time() -> None:
    f = Fixture()
    f.now_ms = 17.5

    assert f.queue.put(BrokerChange()).enqueued_ms == 17.5


def test_a_watch_event_that_waits_is_not_queued_again() -> None:
    f = Fixture()
    first = f.queue.put(BrokerModifications(1))
    f.queue.put(BrokerModifications(2))

    assert f.queue.put(BrokerModifications(1)) is first
    assert f.take_all() == [BrokerModifications(1), BrokerModifications(2)]


def test_a_watch_event_under_way_is_queued_again_because_it_may_have_read_already() -> None:
    f = Fixture()
    f.queue.put(BrokerChange())
    f.queue.take(0)

    f.queue.put(BrokerChange())

    assert f.take_all() == [BrokerChange()]


def test_an_answer_is_queued_however_many_equal_ones_wait() -> None:
    f = Fixture()
    response = UpdateMetadataResponseReceived(1, 0)
    f.queue.put(response)
    f.queue.put(response)

    assert f.take_all() == [response, response]


def test_clear_and_put_preempts_what_was_queued_in_the_callers_thread() -> None:
    f = Fixture()
    f.queue.put(BrokerChange())
    f.queue.put(ControlledShutdown(1, 72, request_id=5))

    caller = threading.Thread(target=f.queue.clear_and_put, args=(Expire(),), name="zookeeper")
    caller.start()
    caller.join()

    assert f.preempted == [
        (BrokerChange(), "zookeeper"),
        (ControlledShutdown(1, 72, request_id=5), "zookeeper"),
    ]
    assert f.take_all() == [Expire()]


def test_a_changed_default_of_unclean_elections_outlives_a_clear() -> None:
    f = Fixture()
    for event in (
        UncleanLeaderElectionEnable(False),
        TopicChange(),
        UncleanLeaderElectionEnable(True),
    ):
        f.queue.put(event)

    f.queue.clear_and_put(Expire())

    assert f.take_all() == [Expire(), UncleanLeaderElectionEnable(True)]


def test_after_a_clear_the_same_watch_may_be_queued_again() -> None:
    f = Fixture()
    f.queue.put(TopicChange())
    f.queue.clear_and_put(Expire())

    f.queue.put(TopicChange())

    assert f.take_all() == [Expire(), TopicChange()]


def test_requests_from_outside_are_refused_when_too_many_wait() -> None:
    f = Fixture(request_capacity=2)
    f.queue.put(ControlledShutdown(1, 72, request_id=1))
    f.queue.put(ControlledShutdown(1, 72, request_id=2))

    with pytest.raises(EventQueueFull, match="2 requests already wait"):
        f.queue.put(ControlledShutdown(1, 72, request_id=3))

    f.queue.put(RegisterBrokerAndReelect())  # our own events always have room
    f.queue.take(0)
    f.queue.put(ControlledShutdown(1, 72, request_id=4))
    assert len(f.queue) == 3


def test_a_clear_makes_room_for_requests() -> None:
    f = Fixture(request_capacity=1)
    f.queue.put(ControlledShutdown(1, 72, request_id=1))
    f.queue.clear_and_put(Expire())

    f.queue.put(ControlledShutdown(1, 72, request_id=2))

    assert f.take_all() == [Expire(), ControlledShutdown(1, 72, request_id=2)]


def test_many_threads_lose_no_event_and_run_none_twice() -> None:
    f = Fixture()
    per_thread = 500

    def put_all(thread: int) -> None:
        for number in range(per_thread):
            f.queue.put(UpdateMetadataResponseReceived(thread, number))

    threads = [threading.Thread(target=put_all, args=(each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    taken: list[Event] = []
    while len(taken) < 4 * per_thread and (queued := f.queue.take(10)) is not None:
        taken.append(queued.event)
    for thread in threads:
        thread.join()

    assert len(taken) == len(set(taken)) == 4 * per_thread
    for each in range(4):
        own = [e.request_error for e in taken if isinstance(e, UpdateMetadataResponseReceived)
               and e.broker_id == each]  # fmt: skip
        assert own == sorted(own)
