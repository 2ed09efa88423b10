"""Keys and values of ``__consumer_offsets``: equal to Kafka's bytes, and safe against any others.

``data/offsets-topic-3.9.1.tsv`` was printed by Kafka 3.9.1's own classes, with
``data/OffsetsTopicRecords.java``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.java import signed, string_hash
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.inter_broker_versions import version_of
from replica_manager.coordinators.groups.consumer_protocol import subscribed_topics
from replica_manager.coordinators.groups.coordinated_partition import partition_for
from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt
from replica_manager.coordinators.groups.records import (
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetAndMetadata,
    OffsetKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    group_value_version,
    offset_value_version,
)

GOLDEN = dict(
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "offsets-topic-3.9.1.tsv")
    .read_text()
    .splitlines()
)
HASHED = [name.removeprefix("hash.") for name in GOLDEN if name.startswith("hash.")]
VERSIONS = [
    name.removeprefix("offset-value.ibp-") for name in GOLDEN if name.startswith("offset-value.ibp")
]

ORDERS_3 = TopicPartition("orders", 3)
COMMITTED = OffsetAndMetadata(123456789012, 5, "héllo", 1700000000456, 1700000009999)
MEMBERS = tuple(
    MemberRecord(member_id, instance, "billing", "/127.0.0.1", 300000, 45000, b"\0\1\2", b"\t\b")
    for member_id, instance in (("billing-1", "host-a"), ("billing-2", None))
)
GROUP = GroupRecord("consumer", 7, "range", "billing-1", 1700000000123, MEMBERS)
EMPTY_GROUP = GroupRecord("consumer", 7, None, None, 1700000000123, ())


def golden(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


@pytest.mark.parametrize("text", HASHED)
def test_the_hash_and_the_partition_of_a_group_are_javas(text: str) -> None:
    group_id = bytes.fromhex(text).decode()
    hashed, of_fifty, of_seven = map(int, GOLDEN[f"hash.{text}"].split())

    assert signed(string_hash(group_id)) == hashed
    assert (partition_for(group_id, 50), partition_for(group_id, 7)) == (of_fifty, of_seven)


def test_keys_are_kafkas() -> None:
    assert encode_offset_key("billing", ORDERS_3) == golden("offset-key")
    assert encode_group_key("billing") == golden("group-key")

    for key in ("offset-key", "offset-key.v0"):
        assert decode_key(golden(key)) == OffsetKey("billing", ORDERS_3)
    assert decode_key(golden("group-key")) == GroupKey("billing")


def test_a_key_of_a_later_coordinator_is_known_to_be_unknown() -> None:
    assert decode_key(b"\0\x03\0\x07billing") == UnknownKey(3)


@pytest.mark.parametrize("version", range(4))
def test_values_are_kafkas_in_every_version_that_is_written(version: int) -> None:
    assert encode_offset_value(COMMITTED, version) == golden(f"offset-value.v{version}")
    assert encode_group_value(GROUP, version) == golden(f"group-value.v{version}")
    assert encode_group_value(EMPTY_GROUP, version) == golden(f"empty-group-value.v{version}")


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    expected = COMMITTED._replace(
        leader_epoch=5 if version >= 3 else NO_EPOCH,
        expire_timestamp_ms=1700000009999 if version == 1 else None,
    )

    assert decode_offset_value(golden(f"offset-value.v{version}")) == expected


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    timestamp = 1700000000123 if version >= 2 else -1
    members = tuple(
        member._replace(
            group_instance_id=member.group_instance_id if version >= 3 else None,
            rebalance_timeout_ms=300000 if version >= 1 else 45000,
        )
        for member in MEMBERS
    )

    assert decode_group_value(golden(f"group-value.v{version}")) == GROUP._replace(
        state_timestamp_ms=timestamp, members=members
    )
    assert decode_group_value(golden(f"empty-group-value.v{version}")) == EMPTY_GROUP._replace(
        state_timestamp_ms=timestamp
    )


@pytest.mark.parametrize("ibp", VERSIONS)
def test_values_are_written_so_that_the_oldest_broker_of_the_cluster_can_read_them(
    ibp: str,
) -> None:
    plain = OffsetAndMetadata(42, 5, "m", 1700000000456)
    expiring = OffsetAndMetadata(42, NO_EPOCH, "", 1700000000456, 1700000009999)
    version = version_of(ibp)

    written = encode_offset_value(plain, offset_value_version(version, expires=False))
    written_expiring = encode_offset_value(expiring, offset_value_version(version, expires=True))
    written_group = encode_group_value(EMPTY_GROUP, group_value_version(version))

    assert written == golden(f"offset-value.ibp-{ibp}")
    assert written_expiring == golden(f"expiring-offset-value.ibp-{ibp}")
    assert written_group == golden(f"empty-group-value.ibp-{ibp}")


@pytest.mark.parametrize("version", range(4))
def test_the_topics_of_a_subscription_are_read_in_every_version(version: int) -> None:
    assert subscribed_topics(golden(f"subscription.v{version}")) == frozenset(
        ("orders", "payments")
    )


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", b"\xff\xff", b"\0\1\0\0\0\1", b"\0\0\x7f\xff\xff\xff\0\1a", b"\0\0\0\0\0\1\0\1a"],
    ids=["empty", "short", "negative version", "topic missing", "huge count", "no user data"],
)
def test_metadata_that_is_no_subscription_subscribes_to_nothing_known(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


VALUES = [name for name in GOLDEN if "-value." in name]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_is_cut_off_anywhere_is_refused(name: str) -> None:
    whole = golden(name)
    decode = decode_group_value if "group" in name else decode_offset_value

    for size in range(len(whole)):
        with pytest.raises(GroupRecordCorrupt):
            decode(whole[:size])


@pytest.mark.parametrize("name", ["offset-key", "offset-key.v0", "group-key"])
def test_a_key_that_is_cut_off_anywhere_is_refused(name: str) -> None:
    whole = golden(name)

    for size in range(len(whole)):
        with pytest.raises(GroupRecordCorrupt):
            decode_key(whole[:size])


def test_what_stands_behind_a_key_or_value_is_passed_over_as_in_kafka() -> None:
    assert decode_key(golden("offset-key") + b"more") == OffsetKey("billing", ORDERS_3)
    value = encode_offset_value(COMMITTED._replace(expire_timestamp_ms=None, metadata=""), 3)
    assert decode_offset_value(value + b"more") == decode_offset_value(value)


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 5), st.booleans())
def test_no_bytes_make_a_reader_do_anything_but_read_or_refuse(
    tail: bytes, version: int, is_group: bool
) -> None:
    data = version.to_bytes(2, "big") + tail

    with suppress(GroupRecordCorrupt):
        if is_group:
            assert len(decode_group_value(data).members) <= len(data)
        else:
            assert decode_offset_value(data).metadata.encode() in data
    with suppress(GroupRecordCorrupt):
        assert isinstance(decode_key(data), OffsetKey | GroupKey | UnknownKey)
    topics = subscribed_topics(data)
    assert topics is None or all(topic.encode() in data for topic in topics)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BYTES = st.binary(max_size=8)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
GROUPS = st.builds(
    GroupRecord, TEXT, INT32, st.none() | TEXT, st.none() | TEXT, INT64,
    st.lists(
        st.builds(MemberRecord, TEXT, st.none() | TEXT, TEXT, TEXT, INT32, INT32, BYTES, BYTES),
        max_size=3,
    ).map(tuple),
)  # fmt: skip


@settings(deadline=None)
@given(GROUPS)
def test_a_group_that_is_written_is_read_again(group: GroupRecord) -> None:
    assert decode_group_value(encode_group_value(group, 3)) == group


@settings(deadline=None)
@given(TEXT, TEXT, INT32, st.builds(OffsetAndMetadata, INT64, INT32, TEXT, INT64, st.none()))
def test_an_offset_that_is_written_is_read_again(
    group_id: str, topic: str, partition: int, committed: OffsetAndMetadata
) -> None:
    key = OffsetKey(group_id, TopicPartition(topic, partition))

    assert decode_key(encode_offset_key(*key)) == key
    assert decode_offset_value(encode_offset_value(committed, 3)) == committed
