"""Notifies the controller of failed log directories by znodes.

A sequential znode under ``/log_dir_event_notification`` makes the controller ask this broker for
its replicas, and learn which are gone.

Source: Kafka ``KafkaZkClient.propagateLogDirEvent``.
"""

from __future__ import annotations

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import Create, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import LogDirEventNotificationSequenceZnode


class LogDirEvents:
    """Notifies the controller of failed directories; retried until ZooKeeper has the znode."""

    def __init__(self, session: ZooKeeperSession, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id
        self._must_read = False

    def note(self) -> None:
        """A directory failed."""
        self._must_read = True

    def propagate(self) -> None:
        """Writes the znode if a directory has failed since the last one.  Blocks."""
        if not self._must_read:
            return
        # One znode reports all failures until now: the controller asks for every replica.
        self._must_read = False
        znode = LogDirEventNotificationSequenceZnode(self._broker_id)
        try:
            written = self._session.write(
                Create(znode.CREATE_PATH, znode.encode(), sequential=True)
            )
        except BaseException:
            self._must_read = True
            raise
        if isinstance(written, ZkCode):
            self._must_read = True
            raise ZooKeeperRefused(znode.CREATE_PATH, written.name)
