"""The feature znode at failover, whatever was there before, and the requests that change it."""

from __future__ import annotations

from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import Broker, Endpoint
from tests.scenarios.requests import ask, put
from zkcontroller.core.effects import FeatureResults
from zkcontroller.core.events import FeatureUpdate, UpdateFeatures
from zkcontroller.zookeeper.requests import Create, SetData
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode
from zkcontroller_simulation.world import World

ENABLED, DISABLED = FeatureStatus.ENABLED, FeatureStatus.DISABLED


@pytest.mark.parametrize(
    ("protocol", "before", "status", "zk_version"),
    [
        ("2.7-IV0", None, ENABLED, 0),
        ("2.7-IV0", FeatureZnode({"f": 3}, DISABLED, 1), ENABLED, 1),
        ("2.7-IV0", FeatureZnode({}, ENABLED, 1), ENABLED, 0),
        ("2.6-IV0", None, DISABLED, 0),
        ("2.6-IV0", FeatureZnode({"f": 3}, ENABLED, 1), DISABLED, 1),
        ("2.6-IV0", FeatureZnode({}, DISABLED, 1), DISABLED, 0),
    ],
)
def test_the_feature_znode_follows_the_protocol(
    world: World,
    protocol: str,
    before: FeatureZnode | None,
    status: FeatureStatus,
    zk_version: int,
) -> None:
    world.prepare_znodes()
    if before is not None:
        world.write(Create(FeatureZnode.PATH, before.encode()))
    world.settings["inter_broker_protocol_version"] = protocol

    world.start_brokers(1)

    znode = world.zookeeper.peek(FeatureZnode.PATH)
    assert znode is not None
    assert FeatureZnode.decode(znode.data) == FeatureZnode({}, status, 1)
    assert znode.zk_version == zk_version


def test_enabled_features_are_kept(world: World) -> None:
    world.prepare_znodes()
    world.write(Create(FeatureZnode.PATH, FeatureZnode({"f": 3}, ENABLED, 2).encode()))

    world.start_brokers(1)

    znode = world.zookeeper.peek(FeatureZnode.PATH)
    assert znode is not None
    assert FeatureZnode.decode(znode.data).features == {"f": 3}
    assert znode.zk_version == 0


def test_a_fresh_cluster_of_3_9_gets_version_2_enabled_and_empty(world: World) -> None:
    world.start_brokers(1)

    znode = world.zookeeper.peek(FeatureZnode.PATH)
    assert znode is not None
    assert znode.data == b'{"features":{},"version":2,"status":1}'


def with_feature(broker_id: int, feature: str, most: int) -> Broker:
    endpoint = Endpoint("localhost", 9000 + broker_id, "PLAINTEXT", "PLAINTEXT")
    return Broker(broker_id, (endpoint,), features={feature: (1, most)})


def test_a_broker_that_lacks_a_finalized_feature_does_not_count_as_live(world: World) -> None:
    world.prepare_znodes()
    world.write(Create(FeatureZnode.PATH, FeatureZnode({"f": 3}, ENABLED, 2).encode()))
    world.brokers = {1: with_feature(1, "f", 3), 2: with_feature(2, "f", 2)}

    world.start_brokers(1, 2, 3)

    controller = world.controller
    assert controller is not None
    assert list(controller.controller.context.live_broker_epochs) == [1]
    warned = [line.message for line in controller.log_lines if line.level == "WARN"]
    assert any(
        "Ignoring registration of new brokers due to incompatibilities with finalized features: 2"
        in message
        for message in warned
    )


def test_a_failover_leaves_incompatible_brokers_out_as_well(world: World) -> None:
    world.prepare_znodes()
    world.write(Create(FeatureZnode.PATH, FeatureZnode({"f": 3}, ENABLED, 2).encode()))
    world.brokers = {1: with_feature(1, "f", 3), 2: with_feature(2, "f", 2)}
    world.start_brokers(1, 2)

    world.delete_controller_znode()
    world.run_until_quiet()

    controller = world.controller
    assert controller is not None
    assert list(controller.controller.context.live_broker_epochs) == [1]


# ---------------------------------------------------------------------- UpdateFeatures

UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture
def featured(world: World) -> World:
    """Brokers that support f from 1 to 5; f is finalized at 3."""
    world.prepare_znodes()
    world.write(Create(FeatureZnode.PATH, FeatureZnode({"f": 3}, ENABLED, 2).encode()))
    world.settings["supported_features"] = {"f": (1, 5), "g": (2, 4)}
    world.brokers = {1: with_feature(1, "f", 5), 2: with_feature(2, "f", 5)}
    world.start_brokers(1, 2)
    return world


def update(
    world: World, *updates: FeatureUpdate, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    response = ask(world, FeatureResults, lambda i: UpdateFeatures(updates, validate_only, i))
    assert response.error_code == ErrorCode.none
    return [(code, message) for _, code, message in response.results]


def finalized(world: World) -> tuple[dict[str, int], int]:
    znode = world.zookeeper.peek(FeatureZnode.PATH)
    assert znode is not None
    return dict(FeatureZnode.decode(znode.data).features), znode.zk_version


@pytest.mark.parametrize(
    ("item", "after"),
    [
        (FeatureUpdate("f", 5, UPGRADE), {"f": 5}),
        (FeatureUpdate("f", 2, SAFE), {"f": 2}),
        (FeatureUpdate("f", 0, SAFE), {}),
        (FeatureUpdate("f", 0, UNSAFE), {}),
    ],
    ids=str,
)
def test_a_feature_is_raised_lowered_or_removed(
    featured: World, item: FeatureUpdate, after: dict[str, int]
) -> None:
    assert update(featured, item) == [(ErrorCode.none, None)]
    assert finalized(featured) == (after, 1)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (FeatureUpdate("", 3, UPGRADE), "Feature name can not be empty."),
        (FeatureUpdate("", 3, 9), "Feature name can not be empty."),
        (FeatureUpdate("f", 4, 0), "Received unknown upgrade type."),
        (FeatureUpdate("x", 0, SAFE), "Can not delete non-existing finalized feature."),
        (
            FeatureUpdate("f", 0, UPGRADE),
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in"
            " the request.",
        ),
        (
            FeatureUpdate("f", 3, UPGRADE),
            "Can not upgrade a finalized feature from existing versionLevel:3 to the same value.",
        ),
        (
            FeatureUpdate("f", 3, SAFE),
            "Can not downgrade a finalized feature from existing versionLevel:3 to the same value.",
        ),
        (
            FeatureUpdate("f", 2, UNSAFE),
            "Can not downgrade finalized feature from existing versionLevel:3 to provided"
            " versionLevel:2 without setting the downgradeType to SAFE in the request.",
        ),
        (
            FeatureUpdate("f", 4, SAFE),
            "When the downgradeType is set to SAFE in the request, the provided versionLevel:4 can"
            " not be greater than existing versionLevel:3.",
        ),
        (
            FeatureUpdate("x", 1, UPGRADE),
            "Could not apply finalized feature update because the provided feature is not"
            " supported.",
        ),
        (
            FeatureUpdate("g", 1, UPGRADE),
            "Could not apply finalized feature update because the provided versionLevel:1 is lower"
            " than the supported minVersion:2.",
        ),
        (
            FeatureUpdate("g", 3, UPGRADE),
            "Could not apply finalized feature update because brokers were found to have"
            " incompatible versions for the feature.",
        ),
    ],
    ids=str,
)
def test_each_refusal_has_its_reason_and_changes_nothing(
    featured: World, item: FeatureUpdate, reason: str
) -> None:
    assert update(featured, item) == [(ErrorCode.invalid_request, reason)]
    assert finalized(featured) == ({"f": 3}, 0)


def test_items_are_judged_one_by_one(featured: World) -> None:
    codes = update(featured, FeatureUpdate("f", 4, UPGRADE), FeatureUpdate("x", 1, UPGRADE))

    assert [code for code, _ in codes] == [ErrorCode.none, ErrorCode.invalid_request]
    assert finalized(featured) == ({"f": 4}, 1)


def test_the_answer_tells_the_version_that_was_written(featured: World) -> None:
    for item, epoch in (
        (FeatureUpdate("f", 4, UPGRADE), 1),
        (FeatureUpdate("f", 4, UPGRADE), None),
        (FeatureUpdate("f", 5, UPGRADE), 2),
    ):
        response = ask(featured, FeatureResults, partial(UpdateFeatures, (item,), False))
        assert response.epoch == epoch


def test_validating_alone_writes_nothing(featured: World) -> None:
    item = FeatureUpdate("f", 4, UPGRADE)

    assert update(featured, item, validate_only=True) == [(ErrorCode.none, None)]
    assert finalized(featured) == ({"f": 3}, 0)


def test_a_broker_that_is_not_the_controller_changes_no_feature(featured: World) -> None:
    item = FeatureUpdate("f", 4, UPGRADE)

    response = ask(featured, FeatureResults, lambda i: UpdateFeatures((item,), False, i), to=2)

    assert response == FeatureResults(ErrorCode.not_controller)


def test_a_controller_that_slept_does_not_undo_what_its_successor_wrote(featured: World) -> None:
    sleeper = featured.living[1]
    sleeper.pause()
    put(featured, lambda i: UpdateFeatures((FeatureUpdate("f", 5, UPGRADE),), False, i), to=1)
    featured.delete_controller_znode()
    featured.run_until(lambda: featured.active_controller == 2)
    written = FeatureZnode({"f": 4}, ENABLED, 2)
    featured.write(SetData(FeatureZnode.PATH, written.encode()))

    sleeper.resume()
    featured.run_until_quiet()

    assert finalized(featured)[0] == {"f": 4}
    assert featured.active_controller == 2
    assert any("Controller moved" in line and "UpdateFeatures" in line for line in featured.log(1))
