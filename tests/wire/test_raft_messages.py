"""The quorum's messages: bytes of Kafka 3.9.1, round trips in every version, bytes of strangers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.protocol import messages
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    ReplicaProgress,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.values import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NodeAddress,
    OffsetAndEpoch,
    ReplicaKey,
)
from kraft.raft.wire import (
    OFFERED,
    RefusedRequest,
    api_key_of,
    common_version,
    read_request,
    read_response,
    write_refusal,
    write_request,
    write_response,
)

CLUSTER: Final = "AAECAwQFBgcICQoLDA0ODw"
DIRECTORY: Final = UUID("7a3adf01-39d1-70ad-860b-1a5fb27fbc5e")
ONE: Final = ReplicaKey(1, DIRECTORY)

_CLUSTER: Final = "17" + CLUSTER.encode().hex()
_TOPIC: Final = "13" + METADATA_TOPIC.encode().hex()
_ZERO: Final = "00" * 16
_DIRECTORY: Final = DIRECTORY.hex

GOLDEN: Final[list[tuple[RaftRequest, int, str]]] = [
    (
        VoteRequest(CLUSTER, ReplicaKey(2), 0x7B, ONE, OffsetAndEpoch(0x5D5, 0x7A)),
        1,
        f"{_CLUSTER} 00000002 02 {_TOPIC} 02 00000000 0000007b 00000001 {_DIRECTORY} {_ZERO}"
        "0000007a 00000000000005d5 00 00 00",
    ),
    (
        BeginQuorumEpochRequest(
            CLUSTER, ReplicaKey(2), 1, 0x7B, {"CONTROLLER": NodeAddress("127.0.0.1", 0x72D9)}
        ),
        1,
        f"{_CLUSTER} 00000002 02 {_TOPIC} 02 00000000 {_ZERO} 00000001 0000007b 00 00"
        "02 0b 434f4e54524f4c4c4552 0a 3132372e302e302e31 72d9 00 00",
    ),
    (
        EndQuorumEpochRequest(CLUSTER, 1, 0x7B, (ReplicaKey(2), ReplicaKey(3)), {}),
        1,
        f"{_CLUSTER} 02 {_TOPIC} 02 00000000 00000001 0000007b"
        f"03 00000002 {_ZERO} 00 00000003 {_ZERO} 00 00 00 01 00",
    ),
    (
        FetchRequest(CLUSTER, ONE, 0, 0, 0, 500, 8 * 1024 * 1024),
        17,
        f"000001f4 00000000 00800000 00 00000000 ffffffff 02 {METADATA_TOPIC_ID.hex} 02"
        "00000000 00000000 0000000000000000 00000000 ffffffffffffffff 00000000"
        f"01 00 10 {_DIRECTORY} 00 01 01 02 00 17 {_CLUSTER} 01 0d 00000001 ffffffffffffffff 00",
    ),
]


@pytest.mark.parametrize(("request_", "version", "golden"), GOLDEN)
def test_requests_are_kafkas_byte_for_byte(
    request_: RaftRequest, version: int, golden: str
) -> None:
    body = bytes.fromhex(golden)

    assert write_request(request_, version) == body
    assert read_request(api_key_of(request_), version, body, 0, cluster_id=CLUSTER) == request_


# What a version can say, field by field; everything else is as it would be without the field.

i16, i32, i64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
ids = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
directories = st.none() | st.uuids().filter(lambda uuid: uuid.int != 0)
replicas = st.builds(ReplicaKey, ids, directories)
places = st.builds(OffsetAndEpoch, i64, i32)
endpoints = st.builds(NodeAddress, texts, st.integers(0, 2**16 - 1))
listeners = st.dictionaries(texts, endpoints, max_size=3)
clusters = st.none() | st.just(CLUSTER)
errors = st.sampled_from(ErrorCode)

requests = st.one_of(
    st.builds(VoteRequest, clusters, st.none() | replicas, i32, replicas, places),
    st.builds(BeginQuorumEpochRequest, clusters, st.none() | replicas, ids, i32, listeners),
    st.builds(EndQuorumEpochRequest, clusters, ids, i32, st.lists(replicas).map(tuple), listeners),
    st.builds(
        FetchRequest, clusters, st.none() | replicas, i32, i64, i32, st.integers(0, 2**31 - 1), i32
    ),
    st.builds(FetchSnapshotRequest, clusters, st.none() | replicas, i32, places, i64, i32),
    st.just(DescribeQuorumRequest()),
)


def as_said_in(request: RaftRequest, version: int) -> RaftRequest:
    """What is left of a request in a version."""
    match request:
        case VoteRequest() if version == 0:
            return replace(request, voter=None, candidate=ReplicaKey(request.candidate.id))
        case BeginQuorumEpochRequest() if version == 0:
            return replace(request, voter=None, leader_endpoints={})
        case EndQuorumEpochRequest() if version == 0:
            bare = tuple(ReplicaKey(each.id) for each in request.preferred_candidates)
            return replace(request, preferred_candidates=bare, leader_endpoints={})
        case FetchRequest() if version < 17:
            return replace(request, replica=_bare(request.replica))
        case FetchSnapshotRequest() if version == 0:
            return replace(request, replica=_bare(request.replica))
        case _:
            return request


def _bare(replica: ReplicaKey | None) -> ReplicaKey | None:
    return None if replica is None else ReplicaKey(replica.id)


@settings(deadline=None)
@given(requests)
def test_a_request_is_read_as_it_was_written_in_every_version(request_: RaftRequest) -> None:
    api_key = api_key_of(request_)
    first, last = OFFERED[api_key]

    for version in range(13 if api_key == ApiKey.FETCH else first, last + 1):
        body = b"header" + write_request(request_, version)
        read = read_request(api_key, version, body, 6, cluster_id=CLUSTER)
        assert read == as_said_in(request_, version), version


leaders = st.one_of(
    st.fixed_dictionaries({"leader_id": st.none(), "leader_epoch": i32}),
    st.fixed_dictionaries(
        {"leader_id": ids, "leader_epoch": i32, "leader_endpoint": st.none() | endpoints}
    ),
)
progress = st.builds(ReplicaProgress, replicas, i64, i64, i64)


def _built(kind: Any, **fields: Any) -> st.SearchStrategy[AnyRaftResponse]:
    return st.builds(
        lambda heading, error, rest: kind(error=error, **heading, **rest),
        leaders,
        errors,
        st.fixed_dictionaries(fields),
    )


responses = st.one_of(
    _built(VoteResponse, vote_granted=st.booleans()),
    _built(BeginQuorumEpochResponse),
    _built(EndQuorumEpochResponse),
    _built(
        FetchResponse,
        high_watermark=i64,
        log_start_offset=i64,
        records=st.binary(max_size=40),
        diverging_epoch=st.none() | places.filter(lambda place: place != (-1, -1)),
        snapshot_id=st.none() | places.filter(lambda place: place != (-1, -1)),
    ),
    _built(
        FetchSnapshotResponse,
        snapshot_id=places,
        size=i64,
        position=i64,
        data=st.binary(max_size=40),
    ),
)
descriptions = st.builds(
    lambda **fields: DescribeQuorumResponse(**fields),
    leader_id=st.none() | ids,
    leader_epoch=i32,
    high_watermark=i64,
    voters=st.lists(progress, max_size=3).map(tuple),
    observers=st.lists(progress, max_size=3).map(tuple),
    nodes=st.dictionaries(ids, listeners, max_size=3),
)

FIRST_WITH_ENDPOINTS: Final = {ApiKey.FETCH: 17}
API_OF: Final = {
    VoteResponse: ApiKey.VOTE,
    BeginQuorumEpochResponse: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochResponse: ApiKey.END_QUORUM_EPOCH,
    FetchResponse: ApiKey.FETCH,
    FetchSnapshotResponse: ApiKey.FETCH_SNAPSHOT,
    DescribeQuorumResponse: ApiKey.DESCRIBE_QUORUM,
}


@settings(deadline=None)
@given(responses)
def test_an_answer_is_read_as_it_was_written_in_every_version(response: AnyRaftResponse) -> None:
    api_key = API_OF[type(response)]
    first, last = OFFERED[api_key]

    for version in range(13 if api_key == ApiKey.FETCH else first, last + 1):
        read = read_response(api_key, version, write_response(response, version))
        has_endpoint = version >= FIRST_WITH_ENDPOINTS.get(api_key, 1)
        expected = response if has_endpoint else replace(response, leader_endpoint=None)
        assert read == expected, version


@settings(deadline=None)
@given(descriptions)
def test_the_state_of_a_quorum_loses_only_what_a_version_cannot_say(
    response: DescribeQuorumResponse,
) -> None:
    def told_to(version: int) -> DescribeQuorumResponse:
        read = read_response(ApiKey.DESCRIBE_QUORUM, version, write_response(response, version))
        assert isinstance(read, DescribeQuorumResponse)
        return read

    def without_directories(rows: tuple[ReplicaProgress, ...]) -> tuple[ReplicaProgress, ...]:
        return tuple(replace(row, replica=ReplicaKey(row.replica.id)) for row in rows)

    def without_times(rows: tuple[ReplicaProgress, ...]) -> tuple[ReplicaProgress, ...]:
        return tuple(
            replace(row, last_fetch_timestamp=-1, last_caught_up_timestamp=-1) for row in rows
        )

    one = replace(
        response,
        nodes={},
        voters=without_directories(response.voters),
        observers=without_directories(response.observers),
    )
    assert told_to(2) == response
    assert told_to(1) == one
    assert told_to(0) == replace(
        one, voters=without_times(one.voters), observers=without_times(one.observers)
    )


@pytest.mark.parametrize("api_key", sorted(OFFERED))
def test_an_answer_that_refuses_all_has_no_topics(api_key: int) -> None:
    first, last = OFFERED[api_key]

    for version in range(7 if api_key == ApiKey.FETCH else first, last + 1):
        body = write_refusal(api_key, version, ErrorCode.inconsistent_cluster_id)
        payload: Any = messages.read_response(api_key, version, body)
        assert payload.error_code is ErrorCode.inconsistent_cluster_id
        assert (payload.responses if api_key == ApiKey.FETCH else payload.topics) == ()
        read = read_response(api_key, version, body)
        assert read.top_level_error is ErrorCode.inconsistent_cluster_id
        assert write_response(read, version) == body


def answer_to(api_key: ApiKey, version: int, payload: Any) -> Any:
    """What is answered to a message that the raft step does not see."""
    read = read_request(api_key, version, messages.write(payload), 0, cluster_id=CLUSTER)
    assert isinstance(read, RefusedRequest)
    return messages.read_response(api_key, version, read.body)


def message(request: RaftRequest, version: int) -> Any:
    return messages.read_request(api_key_of(request), version, write_request(request, version))


def of_another_partition(payload: Any) -> Any:
    """The same message about partition 1."""
    [topic] = payload.topics
    [partition] = topic.partitions
    name = next(n for n in ("partition_index", "partition") if hasattr(partition, n))
    return replace(payload, topics=(replace(topic, partitions=(replace(partition, **{name: 1}),)),))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("request_", [each for each, _, _ in GOLDEN[:3]])
def test_a_request_about_another_partition_is_refused_as_a_whole(
    request_: RaftRequest, version: int
) -> None:
    payload = message(request_, version)
    two_topics = replace(payload, topics=payload.topics * 2)
    other_topic = replace(payload, topics=(replace(payload.topics[0], topic_name="orders"),))

    for wrong in (
        of_another_partition(payload),
        two_topics,
        other_topic,
        replace(payload, topics=()),
    ):
        response = answer_to(api_key_of(request_), version, wrong)
        assert (response.error_code, response.topics) == (ErrorCode.invalid_request, ())


def test_another_cluster_is_refused_before_anything_else() -> None:
    for request_, version, _ in GOLDEN:
        payload = replace(message(request_, version), cluster_id="another")
        response = answer_to(api_key_of(request_), version, of_another_partition(payload))
        assert response.error_code is ErrorCode.inconsistent_cluster_id


@pytest.mark.parametrize("version", range(13))
def test_a_fetch_that_cannot_name_the_topic_by_its_id_is_refused(version: int) -> None:
    schema = request_schema(ApiKey.FETCH, version)
    partition = schema.part(
        "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1_000
    )
    topic = schema.part("FetchTopic", topic=METADATA_TOPIC, partitions=(partition,))
    asked = schema.request(
        replica_id=-1, max_wait=timedelta(0), min_bytes=0, topics=(topic,), forgotten_topics_data=()
    )

    response = answer_to(ApiKey.FETCH, version, asked)

    assert response.responses == ()
    assert getattr(response, "error_code", None) in (None, ErrorCode.invalid_request)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describing_another_partition_names_it_in_the_answer(version: int) -> None:
    payload = of_another_partition(message(DescribeQuorumRequest(), version))

    response = answer_to(ApiKey.DESCRIBE_QUORUM, version, payload)

    assert response.error_code is ErrorCode.none
    [topic] = response.topics
    [partition] = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA_TOPIC, 1)
    assert partition.error_code is ErrorCode.unknown_topic_or_partition
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 0, 0)
    if version == 2:
        assert partition.error_message == "This server does not host this topic-partition."


def test_a_node_that_does_not_lead_describes_nothing() -> None:
    refused = DescribeQuorumResponse(
        error=ErrorCode.not_leader_or_follower, leader_id=2, leader_epoch=5
    )

    response: Any = messages.read_response(ApiKey.DESCRIBE_QUORUM, 2, write_response(refused, 2))

    [partition] = response.topics[0].partitions
    assert partition.error_code is ErrorCode.not_leader_or_follower
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (0, 0, 0)
    assert partition.error_message.startswith("For requests intended only for the leader")
    assert (partition.current_voters, partition.observers, response.nodes) == ((), (), ())


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_of_another_partition_is_unknown(version: int) -> None:
    asked = FetchSnapshotRequest(CLUSTER, ONE, 1, OffsetAndEpoch(5, 1), 0, 100)

    response = answer_to(
        ApiKey.FETCH_SNAPSHOT, version, of_another_partition(message(asked, version))
    )

    [partition] = response.topics[0].partitions
    assert partition.index == 1
    assert partition.error_code is ErrorCode.unknown_topic_or_partition
    assert partition.unaligned_records == b""


def test_the_highest_common_version_is_spoken() -> None:
    peer: dict[int, tuple[int, int]] = {
        ApiKey.VOTE: (0, 7),
        ApiKey.FETCH: (0, 15),
        ApiKey.DESCRIBE_QUORUM: (3, 4),
    }

    assert common_version(ApiKey.VOTE, peer) == 1
    assert common_version(ApiKey.FETCH, peer) == 15
    assert common_version(ApiKey.DESCRIBE_QUORUM, peer) is None
    assert common_version(ApiKey.END_QUORUM_EPOCH, peer) is None
    # A Fetch of a version that has no topic ids would be refused.
    assert common_version(ApiKey.FETCH, {int(ApiKey.FETCH): (0, 12)}) is None


def test_an_answer_about_another_partition_is_no_answer() -> None:
    body = write_response(VoteResponse(leader_epoch=3, vote_granted=True), 1)
    payload: Any = messages.read_response(ApiKey.VOTE, 1, body)

    for wrong in (of_another_partition(payload), replace(payload, topics=())):
        with pytest.raises(InvalidFrame):
            read_response(ApiKey.VOTE, 1, messages.write(wrong))


def test_ten_thousand_broken_messages_end_in_a_value_or_in_invalid_frame() -> None:
    random = Random(391)
    asked = [
        (api_key_of(each), version, write_request(each, version)) for each, version, _ in GOLDEN
    ]
    answered = [
        (ApiKey.VOTE, 1, write_response(VoteResponse(leader_id=1, leader_epoch=2), 1)),
        (ApiKey.FETCH, 17, write_response(FetchResponse(leader_id=1, records=b"x" * 60), 17)),
        (ApiKey.FETCH_SNAPSHOT, 1, write_response(FetchSnapshotResponse(data=b"y" * 60), 1)),
        (ApiKey.DESCRIBE_QUORUM, 2, write_response(DescribeQuorumResponse(leader_id=1), 2)),
    ]
    outcomes = {"value": 0, "refused": 0, "invalid": 0}
    for _ in range(5_000):
        api_key, version, body = random.choice(asked)
        try:
            read = read_request(api_key, version, _mutant(random, body), 0, cluster_id=CLUSTER)
        except InvalidFrame:
            outcomes["invalid"] += 1
        else:
            outcomes["refused" if isinstance(read, RefusedRequest) else "value"] += 1
    for _ in range(5_000):
        api_key, version, body = random.choice(answered)
        try:
            read_response(api_key, version, _mutant(random, body))
        except InvalidFrame:
            outcomes["invalid"] += 1
        else:
            outcomes["value"] += 1

    assert min(outcomes.values()) > 100, outcomes


def _mutant(random: Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(random.randint(1, 3)):
        position = random.randrange(len(data)) if data else 0
        match random.randrange(4):
            case 0:
                data[position : position + 1] = random.randbytes(1)
            case 1:
                data[position : position + 5] = b"\xff\xff\xff\xff\x07"
            case 2:
                del data[position : position + random.randint(1, 8)]
            case _:
                data[position:position] = random.randbytes(random.randint(1, 8))
    return bytes(data)
