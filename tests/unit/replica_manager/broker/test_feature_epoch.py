"""What a broker says of ``/feature`` in its log, line by line as Kafka does."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from kafka_common.protocol.api_versions import NO_FEATURES_EPOCH
from kafka_common.protocol.inter_broker_versions import version_of
from replica_manager.broker.feature_epoch import FeatureEpoch
from tests.support.broker_world import BrokersSession
from zkcontroller.zookeeper.requests import Create, Delete, SetData
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

PATH = FeatureZnode.PATH
LISTENER = "kafka.server.FinalizedFeatureChangeListener"
CACHE = "kafka.server.metadata.ZkMetadataCache"


def znode(status: FeatureStatus, **features: int) -> bytes:
    return FeatureZnode(features, status).encode()


def test_each_change_of_the_znode_is_logged_as_in_kafka(caplog: pytest.LogCaptureFixture) -> None:
    session = BrokersSession(SimulatedZooKeeper())
    session.start()
    features = FeatureEpoch(cast(ZooKeeperSession, session), 1, version_of("3.9-IV0"))
    before = "Features(metadataVersion=3.9-IV0, finalizedFeatures={}, finalizedFeaturesEpoch=0)"
    after = "Features(metadataVersion=3.9-IV0, finalizedFeatures={x=2}, finalizedFeaturesEpoch=1)"

    def lines_of_a_look() -> list[tuple[str, str, str]]:
        caplog.clear()
        features.look()
        return [(each.name, each.levelname, each.getMessage()) for each in caplog.records]

    def updated(existing: str, latest: str) -> tuple[str, str, str]:
        text = f"[MetadataCache brokerId=1] Updated cache from existing {existing} to latest"
        return (CACHE, "INFO", f"{text} {latest}.")

    missing = (LISTENER, "INFO", f"Feature ZK node at path: {PATH} does not exist")
    with caplog.at_level(logging.INFO):
        assert lines_of_a_look() == [missing]
        session.write(Create(PATH, znode(FeatureStatus.ENABLED)))
        created = (LISTENER, "INFO", f"Feature ZK node created at path: {PATH}")
        assert lines_of_a_look() == [created, updated("None", before)]
        session.write(SetData(PATH, znode(FeatureStatus.ENABLED, x=2), 0))
        changed = (LISTENER, "INFO", f"Feature ZK node updated at path: {PATH}")
        assert lines_of_a_look() == [changed, updated(f"Some({before})", after)]
        assert features.epoch == 1
        # A new session looks again, though nothing has changed.
        assert lines_of_a_look() == [updated(f"Some({after})", after)]
        session.write(SetData(PATH, znode(FeatureStatus.DISABLED), 1))
        disabled = (LISTENER, "INFO", f"Feature ZK node at path: {PATH} is in disabled status.")
        assert lines_of_a_look() == [changed, disabled]
        session.write(Delete(PATH, 2))
        deleted = (LISTENER, "WARNING", f"Feature ZK node deleted at path: {PATH}")
        assert lines_of_a_look() == [deleted, missing]
    assert features.epoch == NO_FEATURES_EPOCH
