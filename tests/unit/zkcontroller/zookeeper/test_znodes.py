"""Znodes: every version Kafka wrote is read, unknown fields are tolerated, the rest is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import Broker, Endpoint, ReplicaAssignment, TopicPartition
from kafka_common.protocol.uuid_text import usable_uuid, uuid_text
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ConsumerOffsetZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    LogDirEventNotificationSequenceZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicZnode,
    decode_topic_id,
    describe,
)

STATE_PATH: Final = PartitionStateZnode.path("t", 3)
Decoder = Callable[[bytes], object]

DECODERS: Final[dict[str, tuple[Decoder, dict[str, Any]]]] = {
    "controller": (
        ControllerZnode.decode,
        {"version": 2, "brokerid": 1, "timestamp": "5", "kraftControllerEpoch": -1},
    ),
    "broker": (
        lambda data: BrokerIdZnode.decode(1, data),
        {
            "version": 5,
            "jmx_port": -1,
            "endpoints": ["CLIENT://h:9092"],
            "listener_security_protocol_map": {"CLIENT": "SSL"},
            "rack": "r",
            "features": {"f": {"min_version": 1, "max_version": 2}},
            "timestamp": "5",
        },
    ),
    "topic": (
        lambda data: TopicZnode.decode("t", data),
        {
            "version": 3,
            "partitions": {"0": [1, 2]},
            "topic_id": "AAAAAAAAAAEAAAAAAAAAAg",
            "adding_replicas": {"0": [2]},
            "removing_replicas": {},
        },
    ),
    "state": (
        lambda data: PartitionStateZnode.decode(STATE_PATH, data),
        {"version": 1, "leader": 1, "leader_epoch": 2, "controller_epoch": 3, "isr": [1, 2]},
    ),
    "reassignment": (
        ReassignPartitionsZnode.decode,
        {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
    ),
    "preferred election": (
        PreferredReplicaElectionZnode.decode,
        {"version": 1, "partitions": [{"topic": "t", "partition": 0}]},
    ),
    "isr change": (
        lambda data: IsrChangeNotificationSequenceZnode.decode("/isr", data),
        {"version": 1, "partitions": [{"topic": "t", "partition": 0}]},
    ),
    "log dir event": (
        lambda data: LogDirEventNotificationSequenceZnode.decode("/log", data),
        {"version": 1, "broker": 1, "event": 1},
    ),
    "cluster id": (ClusterIdZnode.decode, {"version": "1", "id": "x"}),
    "feature": (
        FeatureZnode.decode,
        {"version": 2, "status": 1, "features": {"f": {"max_version_level": 3}}},
    ),
    "producer ids": (
        ProducerIdBlockZnode.decode,
        {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    ),
    "config change": (
        lambda data: ConfigChangeZnode.decode("/config/changes/c", data),
        {"version": 2, "entity_path": "topics/t"},
    ),
}

# Written by Kafka, and read by no one: without them the znode still says what it has to.
UNREAD: Final = {
    "controller": {"version", "timestamp", "kraftControllerEpoch"},
    "broker": {"listener_security_protocol_map", "rack", "features", "timestamp"},
    "topic": {"version", "topic_id", "adding_replicas", "removing_replicas"},
    "state": {"version"},
    "reassignment": {"version"},
    "preferred election": {"version"},
    "isr change": {"version"},
    "log dir event": {"version", "event"},
    "cluster id": {"version"},
    "producer ids": {"version"},
}


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half of it"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b"1", id="a number"),
        pytest.param(b'"x"', id="a string"),
        pytest.param(b'{"version":\xff}', id="not UTF-8"),
        pytest.param(b'{"version":NaN}', id="not a number"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b"[" * 5000, id="deep nesting"),
    ],
)
def test_what_is_not_the_right_json_is_refused(kind: str, data: bytes) -> None:
    decode, _ = DECODERS[kind]
    with pytest.raises(ZnodeCorrupt):
        decode(data)


@pytest.mark.parametrize("kind", DECODERS)
def test_no_key_that_is_read_can_be_missing(kind: str) -> None:
    decode, valid = DECODERS[kind]
    decode(json.dumps(valid).encode())

    for key in valid:
        rest = {k: v for k, v in valid.items() if k != key}
        if key in UNREAD.get(kind, ()):
            if (kind, key) != ("broker", "listener_security_protocol_map"):
                decode(json.dumps(rest).encode())
        else:
            with pytest.raises(ZnodeCorrupt, match=key):
                decode(json.dumps(rest).encode())


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("wrong", [True, 1.5, "x", [True], {"0": True}, [[]], -(2**31) - 1, 2**63])
def test_a_value_of_another_type_is_refused(kind: str, wrong: object) -> None:
    decode, valid = DECODERS[kind]
    free_text = {("cluster id", "id"), ("broker", "rack")}

    for key in valid:
        if key in UNREAD.get(kind, ()) and key in ("version", "event"):
            continue
        if wrong == "x" and (kind, key) in free_text:
            continue
        with pytest.raises(ZnodeCorrupt):
            decode(json.dumps({**valid, key: wrong}).encode())


@pytest.mark.parametrize("kind", DECODERS)
def test_unknown_fields_and_any_order_of_keys_are_tolerated(kind: str) -> None:
    decode, valid = DECODERS[kind]
    expected = decode(json.dumps(valid).encode())

    more = {"zebra": [1], **dict(reversed(valid.items())), "unknown": {"a": None}}

    assert decode(json.dumps(more, indent=2).encode()) == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"leader": -2}, "leader is out of range"),
        ({"leader": 2**31}, "leader is out of range"),
        ({"leader_epoch": -1}, "leader_epoch is out of range"),
        ({"controller_epoch": -1}, "controller_epoch is out of range"),
        ({"isr": [1, 1]}, "isr names a broker twice"),
        ({"isr": [-1]}, "isr holds what is not a broker id"),
        ({"isr": [1.0, 2]}, "isr holds what is not a broker id"),
        ({"isr": [True, 2]}, "isr holds what is not a broker id"),
        ({"isr": ["1"]}, "isr holds what is not a broker id"),
        ({"isr": {"1": 2}}, "isr is not an array"),
        ({"leader_recovery_state": 2}, "leader_recovery_state is out of range"),
        ({"leader_recovery_state": None}, "leader_recovery_state is not a whole number"),
    ],
)
def test_a_corrupt_partition_state_names_its_path_and_the_reason(
    change: dict[str, object], reason: str
) -> None:
    decode, valid = DECODERS["state"]
    decode(json.dumps(valid).encode())  # [1, 2] is known: what is equal to it must not pass

    with pytest.raises(ZnodeCorrupt, match=reason) as caught:
        decode(json.dumps({**valid, **change}).encode())

    assert caught.value.path == "/brokers/topics/t/partitions/3/state"


@pytest.mark.parametrize(
    "partitions",
    [
        {"0": [1], "00": [2]},
        {"+1": [1]},
        {" 1": [1]},
        {"1_0": [1]},
        {"-1": [1]},
        {"": [1]},
        {"x": [1]},
        {"٣": [1]},
        {"2147483648": [1]},
        {"0": []},
        {"0": [1, 1]},
        {"0": [-1]},
        {"0": [None]},
        {"0": "1,2"},
        [],
    ],
)
def test_a_topic_whose_assignment_makes_no_sense_is_refused(partitions: object) -> None:
    with pytest.raises(ZnodeCorrupt):
        TopicZnode.decode("t", json.dumps({"partitions": partitions}).encode())


def test_topics_of_all_three_versions_are_read() -> None:
    v1 = b'{"version":1,"partitions":{"1":[2,1],"0":[1,2]}}'
    v2 = (
        b'{"version":2,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3],"9":[1]},'
        b'"removing_replicas":{"0":[1]}}'
    )

    assert TopicZnode.decode("t", v1) == TopicZnode(
        None, {1: ReplicaAssignment((2, 1)), 0: ReplicaAssignment((1, 2))}
    )
    assert TopicZnode.decode("t", v2) == TopicZnode(
        None, {0: ReplicaAssignment((1, 2, 3), (3,), (1,))}
    )


@pytest.mark.parametrize(
    "listed",
    [
        '"0":[1,2]"1":[1,2]',
        '"0":[1,2],"1":[1,2],',
        ',"0":[1,2]',
        '"0":[1,2],"0":[2,2]',
        '"00":[1,2]',
        '"0":[1,]',
        '"0":[01]',
        '"0":[]',
        '"0":[1,1]',
        '"9999999999":[1]',
        '"0":[9999999999]',
    ],
)
def test_what_resembles_kafkas_own_layout_is_not_taken_for_it(listed: str) -> None:
    layout = '{"partitions":{%s},"adding_replicas":{},"removing_replicas":{},"version":3}'
    assert TopicZnode.decode("t", (layout % '"0":[1,2],"1":[2]').encode()).partitions == {
        0: ReplicaAssignment((1, 2)),
        1: ReplicaAssignment((2,)),
    }

    with pytest.raises(ZnodeCorrupt, match="/brokers/topics/t"):
        TopicZnode.decode("t", (layout % listed).encode())


def test_a_partition_or_broker_of_ten_digits_is_read() -> None:
    assert TopicZnode.decode("t", b'{"partitions":{"2147483647":[2147483647]}}').partitions == {
        2**31 - 1: ReplicaAssignment((2**31 - 1,))
    }


def test_controllers_of_both_versions_are_read() -> None:
    assert ControllerZnode.decode(b'{"version":1,"brokerid":3,"timestamp":"7"}') == ControllerZnode(
        3, 7
    )
    with pytest.raises(ZnodeCorrupt):
        ControllerZnode.decode(b'{"version":1,"brokerid":-1,"timestamp":"7"}')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-1",
        b"1.0",
        b"x",
        b" 1",
        b"1 ",
        b"1_0",
        b"+1",
        b"\xd9\xa3",
        b"2147483648",
        b"9" * 5000,
    ],
)
def test_an_epoch_that_is_no_number_is_refused(data: bytes) -> None:
    with pytest.raises(ZnodeCorrupt, match="/controller_epoch"):
        ControllerEpochZnode.decode(data)


def test_brokers_of_all_versions_are_read() -> None:
    plaintext = Endpoint("h", 9092, "PLAINTEXT", "PLAINTEXT")
    ssl = Endpoint("h", 9093, "SSL", "SSL")
    v1 = b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"5"}'
    v2 = b'{"version":2,"jmx_port":-1,"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"]}'
    v3 = b'{"version":3,"jmx_port":-1,"rack":"dc1","endpoints":["PLAINTEXT://h:9092"]}'
    v4 = (
        b'{"version":4,"jmx_port":-1,"rack":null,"endpoints":["client://[::1]:9092"],'
        b'"listener_security_protocol_map":{"CLIENT":"sasl_ssl"}}'
    )

    assert BrokerIdZnode.decode(1, v1) == BrokerIdZnode(Broker(1, (plaintext,)), 5, 9999, 1)
    assert BrokerIdZnode.decode(1, v2).broker == Broker(1, (plaintext, ssl))
    assert BrokerIdZnode.decode(1, v3).broker == Broker(1, (plaintext,), "dc1")
    assert BrokerIdZnode.decode(1, v4).broker == Broker(
        1, (Endpoint("::1", 9092, "CLIENT", "SASL_SSL"),)
    )
    with pytest.raises(ZnodeCorrupt, match="version is out of range: 0"):
        BrokerIdZnode.decode(1, v1.replace(b'"version":1', b'"version":0'))


@pytest.mark.parametrize(
    "endpoints",
    [
        [],
        ["CLIENT://h"],
        ["CLIENT://h:x"],
        ["CLIENT://h:65536"],
        ["CLIENT://h:-2"],
        ["CLIENT://h h:1"],
        ["OTHER://h:1"],
        ["CLIENT://h:1", "CLIENT://h:2"],
        [1],
    ],
)
def test_endpoints_that_cannot_be_reached_are_refused(endpoints: list[object]) -> None:
    decode, valid = DECODERS["broker"]

    with pytest.raises(ZnodeCorrupt, match="/brokers/ids/1"):
        decode(json.dumps({**valid, "endpoints": endpoints}).encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAAAAAAAAEAAAAAAAAAA",
        "AAAAAAAAAAEAAAAAAAAAAgA",
        "AAAAAAAAAAEAAAAAAAAAA+",
        "AAAAAAAAAAEAAAAAAAAAA/",
        "AAAAAAAAAAEAAAAAAAAAA ",
        "AAAAAAAAAAEAAAAAAAAAA=",
        "AAAAAAAAAAEAAAAAAAAAé",
    ],
)
def test_what_is_no_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ZnodeCorrupt, match="/x"):
        decode_topic_id("/x", text)


@given(st.uuids())
def test_topic_ids_survive_a_round_trip(topic_id: UUID) -> None:
    text = uuid_text(topic_id)

    assert len(text) == 22
    assert decode_topic_id("/x", text) == decode_topic_id("/x", text + "==") == topic_id


def test_a_new_topic_gets_no_reserved_id_and_none_that_reads_as_an_option() -> None:
    dash = UUID(bytes=b"\xf8" + bytes(15))
    assert uuid_text(dash).startswith("-")
    made_up = iter([UUID(int=0), UUID(int=1), dash, UUID(int=2), UUID(int=3)])

    assert usable_uuid(lambda: next(made_up)) == UUID(int=2)


def test_features_of_both_versions_are_read_and_levels_checked() -> None:
    v1 = b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'

    assert FeatureZnode.decode(v1) == FeatureZnode({"f": 3}, FeatureStatus.DISABLED, 1)
    for old, new in (
        (b'"max_version_level":3', b'"max_version_level":0'),
        (b'"min_version_level":1', b'"min_version_level":4'),
        (b'"min_version_level":1', b'"min_version_level":0'),
        (b'"min_version_level":1,', b""),
        (b'"status":0', b'"status":2'),
        (b'"version":1', b'"version":3'),
    ):
        with pytest.raises(ZnodeCorrupt, match="/feature"):
            FeatureZnode.decode(v1.replace(old, new))


@pytest.mark.parametrize(
    ("start", "end"), [("5", "3"), ("-1", "3"), ("0", "2147483647"), ("0", "9223372036854775808")]
)
def test_a_block_of_producer_ids_that_is_none_is_refused(start: str, end: str) -> None:
    data = json.dumps({"broker": 1, "block_start": start, "block_end": end}).encode()

    with pytest.raises(ZnodeCorrupt, match="/latest_producer_id_block"):
        ProducerIdBlockZnode.decode(data)


def test_config_changes_of_both_versions_are_read() -> None:
    v1 = b'{"version":1,"entity_type":"clients","entity_name":"c"}'

    assert ConfigChangeZnode.decode("/c", v1).entity_path == "clients/c"
    for data in (
        b'{"version":2,"entity_path":"nothing/t"}',
        b'{"version":3,"entity_path":"topics/t"}',
    ):
        with pytest.raises(ZnodeCorrupt):
            ConfigChangeZnode.decode("/c", data)


def test_no_data_is_an_empty_configuration() -> None:
    assert ConfigZnode.decode("/config/users/u", b"").config == {}


def test_a_reassignment_names_each_partition_once_and_may_name_bad_brokers() -> None:
    bad = b'{"partitions":[{"topic":"t","partition":0,"replicas":[-1,1,1]},'

    decoded = ReassignPartitionsZnode.decode(bad[:-1] + b"]}")

    assert decoded.partitions == {TopicPartition("t", 0): (-1, 1, 1)}  # refused one by one later
    with pytest.raises(ZnodeCorrupt, match="t-0 stands there twice"):
        ReassignPartitionsZnode.decode(bad + b'{"topic":"t","partition":0,"replicas":[1]}]}')


def test_a_repeated_partition_of_an_election_counts_once() -> None:
    data = b'{"partitions":[{"topic":"b","partition":0},{"topic":"a","partition":0},' + (
        b'{"topic":"b","partition":0}]}'
    )

    assert PreferredReplicaElectionZnode.decode(data).partitions == (("b", 0), ("a", 0))


def test_paths_are_those_of_kafka() -> None:
    assert BrokerIdZnode.path(7) == "/brokers/ids/7"
    assert TopicZnode.path("t") == "/brokers/topics/t"
    assert PartitionStateZnode.path("t", 3) == "/brokers/topics/t/partitions/3/state"
    assert IsrChangeNotificationSequenceZnode.path("isr_change_1") == (
        IsrChangeNotificationSequenceZnode.CREATE_PATH + "1"
    )
    assert ConsumerOffsetZnode.path("g", "t", 3) == "/consumers/g/offsets/t/3"
    assert ConfigZnode.topic_path("t") == ConfigZnode.path("topics/t") == "/config/topics/t"
    assert ConfigZnode.broker_path(None) == "/config/brokers/<default>"
    assert ConfigZnode.broker_path(3) == "/config/brokers/3"


BROKER_IDS = st.integers(0, 2**31 - 1)
REPLICAS = st.lists(BROKER_IDS, max_size=5, unique=True).map(tuple)
SOME_REPLICAS = st.lists(BROKER_IDS, min_size=1, max_size=5, unique=True).map(tuple)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(deadline=None)
@given(
    st.builds(
        PartitionStateZnode,
        st.integers(-1, 2**31 - 1),
        BROKER_IDS,
        REPLICAS,
        BROKER_IDS,
        st.integers(0, 1),
    )
)
def test_partition_states_survive_a_round_trip(state: PartitionStateZnode) -> None:
    decoded = PartitionStateZnode.decode("/x", state.encode())

    assert decoded == state
    assert type(decoded) is PartitionStateZnode
    assert json.loads(state.encode())["isr"] == list(state.in_sync_replicas)


@settings(deadline=None)
@given(
    st.none() | st.uuids(),
    st.dictionaries(
        BROKER_IDS, st.builds(ReplicaAssignment, SOME_REPLICAS, REPLICAS, REPLICAS), max_size=30
    ),
)
def test_topics_survive_a_round_trip(
    topic_id: UUID | None, partitions: dict[int, ReplicaAssignment]
) -> None:
    topic = TopicZnode(topic_id, partitions)

    assert TopicZnode.decode("t", topic.encode()) == topic


@settings(deadline=None)
@given(st.dictionaries(TEXT, TEXT, max_size=30), TEXT)
def test_any_text_survives_a_round_trip(config: dict[str, str], name: str) -> None:
    assert ConfigZnode.decode("/x", ConfigZnode(config).encode()).config == config
    assert ClusterIdZnode.decode(ClusterIdZnode(name).encode()) == ClusterIdZnode(name)


def test_a_znode_is_described_as_it_stands_there_unless_it_is_corrupt() -> None:
    state = b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2],"new":0}'

    assert describe(STATE_PATH, state) == json.loads(state)
    assert describe("/controller_epoch", b"12") == "12"
    assert describe("/brokers/topics", b"") == ""
    assert describe("/consumers/g/offsets/t/0", b"-1") == "-1"
    assert describe("/latest_producer_id_block", b"") == ""
    assert describe("/config/users/u/clients", b"") == ""
    assert describe("/somebody/else", b'{"a":1}') == {"a": 1}
    assert describe("/somebody/else", b"\xffx") == "\\xffx"


@pytest.mark.parametrize(
    "path",
    [
        "/controller",
        "/controller_epoch",
        "/brokers/ids/1",
        "/brokers/topics/t",
        "/brokers/topics/t/partitions/0/state",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/isr_change_notification/isr_change_0000000001",
        "/log_dir_event_notification/log_dir_event_0000000001",
        "/consumers/g/offsets/t/0",
        "/cluster/id",
        "/feature",
        "/latest_producer_id_block",
        "/config/topics/t",
        "/config/users/u/clients/c",
        "/config/changes/config_change_0000000001",
    ],
)
def test_every_known_path_is_checked_before_it_is_described(path: str) -> None:
    with pytest.raises(ZnodeCorrupt):
        describe(path, b'{"version":true,"config":{"key":1}}')
