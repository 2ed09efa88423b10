"""Two brokers, ours and Kafka's, with the same records: what they tell of their logs is the same.

Every version of ListOffsets, DeleteRecords, DescribeProducers, DescribeLogDirs, AlterReplicaLogDirs
and InitProducerId that Kafka 3.9 speaks, and of Fetch every one that names topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import pytest

from kafka_common.protocol.compression import Codec
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import Record
from tests.peers.answers import ask, differing, told
from tests.peers.cluster import Cluster

pytestmark = pytest.mark.peers

produce: Any = import_module("kio.schema.produce.v9.request")
producers: Any = import_module("kio.schema.describe_producers.v0.request")

START_MS: Final = 1_700_000_000_000
CONSUMER, DEBUGGER, STRANGER = -1, -2, 9
NONE, LOAD_IN_PROGRESS = 0, 14
TOPICS: Final = {
    # Some 90 bytes a batch: a few batches make a segment.
    "orders": {"segment.bytes": "300"},
    "packed": {},
    "audit": {"cleanup.policy": "compact"},
    "empty": {},
}
TIMESTAMPS: Final = (
    *range(-7, 1),
    *(START_MS + each for each in (-1, 0, 1, 95, 100, 250, 299, 300, 301, 10**9)),
    2**63 - 1,
)


def batch(first: int, count: int = 2, **settings: Any) -> bytes:
    """Records whose timestamps rise by tens from ``START_MS + first`` on."""
    records = [
        Record(i, START_MS + first + 10 * i, b"key %d" % i, b"value %d" % i) for i in range(count)
    ]
    return encode_batch(records, **settings)


def write(cluster: Cluster, topic: str, records: bytes) -> None:
    """Appends one batch to partition 0."""
    data = produce.PartitionProduceData(index=0, records=records)
    response = ask(
        cluster,
        produce.ProduceRequest(
            acks=-1,
            timeout=timedelta(seconds=10),
            topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
        ),
    )
    [written] = response["responses"][0]["partition_responses"]
    assert written["error_code"].value == NONE, written


def fill(cluster: Cluster) -> None:
    """The same records everywhere; the largest timestamp of orders is not the last."""
    for topic, config in TOPICS.items():
        settings = [
            text for key, value in config.items() for text in ("--config", f"{key}={value}")
        ]
        cluster.topic_command(
            1, "--create", "--topic", topic, "--replica-assignment", "1", *settings
        )
    cluster.wait_until_all_brokers_agree(len(TOPICS))
    for first in (0, 100, 300, 200, 250):
        write(cluster, "orders", batch(first))
    idempotent = {"producer_id": 4000, "producer_epoch": 3}
    for sequence in (0, 5):
        write(cluster, "packed", batch(sequence, 5, codec=Codec.GZIP, base_sequence=sequence,
                                       **idempotent))  # fmt: skip
    write(cluster, "packed", batch(400, 3, codec=Codec.ZSTD))
    write(cluster, "audit", batch(0))


def list_offsets(
    version: int,
    timestamp: int,
    *topics: str,
    partition: int = 0,
    replica_id: int = CONSUMER,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    count: int = 5,
) -> Any:
    schema: Any = import_module(f"kio.schema.list_offsets.v{version}.request")
    fields: dict[str, Any] = {"timestamp": timestamp, "partition_index": partition}
    if version == 0:
        fields["max_num_offsets"] = count
    if version >= 4:
        fields["current_leader_epoch"] = leader_epoch
    wanted = schema.ListOffsetsPartition(**fields)
    level = {"isolation_level": isolation_level} if version >= 2 else {}
    return schema.ListOffsetsRequest(
        replica_id=replica_id,
        topics=tuple(schema.ListOffsetsTopic(name=name, partitions=(wanted,)) for name in topics),
        **level,
    )


def fetch(
    version: int,
    *topics: str,
    offset: int = 0,
    max_bytes: int = 10**6,
    partition_max_bytes: int = 10**6,
    **fields: Any,
) -> Any:
    """Up to version 12, the last that names topics."""
    schema: Any = import_module(f"kio.schema.fetch.v{version}.request")
    place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
    newer: dict[str, Any] = {"replica_id": CONSUMER, "max_wait": timedelta(0), "min_bytes": 0}
    if version >= 3:
        newer["max_bytes"] = max_bytes
    if version >= 7:
        newer |= {"session_epoch": -1, "forgotten_topics_data": ()}
    partitions = (schema.FetchPartition(**place, **fields),)
    return schema.FetchRequest(
        topics=tuple(schema.FetchTopic(topic=name, partitions=partitions) for name in topics),
        **newer,
    )


def delete_records(version: int, topic: str, offset: int, partition: int = 0) -> Any:
    schema: Any = import_module(f"kio.schema.delete_records.v{version}.request")
    wanted = schema.DeleteRecordsPartition(partition_index=partition, offset=offset)
    return schema.DeleteRecordsRequest(
        topics=(schema.DeleteRecordsTopic(name=topic, partitions=(wanted,)),),
        timeout=timedelta(seconds=5),
    )


def describe_producers(*topics: tuple[str, int]) -> Any:
    return producers.DescribeProducersRequest(
        topics=tuple(
            producers.TopicRequest(name=name, partition_indexes=(partition,))
            for name, partition in topics
        )
    )


def init_producer(version: int, **fields: Any) -> Any:
    schema: Any = import_module(f"kio.schema.init_producer_id.v{version}.request")
    return schema.InitProducerIdRequest(
        **{"transactional_id": None, "transaction_timeout": timedelta(seconds=60), **fields}
    )


def move(path: str, *topics: tuple[str, int], version: int = 2) -> Any:
    schema: Any = import_module(f"kio.schema.alter_replica_log_dirs.v{version}.request")
    return schema.AlterReplicaLogDirsRequest(
        dirs=(
            schema.AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    schema.AlterReplicaLogDirTopic(name=name, partitions=(partition,))
                    for name, partition in topics
                ),
            ),
        )
    )


def questions() -> Iterator[tuple[str, Any]]:
    """In the order in which they are asked."""
    for version in range(10):
        for timestamp in TIMESTAMPS:
            yield f"offsets {version} {timestamp}", list_offsets(version, timestamp, *TOPICS)
        yield f"places {version}", list_offsets(version, -1, "none", "orders", partition=1)
        yield f"twice {version}", list_offsets(version, -1, "orders", "orders", "empty")
        for replica_id in (DEBUGGER, STRANGER):
            yield (
                f"replica {replica_id} {version}",
                list_offsets(version, -1, *TOPICS, replica_id=replica_id),
            )
    for count in (0, 1, 2):
        yield f"few {count}", list_offsets(0, -1, *TOPICS, count=count)
    for epoch in (-1, 0, 1):
        yield f"epoch {epoch}", list_offsets(9, -1, *TOPICS, leader_epoch=epoch)
    for timestamp in (-1, START_MS + 100):
        yield f"committed {timestamp}", list_offsets(9, timestamp, *TOPICS, isolation_level=1)

    for version in range(13):
        for offset in (0, 1, 5, 9, 10, 13, 14):
            yield f"records {version} {offset}", fetch(version, *TOPICS, offset=offset)
        yield f"places of records {version}", fetch(version, "orders", "none", "packed", "orders")
        for size in (0, 1, 100, 250):
            yield (
                f"records in {size} bytes {version}",
                fetch(version, *TOPICS, offset=1, max_bytes=size),
            )
            yield (
                f"records in {size} bytes of a partition {version}",
                fetch(version, *TOPICS, offset=1, partition_max_bytes=size),
            )

    yield (
        "producers",
        describe_producers(
            ("orders", 0), ("packed", 0), ("packed", 1), ("none", 0), ("a/b", 0), ("", 0)
        ),
    )

    yield "an id without an epoch", init_producer(5, producer_id=7)
    yield "an epoch without an id", init_producer(5, producer_epoch=7)
    yield "an empty transactional id", init_producer(5, transactional_id="")

    for name, topic, offset in (
        ("three", "orders", 3), ("two", "orders", 2), ("too many", "orders", 11),
        ("nonsense", "orders", -2), ("compacted", "audit", 1), ("unknown", "none", 1),
        ("empty", "empty", 0),
    ):  # fmt: skip
        yield f"deleted {name}", delete_records(2, topic, offset)
    yield "deleted in version 0", delete_records(0, "orders", 5)
    yield "deleted in version 1", delete_records(1, "orders", -1)
    yield "deleted elsewhere", delete_records(2, "orders", 1, partition=1)
    for timestamp in TIMESTAMPS:
        yield f"offsets afterwards {timestamp}", list_offsets(9, timestamp, *TOPICS)
    yield "base offsets afterwards", list_offsets(0, -1, *TOPICS)

    yield "a move to nowhere", move("/nowhere", ("orders", 0))


def ids(cluster: Cluster) -> list[tuple[int, int]]:
    """The first producer ids and epochs that a broker gives, in each version."""
    given = []
    for version in range(6):
        responses: list[Any] = []

        def is_given(version: int = version, responses: list[Any] = responses) -> bool:
            responses.append(ask(cluster, init_producer(version)))
            code = responses[-1]["error_code"].value
            assert code in (NONE, LOAD_IN_PROGRESS), responses[-1]
            return bool(code == NONE)

        cluster.wait_until(is_given, "a producer id")
        given.append((responses[-1]["producer_id"], responses[-1]["producer_epoch"]))
    return given


def log_dirs(cluster: Cluster, version: int = 4) -> dict[str, Any]:
    """What is in each directory, by the directory's name; sizes of disks are left out."""
    schema: Any = import_module(f"kio.schema.describe_log_dirs.v{version}.request")
    named = (("orders", (0, 1)), ("empty", (0,)), ("none", (0,)))
    some = tuple(
        schema.DescribableLogDirTopic(topic=name, partitions=partitions)
        for name, partitions in named
    )
    found = {}
    for what, topics in (("all", None), ("some", some)):
        response = ask(cluster, schema.DescribeLogDirsRequest(topics=topics))
        for each in response["results"]:
            space = (each.pop("total_bytes", None), each.pop("usable_bytes", None))
            assert version < 4 or 0 < space[1] <= space[0]
            name = Path(each.pop("log_dir")).name
            found[f"{what} in {name}"] = told(each)
        found[f"{what} as a whole"] = response.get("error_code")
    return found


def moved(cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Moves everything into the second directory, and back in version 0."""
    everything = [(topic, 0) for topic in TOPICS]
    seen: dict[str, Any] = {}
    for version, name in ((2, "b"), (0, "a")):
        target = str(directory / name)
        seen[f"answer {version}"] = told(
            ask(cluster, move(target, *everything, ("none", 0), ("orders", 1), version=version))
        )

        def is_there(name: str = name) -> bool:
            told_of = log_dirs(cluster)[f"all in {name}"]["topics"]
            return len(told_of) == len(TOPICS) and not any(
                partition["is_future_key"] for topic in told_of for partition in topic["partitions"]
            )

        cluster.wait_until(is_there, f"everything in {name}")
        seen[f"dirs {version}"] = log_dirs(cluster)
    seen["offsets"] = told(ask(cluster, list_offsets(9, -1, *TOPICS)))
    # Version 3 tells no leader epoch: one that has begun without a record stays here, and is lost
    # in Kafka.
    seen["starts"] = told(ask(cluster, list_offsets(3, -2, *TOPICS)))
    return seen


def readable(response: Any) -> Any:
    """A response to Fetch: its order stays, on which a consumer depends.

    Records have each batch's values instead of its bytes, in which a codec may differ; what is no
    whole batch stays as it is.
    """
    if isinstance(response, dict):
        return {key: readable(value) for key, value in response.items()}
    if isinstance(response, tuple):
        return [readable(each) for each in response]
    if not isinstance(response, bytes):
        return response
    batches, end = [], 0
    for position, header in iterate_batches(response):
        end = position + header.size
        records = list(iterate_any(response, position, header))
        batches.append((header.magic, header.codec, header.size, records))
    return batches, response[end:]


def answers(cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Everything that a broker tells, by the names of the questions."""
    fill(cluster)
    found: dict[str, Any] = {"ids": ids(cluster)}
    for name, request in questions():
        response = ask(cluster, request)
        found[name] = readable(response) if "records" in name else told(response)
    # Where a topic is made is up to the broker.
    ask(cluster, move(str(directory / "a"), *((topic, 0) for topic in TOPICS)))
    cluster.wait_until(
        lambda: log_dirs(cluster)["all in b"]["topics"] == [], "everything to be in a"
    )
    for version in range(5):
        found[f"dirs {version}"] = log_dirs(cluster, version)
    return found | moved(cluster, directory)


@pytest.mark.timeout(400)
def test_the_same_logs_give_the_same_responses(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    told_by = {}
    for name in ("ours", "kafka"):
        cluster = new_cluster()
        directory = tmp_path / name
        overrides = {
            "log.dirs": f"{directory / 'a'},{directory / 'b'}",
            # Nothing goes away while it is asked for.
            "log.retention.ms": "-1",
        }
        if name == "ours":
            cluster.start_ours(1, overrides)
        else:
            cluster.start_kafka(1, overrides)
        told_by[name] = answers(cluster, directory)
        cluster.brokers[1].kill()

    assert list(told_by["ours"]) == list(told_by["kafka"])
    different = differing(told_by["ours"], told_by["kafka"])
    assert different == {}, pformat(different, width=200)
