"""One scenario under our brokers and Kafka's: what ours write to ``server.log``, Kafka's do too.

And the other way round, but for what stands in ``KAFKAS_OWN``: what a broker of Python has not.
A line counts without its numbers, names, ids and paths.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.cluster import Cluster
from tests.peers.log_text import comparable_message
from tests.support.kafka_log_shapes import RECORD
from tests.support.paths import ROOT

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

confluent_kafka: Any = pytest.importorskip("confluent_kafka")
_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic

LEADER, FOLLOWER = 1, 2
COMPACTED: Final = {"cleanup.policy": "compact"}
BOTH: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "true",
    "replica.lag.time.max.ms": "3000",
}
OUR_OWN: Final = (
    # kazoo, which connects, beside what ZooKeeper's own client says.
    r"INFO (Connecting|Closing connection) to H.*",
    r"INFO Zookeeper (connection established|session closed), state: \w+",
)
KAFKAS_OWN: Final = (
    # Java, its client of ZooKeeper, its clients and their metrics.
    r"\w+ .* \(org\.apache\.zookeeper\.[\w.]+\)",
    r"\w+ .* \(kafka\.zookeeper\.ZooKeeperClient\)",
    r"\w+ .* \(org\.apache\.kafka\.clients\.NetworkClient\)",
    r"INFO .* \(org\.apache\.kafka\.common\.metrics\.Metrics\)",
    r"INFO .* \(org\.apache\.kafka\.common\.utils\.(?:AppInfoParser|LoggingSignalHandler)\)",
    r"INFO .* \(kafka\.utils\.Log0jControllerRegistration\$\)",
    # Threads, purgatories and channels that begin and end.
    r"INFO (?:\[[^\]]*\]:? )?(?:Starting|Stopped|Shutting down|Shutdown complete(?:d|\.)?) .*",
    r"INFO .*(?:[Ss]hut down completely|shutting down|shutdown completed) .*",
    r"INFO (?:Node to controller channel manager for|Broker and topic stats closed) .*",
    r"INFO \[SocketServer .*\] Shutting down socket server .*",
    r"INFO \[KafkaServer id=0\] (?:Start|End) processing .*",
    r"INFO Opened wildcard endpoint .*",
    r"INFO (?:Creating new marker queue|\[Transaction Marker Channel Manager 0\]: Creating) .*",
    r"INFO \[\S+\]: Recorded new ZK controller.*",
    # The cleaner is stopped for a move in the same step; a future replica has no fetcher.
    r"INFO (?:The cleaning for partition TP is aborted and paused|Cleaning for .* is resumed) .*",
    r"INFO \[ReplicaAlterLogDirs[^\]]*\]:? (?:Added|Removed|Truncating) .*",
    # Kafka reads every record of a group, ours the last one.
    r"INFO Loaded member .*",
    # What a killed leader has not sent yet, it loses: that is by chance.
    r"INFO \[ReplicaFetcher [^\]]*\] Truncating partition .*",
    r"INFO \[UnifiedLog [^\]]*\] (?:Truncating|Loading producer|Reloading|Producer state) .*",
    # The whole transaction is printed, where ours name its id.
    r"INFO \[Transaction State Manager 0\]: Sending txn markers for .*",
)
"""Lines of Kafka's brokers that ours do not write."""
STORED: Final = sorted((ROOT / "tests/history/data").glob("incidents-[acd]/broker-*/server.log.gz"))
"""Of Kafka's 3.9.1: what comes only if two threads happen to meet may have come there."""
_MASKS: Final = (
    (r"(?<!\w)/(?:[\w.-]+/)*[\w.-]+", "/P"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"0x[0-9a-f]+", "0x0"),
    (r"\b(?:localhost|127\.0\.0\.1)\b(?::[\d*]+)?", "H"),
    (r"\b(?:orders|__consumer_offsets|__transaction_state)\b", "T"),
    (r"\bT-\d+(?![\w.])", "TP"),
    (r"-?\d+", "0"),
    (r"\b(0|TP)(?:,\s?\1)+", r"\1"),
)


def masked(line: str) -> str:
    """``LEVEL message (logger)`` without what differs from run to run."""
    for pattern, mask in _MASKS:
        line = re.sub(pattern, mask, line)
    return line


def forms_of(logs: Iterable[Iterable[str]]) -> dict[str, str]:
    """By its masked form, a line of each kind."""
    return {
        masked(f"{level} {comparable_message(message)} ({logger})"): f"{level} {message} ({logger})"
        for lines in logs
        for line in lines
        if (record := RECORD.fullmatch(line)) is not None
        for level, text, logger in [record.group("level", "message", "logger")]
        # As many partitions as there happen to be in the request.
        for message in [re.sub(r"fetchData=\{[^}]*\}", "fetchData={}", text)]
    }


def scenario(
    cluster: Cluster,
    start: Callable[[int, Mapping[str, str]], BrokerProcess],
    directory: Path,
) -> dict[str, str]:
    """Topics, records, a group, transactions, a death, an orderly stop and a deletion."""
    leader, follower = (
        start(each, BOTH | {"log.dirs": ",".join(map(str, log_dirs(directory, each)))})
        for each in (LEADER, FOLLOWER)
    )
    client = {"bootstrap.servers": cluster.bootstrap(LEADER)}
    admin = _admin.AdminClient(client)

    def done(futures: dict[object, Any]) -> None:
        for future in futures.values():
            future.result(30)

    new_topic = _admin.NewTopic(
        "orders", 2, replica_assignment=[[LEADER, FOLLOWER], [FOLLOWER, LEADER]]
    )
    internal_topics = [
        _admin.NewTopic(name, 1, replica_assignment=[[FOLLOWER, LEADER]], config=COMPACTED)
        for name in ("__consumer_offsets", "__transaction_state")
    ]
    done(admin.create_topics([new_topic, *internal_topics]))
    cluster.wait_until_in_sync()
    entry = _admin.ConfigEntry(
        "retention.ms", "7200000", incremental_operation=_admin.AlterConfigOpType.SET
    )
    retention = _admin.ConfigResource("topic", "orders", incremental_configs=[entry])
    done(admin.incremental_alter_configs([retention]))
    done(admin.create_partitions([_admin.NewPartitions("orders", 3, [[LEADER, FOLLOWER]])]))
    produce(client)
    consume(client)
    transact(client)
    move_to_the_other_log_dir(client["bootstrap.servers"], directory)
    cluster.wait_until_in_sync()

    follower.kill()
    produce(client)
    cluster.wait_until(
        lambda: all(each.in_sync_replicas == {LEADER} for each in cluster.partitions().values()),
        "the dead broker has left all ISRs",
    )
    follower.start()
    cluster.wait_until_in_sync()

    follower.stop()
    follower.start()
    cluster.wait_until_in_sync()
    done(admin.delete_topics(["orders"]))
    cluster.wait_until(lambda: cluster.of("orders") == {}, "the topic is gone")
    cluster.elect()
    # A broker asks the controller that it knows before it stops.
    for broker in (follower, leader):
        cluster.wait_until_all_know_the_controller()
        broker.stop()
    return forms_of(broker.log_lines("server.log") for broker in (leader, follower))


def produce(client: dict[str, str]) -> None:
    producer = confluent_kafka.Producer({**client, "acks": "all"})
    for number in range(300):
        producer.produce("orders", b"%d" % number, partition=number % 3)
    assert producer.flush(60) == 0


def transact(client: dict[str, str]) -> None:
    producer = confluent_kafka.Producer({**client, "transactional.id": "ledger"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("orders", b"in a transaction", partition=0)
        end(30)


def log_dirs(directory: Path, broker_id: int) -> list[Path]:
    return [directory / f"broker-{broker_id}-{name}" for name in ("first", "second")]


def move_to_the_other_log_dir(bootstrap: str, directory: Path) -> None:
    """Moves a replica of the leader, and waits for it."""
    [there] = (each for each in log_dirs(directory, LEADER) if not (each / "orders-0").exists())
    command = [sys.executable, "-m", "zkcontroller_cli", "-b", bootstrap, "log-dirs", "move"]
    move = [str(LEADER), "orders-0", "--to", str(there), "--wait", "--yes"]
    done = subprocess.run(
        [*command, *move], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def consume(client: dict[str, str]) -> None:
    consumer = confluent_kafka.Consumer(
        {**client, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < 300:
        read += len(consumer.consume(300, 1.0))
    consumer.commit(asynchronous=False)
    consumer.close()


def only(there: Mapping[str, str], here: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """The lines there whose forms are not here, but for those that are known."""
    return [
        line
        for form, line in there.items()
        if form not in here and not any(re.match(each, form) for each in known)
    ]


def test_our_brokers_write_the_lines_that_kafkas_do(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    written = scenario(ours, ours.start_ours, tmp_path / "ours")
    by_kafka = scenario(kafkas, kafkas.start_kafka, tmp_path / "kafkas")
    stored = forms_of(gzip.decompress(path.read_bytes()).decode().splitlines() for path in STORED)

    own = only(written, by_kafka | stored, OUR_OWN)
    missing = only(by_kafka, written, KAFKAS_OWN)
    assert len(written) > 60
    assert not own, "\n".join(own)
    assert not missing, "\n".join(missing)
