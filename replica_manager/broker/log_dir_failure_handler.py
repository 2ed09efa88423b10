"""What a broker does when one of its log directories fails.

The replicas of the directory are given up, and the controller is notified.  A broker that has no
directory left halts instead: it notifies no one, and leaves its ZooKeeper session to run out.

Source: Kafka ``ReplicaManager`` (``LogDirFailureHandler``, ``handleLogDirFailure``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_common.model import TopicPartition
from replica_manager.log.log_manager import LogDirFailure

_log = logging.getLogger("kafka.server.ReplicaManager")
_manager_log = logging.getLogger("kafka.log.LogManager")


class LogDirFailureHandler:
    """The failures of one broker's directories.  For the event loop."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: Sequence[Path],
        notify_controller: Callable[[], None],
        halt: Callable[[], None],
    ) -> None:
        """``halt`` ends a broker that has no directory left."""
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self._notify_controller = notify_controller
        self._halt = halt
        self.mark_offline: Callable[[Sequence[TopicPartition]], None] = _no_replicas
        """Gives up the replicas of a directory; replaced when there are replicas."""

    def failed(self, failure: LogDirFailure, live_log_dirs: Sequence[Path]) -> None:
        """A directory has failed; ``live_log_dirs`` are left."""
        log_dir = failure.log_dir
        _log.warning(
            "[ReplicaManager broker=%d] Stopping serving replicas in dir %s with uuid None because "
            "the log directory has failed.",
            self._broker_id,
            log_dir,
        )
        self.mark_offline(failure.topic_partitions)
        _log.warning(
            "[ReplicaManager broker=%d] Broker %d stopped fetcher for partitions %s and stopped "
            "moving logs for partitions %s because they are in the failed log directory %s.",
            self._broker_id,
            self._broker_id,
            ",".join(map(str, failure.topic_partitions)),
            ",".join(map(str, failure.future_topic_partitions)),
            log_dir,
        )
        if not live_log_dirs:
            _manager_log.error(
                "Shutdown broker because all log dirs in %s have failed",
                ", ".join(map(str, self._log_dirs)),
            )
            self._halt()
            return
        self._notify_controller()
        _log.warning(
            "[ReplicaManager broker=%d] Stopped serving replicas in dir %s",
            self._broker_id,
            log_dir,
        )


def _no_replicas(_: Sequence[TopicPartition]) -> None:
    """Nothing: logs are loaded before there are replicas."""
