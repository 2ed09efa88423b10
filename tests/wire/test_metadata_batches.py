"""Batches of the metadata log and the files of a format: equal to Kafka's bytes, or refused.

``data/metadata-batches-3.9.1.tsv`` was printed by Kafka 3.9.1's own classes, with
``data/MetadataBatches.java``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from struct import Struct
from uuid import UUID

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import CorruptRecord, InvalidRecord, RecordsRefused, UnsupportedVersion
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import Record
from kraft.metadata.bootstrap import (
    BootstrapMetadata,
    decode_bootstrap,
    encode_bootstrap,
)
from kraft.metadata.metadata_batches import (
    ControlBatch,
    DataBatch,
    MetadataBatchPlace,
    encode_control_batch,
    iterate_metadata_batches,
    iterate_undecoded_batches,
    read_metadata_batch,
)
from kraft.metadata.metadata_version import LATEST_PRODUCTION, from_name
from kraft.metadata.records import (
    FeatureLevelRecord,
    NoOpRecord,
    TopicRecord,
    UserScramCredentialRecord,
    VersionedRecord,
)
from kraft.raft.control_records import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    decode_control_record,
    encode_control_record,
)
from tests.support.metadata_batches import encode_data_batch
from tests.support.record_text import control_record_text

GOLDEN = dict(
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "metadata-batches-3.9.1.tsv")
    .read_text()
    .splitlines()
)
TIMESTAMP = 1700000000123
EPOCH = 7
NO_OP = bytes.fromhex("01140000")
CONTROL: list[tuple[str, int, ControlRecord]] = [
    ("leader-change", 40, LeaderChange(2, (1, 2, 3), (2, 3))),
    ("snapshot-header", 0, SnapshotHeader(1699999999999)),
    ("snapshot-footer", 9, SnapshotFooter()),
    ("kraft-version", 1, KRaftVersion(1)),
    (
        "kraft-voters",
        2,
        KRaftVoters(
            tuple(
                Voter(
                    voter,
                    UUID(int=voter << 64 | 2 * voter),
                    (VoterEndpoint("CONTROLLER", f"controller-{voter}", 60000 + voter),),
                    0,
                    1,
                )
                for voter in (1, 2)
            )
        ),
    ),
]
DATA = (
    VersionedRecord(NoOpRecord(), 0),
    VersionedRecord(TopicRecord("orders", UUID(int=1 << 64 | 2)), 0),
    VersionedRecord(FeatureLevelRecord("metadata.version", 21), 0),
)


def golden(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


@pytest.mark.parametrize(("name", "offset", "record"), CONTROL, ids=[name for name, *_ in CONTROL])
def test_a_control_batch_is_kafkas(name: str, offset: int, record: ControlRecord) -> None:
    raw = golden(name)

    assert (
        encode_control_batch([record], base_offset=offset, epoch=EPOCH, timestamp=TIMESTAMP) == raw
    )
    assert read_metadata_batch(raw) == ControlBatch(
        MetadataBatchPlace(offset, EPOCH, TIMESTAMP, len(raw)), (record,)
    )


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("leader-change", "controlType: LEADER_CHANGE(2)"),
        (
            "snapshot-header",
            'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1699999999999}',
        ),
        ("snapshot-footer", 'SnapshotFooter {"version":0}'),
        ("kraft-version", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
        (
            "kraft-voters",
            'KRaftVoters {"version":0,"voters":['
            '{"voterId":1,"voterDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg","endpoints":'
            '[{"name":"CONTROLLER","host":"controller-1","port":60001}],'
            '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}},'
            '{"voterId":2,"voterDirectoryId":"AAAAAAAAAAIAAAAAAAAABA","endpoints":'
            '[{"name":"CONTROLLER","host":"controller-2","port":60002}],'
            '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
        ),
    ],
)
def test_a_control_record_is_printed_as_kafkas_tool_prints_it(name: str, printed: str) -> None:
    batch = read_metadata_batch(golden(name))
    assert isinstance(batch, ControlBatch)

    assert [control_record_text(record) for record in batch.records] == [printed]


def test_a_data_batch_is_kafkas() -> None:
    raw = golden("data")
    batch = read_metadata_batch(raw)

    assert encode_data_batch(DATA, base_offset=41, epoch=EPOCH, timestamp=TIMESTAMP) == raw
    assert batch == DataBatch(MetadataBatchPlace(41, EPOCH, TIMESTAMP, len(raw)), DATA)
    assert batch.last_offset == 43


def test_records_may_be_decoded_when_they_are_read() -> None:
    log = golden("leader-change") + golden("data") + golden("data")[:-1]

    leader_change, data = iterate_undecoded_batches(log)

    assert leader_change == read_metadata_batch(golden("leader-change"))
    assert (data.place, len(data.records), data.last_offset) == (
        MetadataBatchPlace(41, EPOCH, TIMESTAMP, len(golden("data"))), 3, 43
    )  # fmt: skip
    assert tuple(data.records) == tuple(data.records) == DATA
    assert DATA[1] in data.records


def test_batches_are_read_one_after_the_other_as_far_as_they_are_whole() -> None:
    log = golden("leader-change") + golden("data") + golden("data")[:-1]

    first, second = iterate_metadata_batches(log)

    assert (first.place.base_offset, first.last_offset) == (40, 40)
    assert (second.place.base_offset, second.last_offset) == (41, 43)


def test_a_compressed_batch_is_read_as_kafka_reads_it() -> None:
    record = Record(5, TIMESTAMP, None, NO_OP)

    batch = read_metadata_batch(encode_batch([record], codec=Codec.ZSTD))

    assert batch.records == (VersionedRecord(NoOpRecord(), 0),)


def data_batch(*records: Record, is_control: bool = False) -> bytes:
    return encode_batch(records, partition_leader_epoch=EPOCH, is_control=is_control)


LEADER_CHANGE_KEY, LEADER_CHANGE_VALUE = encode_control_record(LeaderChange(1, (1,), (1,)))


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (
            data_batch(Record(0, 5, None, NO_OP), Record(1, 6, None, NO_OP)),
            "offset 1 has timestamp delta 1, not 0",
        ),
        (
            encode_batch([Record(0, 5, None, NO_OP), Record(1, 6, None, NO_OP)], log_append_time=6),
            "offset 1 has timestamp delta 1, not 0",
        ),
        (data_batch(Record(0, 5, None, NO_OP, ((b"a", b"b"),))), "offset 0 has headers"),
        (data_batch(Record(0, 5, b"key", NO_OP)), "offset 0 has a key"),
        (data_batch(Record(0, 5, b"", NO_OP)), "offset 0 has a key"),
        (data_batch(Record(0, 5, None, b"")), "offset 0 has no value, or an empty one"),
        (data_batch(Record(0, 5, None, None)), "offset 0 has no value, or an empty one"),
        (data_batch(Record(0, 5, None, b"\x01\x14\x00")), "NoOpRecord version 0 ends too early"),
        (
            data_batch(Record(0, 5, None, NO_OP), Record(2, 5, None, NO_OP)),
            "has 2 records and ends 2 offsets later",
        ),
        (
            data_batch(
                Record(0, 5, None, NO_OP), Record(2, 5, None, NO_OP), Record(2, 5, None, NO_OP)
            ),
            "Offset 2 stands where 1 is due",
        ),
        (encode_batch([], base_offset=0, last_offset=0), "has 0 records"),
        (
            data_batch(Record(0, 5, None, LEADER_CHANGE_VALUE), is_control=True),
            "no key of at least 4",
        ),
        (
            data_batch(Record(0, 5, LEADER_CHANGE_KEY, None), is_control=True),
            "no value, or an empty one",
        ),
        (
            data_batch(Record(0, 5, bytes(4), bytes(6)), is_control=True),
            "Unknown control record type 0 in the metadata log",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_batch_that_breaks_a_rule_is_refused_whole(raw: bytes, complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        read_metadata_batch(raw)
    with pytest.raises(InvalidRecord, match=complaint):
        [tuple(batch.records) for batch in iterate_undecoded_batches(raw)]


@pytest.mark.parametrize("size", [0, 16, 60, 61, len(golden("data")) - 1])
def test_a_batch_that_is_cut_off_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match="no whole batch"):
        read_metadata_batch(golden("data")[:size])


@pytest.mark.parametrize("place", [21, 43, 61, -1])
def test_a_batch_with_another_checksum_is_corrupt(place: int) -> None:
    raw = bytearray(golden("data"))
    raw[place] ^= 0xFF

    with pytest.raises(CorruptRecord, match="another checksum"):
        read_metadata_batch(bytes(raw))
    with pytest.raises(CorruptRecord, match="another checksum"):
        next(iterate_undecoded_batches(bytes(raw)))


def test_a_message_of_an_old_format_is_refused() -> None:
    old = bytes.fromhex(
        "0000000000000000 00000016 00000000 01 00 ffffffffffffffff ffffffff 00000000"
    )

    with pytest.raises(InvalidRecord, match="magic 1"):
        read_metadata_batch(old)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (None, "0000", "no key of at least 4 bytes"),
        ("0000 00", "0000", "no key of at least 4 bytes"),
        ("ffff 0002", "0000", "Invalid version found for control record: -1"),
        ("0000 0001", "0000 00000000", "Unknown control record type 1 "),
        ("0000 0007", "0000 00", "Unknown control record type 7 "),
        ("0000 ffff", "0000 00", "Unknown control record type -1 "),
        ("0000 0004", None, "type 4 has no value with a version"),
        ("0000 0004", "00", "type 4 has no value with a version"),
        ("0000 0004", "0001 00", "type 4 has version 1"),
        ("0000 0002", "0002 00000001 01 01 00", "type 2 has version 2"),
        ("0000 0002", "ffff 00000001 01 01 00", "type 2 has version -1"),
        ("0000 0003", "0000 00000000", "type 3: SnapshotHeaderRecord ends too early"),
        ("0000 0006", "0000 ffffffff0f 00000001 00", "type 6: 4294967294 items announced"),
    ],
)
def test_a_control_record_that_is_none_is_refused(
    key: str | None, value: str | None, complaint: str
) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        decode_control_record(
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
        )


def test_a_leader_change_of_kafka_4_is_read_without_its_directory_ids() -> None:
    member = "00000001 0000000000000000000000000000000a 00"
    value = bytes.fromhex(f"0001 00000001 02 {member} 02 {member} 00")

    assert decode_control_record(bytes.fromhex("00000002"), value) == LeaderChange(1, (1,), (1,))


def test_a_control_record_of_a_newer_key_is_read_as_kafka_reads_it() -> None:
    assert decode_control_record(bytes.fromhex("0001 0004 ff"), bytes(3)) == SnapshotFooter()


@given(key=st.sampled_from(range(8)), value=st.binary(max_size=60))
@settings(max_examples=80, deadline=None)
def test_no_value_of_a_control_record_does_harm(key: int, value: bytes) -> None:
    for start in (b"", b"\x00\x00"):
        with suppress(InvalidRecord):
            found = decode_control_record(bytes((0, 0, 0, key)), start + value)
            assert decode_control_record(*encode_control_record(found)) == found


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_damaged_batch_is_read_or_refused_even_if_its_checksum_is_right(
    data: st.DataObject,
) -> None:
    raw = bytearray(golden(data.draw(st.sampled_from(["data", "leader-change", "kraft-voters"]))))
    place = data.draw(st.integers(16, len(raw) - 1))
    raw[place] = data.draw(st.integers(0, 255))
    raw[17:21] = crc32c(raw[21:]).to_bytes(4, "big")

    with suppress(RecordsRefused):
        assert isinstance(read_metadata_batch(bytes(raw)), DataBatch | ControlBatch)


TIMES = Struct(">qq")


def with_time(raw: bytes, timestamp: int) -> bytes:
    """The same batches, as if written at that time."""
    changed = bytearray(raw)
    for position, header in iterate_batches(raw):
        TIMES.pack_into(changed, position + 27, timestamp, timestamp)
        end = position + header.size
        changed[position + 17 : position + 21] = crc32c(changed[position + 21 : end]).to_bytes(
            4, "big"
        )
    return bytes(changed)


@pytest.mark.parametrize("name", ["static", "scram", "dynamic"])
def test_the_file_of_a_format_is_kafkas(name: str) -> None:
    written_by_kafka = golden(f"format.{name}.bootstrap.checkpoint")
    metadata = decode_bootstrap(written_by_kafka)

    assert encode_bootstrap(metadata, TIMESTAMP) == with_time(written_by_kafka, TIMESTAMP)
    assert with_time(encode_bootstrap(metadata, 0), TIMESTAMP) == encode_bootstrap(
        metadata, TIMESTAMP
    )


def test_a_plain_format_writes_nothing_but_the_level_of_metadata_version() -> None:
    metadata = BootstrapMetadata.from_versions(LATEST_PRODUCTION)

    assert metadata == decode_bootstrap(golden("format.static.bootstrap.checkpoint"))
    assert metadata == decode_bootstrap(golden("format.dynamic.bootstrap.checkpoint"))
    assert metadata.metadata_version.name == "3.9-IV0"


def test_credentials_stand_behind_the_features_in_the_order_given() -> None:
    metadata = decode_bootstrap(golden("format.scram.bootstrap.checkpoint"))
    level, bob, alice = (record for record, _ in metadata.records)

    assert level == FeatureLevelRecord("metadata.version", 19)
    assert isinstance(bob, UserScramCredentialRecord)
    assert isinstance(alice, UserScramCredentialRecord)
    assert (bob.name, bob.mechanism, bob.iterations, len(bob.server_key)) == ("bob", 2, 8192, 64)
    assert (alice.name, alice.mechanism, alice.iterations) == ("alice", 1, 5000)
    assert metadata == BootstrapMetadata.from_versions(
        from_name("3.7"), scram_credentials=[bob, alice]
    )


def test_the_snapshot_of_a_format_with_voters_names_them() -> None:
    name = "format.dynamic.__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    header, footer = iterate_metadata_batches(golden(name))
    endpoint = VoterEndpoint("CONTROLLER", "localhost", 29093)

    snapshot_header, *others = header.records
    assert others == [
        KRaftVersion(1),
        KRaftVoters((Voter(1, UUID(int=3), (endpoint,), 0, 1),)),
    ]
    assert isinstance(snapshot_header, SnapshotHeader)
    assert footer.records == (SnapshotFooter(),)
    assert footer.place.base_offset == 3


def test_features_are_written_by_name_and_only_if_they_have_a_level() -> None:
    metadata = BootstrapMetadata.from_versions(
        LATEST_PRODUCTION,
        {"transaction.version": 2, "group.version": 1, "kraft.version": 1, "eligible": 0},
    )

    assert [record for record, _ in metadata.records] == [
        FeatureLevelRecord("metadata.version", 21),
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("transaction.version", 2),
    ]


def test_credentials_need_a_version_that_knows_them() -> None:
    with pytest.raises(UnsupportedVersion, match=r"SCRAM needs metadata.version 3.5-IV2"):
        BootstrapMetadata.from_versions(
            from_name("3.5-IV1"), scram_credentials=[UserScramCredentialRecord("alice", 1)]
        )


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([NoOpRecord()], "No FeatureLevelRecord for metadata.version"),
        ([FeatureLevelRecord("group.version", 1)], "No FeatureLevelRecord for metadata.version"),
        ([FeatureLevelRecord("metadata.version", 3)], "before 3.3-IV0 are not supported"),
        ([FeatureLevelRecord("metadata.version", 24)], "No MetadataVersion with feature level 24"),
        ([FeatureLevelRecord("metadata.version", 0)], "No MetadataVersion with feature level 0"),
    ],
)
def test_bootstrap_records_without_a_version_are_refused(
    records: list[NoOpRecord | FeatureLevelRecord], complaint: str
) -> None:
    raw = encode_data_batch(
        [VersionedRecord(record, 0) for record in records], base_offset=0, epoch=0, timestamp=5
    )

    with pytest.raises(InvalidRecord, match=complaint):
        decode_bootstrap(raw)


def test_the_last_level_counts() -> None:
    levels = [VersionedRecord(FeatureLevelRecord("metadata.version", level), 0) for level in (4, 9)]

    assert BootstrapMetadata.from_records(levels).metadata_version == from_name("3.5-IV0")


@pytest.mark.parametrize("size", [1, 61, 100, -1])
def test_a_bootstrap_file_that_is_cut_off_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_bootstrap(golden("format.static.bootstrap.checkpoint")[:size])
