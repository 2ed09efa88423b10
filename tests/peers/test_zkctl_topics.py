"""``zkctl topic``, ``deletion`` and ``wait`` beside Kafka's tools, on Kafka 3.9.1 and 2.8.2.

Kafka's tools are those of 3.9.1 on both, and 2.8.2's where ZooKeeper is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from benchmarks.kafka_peer import KafkaBroker
from tests.integration.zkctl_brokers import FIRST_MS, RECORDS, create
from tests.peers.clients import run_tool
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required_libs
from tests.support.suspension import suspend
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import Committed, Create, Delete, ZkTransaction

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

pytest.importorskip("confluent_kafka")

main: Final[Callable[[list[str]], int]] = import_module("zkcontroller_cli.main").main

TOPIC_TOOL: Final = str(Path(__file__).with_name("TopicTool.java"))
OLD_TOPICS: Final = "kafka.admin.TopicCommand"
IDS: Final = (1, 2)


class TopicCluster(Cluster):
    """Two brokers of one version of Kafka."""

    def __init__(self, version: str, zookeeper: str, directory: Path) -> None:
        super().__init__(zookeeper, directory)
        self.version = version

    def start_brokers(self, *ids: int) -> None:
        """Starts brokers, at the same time; they are registered when this returns."""
        for broker_id in ids:
            self.brokers[broker_id] = KafkaBroker(
                broker_id,
                self.zookeeper,
                self._directory / f"kafka-{broker_id}",
                # A frozen broker stays registered while zkctl waits for its answer.
                PROPERTIES | {"zookeeper.session.timeout.ms": "18000"},
                heap="384M",
                libs=required_libs(self.version),
                is_brief=True,
            )
            self.brokers[broker_id].launch()
        for broker_id in ids:
            self.brokers[broker_id].wait_until_started()
        self.wait_until(lambda: {*ids} <= self.live_brokers(), f"{ids} registered", timeout_s=60)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.bootstrap(broker_id) for broker_id in sorted(self.live_brokers()))

    def run(self, *arguments: str, exit_code: int = 0) -> Any:
        """What ``zkctl`` says as JSON, the addresses among the arguments; its errors elsewise."""
        out, errors = StringIO(), StringIO()
        # In this process: dozens of them would take a second each.
        with redirect_stdout(out), redirect_stderr(errors):
            done = main(["-o", "json", *arguments])
        assert done == exit_code, errors.getvalue()
        return orjson.loads(out.getvalue()) if out.getvalue() else errors.getvalue()

    def zkctl(self, *arguments: str, exit_code: int = 0) -> Any:
        """``zkctl`` with brokers alone."""
        at = ("-b", self.bootstrap_servers, "--timeout", "60")
        return self.run(*at, *arguments, exit_code=exit_code)

    def zkctl_at_zookeeper(self, *arguments: str, exit_code: int = 0) -> Any:
        """``zkctl`` with ZooKeeper alone."""
        return self.run("-z", self.zookeeper, *arguments, exit_code=exit_code)

    def kafka(self, *lines: str) -> list[list[str]]:
        """What Kafka's tools print for each line: its lines."""
        printed = run_tool(
            TOPIC_TOOL, self.bootstrap_servers, stdin="".join(f"{line}\n" for line in lines)
        )
        parts = [part.partition("\n")[2] for part in printed.split("### ")[1:]]
        return [[line for line in text.splitlines() if line.strip()] for text in parts]

    @contextmanager
    def without(self, broker_id: int) -> Iterator[None]:
        """The broker is dead meanwhile, and its session over."""
        self.brokers[broker_id].kill()
        self.wait_until(
            lambda: broker_id not in self.live_brokers(), "the end of its session", timeout_s=60
        )
        try:
            yield
        finally:
            self.start_brokers(broker_id)


@pytest.fixture(scope="module", params=["3.9.1", "2.8.2"])
def real(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TopicCluster]:
    version = request.param
    chroot = f"{zookeeper.connect}/topics-{version}"
    cluster = TopicCluster(version, chroot, tmp_path_factory.mktemp("topics"))
    try:
        cluster.start_brokers(*IDS)
        yield cluster
    finally:
        cluster.close()


def fields(line: str) -> dict[str, str]:
    """``Topic: a<tab>Partition: 0…`` as a mapping."""
    parts = [part.partition(":") for part in line.strip().split("\t") if ":" in part]
    return {name: value.strip() for name, _, value in parts}


def partitions_by_kafka(lines: list[str]) -> list[tuple[str, str, str, str, str]]:
    found = [fields(line) for line in lines if "\tPartition: " in line]
    keys = ("Topic", "Partition", "Leader", "Replicas", "Isr")
    return sorted((row[keys[0]], *(row[key] for key in keys[1:])) for row in found)  # type: ignore[misc]


def partition_by_zkctl(topic: str, row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    leader = "none" if row["leader"] < 0 else str(row["leader"])
    replicas, isr = (",".join(map(str, row[key])) for key in ("replicas", "isr"))
    return topic, str(row["partition"]), leader, replicas, isr


def topics_by_kafka(lines: list[str]) -> list[tuple[str, str, str, str, str]]:
    found = [fields(line) for line in lines if "PartitionCount: " in line]
    return sorted(
        (
            row["Topic"],
            row["TopicId"],
            row["PartitionCount"],
            row["ReplicationFactor"],
            ",".join(sorted(filter(None, row["Configs"].split(",")))),
        )
        for row in found
    )


def topic_by_zkctl(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    configs = ",".join(f"{key}={value}" for key, value in sorted(row["configs"].items()))
    counts = str(row["partition_count"]), str(row["replication_factor"])
    return row["topic"], row["topic_id"], *counts, configs


def test_topics_are_listed_and_described_as_by_kafkas_tool(real: TopicCluster) -> None:
    real.zkctl("topic", "create", "shop.orders", "--replica-assignment", "1:2,2:1,1:2")
    sized = ("--config", "retention.ms=60000", "--config", "min.insync.replicas=2")
    real.zkctl("topic", "create", "shop.audit", "--replica-assignment", "2:1", *sized)
    real.zkctl("topic", "create", "__consumer_offsets", "--partitions", "1")

    listed, without_internal, chosen, described, by_pattern, at_minimum = real.kafka(
        "topics --list",
        "topics --list --exclude-internal",
        r"topics --list --topic shop\.[ao].*,nothing",
        "topics --describe",
        r"topics --describe --topic shop\..*",
        "topics --describe --at-min-isr-partitions --topic shop.audit",
    )
    ours = real.zkctl("topic", "describe", "shop.*")
    of_znodes = real.zkctl_at_zookeeper("topic", "describe", "shop.*")
    [audit] = [row for row in ours if row["topic"] == "shop.audit"]
    minimum = real.zkctl("topic", "describe", "shop.audit", "--at-min-isr-partitions")

    names = [row["topic"] for row in real.zkctl("topic", "list")]
    assert names == sorted(listed)
    assert [row["topic"] for row in real.zkctl_at_zookeeper("topic", "list")] == names
    external = real.zkctl("topic", "list", "--exclude-internal")
    assert [row["topic"] for row in external] == sorted(without_internal)
    by_regex = real.zkctl("topic", "list", r"shop\.[ao].*,nothing", "--regex")
    assert [row["topic"] for row in by_regex] == sorted(chosen) == ["shop.audit", "shop.orders"]
    everything = real.zkctl("topic", "describe")
    assert sorted(map(topic_by_zkctl, everything)) == topics_by_kafka(described)
    assert sorted(map(topic_by_zkctl, ours)) == topics_by_kafka(by_pattern)
    assert ours == [{**row, "is_marked_for_deletion": None} for row in of_znodes]
    assert sorted(
        partition_by_zkctl(row["topic"], each) for row in ours for each in row["partitions"]
    ) == partitions_by_kafka(by_pattern)
    assert [partition_by_zkctl("shop.audit", row) for row in minimum] == partitions_by_kafka(
        at_minimum
    )
    assert real.zkctl("topic", "describe", "--topic-id", audit["topic_id"]) == audit


def offsets_by_zkctl(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        f"{row['topic']}:{row['partition']}:{row['offset']}"
        for row in rows
        if row["offset"] is not None
    )


def test_offsets_are_those_of_kafkas_tool_also_after_records_are_deleted(
    real: TopicCluster, tmp_path: Path
) -> None:
    create(real, "ledger.a", 3)
    create(real, "ledger.b", 2)
    file = tmp_path / "offsets.json"
    wanted = {"topic": "ledger.b", "partition": 1, "offset": 7}
    file.write_bytes(orjson.dumps({"version": 1, "partitions": [wanted]}))

    ended = real.zkctl("topic", "delete-records", "ledger.a-0:4", "ledger.a-1:-1", "--yes")
    planned = real.zkctl("topic", "delete-records", "--file", str(file), "--dry-run")
    [deleted] = real.kafka(f"records --offset-json-file {file}")
    questions = {
        "offsets --topic ledger.*": ("ledger.*", "--time", "latest"),
        "offsets --topic ledger.* --time -2": ("ledger.*", "--time", "-2"),
        "offsets --topic ledger.a --partitions 0,2 --time earliest": (
            *("ledger.a", "--partitions", "0,2", "--time", "earliest"),
        ),
        f"offsets --topic ledger.b --time {FIRST_MS + 4_500}": (
            *("ledger.b", "--time", str(FIRST_MS + 4_500)),
        ),
        f"offsets --topic ledger.b --time {FIRST_MS * 2}": (
            *("ledger.b", "--time", str(FIRST_MS * 2)),
        ),
        "offsets --topic-partitions ledger.a:1-,ledger.b:-1 --exclude-internal-topics": (
            *("--topic-partitions", "ledger.a:1-,ledger.b:-1", "--exclude-internal"),
            *("--time", "-1"),
        ),
    }
    newest = ("ledger.b", "--time", "max-timestamp")
    if real.version == "3.9.1":
        questions |= {
            "offsets --topic ledger.b --time -3": newest,
            "offsets --topic ledger.b --time -4": ("ledger.b", "--time", "earliest-local"),
            "offsets --topic ledger.b --time -5": ("ledger.b", "--time", "-5"),
        }
    by_kafka = real.kafka(*questions)
    ours = [real.zkctl("topic", "offsets", *arguments) for arguments in questions.values()]

    assert [row["earliest_offset"] for row in ended] == [4, RECORDS]
    assert [row["is_deleted"] for row in ended] == [True, True]
    assert [row["record_count"] for row in planned] == [7]
    assert "partition: ledger.b-1\tlow_watermark: 7" in deleted
    for question, theirs, rows in zip(questions, by_kafka, ours, strict=True):
        assert offsets_by_zkctl(rows) == sorted(theirs), question
    assert by_kafka[1] == [
        *("ledger.a:0:4", f"ledger.a:1:{RECORDS}", "ledger.a:2:0"),
        *("ledger.b:0:0", "ledger.b:1:7"),
    ]
    if real.version == "2.8.2":
        why = real.zkctl("topic", "offsets", *newest, exit_code=5)
        assert "max-timestamp needs Kafka 3.0" in why


REPORTS: Final = (
    "--under-replicated-partitions",
    "--unavailable-partitions",
    "--under-min-isr-partitions",
    "--at-min-isr-partitions",
)


def listed_by_zookeeper(real: TopicCluster) -> list[str]:
    """What ``kafka-topics --zookeeper`` of Kafka 2.8.2 lists."""
    printed = run_tool(
        *(OLD_TOPICS, "--zookeeper", real.zookeeper, "--list"), libs=required_libs("2.8.2")
    )
    return printed.splitlines()


def is_settled(real: TopicCluster, alive: int) -> bool:
    """Whether ZooKeeper and the living broker have the sick partitions without the dead one."""
    looks = [ask("topic", "describe", "sick.*") for ask in (real.zkctl, real.zkctl_at_zookeeper)]
    return all(
        lone["partitions"][1]["leader"] == -1
        and all(each["isr"] == [alive] for each in pair["partitions"])
        for lone, pair in looks
    )


def test_a_dead_broker_is_seen_alike_and_its_deletions_and_moves_are_solved(
    real: TopicCluster,
) -> None:
    alive = real.controller_id()
    assert alive is not None
    [dead] = {*IDS} - {alive}
    strict = ("--config", "min.insync.replicas=2")
    both, each = f"{alive}:{dead},{dead}:{alive}", f"{alive},{dead}"
    real.zkctl("topic", "create", "sick.pair", "--replica-assignment", both, *strict)
    real.zkctl("topic", "create", "sick.lone", "--replica-assignment", each)
    real.zkctl("topic", "create", "doomed", "--replica-assignment", f"{alive}:{dead}")
    real.zkctl("topic", "create", "spared", "--replica-assignment", f"{alive}:{dead}")
    real.zkctl("topic", "create", "moving", "--replica-assignment", str(alive))
    # It cannot catch up, and dies before it has begun.
    suspend(real.brokers[dead].pid)
    at_controller = ("-b", real.bootstrap(alive))
    real.run(*at_controller, "reassign", "start", f"moving-0:{dead}", "--yes")

    with real.without(dead):
        real.wait_until(lambda: is_settled(real, alive), "the end of the dead broker is known")
        # The next controller finds the mark and a dead replica: it does not begin.
        mark = Create("/admin/delete_topics/spared")
        done = real.session.perform(ZkTransaction([mark, Delete("/controller")]))
        assert isinstance(done, Committed)
        real.zkctl_at_zookeeper("wait", "--for=controller")
        of_brokers = {
            report: real.zkctl("topic", "describe", "sick.*", report) for report in REPORTS
        }
        of_znodes = {
            report: real.zkctl_at_zookeeper("topic", "describe", "sick.*", report)
            for report in REPORTS
        }
        by_kafka = real.kafka(
            *(rf"topics --describe {report} --topic sick\..*" for report in REPORTS)
        )
        delete = ("topic", "delete", "doomed", "moving", "--yes", "--timeout", "1")
        not_gone = real.zkctl(*delete, exit_code=4)
        marked = real.zkctl_at_zookeeper("topic", "list")
        by_old_tool = listed_by_zookeeper(real) if real.version == "2.8.2" else None
        status = {row["topic"]: row for row in real.zkctl_at_zookeeper("deletion", "status")}
        refused = real.zkctl_at_zookeeper("deletion", "unblock", "doomed", "--yes", exit_code=5)
        ended = real.zkctl_at_zookeeper("deletion", "unblock", "moving", "--yes")
        real.wait_until(
            lambda: real.zkctl_at_zookeeper("deletion", "status", "spared")[0]["age_ms"] > 10_000,
            "an age at which nothing is sent",
        )
        kept = real.zkctl_at_zookeeper(
            *("deletion", "unblock", "spared", "--keep-topic", "spared", "--yes")
        )
    wanted = ("--for=deleted=doomed", f"--for=broker={dead}", "--for=isr=full")
    waited = real.zkctl_at_zookeeper("wait", *wanted, "--topic", "s*", "--timeout", "60")

    for report, theirs in zip(REPORTS, by_kafka, strict=True):
        for rows in (of_brokers[report], of_znodes[report]):
            found = sorted(partition_by_zkctl(row["topic"], row) for row in rows)
            assert found == partitions_by_kafka(theirs), report
    assert [row["is_deleted"] for row in not_gone] == [False, False]
    lines = [
        row["topic"] + (" - marked for deletion" if row["is_marked_for_deletion"] else "")
        for row in marked
    ]
    assert lines == sorted(lines if by_old_tool is None else by_old_tool)
    assert "doomed - marked for deletion" in lines
    assert {"doomed", "moving", "spared"} == {*status}
    assert [row["left_count"] for row in status["spared"]["brokers"] if row["is_alive"]] == [1]
    assert [each["kind"] for each in status["doomed"]["blockers"]] == ["dead_broker"]
    assert [each["kind"] for each in status["moving"]["blockers"]] == [
        *("dead_broker", "reassignment")
    ]
    left = {row["broker_id"]: row["left_count"] for row in status["doomed"]["brokers"]}
    assert left == {alive: 0, dead: None}
    assert f"broker {dead} has replicas and is not alive; nothing that is safe" in refused
    assert (ended["action"], ended["is_deleted"]) == ("cancel_reassignment", True)
    assert (kept["action"], kept["is_marked_for_deletion"]) == ("keep_topic", False)
    assert [row["is_met"] for row in waited] == [True, True, True]
    assert real.of("spared")[0].in_sync_replicas == {alive, dead}
