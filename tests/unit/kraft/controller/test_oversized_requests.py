"""What no record can hold is refused before the append, and costs no controller its leadership.

Source of the refusals: Kafka ``BatchAccumulator`` (RECORD_LIST_TOO_LARGE for a batch); for a single
field Kafka's controller fails and resigns.
"""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import BufferAllocation
from kraft.controller.cluster_requests import BrokerRegistrationRequest
from kraft.controller.quorum_controller_requests import RegisterBroker
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import BrokerEndpoint, BrokerFeature, ConfigRecord, MetadataRecord
from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import MAX_BATCH_BYTES, MAX_COMPLETED_BATCHES
from tests.support.quorum_controller_world import CLUSTER_ID, QUIET, QuorumWorld, topic

LONGEST = 32_767


def refusal(world: QuorumWorld, *records: MetadataRecord) -> ApiException:
    with pytest.raises(ApiException) as refused:
        world.write(*records)
    return refused.value


def values(count: int, size: int) -> list[ConfigRecord]:
    return [ConfigRecord(2, f"topic-{n}", "k", "v" * size) for n in range(count)]


def test_a_value_that_no_field_holds_is_refused_and_the_controller_leads_on(
    world: QuorumWorld,
) -> None:
    before = world.records
    refused = refusal(world, *values(1, 10), *values(1, LONGEST + 1))

    assert refused.error is ErrorCode.invalid_request
    assert "ConfigRecord cannot be written" in str(refused)
    assert world.active.claim_epoch == 1
    assert (world.records, world.faults, world.rafts[3000].resigned) == (before, [], [])
    world.write(*values(1, LONGEST))
    assert world.records[-1] == values(1, LONGEST)[0]


def test_more_than_a_batch_holds_is_refused_and_the_controller_leads_on(world: QuorumWorld) -> None:
    before = world.records
    refused = refusal(world, *values(MAX_BATCH_BYTES // 30_000 + 1, 30_000))

    assert refused.error is ErrorCode.record_list_too_large
    assert "exceeds the maximum allowed batch size of 8388608" in str(refused)
    assert world.active.claim_epoch == 1
    assert (world.records, world.faults, world.rafts[3000].resigned) == (before, [], [])


def test_records_of_several_batches_are_refused_as_a_whole() -> None:
    world = QuorumWorld.led(config=QUIET, max_records_per_batch=2)
    before = world.records

    refused = refusal(world, *values(3, 10), *values(1, LONGEST + 1))

    assert refused.error is ErrorCode.invalid_request
    assert (world.records, world.faults) == (before, [])


def test_a_full_accumulator_is_distinguished_from_a_batch_that_is_too_large() -> None:
    accumulator = BatchAccumulator(1, 0, 25)
    half = b"x" * (MAX_BATCH_BYTES // 2 + 1)
    for _ in range(MAX_COMPLETED_BATCHES + 1):
        accumulator.prepare(1, [half], 0)

    with pytest.raises(BufferAllocation):
        accumulator.prepare(1, [half], 0)


@pytest.mark.parametrize("length", [LONGEST, LONGEST + 1, 40_000])
def test_a_registration_that_no_record_holds_leaves_nothing_of_the_broker(
    world: QuorumWorld, length: int
) -> None:
    world.start_brokers(1)
    request = BrokerRegistrationRequest(
        9,
        CLUSTER_ID,
        UUID(int=9),
        (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
        (BrokerFeature(FEATURE_NAME, 1, 23),),
        rack="r" * length,
        log_dirs=(UUID(int=(1 << 64) + 9),),
    )

    response = world.responses[world.send(RegisterBroker(request))]

    is_refused = isinstance(response, ApiException)
    assert is_refused == (length > LONGEST)
    cluster = world.active.state.cluster
    assert cluster.heartbeats.usable_broker_ids() == ([1] if is_refused else [1, 9])
    (created,) = world.ask(topic("placed", partitions=1), tuple)
    assert not created.error.is_failure
    assert (world.faults, world.rafts[3000].resigned) == ([], [])
