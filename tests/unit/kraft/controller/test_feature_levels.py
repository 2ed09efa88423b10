"""Feature levels at the edges of what is allowed, and what brokers must support of them."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiError, ApiException
from kraft.controller.cluster_requests import BrokerRegistrationReply, BrokerRegistrationRequest
from kraft.controller.features import FeatureLevelUpdate, FinalizedControllerFeatures, UpgradeType
from kraft.controller.quorum_controller_requests import (
    GetFinalizedFeatures,
    RegisterBroker,
    UpdateFeatureLevels,
)
from kraft.controller.quorum_features import TRANSACTION_VERSION, default_feature_map
from kraft.metadata.metadata_version import FEATURE_NAME, from_name
from kraft.metadata.records import BrokerEndpoint, BrokerFeature, FeatureLevelRecord
from tests.support.quorum_controller_world import CLUSTER_ID, QUIET, QuorumWorld

UPGRADE, SAFE, UNSAFE = (
    UpgradeType.UPGRADE,
    UpgradeType.SAFE_DOWNGRADE,
    UpgradeType.UNSAFE_DOWNGRADE,
)


def world_at(version: str, *, is_unstable_enabled: bool = False) -> QuorumWorld:
    world = QuorumWorld(version=version, config=QUIET, is_unstable_enabled=is_unstable_enabled)
    world.elect(3000)
    return world


def verdict(
    world: QuorumWorld, name: str, level: int, upgrade_type: UpgradeType = UPGRADE
) -> ApiError:
    answered = world.ask(UpdateFeatureLevels({name: FeatureLevelUpdate(level, upgrade_type)}), dict)
    error = answered[name]
    assert isinstance(error, ApiError)
    return error


def levels(world: QuorumWorld) -> Mapping[str, int]:
    return world.ask(GetFinalizedFeatures(), FinalizedControllerFeatures).levels


# What may be updated.


def test_a_feature_comes_rises_falls_and_goes() -> None:
    world = world_at("3.6", is_unstable_enabled=True)
    name = TRANSACTION_VERSION
    seen = []

    for level, upgrade_type in ((2, UPGRADE), (1, SAFE), (1, SAFE), (1, UPGRADE), (0, UNSAFE)):
        assert not verdict(world, name, level, upgrade_type).is_failure
        seen.append(levels(world).get(name))

    assert seen == [2, 1, 1, 1, None]
    assert world.records[-1] == FeatureLevelRecord(name, 0)


@pytest.mark.parametrize(("level", "upgrade_type"), [(1, SAFE), (2, UNSAFE), (3, UPGRADE)])
def test_a_feature_that_was_never_set_is_at_level_0(level: int, upgrade_type: UpgradeType) -> None:
    world = world_at("3.6", is_unstable_enabled=True)

    assert verdict(world, TRANSACTION_VERSION, level, upgrade_type).error is (
        ErrorCode.invalid_update_version
    )


def test_metadata_version_may_stay_where_it_is_even_at_the_first_level_that_is_written() -> None:
    world = world_at("3.3-IV0")

    for upgrade_type in (UPGRADE, SAFE, UNSAFE):
        level = from_name("3.3-IV0").level
        assert not verdict(world, FEATURE_NAME, level, upgrade_type).is_failure
    below = verdict(world, FEATURE_NAME, from_name("3.2-IV0").level, SAFE)

    assert below.error is ErrorCode.invalid_update_version
    assert levels(world) == {FEATURE_NAME: 4}


def test_an_unsafe_downgrade_that_changes_no_format_is_one_like_any_other() -> None:
    world = world_at("3.9")

    assert not verdict(world, FEATURE_NAME, from_name("3.8").level, UNSAFE).is_failure

    assert levels(world) == {FEATURE_NAME: from_name("3.8").level}


def test_the_numbers_of_the_request_mean_these_directions() -> None:
    assert [UpgradeType.from_code(code) for code in range(5)] == [
        UpgradeType.UNKNOWN, UPGRADE, SAFE, UNSAFE, UpgradeType.UNKNOWN,
    ]  # fmt: skip


def test_what_a_controller_supports_of_what_is_not_stable_yet() -> None:
    assert TRANSACTION_VERSION not in default_feature_map()
    assert default_feature_map(is_unstable_enabled=True)[TRANSACTION_VERSION] == (0, 2)


# What a broker must support.


def registration(*features: BrokerFeature) -> RegisterBroker:
    return RegisterBroker(
        BrokerRegistrationRequest(
            1,
            CLUSTER_ID,
            UUID(int=1 << 80),
            (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
            features,
            log_dirs=(UUID(int=1 << 64),),
        )
    )


def is_registered(world: QuorumWorld, *features: BrokerFeature) -> bool:
    response = world.responses[world.send(registration(*features))]
    if isinstance(response, ApiException):
        assert response.error is ErrorCode.unsupported_version
        return False
    assert isinstance(response, BrokerRegistrationReply)
    return True


ANY_VERSION = BrokerFeature(FEATURE_NAME, 1, 21)


@pytest.mark.parametrize(
    ("lowest", "highest", "is_allowed"),
    [(0, 3, True), (0, 0, True), (1, 3, False)],
)
def test_a_feature_of_a_brokers_own_must_be_able_to_be_off(
    lowest: int, highest: int, is_allowed: bool
) -> None:
    world = world_at("3.9")

    assert is_registered(world, ANY_VERSION, BrokerFeature("x", lowest, highest)) is is_allowed


def test_a_feature_that_is_on_must_be_known_to_brokers_and_one_that_was_on_need_not() -> None:
    world = world_at("3.6", is_unstable_enabled=True)
    assert not verdict(world, TRANSACTION_VERSION, 2).is_failure

    assert not is_registered(world, ANY_VERSION)
    assert not is_registered(world, ANY_VERSION, BrokerFeature(TRANSACTION_VERSION, 0, 1))
    assert is_registered(world, ANY_VERSION, BrokerFeature(TRANSACTION_VERSION, 0, 2))
    assert not verdict(world, TRANSACTION_VERSION, 0, SAFE).is_failure
    assert is_registered(world, ANY_VERSION)


def test_a_broker_that_only_knows_later_versions_is_refused() -> None:
    world = world_at("3.3-IV0")

    assert not is_registered(world, BrokerFeature(FEATURE_NAME, 5, 21))
    assert is_registered(world, BrokerFeature(FEATURE_NAME, 4, 4))
