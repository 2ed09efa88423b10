"""The answer to Metadata against kio, byte for byte, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.errors import UnsupportedVersion
from kafka_common.protocol import bulk_metadata
from kafka_common.protocol.bulk_metadata import METADATA_VERSIONS, TopicHead
from kafka_common.protocol.messages import response_type, write
from kafka_common.protocol.versioned_messages import response_schema
from tests.wire.bulk_columns import IDS, INT32, NAMES, TOPIC_IDS

METADATA = 3
ERRORS = st.sampled_from(list(ErrorCode))
PARTITIONS = st.tuples(ERRORS, INT32, INT32, INT32, IDS, IDS, IDS)
TOPICS = st.lists(
    st.tuples(
        ERRORS, st.none() | NAMES, TOPIC_IDS, st.booleans(), st.lists(PARTITIONS, max_size=4), INT32
    ),
    max_size=4,
)
BROKERS = st.lists(st.tuples(INT32, NAMES, INT32, st.none() | NAMES), max_size=4)


def as_we_write_it(version: int, brokers: list[Any], topics: list[Any], rest: Any) -> bytes:
    encode = bulk_metadata.metadata_partition_encoder(version)
    encoded = [
        bulk_metadata.metadata_topic(
            version,
            TopicHead(error.value, name, topic_id, is_internal, operations),
            [encode(partition_error.value, *more) for partition_error, *more in partitions],
        )
        for error, name, topic_id, is_internal, partitions, operations in topics
    ]
    cluster_id, controller_id, operations = rest
    return b"".join(
        bulk_metadata.metadata_body(
            version,
            brokers=brokers,
            cluster_id=cluster_id,
            controller_id=controller_id,
            topics=encoded,
            cluster_authorized_operations=operations,
        )
    )


def as_kio_writes_it(version: int, brokers: list[Any], topics: list[Any], rest: Any) -> bytes:
    schema = response_schema(METADATA, version)

    def partition(error: ErrorCode, index: int, leader: int, epoch: int, *lists: Any) -> Any:
        return schema.part(
            "MetadataResponsePartition",
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=lists[0],
            isr_nodes=lists[1],
            offline_replicas=lists[2],
        )

    cluster_id, controller_id, operations = rest
    return write(
        schema.response(
            brokers=tuple(
                schema.part("MetadataResponseBroker", node_id=id_, host=host, port=port, rack=rack)
                for id_, host, port, rack in brokers
            ),
            cluster_id=cluster_id,
            controller_id=controller_id,
            topics=tuple(
                schema.part(
                    "MetadataResponseTopic",
                    error_code=error,
                    name=name,
                    topic_id=topic_id,
                    is_internal=is_internal,
                    partitions=tuple(partition(*state) for state in partitions),
                    topic_authorized_operations=topic_operations,
                )
                for error, name, topic_id, is_internal, partitions, topic_operations in topics
            ),
            cluster_authorized_operations=operations,
        )
    )


def test_the_versions_are_those_of_kafka() -> None:
    assert all(response_type(METADATA, version) for version in METADATA_VERSIONS)
    with pytest.raises(UnsupportedVersion):
        response_type(METADATA, METADATA_VERSIONS.stop)


@pytest.mark.parametrize("version", METADATA_VERSIONS)
@settings(max_examples=15, deadline=None)
@given(brokers=BROKERS, topics=TOPICS, rest=st.tuples(NAMES, INT32, INT32))
def test_an_answer_to_metadata_is_what_kio_writes(
    version: int, brokers: list[Any], topics: list[Any], rest: Any
) -> None:
    if version < 12:  # which knows no topic without a name
        topics = [(error, name or "", *more) for error, name, *more in topics]

    ours = as_we_write_it(version, brokers, topics, rest)

    assert ours == as_kio_writes_it(version, brokers, topics, rest)
