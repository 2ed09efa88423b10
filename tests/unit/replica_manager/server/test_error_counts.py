"""Every error in every kind of answer is counted where Kafka counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import response_type
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.error_counts import error_counts
from tests.support.request_shapes import OFFERED

NONE, STALE, OTHER = ErrorCode.none, ErrorCode.stale_broker_epoch, ErrorCode.unknown_server_error

# What Kafka does not count: the ACLs that a filter matched, and an error that stands for all users.
UNCOUNTED = {
    (ApiKey.DELETE_ACLS, ("filter_results", "matching_acls")),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ()),
}


def places(entity: type[Entity], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a kind of message has error codes: the names of the lists on the way there."""
    hints = get_type_hints(entity)
    for field in fields(entity):
        if field.name == "error_code":
            yield above
        for part in parts(hints[field.name]):
            yield from places(part, (*above, field.name))


def parts(hint: Any) -> Iterator[type[Entity]]:
    if get_origin(hint) in (tuple, Union, UnionType):
        for inner in get_args(hint):
            yield from parts(inner)
    elif isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        yield hint


class Made:
    """An answer with these fields."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def made(place: tuple[str, ...], error: ErrorCode) -> Any:
    """An answer that has one item at that place, with that error, and none anywhere else."""
    if not place:
        return Made(error_code=error)
    return Made(**{place[0]: (made(place[1:], error),)})


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey(key), version)
        for key, (first, last) in OFFERED.items()
        for version in range(first, last + 1)
    ],
)
def test_no_error_of_any_version_of_any_answer_is_missed(api_key: ApiKey, version: int) -> None:
    found = list(places(response_type(api_key, version)))

    for place in found:
        counted = error_counts(api_key, made(place, STALE))[STALE]
        assert counted == (0 if (api_key, place) in UNCOUNTED else 1), place


def test_what_has_no_error_at_the_top_in_old_versions_counts_as_none_there() -> None:
    member = Made(error_code=OTHER)

    assert error_counts(ApiKey.LEAVE_GROUP, Made(members=(member,))) == {NONE: 1, OTHER: 1}
    assert error_counts(ApiKey.HEARTBEAT, Made(error_code=NONE)) == {NONE: 1}
    assert error_counts(ApiKey.CREATE_TOPICS, Made(topics=())) == {}


@pytest.mark.parametrize("api_key", [ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA])
def test_a_refused_request_of_the_controller_counts_for_every_partition(api_key: ApiKey) -> None:
    partitions = (Made(error_code=NONE), Made(error_code=OTHER))

    refused = Made(error_code=STALE, partition_errors=partitions)
    assert error_counts(api_key, refused) == {STALE: 3}
    done = Made(error_code=NONE, partition_errors=partitions)
    assert error_counts(api_key, done) == {NONE: 2, OTHER: 1}


def test_offsets_of_several_groups_have_no_error_at_the_top() -> None:
    schema = response_schema(ApiKey.OFFSET_FETCH, 8)
    partition = schema.part(
        "OffsetFetchResponsePartitions",
        partition_index=0,
        committed_offset=1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=OTHER,
    )
    topic = schema.part("OffsetFetchResponseTopics", name="orders", partitions=(partition,))
    group = schema.part(
        "OffsetFetchResponseGroup", group_id="g", topics=(topic, topic), error_code=NONE
    )

    counts = error_counts(ApiKey.OFFSET_FETCH, schema.response(groups=(group,)))

    assert counts == Counter({NONE: 1, OTHER: 2})
