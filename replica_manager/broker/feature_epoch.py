"""The finalized features' epoch in ApiVersions: the dataVersion of ``/feature``.

A broker in ZooKeeper mode supports no features, so it needs only the epoch.

Source: Kafka ``FinalizedFeatureChangeListener``, ``ZkMetadataCache.updateFeaturesOrThrow``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from kafka_common.net.presence import abandonable
from kafka_common.protocol.api_versions import NO_FEATURES_EPOCH
from kafka_common.protocol.inter_broker_versions import InterBrokerVersion
from zkcontroller.zookeeper.requests import Znode
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode

_PATH: Final = FeatureZnode.PATH
_log = logging.getLogger("kafka.server.FinalizedFeatureChangeListener")
_cache_log = logging.getLogger("kafka.server.metadata.ZkMetadataCache")


class FeatureEpoch:
    """Follows ``/feature``.  ``look`` blocks, so it must run in an executor's thread."""

    def __init__(
        self, session: ZooKeeperSession, broker_id: int, version: InterBrokerVersion
    ) -> None:
        """``version``: the metadata version in log lines."""
        self._session = session
        self._prefix = f"[MetadataCache brokerId={broker_id}] "
        self._version = version
        self._epoch = NO_FEATURES_EPOCH
        self._features: str | None = None
        """The finalized features as Kafka prints them; None while there are none."""
        self._looked_at: Znode | None = None
        self._has_looked = False
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    @property
    def epoch(self) -> int:
        """The version of the znode; -1 if it is missing or its status is disabled."""
        return self._epoch

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a later version."""
        return len(self._waiting)

    def look(self) -> None:
        """Reads the znode and sets a watch, even if the znode does not exist yet."""
        self._look()
        for event, loop in list(self._waiting.items()):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(event.set)

    async def reaches(self, epoch: int, timeout_ms: int) -> bool:
        """Waits until ``/feature`` has version ``epoch`` or a later one; False if it timed out."""
        event = asyncio.Event()
        self._waiting[event] = asyncio.get_running_loop()
        try:
            with abandonable():
                async with asyncio.timeout(timeout_ms / 1000):
                    while self.epoch < epoch:
                        await event.wait()
                        event.clear()
        except TimeoutError:
            return self.epoch >= epoch
        finally:
            del self._waiting[event]
        return True

    def _look(self) -> None:
        found: Znode | None = None
        if optional(_PATH, self._session.exists(_PATH, watch=True)) is not None:
            found = optional(_PATH, self._session.read(_PATH))
            if found is None:
                return  # the znode was deleted meanwhile: the watch fires
        self._log_change(found)
        features, epoch = None, NO_FEATURES_EPOCH
        if found is None:
            _log.info("Feature ZK node at path: %s does not exist", _PATH)
        elif (znode := FeatureZnode.decode(found.data)).status is FeatureStatus.ENABLED:
            epoch = found.zk_version
            features = self._text(znode, epoch)
            existing = "None" if self._features is None else f"Some({self._features})"
            _cache_log.info(
                "%sUpdated cache from existing %s to latest %s.", self._prefix, existing, features
            )
        else:
            _log.info("Feature ZK node at path: %s is in disabled status.", _PATH)
        self._features, self._epoch = features, epoch

    def _log_change(self, found: Znode | None) -> None:
        before, self._looked_at = self._looked_at, found
        is_first, self._has_looked = not self._has_looked, True
        if is_first or before == found:
            return
        if found is None:
            _log.warning("Feature ZK node deleted at path: %s", _PATH)
        else:
            change = "created" if before is None else "updated"
            _log.info("Feature ZK node %s at path: %s", change, _PATH)

    def _text(self, znode: FeatureZnode, epoch: int) -> str:
        levels = ", ".join(f"{name}={znode.features[name]}" for name in znode.features)
        return (
            f"Features(metadataVersion={self._version.name}, finalizedFeatures={{{levels}}}, "
            f"finalizedFeaturesEpoch={epoch})"
        )
