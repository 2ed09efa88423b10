"""The finalized features' epoch in ApiVersions: the dataVersion of ``/feature``.

A broker in ZooKeeper mode supports no features, so it needs only the epoch.

Source: Kafka ``FinalizedFeatureChangeListener``.
"""

from __future__ import annotations

import asyncio
import contextlib

from kafka_common.net.presence import abandonable
from kafka_common.protocol.api_versions import NO_FEATURES_EPOCH
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import FeatureStatus, FeatureZnode


class FeatureEpoch:
    """Follows ``/feature``.  ``look`` blocks, so it must run in an executor's thread."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._epoch = NO_FEATURES_EPOCH
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
        path = FeatureZnode.PATH
        if optional(path, self._session.exists(path, watch=True)) is None:
            self._epoch = NO_FEATURES_EPOCH
            return
        found = optional(path, self._session.read(path))
        if found is None:
            return  # the znode was deleted meanwhile: the watch fires
        is_enabled = FeatureZnode.decode(found.data).status is FeatureStatus.ENABLED
        self._epoch = found.zk_version if is_enabled else NO_FEATURES_EPOCH
