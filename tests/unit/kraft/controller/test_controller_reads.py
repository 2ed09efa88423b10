"""What any controller, active or not, answers from its stable state."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kraft.controller.cluster_requests import ControllerRegistrationRequest
from kraft.controller.features import NEVER_CHANGED, FeatureLevelUpdate, FinalizedControllerFeatures
from kraft.controller.quorum_controller_requests import (
    DescribeConfigs,
    DescribeControllers,
    FindAllTopicIds,
    GetFinalizedFeatures,
    ReadRequest,
    RegisterController,
    UpdateFeatureLevels,
)
from kraft.controller.quorum_features import default_feature_map
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from tests.support.quorum_controller_world import QUIET, QuorumWorld


def features_of(world: QuorumWorld, node_id: int) -> FinalizedControllerFeatures:
    return world.ask(GetFinalizedFeatures(), FinalizedControllerFeatures, node_id)


def registration(controller_id: int) -> RegisterController:
    return RegisterController(
        ControllerRegistrationRequest(
            controller_id,
            UUID(int=controller_id),
            listeners=(BrokerEndpoint("CONTROLLER", "localhost", 9093, 0),),
            features=tuple(
                BrokerFeature(name, *levels) for name, levels in default_feature_map().items()
            ),
        )
    )


def test_features_count_from_the_end_of_the_transaction_that_set_them() -> None:
    world = QuorumWorld(controllers=2, config=QUIET)

    world.elect(3000)

    # The first record is the quorum's own, the last one closes the transaction.
    assert world.log.end_offset == 5
    assert features_of(world, 3000) == ({FEATURE_NAME: 21}, 4)
    assert features_of(world, 3001) == ({FEATURE_NAME: 21}, 4)


def test_features_count_from_the_record_that_changes_them_once_it_is_committed() -> None:
    world = QuorumWorld.led(controllers=2, version="3.7", config=QUIET)
    for controller_id in (3000, 3001):
        world.send(registration(controller_id), 3000)
    before = features_of(world, 3000)
    world.log.is_slow = True

    world.send(UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(20)}), 3000)

    assert features_of(world, 3000) == before
    changed_at = world.log.end_offset - 1
    world.commit()
    assert features_of(world, 3000) == features_of(world, 3001) == ({FEATURE_NAME: 20}, changed_at)
    assert before.epoch is not None
    assert changed_at > before.epoch


def test_a_change_that_is_lost_with_the_leadership_never_was() -> None:
    world = QuorumWorld.led(controllers=2, version="3.7", config=QUIET)
    for controller_id in (3000, 3001):
        world.send(registration(controller_id), 3000)
    before = features_of(world, 3000)
    world.log.is_slow = True
    world.send(UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(20)}), 3000)

    world.elect(3001)

    assert features_of(world, 3000) == features_of(world, 3001) == before


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (GetFinalizedFeatures(), ({FEATURE_NAME: 1}, NEVER_CHANGED)),
        (DescribeConfigs({}), {}),
        (FindAllTopicIds(), {}),
    ],
)
def test_a_controller_that_has_read_nothing_knows_of_nothing(
    request_: ReadRequest, response: object
) -> None:
    world = QuorumWorld(config=QUIET)

    assert world.ask(request_, object, 3000) == response
    assert world.faults == []


def test_every_controller_tells_which_ones_have_registered() -> None:
    world = QuorumWorld.led(controllers=2, config=QUIET)
    world.send(registration(3000), 3000)
    world.log.is_slow = True

    world.send(registration(3001), 3000)

    assert list(world.ask(DescribeControllers(), dict, 3000)) == [3000]
    world.commit()
    for node_id in (3000, 3001):
        known = world.ask(DescribeControllers(), dict, node_id)
        assert list(known) == [3000, 3001]
        assert known[3001].listeners["CONTROLLER"].port == 9093


def test_before_controllers_register_they_are_not_asked_directly() -> None:
    world = QuorumWorld.led(version="3.6", config=QUIET)

    refused = world.refusal(DescribeControllers(), 3000)

    assert refused.error is ErrorCode.unsupported_version
    assert world.controllers[3000].is_active
