"""Three recording brokers kept what a real Kafka 3.9.1 controller sent; ours sends the same.

``frames-3.9.1.jsonl`` holds, step by step, every request the real one sent.  Here the same steps
happen to our controller.  Broker epochs differ from run to run, so they are compared as "that of
the broker's current registration"; the order of partitions inside a request is that of a hash map
and is not compared.  The recording brokers never fetched, so the reassignment does not complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_common.model import Broker, Endpoint, TopicPartition
from zkcontroller_simulation.control_requests import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControlRequest,
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    decode,
)
from zkcontroller_simulation.world import World

FRAMES: Final = Path(__file__).parents[1] / "wire" / "data" / "frames-3.9.1.jsonl"
API_KEYS: Final = {
    "LeaderAndIsr": LEADER_AND_ISR,
    "StopReplica": STOP_REPLICA,
    "UpdateMetadata": UPDATE_METADATA,
}
RECORDERS: Final = (101, 102, 103)
PORTS: Final = {1: 9091, 101: 9401, 102: 9402, 103: 9403}


class Comparable(NamedTuple):
    """A request without what differs from run to run."""

    name: str
    version: int
    controller_id: int
    controller_epoch: int
    partitions: dict[TopicPartition, tuple[object, ...]]
    topic_ids: dict[str, object]
    brokers: dict[int, object]


def comparable(request: ControlRequest) -> Comparable:
    partitions = {tp: tuple(state) for tp, state in request.partitions.items()}
    topic_ids: Mapping[str, object] = {}
    brokers: Mapping[int, object] = {}
    match request:
        case ReceivedLeaderAndIsr():
            topic_ids, brokers = request.topic_ids, request.live_leaders
        case ReceivedUpdateMetadata():
            topic_ids, brokers = request.topic_ids, request.live_brokers
        case ReceivedStopReplica():
            pass
    return Comparable(
        type(request).__name__,
        request.version,
        request.controller_id,
        request.controller_epoch,
        partitions,
        dict(topic_ids),
        dict(brokers),
    )


class Recording:
    """The recording: step → broker → its requests in order."""

    def __init__(self) -> None:
        self.deeds: dict[str, dict[int, list[ControlRequest]]] = {}
        for deed, broker_id, request in self._read():
            requests = self.deeds.setdefault(deed, {broker: [] for broker in RECORDERS})
            if request is not None:
                requests[broker_id].append(request)

    @staticmethod
    def _read() -> Iterator[tuple[str, int, ControlRequest | None]]:
        deed = ""
        for line in FRAMES.read_text().splitlines():
            record = json.loads(line)
            if "deed" in record:
                deed = record["deed"]
                yield deed, 0, None
                continue
            frame = bytes.fromhex(record["frame_hex"])
            api_key, version = API_KEYS[record["api"]], record["version"]
            header = entity_reader(load_request_schema(api_key, version).__header_schema__)
            _, size = header(frame, 0)
            yield deed, record["to_broker"], decode(api_key, version, frame[size:])

    def topic_id(self, topic: str) -> object:
        """The id the topic had in that run."""
        for requests in self.deeds.values():
            for request in requests[101]:
                if isinstance(request, ReceivedLeaderAndIsr) and topic in request.topic_ids:
                    return request.topic_ids[topic]
        raise AssertionError(f"{topic} is not in the recording")


class Scenario:
    """The same steps in our world, compared one by one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._recording = Recording()
        for broker_id, port in PORTS.items():
            endpoint = Endpoint("127.0.0.1", port, "PLAINTEXT", "PLAINTEXT")
            world.brokers[broker_id] = Broker(broker_id, (endpoint,))
        world.start_brokers(1)

    def create_topic(self, topic: str, replicas: list[list[int]]) -> None:
        topic_id = self._recording.topic_id(topic)
        self._world.create_topic(topic, replicas, topic_id=topic_id)  # type: ignore[arg-type]

    def compare(self, deed: str) -> None:
        """What each broker got since the last step is what the real controller sent it."""
        self._world.run_until_quiet()
        for broker_id, recorded in self._recording.deeds[deed].items():
            process = self._world.living.get(broker_id)
            received = process.broker.received if process is not None else []
            if process is not None:
                assert {r.broker_epoch for r in received} <= {process.broker.broker_epoch}
            sent, expected = map(comparable, received), map(comparable, recorded)
            assert list(sent) == list(expected), (deed, broker_id)
        self._world.forget_requests()


def test_our_controller_sends_what_the_real_one_sent(world: World) -> None:
    scenario = Scenario(world)

    for broker_id in RECORDERS:
        world.start(broker_id, is_candidate=False)
        scenario.compare(f"broker {broker_id} registers")

    scenario.create_topic("alpha", [[101, 102, 103], [102, 103, 101], [103, 101, 102]])
    scenario.compare("topic alpha created, 3 partitions x 3")

    scenario.create_topic("beta", [[101, 102], [102, 103]])
    scenario.compare("topic beta created, 2 partitions x 2")

    world.stop(102)
    scenario.compare("broker 102 gone")

    world.start(102, is_candidate=False)
    scenario.compare("broker 102 back")

    world.ask_for_preferred_leaders(TopicPartition("alpha", 1), TopicPartition("beta", 1))
    scenario.compare("preferred election asked for alpha-1, beta-1")

    world.ask_for_reassignment({TopicPartition("beta", 0): [103, 101]})
    scenario.compare("reassignment asked for beta-0 to [103,101]")

    world.delete_controller_znode()
    scenario.compare("/controller deleted")

    world.delete_topic("alpha")
    scenario.compare("deletion of alpha asked for")
