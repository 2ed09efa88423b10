"""Records of the metadata log: equal to Kafka's bytes, and safe against any others.

``data/metadata-records-3.9.1.tsv`` was printed by Kafka 3.9.1's own classes, with
``data/MetadataRecords.java``: every record in every version, with several contents.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import InvalidRecord, UnsupportedVersion
from kraft.metadata.codec import decode_record, encode_record
from kraft.metadata.record_json import record_json
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    VersionedRecord,
    ZkMigrationStateRecord,
)
from kraft.metadata.schemas import BY_API_KEY
from tests.support.memory import peak_bytes
from tests.support.record_text import record_text

TOPIC_ID = UUID("c0ffee00-0000-4000-8000-000000000001")
DIRECTORY = UUID("d15c0000-0000-4000-8000-000000000002")
ALL_VERSIONS = [
    (schema, version)
    for schema in BY_API_KEY.values()
    for version in range(schema.newest_version + 1)
]


class Golden(NamedTuple):
    """A line of the recorded file."""

    content: str
    raw: bytes
    text: str

    @property
    def versioned_type(self) -> tuple[str, int]:
        parsed = json.loads(self.text)
        return parsed["type"], parsed["version"]


def golden() -> list[Golden]:
    path = Path(__file__).parent / "data" / "metadata-records-3.9.1.tsv"
    lines = [line.split("\t") for line in path.read_text().split("\n") if line]
    return [Golden(content, bytes.fromhex(raw), text) for content, raw, text in lines]


GOLDEN = golden()


@pytest.mark.parametrize(
    "line", GOLDEN, ids=lambda line: "-".join(map(str, (*line.versioned_type, line.content)))
)
def test_what_kafka_wrote_is_read_and_written_the_same(line: Golden) -> None:
    versioned = decode_record(line.raw)

    assert encode_record(versioned.record, versioned.version) == line.raw
    assert record_text(versioned) == line.text
    assert record_json(versioned) == json.loads(line.text)


def test_kafkas_bytes_hold_every_record_in_every_version() -> None:
    decoded = {
        (type(record), version) for record, version in (decode_record(line.raw) for line in GOLDEN)
    }

    assert decoded == {(schema.record_type, version) for schema, version in ALL_VERSIONS}
    assert {schema.record_type for schema, _ in ALL_VERSIONS} == set(get_args(MetadataRecord))
    assert len({line.versioned_type for line in GOLDEN}) == len(ALL_VERSIONS) == 34


@pytest.mark.parametrize(
    ("record", "version", "raw"),
    [
        (NoOpRecord(), 0, "01 14 00 00"),
        (
            FeatureLevelRecord("metadata.version", 21),
            0,
            "01 0c 00 11 6d657461646174612e76657273696f6e 0015 00",
        ),
        (ZkMigrationStateRecord(0), 0, "01 15 00 00 00"),
        (
            BeginTransactionRecord("Bootstrap records"),
            0,
            "01 17 00 01 00 12 12 426f6f747374726170207265636f726473",
        ),
        (EndTransactionRecord(), 0, "01 18 00 00"),
        (AbortTransactionRecord(), 0, "01 19 00 00"),
        (
            PartitionRecord(
                partition_id=1, topic_id=TOPIC_ID, replicas=(1, 2), isr=(2,), leader=2,
                leader_recovery_state=1, leader_epoch=3, partition_epoch=4,
                directories=(DIRECTORY, DIRECTORY),
            ),
            1,
            "01 03 01 00000001 c0ffee00000040008000000000000001 03 00000001 00000002 02 00000002"
            "01 01 00000002 00000003 00000004 03 d15c0000000040008000000000000002"
            "d15c0000000040008000000000000002 01 00 01 01",
        ),
        (
            PartitionChangeRecord(1, TOPIC_ID, isr=(), leader=-1),
            0,
            "01 05 00 00000001 c0ffee00000040008000000000000001 02 00 01 01 01 04 ffffffff",
        ),
        (ConfigRecord(2, "orders", "retention.ms", None), 0,
         "01 04 00 02 07 6f7264657273 0d 726574656e74696f6e2e6d73 00 00"),
        (BrokerRegistrationChangeRecord(3, 9, fenced=-1), 1, "01 11 01 00000003 0000000000000009"
         "01 00 01 ff"),
    ],
)  # fmt: skip
def test_a_value_has_these_bytes(record: MetadataRecord, version: int, raw: str) -> None:
    assert encode_record(record, version) == bytes.fromhex(raw)
    assert decode_record(bytes.fromhex(raw)) == (record, version)


def test_a_broker_is_printed_under_kafkas_names() -> None:
    record = RegisterBrokerRecord(
        broker_id=3,
        incarnation_id=TOPIC_ID,
        broker_epoch=12,
        end_points=(BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
        features=(BrokerFeature("metadata.version", 1, 21),),
        rack=None,
        log_dirs=(DIRECTORY,),
    )

    assert record_json(VersionedRecord(record, 3)) == {
        "type": "REGISTER_BROKER_RECORD",
        "version": 3,
        "data": {
            "brokerId": 3,
            "isMigratingZkBroker": False,
            "incarnationId": "wP_uAAAAQACAAAAAAAAAAQ",
            "brokerEpoch": 12,
            "endPoints": [
                {"name": "PLAINTEXT", "host": "localhost", "port": 9092, "securityProtocol": 0}
            ],
            "features": [
                {"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": 21}
            ],
            "rack": None,
            "fenced": True,
            "inControlledShutdown": False,
            "logDirs": ["0VwAAAAAQACAAAAAAAAAAg"],
        },
    }


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.00025, "2.5E-4"),
        (1048576.0, "1048576.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-123456789.0, "-1.23456789E8"),
        (float("inf"), '"Infinity"'),
        (float("nan"), '"NaN"'),
    ],
)
def test_a_quota_is_printed_as_java_prints_numbers(value: float, printed: str) -> None:
    quota = VersionedRecord(ClientQuotaRecord(key="producer_byte_rate", value=value), 0)

    assert f'"value":{printed},' in record_text(quota)


def test_secrets_are_not_in_what_a_credential_says_of_itself() -> None:
    credential = UserScramCredentialRecord("alice", 1, b"grain", b"stored", b"server", 4096)

    assert "alice" in repr(credential)
    assert "grain" not in repr(credential)
    assert "stored=" not in repr(credential)
    assert "stored_key" not in repr(credential)


@pytest.mark.parametrize(
    ("record", "version", "field"),
    [
        (RegisterBrokerRecord(in_controlled_shutdown=True), 0, "in_controlled_shutdown"),
        (RegisterBrokerRecord(is_migrating_zk_broker=True), 1, "is_migrating_zk_broker"),
        (RegisterBrokerRecord(log_dirs=(DIRECTORY,)), 2, "log_dirs"),
        (PartitionRecord(directories=(DIRECTORY,)), 0, "directories"),
        (PartitionRecord(eligible_leader_replicas=()), 1, "eligible_leader_replicas"),
        (PartitionChangeRecord(directories=()), 0, "directories"),
        (BrokerRegistrationChangeRecord(log_dirs=(DIRECTORY,)), 1, "log_dirs"),
    ],
)
def test_a_field_that_a_version_lacks_cannot_be_written(
    record: MetadataRecord, version: int, field: str
) -> None:
    with pytest.raises(UnsupportedVersion, match=f"non-default {field} at version {version}"):
        encode_record(record, version)
    with pytest.raises(UnsupportedVersion, match=field):
        record_json(VersionedRecord(record, version))


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_does_not_exist_cannot_be_written(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="versions 0 to 3, not"):
        encode_record(RegisterBrokerRecord(), version)


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="x" * 32768),
        TopicRecord(name="\ud800"),
        PartitionRecord(partition_id=2**31),
        PartitionRecord(replicas=(1, -(2**31) - 1)),
        RegisterBrokerRecord(end_points=(BrokerEndpoint(port=65536),)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(InvalidRecord, match="cannot be written"):
        encode_record(record, 0)


def test_the_longest_string_fits() -> None:
    record = TopicRecord("x" * 32767, TOPIC_ID)

    assert decode_record(encode_record(record, 0)).record == record


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ("", "ends too early"),
        ("00", "preview of KRaft in Kafka 2.8"),
        ("02 14 00 00", "unknown frame version 2"),
        ("01 06 00 00", "type 6 version 0: there is no such type"),
        ("01 1c 00 00", "type 28 version 0: there is no such type"),
        ("01 ff7f 00 00", "type 16383 version 0: there is no such type"),
        ("01 14 01 00", "NoOpRecord version 1: the newest version is 0"),
        ("01 00 04 00", "RegisterBrokerRecord version 4: the newest version is 3"),
        ("01 14 00 00 00", "NoOpRecord version 0: 1 bytes of garbage"),
        ("01 14 00", "NoOpRecord version 0 ends too early"),
        ("ffffffffff 14 00 00", "longer than five bytes"),
        ("01 0c 00 00 0015 00", "null where the schema has none"),
        ("01 0c 00 ffffffff0f 78 0015 00", "at most"),
        ("01 0c 00 05 78 00", "4 bytes announced, 2 left"),
        ("01 0c 00 02 ff 0015 00", "can't decode byte 0xff"),
        ("01 17 00 01 00 03 02 61 00", "tag 0 is not of its announced size 3"),
        ("01 17 00 01 00 01 02 61", "tag 0 is not of its announced size 1"),
        ("01 17 00 01 00 09 02 61", "tag 0 has 9 bytes, 2 are left"),
        ("01 17 00 7f 00", "127 tagged fields announced, 1 bytes left"),
        ("01 11 00 00000003 0000000000000009 01 01 01 01", "tag 1 is not valid for version 0"),
    ],
)
def test_bytes_that_are_no_record_are_refused(raw: str, complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        decode_record(bytes.fromhex(raw))


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    raw = bytes.fromhex("01 17 00 03 00 02 02 61 05 00 ffffffff0f 03 010203")

    assert decode_record(raw) == (BeginTransactionRecord("a"), 0)


@pytest.mark.parametrize("line", GOLDEN[::5], ids=lambda line: line.versioned_type[0])
def test_a_record_that_is_cut_off_is_refused(line: Golden) -> None:
    for size in range(min(len(line.raw), 200)):
        with pytest.raises(InvalidRecord):
            decode_record(line.raw[:size])


@pytest.mark.parametrize(
    "raw",
    [
        # Replicas of a partition, its directories, renewers of a token, endpoints, a salt.
        "01 03 01 00000001" + "00" * 16 + "ffffffff0f" + "00" * 40,
        "01 03 01 00000001" + "00" * 16 + "01 01 01 01" + "00" * 12 + "ffffffff0f" + "00" * 40,
        "01 0a 00 01 01 ffffffff0f" + "01" * 40,
        "01 00 03 00000001 00" + "00" * 24 + "ffffffff0f" + "00" * 40,
        "01 0b 00 01 00 ffffffff0f" + "00" * 40,
    ],
)
def test_no_length_makes_us_reserve_more_than_is_there(raw: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidRecord, match="announced"):
            decode_record(bytes.fromhex(raw))

    assert peak_bytes(refused) < 200_000


@cache
def strategy_of(hint: Any, name: str) -> st.SearchStrategy[Any]:
    """Any value of a field with that type; numbers that fit whatever the size of the field."""
    if hint is int:
        return st.integers(0, 65535) if name == "port" else st.integers(-128, 127)
    if hint is str:
        return st.text(st.characters(codec="utf-8"), max_size=200)
    if get_origin(hint) is tuple:
        return st.lists(strategy_of(get_args(hint)[0], name), max_size=5).map(tuple)
    if isinstance(hint, UnionType):
        inner, _ = get_args(hint)
        return st.none() | strategy_of(inner, name)
    if hint is float:
        return st.floats(allow_nan=False)
    if hint in (bool, bytes, UUID):
        plain: st.SearchStrategy[Any] = st.from_type(hint)
        return plain
    return records_of(hint, get_type_hints(hint))


def records_of(record_type: type[Any], fields: dict[str, Any]) -> st.SearchStrategy[Any]:
    strategies = {name: strategy_of(hint, name) for name, hint in fields.items()}
    return st.builds(record_type, **strategies)


def of_version(schema: Any, version: int) -> st.SearchStrategy[VersionedRecord]:
    hints = get_type_hints(schema.record_type)
    present = {field.name: hints[field.name] for field in schema.fields if field.since <= version}
    return records_of(schema.record_type, present).map(lambda made: VersionedRecord(made, version))


VERSIONED = st.one_of([of_version(schema, version) for schema, version in ALL_VERSIONS])


@given(versioned=VERSIONED)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_again(versioned: VersionedRecord) -> None:
    assert decode_record(encode_record(versioned.record, versioned.version)) == versioned
    assert json.loads(record_text(versioned)) == record_json(versioned)


@given(raw=st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_bytes_behind_a_frame_do_harm(raw: bytes) -> None:
    for schema, version in ALL_VERSIONS:
        with suppress(InvalidRecord):
            found = decode_record(bytes((1, schema.api_key, version)) + raw)
            assert isinstance(found.record, schema.record_type)
            assert found.version == version
    with suppress(InvalidRecord):
        assert isinstance(decode_record(raw), VersionedRecord)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_flipped_byte_gives_a_record_or_a_refusal(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(GOLDEN))
    place = data.draw(st.integers(0, len(line.raw) - 1))
    damaged = bytearray(line.raw)
    damaged[place] = data.draw(st.integers(0, 255))

    with suppress(InvalidRecord):
        record, version = decode_record(bytes(damaged))
        assert decode_record(encode_record(record, version)).version == version
