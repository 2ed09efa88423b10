"""``zkctl`` where two clusters can be reached: it speaks to one of them, and says which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integration.cli_cluster import LocalCluster
from tests.support.cli_world import CommandResult, zkctl_here

pytestmark = pytest.mark.integration


class TwoClusters:
    """A local cluster in the default directory, and another one that addresses name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.local = LocalCluster(directory / "zkctl-cluster")
        self.other = LocalCluster(directory / "other")
        for cluster, topic in ((self.local, "local-topic"), (self.other, "other-topic")):
            started = cluster("cluster", "start", "--brokers", "1", "--detach")
            assert started.exit_code == 0, started.stderr
            cluster.json("topic", "create", topic, "--partitions", "1")
        self.brokers, self.zookeeper = self.addresses(self.other)
        self.id = self.other.json("znode", "get", "/cluster/id")["data"]["id"]

    @staticmethod
    def addresses(cluster: LocalCluster) -> tuple[str, str]:
        status = cluster.json("cluster", "status")
        return status["bootstrap_servers"], status["zookeeper"]

    def __call__(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """``zkctl`` in the folder of the local cluster, without ``--dir``."""
        with chdir(self.directory):
            return zkctl_here(*arguments, **dict(environment or {}))

    def json(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
        result = self(*arguments, "-o", "json", environment=environment)
        assert result.exit_code == 0, result.stderr
        return orjson.loads(result.stdout)

    def topics(self, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
        rows = self.json("topic", "list", *arguments, environment=environment)
        return [row["topic"] for row in rows]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    directory = tmp_path_factory.mktemp("two")
    try:
        yield TwoClusters(directory)
    finally:
        for name in ("zkctl-cluster", "other"):
            LocalCluster(directory / name).end()


def test_without_an_address_the_default_directory_is_meant(clusters: TwoClusters) -> None:
    assert clusters.topics() == ["local-topic"]


def test_an_address_is_not_mixed_with_the_default_directory(clusters: TwoClusters) -> None:
    for option, variable, value in (
        ("-b", "ZKCTL_BOOTSTRAP_SERVER", clusters.brokers),
        ("-z", "ZKCTL_ZOOKEEPER", clusters.zookeeper),
    ):
        assert clusters.topics(option, value) == ["other-topic"]
        assert clusters.topics(environment={variable: value}) == ["other-topic"]

    for verb in (("controller", "elect", "--dry-run"), ("broker", "list"), ("partition", "list")):
        refused = clusters(*verb, "-b", clusters.brokers)

        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"needs the ZooKeeper of the brokers at {clusters.brokers}" in refused.stderr
        assert refused.stderr.endswith("KRaft clusters have none\n")


def test_a_zookeeper_alone_leads_to_its_brokers(clusters: TwoClusters) -> None:
    offsets = clusters.json("topic", "offsets", "-z", clusters.zookeeper)
    created = clusters("topic", "create", "more", "-z", clusters.zookeeper)

    assert [row["topic"] for row in offsets] == ["other-topic"]
    assert created.exit_code == 0, created.stderr
    assert clusters.topics("-b", clusters.brokers) == ["more", "other-topic"]


def test_every_change_names_its_target_first(clusters: TwoClusters) -> None:
    for verb in (
        ("topic", "create", "named"),
        ("topic", "alter", "named", "--partitions", "2", "--yes"),
        ("config", "set", "topic", "named", "--config", "retention.ms=1000", "--yes"),
        ("config", "set", "broker", "--default", "--config", "log.cleaner.threads=1", "--yes"),
        ("quota", "set", "--user", "alice", "producer_byte_rate=1000000", "--yes"),
        ("quota", "unset", "--user", "alice", "producer_byte_rate", "--yes"),
        ("partition", "elect", "named-0", "--yes"),
        ("reassign", "start", "named-0:1", "--yes"),
        ("topic", "delete", "named", "--yes"),
    ):
        changed = clusters(*verb, "-b", clusters.brokers)

        first = f"target: cluster {clusters.id}, brokers {clusters.brokers}"
        assert changed.stderr.splitlines()[0] == first, verb
        assert changed.exit_code == 0, changed.stderr

    elected = clusters("controller", "elect", "--yes", "-z", clusters.zookeeper)

    first = f"target: cluster {clusters.id}, ZooKeeper {clusters.zookeeper}"
    assert elected.stderr.splitlines()[0] == first
    assert elected.exit_code == 0


def test_addresses_of_two_clusters_are_refused_before_anything_is_done(
    clusters: TwoClusters,
) -> None:
    local_brokers, local_zookeeper = clusters.addresses(clusters.local)

    created = clusters("topic", "create", "nowhere", "-b", clusters.brokers, "-z", local_zookeeper)
    by_directory = clusters.other("topic", "create", "nowhere", "-b", local_brokers)
    elected = clusters(
        *("controller", "elect", "--yes", "-z", clusters.zookeeper, "-b", local_brokers)
    )

    for refused in (created, by_directory, elected):
        assert (refused.exit_code, refused.stdout) == (5, "")
        assert "two clusters: the brokers at " in refused.stderr
    assert "nowhere" not in clusters.topics() + clusters.topics("-b", clusters.brokers)


def test_nothing_is_changed_where_a_zookeeper_that_is_named_does_not_answer(
    clusters: TwoClusters,
) -> None:
    created = clusters(
        *("topic", "create", "unchecked", "-b", clusters.brokers, "-z", "127.0.0.1:1"),
        *("--timeout", "3"),
    )

    assert created.exit_code == 5, created.stderr
    assert "the ZooKeeper at 127.0.0.1:1 does not say of which cluster it is" in created.stderr
    assert "unchecked" not in clusters.topics("-b", clusters.brokers)


def test_a_plan_changes_nothing(clusters: TwoClusters) -> None:
    moves = clusters.json(
        "reassign", "start", "other-topic-0:1", "--dry-run", "-b", clusters.brokers
    )
    elections = clusters.json("partition", "elect", "--all", "--dry-run", "-b", clusters.brokers)
    refused = clusters("reassign", "start", "other-topic-0:7", "--yes", "-b", clusters.brokers)

    assert [(row["current_replicas"], row["replicas"]) for row in moves] == [([1], [1])]
    assert elections == []
    assert refused.exit_code == 5
    assert "other-topic-0: broker 7 is not alive; 1 of 1 moves cannot be made" in refused.stderr


@pytest.mark.parametrize("option", ["-z", "-b", "--zookeeper", "--bootstrap-server"])
def test_an_empty_address_is_refused(clusters: TwoClusters, option: str) -> None:
    result = clusters("topic", "list", option, "")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "is empty" in result.stderr
