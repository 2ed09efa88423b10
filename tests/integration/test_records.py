"""Records through one real broker: produced, consumed, there after a kill, and on lost disks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker_processes import Cluster, admin_client, cluster_in, state_of, wait_for
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

pytestmark = pytest.mark.integration

confluent_kafka = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = {
    "replica__high__watermark__checkpoint__interval__ms": "200",
    "offsets__topic__replication__factor": "1",
    "log__initial__task__delay__ms": "0",
    "log__retention__check__interval__ms": "200",
}
NewCluster = Callable[..., Cluster]


@pytest.fixture
def new_cluster(zookeeper_connect: str, chroot: str, tmp_path: Path) -> Iterator[NewCluster]:
    """Starts broker 1 with the properties that a test wants."""
    with cluster_in(tmp_path, zookeeper_connect + chroot) as cluster:

        def start(**properties: str) -> Cluster:
            cluster.start(1, **{**QUICK, **properties})
            wait_until_known(cluster)
            return cluster

        yield start


@pytest.fixture(scope="module")
def cluster(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker for all tests that do it no harm."""
    directory = tmp_path_factory.mktemp("records")
    with cluster_in(directory, f"{zookeeper_connect}/records") as cluster:
        cluster.start(1, **QUICK)
        wait_until_known(cluster)
        yield cluster


def wait_until_known(cluster: Cluster) -> None:
    """Clients that ask before the broker has a request of the controller ask again much later."""
    admin_client(cluster.bootstrap_servers)


@pytest.fixture
def session(zookeeper_connect: str, chroot: str) -> Iterator[ZooKeeperSession]:
    session = ZooKeeperSession(ZooKeeperConfig(zookeeper_connect + chroot))
    session.start()
    yield session
    session.close()


def create(cluster: Cluster, topic: str, partitions: int = 1, **config: str) -> None:
    admin = admin_client(cluster.bootstrap_servers)
    settings = {name.replace("__", "."): value for name, value in config.items()}
    wanted = admin_module.NewTopic(topic, partitions, 1, config=settings)
    [created] = admin.create_topics([wanted], operation_timeout=20).values()
    assert created.result(30) is None


def produce(
    cluster: Cluster, topic: str, values: Sequence[bytes], *, partition: int = 0, **config: Any
) -> list[int]:
    """Sends the values one by one and waits for all; their offsets."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 20_000, **settings}
    )
    offsets: dict[bytes, int] = {}
    # Not raised in the callback: its traceback would keep the producer alive.
    errors: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            offsets[message.value()] = message.offset()
        else:
            errors.append(str(error))

    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(30) == 0
    del producer
    assert errors == []
    return [offsets[value] for value in values]


def consume(
    cluster: Cluster, topic: str, count: int, *, partition: int = 0, **config: Any
) -> list[bytes]:
    """The first values of a partition."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", **settings}
    )
    found: list[bytes] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])

        def more() -> bool:
            for message in consumer.consume(count - len(found), 0.5):
                assert message.error() is None, message.error()
                found.append(message.value())
            return len(found) >= count

        wait_for(more, f"{count} records of {topic}")
    finally:
        consumer.close()
    return found


def numbered(count: int, size: int = 10) -> list[bytes]:
    return [b"%d-" % number + b"x" * size for number in range(count)]


def test_records_come_back_whatever_their_codec_and_acks(cluster: Cluster) -> None:
    values = numbered(500, 100)

    for codec in CODECS:
        create(cluster, codec)
        for round_number, acks in enumerate((1, "all")):
            offsets = produce(
                cluster, codec, values, compression_codec=codec, acks=acks, linger_ms=5
            )
            assert offsets == list(range(500 * round_number, 500 * (round_number + 1)))
        assert consume(cluster, codec, 1000) == values * 2


def test_without_acks_records_arrive_and_no_answer_is_awaited(cluster: Cluster) -> None:
    create(cluster, "careless")
    # A broker that does not lead yet refuses records, and with acks=0 none is sent again.
    produce(cluster, "careless", [b"acknowledged"])

    produce(cluster, "careless", numbered(300), acks=0)

    assert consume(cluster, "careless", 301) == [b"acknowledged", *numbered(300)]


def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    cluster: Cluster,
) -> None:
    create(cluster, "once")

    offsets = produce(cluster, "once", numbered(2000), enable_idempotence=True)

    assert offsets == list(range(2000))


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on the PATH")
def test_kcat_makes_a_topic_by_writing_to_it(cluster: Cluster) -> None:

    def kcat(*arguments: str, given: str = "") -> str:
        command = ["kcat", "-b", cluster.bootstrap_servers, *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    lines = "".join(f"{number}\n" for number in range(3000))
    kcat("-P", "-t", "fresh", "-z", "lz4", given=lines)

    assert kcat("-C", "-t", "fresh", "-o", "beginning", "-e", "-q") == lines


def test_acknowledged_records_are_there_after_a_kill_and_after_a_stop(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(log__segment__bytes="20000")
    create(cluster, "kept")
    values = numbered(1000, 100)
    produce(cluster, "kept", values, acks="all", linger_ms=1, batch_num_messages=50)
    broker = cluster.brokers[1]

    broker.kill()
    broker.start().ready()
    wait_until_known(cluster)

    assert consume(cluster, "kept", 1000) == values
    broker.wait_for_line("since no clean shutdown file was found")
    assert produce(cluster, "kept", [b"next"]) == [1000]

    assert broker.stop() == (0, "")
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start().ready()
    wait_until_known(cluster)

    assert consume(cluster, "kept", 1001) == [*values, b"next"]
    broker.wait_for_line("since clean shutdown file was found")


def test_byte_limits_hold_but_for_the_first_batch(cluster: Cluster) -> None:
    create(cluster, "large", max__message__bytes="2000000")
    values = numbered(20, 300_000)
    produce(cluster, "large", values, message_max_bytes=1_500_000, batch_num_messages=1)

    found = consume(
        cluster,
        "large",
        20,
        fetch_message_max_bytes=1000,
        fetch_max_bytes=1000,
        message_max_bytes=1000,
    )

    assert found == values
    with pytest.raises(AssertionError, match=r"MSG_SIZE_TOO_LARGE|too large"):
        produce(cluster, "large", [b"x" * 2_100_000], message_max_bytes=3_000_000)


def test_a_topics_configuration_reaches_its_log_while_it_runs(cluster: Cluster) -> None:
    create(cluster, "short", segment__bytes="20000", file__delete__delay__ms="0")
    produce(cluster, "short", numbered(500, 100), batch_num_messages=20)
    folder = cluster.brokers[1].data / "short-0"
    assert len(list(folder.glob("*.log"))) > 2

    admin = admin_client(cluster.bootstrap_servers)
    entry = admin_module.ConfigEntry(
        "retention.bytes",
        "1",
        incremental_operation=admin_module.AlterConfigOpType.SET,
    )
    resource = admin_module.ConfigResource("topic", "short", incremental_configs=[entry])
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(20)

    wait_for(lambda: len(list(folder.glob("*.log"))) == 1, "old segments to go")


def test_failed_directories_go_offline_and_the_rest_serves_on(
    new_cluster: NewCluster, session: ZooKeeperSession, tmp_path: Path
) -> None:
    first, second, third = (tmp_path / name for name in ("data-1", "disk-2", "disk-3"))
    third.write_text("no directory from the start")
    cluster = new_cluster(log__dirs=f"{first},{second},{third}")
    broker = cluster.brokers[1]
    broker.wait_for_line(f"Failed to create or validate data directory {third}")
    create(cluster, "spread", 4)
    for partition in range(4):
        produce(cluster, "spread", [b"before"], partition=partition)
    on_second = {int(folder.name[-1]) for folder in second.glob("spread-*")}
    assert len(on_second) == 2

    second.rename(tmp_path / "torn-out")
    second.write_text("no directory any more")

    def has_leader(partition: int) -> bool:
        state = state_of(session, "spread", partition)
        return state is not None and state.leader == 1

    wait_for(
        lambda: {p for p in range(4) if not has_leader(p)} == on_second,
        "the controller to learn of the failed directory",
    )
    for partition in {0, 1, 2, 3} - on_second:
        assert produce(cluster, "spread", [b"after"], partition=partition) == [1]
    broker.wait_for_line(f"Stopping serving logs in dir {second}")

    first.rename(tmp_path / "torn-out-too")
    first.write_text("no directory any more")
    code, _ = broker.exit_code()
    assert code == 1
    broker.wait_for_line("Shutdown broker because all log dirs")
