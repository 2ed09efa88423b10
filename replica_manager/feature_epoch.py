"""The finalized features' epoch, which ApiVersions tells: the dataVersion of ``/feature``.

A broker in ZooKeeper mode supports no features of its own, so nothing but the epoch is of interest.

Source: Kafka ``FinalizedFeatureChangeListener``.
"""

from __future__ import annotations

from zkcontroller.errors import ZooKeeperRefused
from zkcontroller.protocol.api_versions import NO_FEATURES_EPOCH
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode


class FeatureEpoch:
    """Follows ``/feature``.  ``look`` blocks and belongs to an executor's thread."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self.epoch = NO_FEATURES_EPOCH
        """-1 while the znode is missing or says disabled."""

    def look(self) -> None:
        """Reads the znode and leaves a watch, also where it does not exist yet."""
        stat = self._session.exists(FeatureZnode.PATH, watch=True)
        if stat is ZkCode.NO_NODE:
            self.epoch = NO_FEATURES_EPOCH
            return
        found = self._session.read(FeatureZnode.PATH)
        if found is ZkCode.NO_NODE:
            return  # deleted since: the watch tells again
        if isinstance(found, ZkCode):
            raise ZooKeeperRefused(FeatureZnode.PATH, found.name)
        is_enabled = FeatureZnode.decode(found.data).status is FeatureStatus.ENABLED
        self.epoch = found.zk_version if is_enabled else NO_FEATURES_EPOCH
