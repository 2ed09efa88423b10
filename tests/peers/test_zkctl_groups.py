"""``zkctl group`` and ``kafka-consumer-groups`` say the same of groups on Kafka 3.9.1 and 2.8.2.

Kafka's tool is that of 3.9.1 on both; 2.8's has fewer options.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.integration.zkctl_brokers import commit, create, member
from tests.peers.real_cluster import RealCluster, started_real_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module", params=["3.9.1", "2.8.2"])
def real(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealCluster]:
    version = request.param
    directory = tmp_path_factory.mktemp("groups")
    chroot = f"{zookeeper.connect}/groups-{version}"
    with started_real_cluster(version, chroot, directory, {}) as cluster:
        yield cluster


def cell(value: object) -> str:
    """A value as Kafka's tool prints it."""
    return "-" if value is None else str(value)


def described_by_zkctl(record: dict[str, Any]) -> list[list[str]]:
    keys = ("committed_offset", "log_end_offset", "lag", "member_id", "host", "client_id")
    return sorted(
        [record["group"], row["topic"], str(row["partition"]), *(cell(row[key]) for key in keys)]
        for row in record["partitions"]
    )


def described_by_kafka(rows: list[list[str]]) -> list[list[str]]:
    """The rows below the titles; the talk about the group's state stands elsewhere."""
    assert rows[0][3:6] == ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    return sorted(row for row in rows[1:] if row[0] != "exit")


def test_groups_are_listed_and_described_as_by_kafkas_tool(real: RealCluster) -> None:
    create(real, "orders", 3)
    commit(real, "shipping", "orders", 3, 8)

    with member(real, "billing", "orders") as consumer:
        import confluent_kafka

        consumer.commit(
            offsets=[confluent_kafka.TopicPartition("orders", 1, 4)], asynchronous=False
        )
        listed = real.zkctl("group", "list")
        billing, shipping = real.zkctl("group", "describe", "billing", "shipping")
        [reader] = real.zkctl("group", "members", "billing")
        by_kafka = real.kafka(
            "--list --state",
            "--describe --group billing",
            "--describe --group shipping",
            "--describe --group billing --members --verbose",
            "--describe --group billing --state",
        )

    states, of_billing, of_shipping, of_members, of_state = by_kafka
    assert sorted([row["group"], row["state"]] for row in listed) == sorted(
        row for row in states[1:] if row[0] != "exit"
    )
    assert described_by_zkctl(billing) == described_by_kafka(of_billing)
    assert described_by_zkctl(shipping) == described_by_kafka(of_shipping)
    assert of_members[1] == [
        *("billing", reader["member_id"], reader["host"], reader["client_id"], "3", "(0,1,2)"),
    ]
    assert of_state[1] == [
        *("billing", billing["coordinator"], f"({billing['coordinator_id']})"),
        *(billing["protocol"], billing["state"], str(billing["member_count"])),
    ]


MODES: Final = (
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 7",
    "--to-offset 99",
    "--shift-by -5",
    "--shift-by 2",
    "--to-datetime 2023-11-14T22:13:25.000",
    "--to-datetime 2023-11-14T23:13:25.500+01:00",
    "--to-datetime 2033-01-01T00:00:00.000Z",
    "--by-duration P9000D",
    "--by-duration PT1M",
)


def test_every_mode_of_a_reset_plans_what_kafkas_tool_plans(
    real: RealCluster, tmp_path: Path
) -> None:
    create(real, "resets")
    commit(real, "resetting", "resets", 3, 8)
    reset = "--reset-offsets --group resetting --dry-run --topic resets"

    by_kafka = real.kafka(*(f"{reset} {mode}" for mode in MODES), f"{reset} --export --to-current")
    ours = [
        real.zkctl("group", "reset", "resetting", "--topic", "resets", *mode.split(), "--dry-run")
        for mode in MODES
    ]
    file = tmp_path / "plan.csv"
    named = ("group", "reset", "resetting", "--topic", "resets", "--to-current", "--dry-run")
    real.zkctl(*named, "--export", str(file))

    for mode, theirs, planned in zip(MODES, by_kafka, ours, strict=False):
        # The tool prints the rows of a plan on one line, four words each.
        words = [word for row in theirs for word in row]
        rows = [words[at : at + 4] for at, word in enumerate(words) if word == "resetting"]
        assert sorted(rows) == [
            [row["group"], row["topic"], str(row["partition"]), str(row["new_offset"])]
            for row in planned
        ], mode
    exported = [row[0] for row in by_kafka[-1] if row[0] != "exit"]
    assert sorted(csv.reader(exported)) == sorted(csv.reader(file.read_text().splitlines()))


def test_what_zkctl_resets_kafkas_tool_sees_and_its_export_is_read(
    real: RealCluster, tmp_path: Path
) -> None:
    create(real, "plans")
    commit(real, "planning", "plans", 3, 8)
    reset = "--reset-offsets --group planning --topic plans"
    [exported] = real.kafka(f"{reset} --to-offset 6 --dry-run --export")
    file = tmp_path / "plan.csv"
    file.write_text("".join(f"{row[0]}\n" for row in exported if row[0] != "exit"))

    done = real.zkctl("group", "reset", "planning", "--from-file", str(file), "--yes")
    real.zkctl("group", "delete-offsets", "planning", "--topic", "plans:1", "--yes")
    [described] = real.kafka("--describe --group planning")
    ended = real.zkctl("group", "delete", "planning", "--yes")
    [listed] = real.kafka("--list")

    assert [row["committed_offset"] for row in done] == [6, 6]
    assert [row[1:6] for row in described_by_kafka(described)] == [["plans", "0", "6", "10", "4"]]
    assert [row["is_deleted"] for row in ended] == [True]
    assert ["planning"] not in listed


def test_a_living_member_keeps_its_group(real: RealCluster) -> None:
    create(real, "living")
    commit(real, "alive", "living", 3, 8)

    with member(real, "alive", "living"):
        not_reset = real.run("group", "reset", "alive", "--all-topics", "--to-latest", "--yes")
        not_deleted = real.run("group", "delete", "alive", "--yes")
        kept = real.run("group", "delete-offsets", "alive", "--topic", "living", "--yes")

    assert [each.returncode for each in (not_reset, not_deleted, kept)] == [5, 5, 5]
    assert "stop its 1 members before offsets are reset: reader at" in not_reset.stderr
    assert {row["error"] for row in orjson.loads(kept.stdout)} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
