"""The last block of producer ids that there is."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.producer_id_control import ProducerIdControlManager, ProducerIdsBlock
from kraft.metadata.records import ProducerIdsRecord
from tests.support.kraft_world import KraftWorld

LARGEST = 2**63 - 1


@pytest.fixture
def manager() -> ProducerIdControlManager:
    world = KraftWorld(1)
    return ProducerIdControlManager(world.registry, world.cluster)


def test_the_last_block_ends_where_the_numbers_do(manager: ProducerIdControlManager) -> None:
    manager.replay(ProducerIdsRecord(1, 101, LARGEST - 1_000))

    last = manager.generate_next_producer_id(1, 101)

    assert last.response == ProducerIdsBlock(1, LARGEST - 1_000, 1_000)
    assert [each.record for each in last.records] == [ProducerIdsRecord(1, 101, LARGEST)]


def test_behind_it_there_is_none(manager: ProducerIdControlManager) -> None:
    manager.replay(ProducerIdsRecord(1, 101, LARGEST - 999))

    with pytest.raises(ApiException) as refused:
        manager.generate_next_producer_id(1, 101)

    assert refused.value.error is ErrorCode.unknown_server_error
