"""Notifies the controller of failed log directories by znodes.

After a sequential znode under ``/log_dir_event_notification`` the controller sends this broker a
LeaderAndIsr request for all its replicas, and learns from the response which ones are offline.

Source: Kafka ``KafkaZkClient.propagateLogDirEvent``.
"""

from __future__ import annotations

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import Create, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import LogDirEventNotificationSequenceZnode


class LogDirEvents:
    """Notifies the controller of failed log directories; the caller repeats failed attempts."""

    def __init__(self, session: ZooKeeperSession, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id
        self._must_notify = False

    def note(self) -> None:
        """Records that a log directory failed; :meth:`propagate` then writes a znode."""
        self._must_notify = True

    def propagate(self) -> None:
        """Writes a znode if a log directory has failed since the last one.  Blocks.

        Raises an exception if the write fails; the next call tries it again.
        """
        if not self._must_notify:
            return
        # One znode reports all failures so far, because the controller checks every replica.
        self._must_notify = False
        znode = LogDirEventNotificationSequenceZnode(self._broker_id)
        try:
            written = self._session.write(
                Create(znode.CREATE_PATH, znode.encode(), sequential=True)
            )
        except BaseException:
            self._must_notify = True
            raise
        if isinstance(written, ZkCode):
            self._must_notify = True
            raise ZooKeeperRefused(znode.CREATE_PATH, written.name)
