"""What is taken as proof that a new controller reached the brokers, and what is not."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.record import Kind, StateChange

evidence = import_module("zkcontroller_cli.elections.election_evidence")
cluster_file = import_module("zkcontroller_cli.machine.cluster_file")

EPOCH = 8
DELETED_AT_MS = 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    cluster = cluster_file.ClusterFile(
        tmp_path,
        cluster_file.ZooKeeperEntry("zk:1", False),
        [cluster_file.BrokerEntry(1, 9092), cluster_file.BrokerEntry(2, 9093)],
    )
    for broker_id in (1, 2):
        cluster.logs_directory(broker_id).mkdir(parents=True)
    return cluster


def write(cluster: Any, broker_id: int, kind: Kind, time_ms: int, epoch: int = EPOCH) -> None:
    record = StateChange(kind, "broker", broker_id, controller_epoch=epoch)
    with (cluster.logs_directory(broker_id) / "state-changes.jsonl").open("ab") as log:
        log.write(json_line(record, time_ms=time_ms, host="here"))


def test_the_first_broker_that_cached_the_new_epoch_counts(cluster: Any) -> None:
    logs = evidence.StateChangeLogs(cluster)
    write(cluster, 1, Kind.METADATA_CACHED, 1_001, epoch=EPOCH - 1)
    write(cluster, 1, Kind.UPDATE_METADATA_SENDING, 1_002)
    write(cluster, 1, Kind.METADATA_CACHED, 1_030)
    write(cluster, 1, Kind.METADATA_CACHED, 1_040)
    write(cluster, 2, Kind.METADATA_CACHED, 1_020)

    first = evidence.from_logs(logs, EPOCH, DELETED_AT_MS)

    assert first.first_update_metadata_ms == 20
    assert first.first_update_metadata_broker_id == 2
    assert first.first_update_metadata_source == "state_changes"
    assert first.all_brokers_updated_ms == 30


def test_one_silent_broker_leaves_the_time_of_all_open(cluster: Any) -> None:
    logs = evidence.StateChangeLogs(cluster)
    write(cluster, 2, Kind.METADATA_CACHED, 1_020)

    first = evidence.from_logs(logs, EPOCH, DELETED_AT_MS)

    assert first.first_update_metadata_ms == 20
    assert first.all_brokers_updated_ms is None


def test_without_partitions_only_the_sending_is_known(cluster: Any) -> None:
    logs = evidence.StateChangeLogs(cluster)
    write(cluster, 1, Kind.UPDATE_METADATA_SENDING, 1_015)

    first = evidence.from_logs(logs, EPOCH, DELETED_AT_MS)

    assert first.first_update_metadata_ms == 15
    assert first.first_update_metadata_broker_id is None
    assert first.first_update_metadata_source == "state_changes_sent"


def test_what_was_logged_before_does_not_count(cluster: Any) -> None:
    write(cluster, 1, Kind.METADATA_CACHED, 900)

    first = evidence.from_logs(evidence.StateChangeLogs(cluster), EPOCH, DELETED_AT_MS)

    assert first.first_update_metadata_ms is None
    assert "state-changes.jsonl" in first.first_update_metadata_reason


def test_a_log_begun_anew_is_read_from_its_beginning(cluster: Any) -> None:
    for time_ms in range(900, 910):
        write(cluster, 1, Kind.METADATA_CACHED, time_ms)
    logs = evidence.StateChangeLogs(cluster)
    (cluster.logs_directory(1) / "state-changes.jsonl").unlink()
    write(cluster, 1, Kind.METADATA_CACHED, 1_020)

    assert logs.first_of(Kind.METADATA_CACHED, EPOCH) == {1: 1_020}


def test_a_line_that_is_still_being_written_waits(cluster: Any) -> None:
    logs = evidence.StateChangeLogs(cluster)
    path = cluster.logs_directory(1) / "state-changes.jsonl"
    path.write_bytes(b'{"kind":"metadata_cached","controller_epoch":8,"time_')

    assert logs.first_of(Kind.METADATA_CACHED, EPOCH) == {}


def test_a_metadata_response_that_names_the_new_controller_is_proof() -> None:
    first = evidence.from_metadata({1: 30.5, 3: 20.5}, 2)

    assert first.first_update_metadata_ms == 20.5
    assert first.first_update_metadata_broker_id == 3
    assert first.all_brokers_updated_ms == 30.5
    assert evidence.from_metadata({}, 2).first_update_metadata_reason is not None
