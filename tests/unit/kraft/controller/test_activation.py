"""What a controller writes first, by what the log holds and what it is configured with.

Source of the behaviours: Kafka ``QuorumControllerTest``, ``BootstrapMetadataTest``,
``BootstrapDirectoryTest``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_common.errors import IllegalState, InvalidRecord
from kraft.controller.activation import LogState, generate
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.offsets import NONE
from kraft.controller.quorum_features import KRAFT_VERSION
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.metadata.metadata_version import (
    FEATURE_NAME,
    LATEST_PRODUCTION,
    MINIMUM_KRAFT_VERSION,
    from_name,
)
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
)
from kraft.metadata.records import VersionedRecord as Versioned

BEGIN = BeginTransactionRecord("Bootstrap records")
END = EndTransactionRecord()
ABORT = AbortTransactionRecord("Controller failover")
EMPTY = LogState(True, NONE, MINIMUM_KRAFT_VERSION, ZkMigrationState.NONE)


def level(version: str) -> FeatureLevelRecord:
    return FeatureLevelRecord(FEATURE_NAME, from_name(version).level)


def written(log: LogState, version: str = "3.9") -> tuple[list[MetadataRecord], bool]:
    """The records, and whether they are one batch."""
    bootstrap = BootstrapMetadata.from_versions(from_name(version))
    result = generate(log, bootstrap)
    return [record for record, _ in result.records], result.is_atomic


def log_at(version: str, state: ZkMigrationState = ZkMigrationState.NONE) -> LogState:
    return LogState(False, NONE, from_name(version), state)


# ---------------------------------------------------------------------- an empty log


def test_the_first_controller_writes_bootstrap_records_in_one_transaction() -> None:
    records, is_atomic = written(EMPTY)

    assert records == [BEGIN, level("3.9"), ZkMigrationStateRecord(0), END]
    assert not is_atomic


def test_without_transactions_bootstrap_records_are_one_batch() -> None:
    assert written(EMPTY, "3.6-IV0") == ([level("3.6-IV0")], True)


def test_an_open_bootstrap_transaction_is_aborted_and_written_again() -> None:
    records, _ = written(replace(EMPTY, transaction_start_offset=0))

    assert records == [ABORT, BEGIN, level("3.9"), ZkMigrationStateRecord(0), END]
    with pytest.raises(IllegalState, match="a transaction is open since 0"):
        written(replace(EMPTY, transaction_start_offset=0), "3.6-IV0")


# ---------------------------------------------------------------------- a log with records


def test_the_second_start_writes_nothing() -> None:
    assert written(log_at("3.9")) == ([], True)
    assert written(log_at("3.0-IV1")) == ([], True)


def test_an_open_transaction_of_the_predecessor_is_aborted() -> None:
    assert written(replace(log_at("3.9"), transaction_start_offset=7)) == ([ABORT], True)
    with pytest.raises(IllegalState, match="open since 7"):
        written(replace(log_at("3.6-IV0"), transaction_start_offset=7))


def test_a_migration_ends_where_none_is_led() -> None:
    # 3.4 wrote 1 for what came before the migration; it reads as the migration itself.
    log = log_at("3.4", ZkMigrationState(1))

    assert written(log) == ([ZkMigrationStateRecord(3)], True)


@pytest.mark.parametrize("state", [ZkMigrationState.PRE_MIGRATION, ZkMigrationState.POST_MIGRATION])
def test_before_and_after_a_migration_nothing_is_written(state: ZkMigrationState) -> None:
    assert written(log_at("3.9", state)) == ([], True)


# ---------------------------------------------------------------------- bootstrap metadata


def test_levels_of_features_are_written_by_name_except_zero_and_kraft_version() -> None:
    levels = {"b.version": 2, "a.version": 1, "c.version": 0, KRAFT_VERSION: 1}

    bootstrap = BootstrapMetadata.from_versions(from_name("3.9"), levels)

    assert [record for record, _ in bootstrap.records] == [
        level("3.9"),
        FeatureLevelRecord("a.version", 1),
        FeatureLevelRecord("b.version", 2),
    ]


def test_a_bootstrap_file_must_have_a_version() -> None:
    with pytest.raises(InvalidRecord, match="No FeatureLevelRecord"):
        BootstrapMetadata.from_records([Versioned(NoOpRecord(), 0)])

    records = (Versioned(NoOpRecord(), 0), Versioned(level("3.8"), 0))
    assert BootstrapMetadata.from_records(records) == BootstrapMetadata(records, from_name("3.8"))


def test_no_cluster_begins_below_3_3() -> None:
    with pytest.raises(InvalidRecord, match=r"before 3\.3-IV0"):
        BootstrapMetadata.from_versions(from_name("3.2"))


@pytest.mark.parametrize(
    ("configured", "version"),
    [
        (None, LATEST_PRODUCTION),
        ("3.7", from_name("3.7")),
        ("3.0", from_name("3.3-IV0")),
        ("2.8", from_name("3.3-IV0")),
    ],
)
def test_without_a_file_the_version_is_the_configured_one(
    configured: str | None, version: object
) -> None:
    assert BootstrapMetadata.from_configuration(configured).metadata_version == version
