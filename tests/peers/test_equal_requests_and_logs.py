"""One scenario under our controller and under Kafka's: equal requests to brokers, equal logs.

The brokers are recording ones, so the requests depend on the controller alone.  Broker epochs,
points in time, ports and random ids differ from run to run, so the test masks them.  A hash map
orders the partitions of a request and the elements of a logged collection; the test ignores it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.cluster import Cluster
from tests.peers.controller_story import CANDIDATE, ScenarioRunner
from tests.peers.log_text import comparable_lines
from tests.peers.recording_brokers import Received, RecordingBroker, RecordingBrokers
from zkcontroller_simulation.control_requests import (
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
)

pytestmark = pytest.mark.peers

RECORDERS: Final = (101, 102, 103)
QUIET_S: Final = 1.5
LOGS: Final = ("controller.log", "state-change.log")


@dataclass
class Chapter:
    """What followed from one action."""

    requests: dict[int, list[Any]]
    lines: dict[str, Counter[str]]
    responses: list[Any]


@dataclass
class Book:
    """A scenario in progress."""

    teller: ScenarioRunner
    controller: BrokerProcess
    chapters: dict[str, Chapter] = field(default_factory=dict)
    _lines_read: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def chapter(self, name: str, until: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """What happens inside, and all that follows from it."""
        yield
        cluster, brokers = self.teller.cluster, self.teller.brokers
        cluster.wait_until(until, name)
        brokers.wait_until_quiet(QUIET_S)
        requests = {
            broker_id: [comparable(one, brokers[broker_id]) for one in received]
            for broker_id, received in brokers.take_received().items()
        }
        lines = {}
        for log in LOGS:
            every = self.controller.log_lines(log)
            lines[log] = comparable_lines(every[self._lines_read[log] :])
            self._lines_read[log] = len(every)
        responses = [_in_order(response) for response in self.teller.responses]
        self.chapters[name] = Chapter(requests, lines, responses)
        self.teller.responses.clear()


def _in_order(response: dict[str, Any]) -> dict[str, Any]:
    """What a controlled shutdown could not move comes in the order of a hash map."""
    if "remaining_partitions" not in response:
        return response
    key = itemgetter("topic_name", "partition_index")
    return response | {"remaining_partitions": sorted(response["remaining_partitions"], key=key)}


def comparable(received: Received, broker: RecordingBroker) -> tuple[object, ...]:
    """A request without what differs from run to run; a broker epoch as "the nth of its broker"."""
    request = received.request
    further: tuple[object, ...] = ()
    match request:
        case ReceivedLeaderAndIsr():
            leaders = {leader: host for leader, (host, _) in request.live_leaders.items()}
            further = (dict(request.topic_ids), leaders)
        case ReceivedUpdateMetadata():
            live = {
                broker_id: [(host, listener) for host, _, listener in endpoints]
                for broker_id, endpoints in request.live_brokers.items()
            }
            further = (dict(request.topic_ids), live)
        case ReceivedStopReplica():
            pass
    return (
        type(request).__name__,
        request.version,
        received.type_,
        received.is_kraft_controller,
        request.controller_id,
        request.controller_epoch,
        broker.epochs.index(request.broker_epoch),
        dict(request.partitions),
        *further,
    )


@pytest.mark.timeout(500)
def test_the_same_events_give_the_same_requests_and_log_lines(
    new_cluster: Callable[[], Cluster],
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    with ThreadPoolExecutor(2) as pool:
        telling = [
            pool.submit(scenario, ours, ours.start_ours),
            pool.submit(scenario, kafkas, kafkas.start_kafka),
        ]
        our_chapters, kafka_chapters = (told.result() for told in telling)

    assert list(our_chapters) == list(kafka_chapters)
    differences = [
        difference
        for name, expected in kafka_chapters.items()
        for difference in differing(our_chapters[name], expected, name)
    ]
    assert differences == [], "\n".join(map(str, differences))


def differing(ours: Chapter, kafkas: Chapter, name: str) -> Iterator[tuple[object, ...]]:
    """Each thing that is not alike, with its place."""
    for broker_id, expected in kafkas.requests.items():
        found = ours.requests[broker_id]
        for position in range(max(len(found), len(expected))):
            pair = found[position : position + 1], expected[position : position + 1]
            if pair[0] != pair[1]:
                yield name, broker_id, position, "ours", pair[0], "Kafka's", pair[1]
    for log, lines in kafkas.lines.items():
        for line in (ours.lines[log] - lines).elements():
            yield name, log, "ours only", line
        for line in (lines - ours.lines[log]).elements():
            yield name, log, "Kafka's only", line
    if ours.responses != kafkas.responses:
        yield name, "responses", ours.responses, kafkas.responses


def scenario(cluster: Cluster, start: Callable[[int], BrokerProcess]) -> dict[str, Chapter]:
    """Runs the scenario on one cluster."""
    with RecordingBrokers(cluster.zookeeper, RECORDERS) as brokers:
        book = Book(ScenarioRunner(cluster, brokers), start(CANDIDATE))
        live(book)
        return book.chapters


def live(book: Book) -> None:
    """Performs every action that a controller reacts to."""
    teller, brokers = book.teller, book.teller.brokers
    with book.chapter("a controller alone"):
        pass
    for broker_id in RECORDERS:
        with book.chapter(f"broker {broker_id} registers"):
            brokers[broker_id].register()

    with book.chapter("a topic is created"):
        teller.create_topic("alpha", [[101, 102, 103], [102, 103, 101], [103, 101, 102]])
    with book.chapter("another topic is created"):
        teller.create_topic("beta", [[101, 102], [102, 103]])
    with book.chapter("partitions are added"):
        teller.assign("beta", [[101, 102], [102, 103], [103, 101], [101, 103]])

    with book.chapter("a broker dies"):
        brokers[102].leave()
    with book.chapter("it returns"):
        brokers[102].register()
    with book.chapter("leaders widen their ISRs"):
        for topic, partition, new_isr in (
            ("alpha", 0, (101, 103, 102)),
            ("alpha", 1, (103, 101, 102)),
            ("beta", 1, (103, 102)),
        ):
            teller.alter_isr(topic, partition, new_isr)
    with book.chapter("preferred leaders are asked for by znode"):
        teller.ask_for_preferred_leaders(("alpha", 1), ("beta", 0), ("nowhere", 0))
    with book.chapter("and by API"):
        teller.elect_leader("beta", 1, unclean=False)
        teller.elect_leader("beta", 1, unclean=False)
        teller.elect_leader("nowhere", 1, unclean=False)
    with book.chapter("a broker bounces"):
        brokers[103].bounce()
    with book.chapter("leaders take it in again"):
        teller.alter_isr("alpha", 0, (101, 102, 103))
        teller.alter_isr("alpha", 1, (102, 101, 103))

    with book.chapter("a reassignment is asked for by znode"):
        teller.ask_for_reassignment({("beta", 0): [103, 101], ("nowhere", 0): [101]})
    with book.chapter("and completes", until=lambda: not teller.is_moving("beta")):
        teller.alter_isr("beta", 0, (101, 102, 103))
    with book.chapter("a reassignment is asked for by API"):
        teller.reassign("alpha", 2, (101, 102))
    with book.chapter("a reassignment that grows"):
        teller.reassign("beta", 1, (101, 102, 103))
    with book.chapter("a reassignment is cancelled", until=lambda: not teller.is_moving("beta")):
        teller.reassign("beta", 1, None)
        teller.reassign("beta", 1, None)
    with book.chapter("an old leader tells of an ISR"):
        teller.notify_isr_change(("alpha", 0), ("beta", 3))
    with book.chapter("a leader shrinks its ISR"):
        teller.alter_isr("beta", 3, (101,))
    with book.chapter("a log directory fails"):
        teller.notify_log_dir_failure(101)

    with book.chapter("the last in sync dies"):
        brokers[101].leave()
    with book.chapter("an unclean leader is allowed"):
        teller.configure_topic("beta", {"unclean.leader.election.enable": "true"})
    with book.chapter("the dead one returns"):
        brokers[101].register()
    with book.chapter("a controlled shutdown"):
        teller.shut_down(103)
    with book.chapter("the broker that was shut down leaves"):
        brokers[103].leave()

    with book.chapter("a topic is to be deleted while a broker is away"):
        teller.delete_topic("alpha")
    with book.chapter("the broker is back", until=lambda: teller.is_deleted("alpha")):
        brokers[103].register()
    with book.chapter("a topic that does not exist is to be deleted"):
        teller.delete_topic("nowhere")
    with book.chapter("the controller is elected again"):
        teller.delete_controller()
    with book.chapter("a broker dies under the new controller"):
        brokers[102].leave()
    with book.chapter("it returns under the new controller"):
        brokers[102].register()
    with book.chapter("the last topic is deleted", until=lambda: teller.is_deleted("beta")):
        teller.delete_topic("beta")
