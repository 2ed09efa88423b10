"""Whatever name arrives, nothing outside of the log directories is made, renamed or deleted.

A decoy folder lies beside the log directory; every test compares it before and after.
Source: Kafka ``Topic.validate``; Kafka itself builds the folder before it checks.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from kafka_common.topic_names import invalid_partition_reason
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_directory import FolderNameInvalid, PartitionRefused
from replica_manager.log.log_manager import LogManager
from tests.support.broker_world import BrokerWorld, broker
from tests.support.log_world import START_MS
from zkcontroller_simulation.world import World

HEALTHY = TopicPartition("healthy", 0)
CONFIG = LogConfig()

PIECES = st.sampled_from(
    [
        "-",
        "/",
        "\\",
        "\x00",
        " ",
        "\n",
        "~",
        "a",
        "é",
        "..",
        ".",
        "decoy",
        "decoy-0",
        "../decoy",
        "/decoy",
        "-0",
        "-delete",
        ".tmp",
    ]
)
LONG = st.sampled_from(["x" * 249, "x" * 300])
NAMES = st.one_of(
    st.text(max_size=40), st.lists(PIECES | LONG, min_size=1, max_size=6).map("".join)
).filter(lambda name: not any(0xD800 <= ord(character) <= 0xDFFF for character in name))
PARTITIONS = st.integers(min_value=-(2**31), max_value=2**31 - 1)


class Place:
    """A log directory with a decoy beside it, and what lay there at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log_dir = root / "logs"
        self.log_dir.mkdir()
        for folder in ("decoy", "decoy-0", "x-0"):
            (root / folder).mkdir()
            (root / folder / "00000000000000000000.log").write_bytes(b"keep")
        self.before = self.outside()

    def outside(self) -> dict[str, bytes | None]:
        """Every path outside of the log directory, with its content."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
            if self.log_dir not in (path, *path.parents)
        }

    def folders(self) -> list[str]:
        """What is in the log directory, and not deeper."""
        return sorted(path.name for path in self.log_dir.iterdir() if path.is_dir())

    def manager(self) -> LogManager:
        manager = LogManager([self.log_dir], lambda: START_MS, default_config=CONFIG)
        manager.load({})
        return manager


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def leader_and_isr(*partitions: TopicPartition) -> Any:
    """LeaderAndIsr v0, which needs no broker epoch."""
    schema = request_schema(ApiKey.LEADER_AND_ISR, 0)
    return schema.request(
        controller_id=1,
        controller_epoch=1,
        ungrouped_partition_states=tuple(
            schema.part(
                "LeaderAndIsrPartitionState",
                topic_name=tp.topic,
                partition_index=tp.partition,
                controller_epoch=1,
                leader=1,
                leader_epoch=0,
                isr=(1,),
                partition_epoch=0,
                replicas=(1,),
            )
            for tp in partitions
        ),
        live_leaders=(),
    )


def stop_replica(*partitions: TopicPartition) -> Any:
    schema = request_schema(ApiKey.STOP_REPLICA, 0)
    return schema.request(
        controller_id=1,
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=tuple(
            schema.part("StopReplicaPartitionV0", topic_name=tp.topic, partition_index=tp.partition)
            for tp in partitions
        ),
    )


async def orders_of_a_controller(world: BrokerWorld, *tps: TopicPartition) -> tuple[Any, Any]:
    made = await world.ask(leader_and_isr(*tps))
    stopped = await world.ask(stop_replica(*tps))
    return made, stopped


@pytest.mark.parametrize(
    "name",
    ["../decoy", "../../x", "/absolute", "decoy/../../x", "..", "", "a b", "x" * 300, "a\0b"],
)
def test_a_leader_and_isr_for_a_path_is_refused_and_the_other_partitions_are_served(
    place: Place, executor: ThreadPoolExecutor, name: str
) -> None:
    world = BrokerWorld(executor, log_dirs=[place.log_dir])
    world.update({}, brokers=[broker(1)])
    evil = TopicPartition(name, 0)

    response: Any = asyncio.run(world.ask(leader_and_isr(evil, HEALTHY)))

    codes = {each.topic_name: each.error_code for each in response.partition_errors}
    assert response.error_code is ErrorCode.none
    assert codes == {name: ErrorCode.unknown_server_error, "healthy": ErrorCode.none}
    assert place.outside() == place.before
    assert place.folders() == ["healthy-0"]
    assert list(world.replicas.partitions) == [HEALTHY]

    stopped: Any = asyncio.run(world.ask(stop_replica(evil, HEALTHY)))
    # Kafka answers NONE for a replica that is not here: there is nothing to delete.
    assert {each.error_code for each in stopped.partition_errors} == {ErrorCode.none}
    assert place.outside() == place.before
    assert world.logs.live_log_dirs == (place.log_dir,)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.builds(TopicPartition, NAMES, PARTITIONS), min_size=1, max_size=4))
@example([TopicPartition("../x", 0)])
@example([TopicPartition("x", -1)])
@example([TopicPartition("x" * 249, 2**31 - 1)])
def test_no_name_of_a_request_touches_anything_outside(tps: list[TopicPartition]) -> None:
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        place = Place(Path(folder))
        world = BrokerWorld(executor, log_dirs=[place.log_dir])
        world.update({}, brokers=[broker(1)])

        made, _ = asyncio.run(orders_of_a_controller(world, *tps))

        for each in made.partition_errors:
            reason = invalid_partition_reason(each.topic_name, each.partition_index)
            assert (each.error_code is ErrorCode.unknown_server_error) == (reason is not None)
        assert place.outside() == place.before
        assert world.logs.live_log_dirs == (place.log_dir,)
        assert all(name.endswith("-delete") for name in place.folders())
        place.manager()  # every folder that was made can be loaded again


@settings(deadline=None, max_examples=60)
@given(NAMES, PARTITIONS, st.booleans())
def test_the_log_manager_makes_children_of_a_log_directory_only(
    topic: str, partition: int, is_future: bool
) -> None:
    tp = TopicPartition(topic, partition)
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        manager = place.manager()

        try:
            log = manager.get_or_create(tp, CONFIG, is_future=is_future)
        except PartitionRefused:
            assert place.folders() == []
        else:
            assert log.directory.parent == place.log_dir
            manager.delete(tp, is_future=is_future)
        assert place.outside() == place.before
        assert manager.live_log_dirs == (place.log_dir,)


@settings(deadline=None, max_examples=60)
@given(NAMES.filter(lambda name: name and not {"/", "\0"} & set(name) and name not in (".", "..")))
@example("a b-0")
@example("x-00")
@example("x-4294967296")
@example("..-0")
def test_a_folder_of_any_name_is_loaded_or_refused_and_nothing_outside_is_touched(
    name: str,
) -> None:
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        try:
            (place.log_dir / name).mkdir()
        except OSError:
            return  # the file system does not take the name

        try:
            loaded = list(place.manager().logs)
        except FolderNameInvalid:
            loaded = []
            assert place.folders() == [name]
        assert all(invalid_partition_reason(*tp) is None for tp in loaded)
        assert place.outside() == place.before


def test_folders_of_kafka_that_hold_no_partition_are_left_alone(place: Place) -> None:
    for name in ("remote-log-index-cache", "__cluster_metadata-0"):
        (place.log_dir / name).mkdir()

    assert place.manager().logs == {}
    assert place.folders() == ["__cluster_metadata-0", "remote-log-index-cache"]


def test_an_invalid_name_in_zookeeper_is_reported_and_the_other_topics_get_leaders() -> None:
    world = World()
    world.start_brokers(1, 2)
    world.settle()
    for name in ("x" * 300, "a b"):
        world.create_topic(name, replicas=[[1]])
    world.create_topic("healthy", replicas=[[1]])
    world.run_until_quiet()
    assert world.state_znode("healthy", 0).leader == 1

    world.delete_controller_znode()
    world.run_until_quiet()

    assert world.controller is not None
    assert list(world.controller.controller.context.table.topics) == ["healthy"]
    assert list(world.living[1].broker.hosted) == [HEALTHY]
    said = "\n".join(line for b in (1, 2) for line in world.log(b, "ERROR"))
    assert "Ignoring a child of /brokers/topics: Topic name is invalid: 'a b'" in said
