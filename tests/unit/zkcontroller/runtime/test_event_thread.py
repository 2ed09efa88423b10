"""The controller-event-thread and the driver of procedures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from kafka_common.errors import EventQueueFull, SessionExpired
from kafka_common.model import ElectionType
from kafka_common.observability.metrics import Metrics
from tests.support.kafka_log_shapes import shape_of
from zkcontroller.core.effects import (
    Effect,
    MarkMeter,
    Outbox,
    Pause,
    Procedure,
    RegisterBrokerZnode,
)
from zkcontroller.core.events import (
    AllocateProducerIds,
    BrokerChange,
    ControllerState,
    ElectionTrigger,
    Event,
    Expire,
    PartitionModifications,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
    event_text,
)
from zkcontroller.runtime.driver import Driver
from zkcontroller.runtime.event_queue import EventQueue
from zkcontroller.runtime.event_thread import EventThread
from zkcontroller.zookeeper.requests import ListChildren, ReadZnodes, ZkRequest

Scenario = Callable[[Event], Generator[Any, Any, None]]

TIMEOUT_S = 10


class NumberedSession:
    """A session that answers with the number of the question, until it expires."""

    def __init__(self) -> None:
        self.session_id = 100
        self.asked: list[ZkRequest] = []

    def perform(self, request: ZkRequest, session_id: int | None = None) -> object:
        if session_id != self.session_id:
            raise SessionExpired(f"session {session_id} is over")
        self.asked.append(request)
        return len(self.asked)


class Fixture:
    """An event thread whose core tells ``story``."""

    def __init__(self, scenario: Scenario, idle_clear_s: float = 300) -> None:
        self.outbox: Outbox = []
        self.done: list[Effect] = []
        self.session = NumberedSession()
        self.metrics = Metrics()
        self.refreshed = threading.Semaphore(0)
        self.handled: list[Event] = []
        self.failed: list[tuple[Event, type[Exception]]] = []
        self._scenario = scenario
        self.queue = EventQueue(monotonic_ms=lambda: 0.0, preempt=lambda _: None)
        driver = Driver(self.outbox, self.session, lambda: 72, self._do)
        self.thread = EventThread(
            7,
            self,
            self.queue,
            driver,
            self.metrics,
            refresh_gauges=self.refreshed.release,
            on_failure=lambda event, error: self.failed.append((event, type(error))),
            monotonic_ms=lambda: 0.0,
            idle_clear_s=idle_clear_s,
        )

    def handle(self, event: Event, now_ms: int) -> Procedure[None]:
        assert now_ms > 1_700_000_000_000
        self.handled.append(event)
        yield from self._scenario(event)

    def _do(self, effects: Sequence[Effect]) -> None:
        self.done.extend(effects)

    def run(self, *events: Event) -> None:
        """Processes these events, and ends the thread."""
        for event in events:
            self.queue.put(event)
        self.thread.start()
        for _ in events:
            assert self.refreshed.acquire(timeout=TIMEOUT_S)
        assert self.thread.close(TIMEOUT_S)

    def stats(self, name: str) -> dict[str, Any]:
        return self.metrics.snapshot()[f"kafka.controller:type=ControllerStats,name={name}"]


def nothing(_: Event) -> Generator[Any, Any, None]:
    yield from ()


def test_each_event_is_run_to_its_end_before_the_next_begins() -> None:
    steps: list[str] = []

    def scenario(event: Event) -> Generator[Any, Any, None]:
        steps.append(f"{event_text(event)} begins")
        yield ListChildren(["/a"])
        steps.append(f"{event_text(event)} ends")

    Fixture(scenario).run(BrokerChange(), TopicChange())

    assert steps[:4] == [
        "BrokerChange begins",
        "BrokerChange ends",
        "TopicChange begins",
        "TopicChange ends",
    ]


def test_answers_go_back_into_the_procedure_that_asked() -> None:
    responses: list[object] = []

    def scenario(_: Event) -> Generator[Any, Any, None]:
        responses.append((yield ReadZnodes(["/a"])))
        responses.append((yield RegisterBrokerZnode()))
        responses.append((yield ReadZnodes(["/b"])))

    f = Fixture(scenario)
    f.run(BrokerChange())

    assert responses[:3] == [1, 72, 2]
    assert f.session.asked[:2] == [ReadZnodes(["/a"]), ReadZnodes(["/b"])]


def test_effects_are_performed_before_the_next_question_and_at_the_end() -> None:
    seen: list[list[Effect]] = []

    def scenario(event: Event) -> Generator[Any, Any, None]:
        if event != BrokerChange():
            return
        f.outbox.append(MarkMeter("before"))
        yield ReadZnodes(["/a"])
        seen.append(list(f.done))
        f.outbox.append(MarkMeter("after"))

    f = Fixture(scenario)
    f.run(BrokerChange())

    assert seen == [[MarkMeter("before")]]
    assert f.done == [MarkMeter("before"), MarkMeter("after")]
    assert f.outbox == []


def test_a_question_of_an_older_session_is_not_answered_in_the_new_one() -> None:
    caught: list[type[Exception]] = []

    def scenario(event: Event) -> Generator[Any, Any, None]:
        yield ReadZnodes(["/a"])
        if event == BrokerChange():
            f.session.session_id = 101
            try:
                yield ReadZnodes(["/b"])
            except SessionExpired as error:
                caught.append(type(error))
                raise

    f = Fixture(scenario)
    f.run(BrokerChange(), TopicChange())

    assert caught == [SessionExpired]
    assert TopicChange() in f.handled
    assert f.session.asked[:2] == [ReadZnodes(["/a"]), ReadZnodes(["/a"])]


def test_an_error_is_logged_with_its_event_and_the_thread_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def scenario(event: Event) -> Generator[Any, Any, None]:
        if event == PartitionModifications("orders"):
            f.outbox.append(MarkMeter("said before it failed"))
            raise KeyError("orders")
        yield from ()

    f = Fixture(scenario)
    with caplog.at_level(logging.ERROR):
        f.run(PartitionModifications("orders"), TopicChange())

    (record,) = (r for r in caplog.records if r.levelno == logging.ERROR)
    assert record.name == "kafka.controller.KafkaController"
    assert record.getMessage() == (
        "[Controller id=7] Error processing event PartitionModifications(orders)"
    )
    assert shape_of(record.getMessage())[0].family == "ctl-event-error"  # type: ignore[index]
    assert record.__dict__["cause"].startswith("KeyError: 'orders'\n\tat scenario(")
    assert f.handled[:2] == [PartitionModifications("orders"), TopicChange()]
    assert f.done == [MarkMeter("said before it failed")]
    assert f.failed == [(PartitionModifications("orders"), KeyError)]
    assert f.stats("TopicChangeRateAndTimeMs")["Count"] == 2
    assert f.thread.state is ControllerState.IDLE


def test_the_state_is_the_events_while_it_is_processed_and_idle_after_it() -> None:
    states: list[ControllerState] = []

    def scenario(_: Event) -> Generator[Any, Any, None]:
        states.append(f.thread.state)
        yield from ()

    f = Fixture(scenario)
    f.run(BrokerChange(), UpdateMetadataResponseReceived(1, 0))

    assert states == [
        ControllerState.BROKER_CHANGE,
        ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
        ControllerState.CONTROLLER_SHUTDOWN,
    ]
    assert f.thread.state is ControllerState.IDLE


@pytest.mark.parametrize(
    ("event", "timer"),
    [
        (BrokerChange(), "LeaderElectionRateAndTimeMs"),
        (ZkPartitionReassignment(), "PartitionReassignmentRateAndTimeMs"),
        (TopicDeletion(), "TopicDeletionRateAndTimeMs"),
    ],
)
def test_an_event_is_timed_under_the_historical_name_of_its_state(event: Event, timer: str) -> None:
    f = Fixture(nothing)
    f.run(event)

    assert f.stats(timer)["Count"] == 1
    assert f.stats("TopicChangeRateAndTimeMs")["Count"] == 0


def test_an_event_whose_state_has_no_timer_is_processed_too() -> None:
    f = Fixture(nothing)
    f.run(UpdateMetadataResponseReceived(2, 77))

    assert f.handled[0] == UpdateMetadataResponseReceived(2, 77)
    timed = [
        values["Count"]
        for name, values in f.metrics.snapshot().items()
        if name.startswith("kafka.controller:type=ControllerStats") and "RateAndTime" in name
    ]
    # The last event, by which the thread ends, is all there was to time.
    assert sorted(timed)[-2:] == [0, 1]


def test_without_a_session_a_question_fails_at_once_instead_of_waiting_for_the_next() -> None:
    def scenario(_: Event) -> Generator[Any, Any, None]:
        yield ReadZnodes(["/a"])

    f = Fixture(scenario)
    f.session.session_id = 0
    f.run(BrokerChange())

    assert f.session.asked == []
    assert f.failed[0] == (BrokerChange(), SessionExpired)


def test_closing_removes_the_metrics_of_the_event_manager() -> None:
    f = Fixture(nothing)
    prefix = "kafka.controller:type=ControllerEventManager"
    before = [name for name in f.metrics.snapshot() if name.startswith(prefix)]

    f.run(BrokerChange())

    assert before == [f"{prefix},name=EventQueueSize", f"{prefix},name=EventQueueTimeMs"]
    assert not [name for name in f.metrics.snapshot() if name.startswith(prefix)]


def test_closing_preempts_what_is_queued() -> None:
    entered, leave = threading.Event(), threading.Event()

    def scenario(event: Event) -> Generator[Any, Any, None]:
        if event == BrokerChange():
            entered.set()
            assert leave.wait(TIMEOUT_S)
        yield from ()

    f = Fixture(scenario)
    f.queue.put(BrokerChange())
    f.thread.start()
    assert entered.wait(TIMEOUT_S)
    f.queue.put(TopicChange())

    assert f.thread.close(timeout_s=0) is False, "the event under way has not ended"
    leave.set()
    assert f.thread.close(TIMEOUT_S)

    assert TopicChange() not in f.handled


def test_the_histogram_of_queue_times_is_cleared_after_an_idle_time() -> None:
    f = Fixture(nothing, idle_clear_s=0.001)
    name = "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs"
    cleared = threading.Event()
    histogram = f.metrics.histogram(name)
    clear = histogram.clear

    def clear_and_tell() -> None:
        clear()
        cleared.set()

    histogram.clear = clear_and_tell  # type: ignore[method-assign]
    f.queue.put(BrokerChange())
    f.thread.start()

    assert cleared.wait(TIMEOUT_S)
    assert f.metrics.snapshot()[name]["Count"] == 0
    assert f.metrics.snapshot()[name]["Max"] == 0.0
    assert f.thread.close(TIMEOUT_S)


def test_the_thread_says_what_kafkas_says(caplog: pytest.LogCaptureFixture) -> None:
    f = Fixture(nothing)
    with caplog.at_level(logging.INFO):
        f.run(Expire())

    said = [r for r in caplog.records if r.name.endswith("$ControllerEventThread")]
    assert {r.getMessage() for r in said} == {
        f"[ControllerEventThread controllerId=7] {word}"
        for word in ("Starting", "Shutting down", "Stopped", "Shutdown completed")
    }
    for record in said:
        found = shape_of(record.getMessage())
        assert found is not None
        assert found[0].family == "ctl-thread"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (BrokerChange(), "BrokerChange"),
        (PartitionModifications("orders"), "PartitionModifications(orders)"),
        (UpdateMetadataResponseReceived(2, 77), "UpdateMetadataResponseReceived(2,77)"),
    ],
)
def test_an_event_prints_as_scala_prints_it(event: Event, text: str) -> None:
    assert event_text(event) == text


def test_the_controllers_own_events_wait_behind_any_number_of_requests() -> None:
    """Only what carries a request id counts: an election of a znode comes from no one outside."""
    queue = EventQueue(monotonic_ms=lambda: 0.0, preempt=lambda _: None, request_capacity=2)
    own = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
    for request_id in (1, 2):
        queue.put(AllocateProducerIds(1, 1, request_id))

    queue.put(own)

    with pytest.raises(EventQueueFull):
        queue.put(AllocateProducerIds(1, 1, 3))
    assert [queued.event for queued in iter(lambda: queue.take(0), None)][-1] is own
    queue.put(own)
    queue.put(AllocateProducerIds(1, 1, 4))
    queue.put(AllocateProducerIds(1, 1, 5))
    with pytest.raises(EventQueueFull):
        queue.put(AllocateProducerIds(1, 1, 6))


def test_a_pause_of_the_core_is_slept_in_its_thread_and_answered_with_nothing() -> None:
    slept: list[float] = []
    outbox: Outbox = []
    driver = Driver(outbox, NumberedSession(), lambda: 72, lambda _: None, slept.append)
    responses: list[object] = []

    def procedure() -> Procedure[None]:
        responses.append((yield Pause(100)))

    driver.run(procedure())

    assert slept == [0.1]
    assert responses == [None]
