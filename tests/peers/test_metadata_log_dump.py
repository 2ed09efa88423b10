"""A metadata log that we wrote, read by Kafka's own tool."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kraft.metadata.bootstrap import BootstrapMetadata, encode_bootstrap
from kraft.metadata.codec import decode_record
from kraft.metadata.metadata_batches import encode_control_batch
from kraft.metadata.metadata_version import LATEST_PRODUCTION
from kraft.metadata.records import VersionedRecord
from kraft.raft.control_records import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
)
from tests.peers.clients import run_tool
from tests.support.metadata_batches import encode_data_batch
from tests.support.record_text import control_record_text, record_text

pytestmark = pytest.mark.peers

DUMP = "kafka.tools.DumpLogSegments"
RECORDED = Path(__file__).parent.parent / "wire" / "data" / "metadata-records-3.9.1.tsv"
TIMESTAMP = 1700000000123
EPOCH = 7
RECORDS_IN_A_BATCH = 20
"""Several batches, so that offsets must fit together."""


def every_record() -> list[VersionedRecord]:
    lines = (line.split("\t") for line in RECORDED.read_text().split("\n") if line)
    return [decode_record(bytes.fromhex(raw)) for _, raw, _ in lines]


def dump(file: Path) -> list[str]:
    return run_tool(DUMP, "--cluster-metadata-decoder", "--files", str(file)).splitlines()


@pytest.fixture(autouse=True)
def _utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Java prints beyond ASCII depends on this."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.mark.usefixtures("kafka")
def test_kafka_prints_a_log_of_ours_as_we_do(tmp_path: Path) -> None:
    records = every_record()
    first = LeaderChange(1, (1, 2, 3), (1, 3))
    batches = [encode_control_batch([first], base_offset=0, epoch=EPOCH, timestamp=TIMESTAMP)]
    for start in range(0, len(records), RECORDS_IN_A_BATCH):
        some = records[start : start + RECORDS_IN_A_BATCH]
        batches.append(
            encode_data_batch(some, base_offset=1 + start, epoch=EPOCH, timestamp=TIMESTAMP)
        )
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(b"".join(batches))

    printed = dump(segment)

    heads = [line for line in printed if line.startswith("baseOffset: ")]
    assert len(heads) == len(batches)
    assert all(line.endswith("isvalid: true") for line in heads)
    payloads = [line.partition(" payload: ")[2] for line in printed if " payload: " in line]
    assert payloads == [record_text(record) for record in records]
    offsets = [int(line.split()[2]) for line in printed if line.startswith("| offset: ")]
    assert offsets == list(range(1 + len(records)))
    assert printed[3].endswith(control_record_text(first))


@pytest.mark.usefixtures("kafka")
def test_kafka_reads_a_snapshot_of_ours(tmp_path: Path) -> None:
    voter = Voter(1, UUID(int=3), (VoterEndpoint("CONTROLLER", "localhost", 29093),), 0, 1)
    header: list[ControlRecord] = [
        SnapshotHeader(TIMESTAMP),
        KRaftVersion(1),
        KRaftVoters((voter,)),
    ]
    snapshot = tmp_path / f"{4:020}-{EPOCH:010}.checkpoint"
    snapshot.write_bytes(
        encode_control_batch(header, base_offset=0, epoch=EPOCH, timestamp=TIMESTAMP)
        + encode_control_batch([SnapshotFooter()], base_offset=3, epoch=EPOCH, timestamp=TIMESTAMP)
    )

    printed = dump(snapshot)

    records = [line.partition(" headerKeys: [] ")[2] for line in printed if "headerKeys" in line]
    assert records == [control_record_text(record) for record in (*header, SnapshotFooter())]
    assert "Snapshot end offset: 4, epoch: 7" in printed
    assert [line.endswith("isvalid: true") for line in printed if "isvalid" in line] == [True] * 2


@pytest.mark.usefixtures("kafka")
def test_kafka_reads_a_bootstrap_file_of_ours(tmp_path: Path) -> None:
    metadata = BootstrapMetadata.from_versions(LATEST_PRODUCTION)
    file = tmp_path / "bootstrap.checkpoint"
    file.write_bytes(encode_bootstrap(metadata, TIMESTAMP))

    printed = dump(file)

    assert "KRaft bootstrap snapshot" in printed
    assert [line.partition(" payload: ")[2] for line in printed if " payload: " in line] == [
        record_text(record) for record in metadata.records
    ]
