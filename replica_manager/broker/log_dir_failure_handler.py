"""What a broker does when one of its log directories fails.

The replicas in the directory go offline, and the controller is notified.  If the last directory has
failed, the broker halts instead: it sends no notification, and its ZooKeeper session expires.  So
does a broker whose ``inter.broker.protocol.version`` is older than 1.0 at its first failure, for a
controller of that time knows of no failed directory.

Source: Kafka ``ReplicaManager`` (``LogDirFailureHandler``, ``handleLogDirFailure``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_common.model import TopicPartition
from kafka_common.protocol.inter_broker_versions import (
    InterBrokerVersion,
    is_log_dir_failure_supported,
)
from replica_manager.log.log_manager import LogDirFailure

_log = logging.getLogger("kafka.server.ReplicaManager")
_manager_log = logging.getLogger("kafka.log.LogManager")


class LogDirFailureHandler:
    """Handles the failures of one broker's log directories.  Used on the event loop."""

    def __init__(
        self,
        broker_id: int,
        log_dirs: Sequence[Path],
        notify_controller: Callable[[], None],
        halt: Callable[[], None],
        inter_broker_version: InterBrokerVersion,
    ) -> None:
        """``halt`` ends the broker: it is called when none is left, or at the first before 1.0."""
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self._notify_controller = notify_controller
        self._halt = halt
        self._may_lose_one = is_log_dir_failure_supported(inter_broker_version)
        self.mark_offline: Callable[[Sequence[TopicPartition]], None] = _no_replicas
        """Takes replicas offline; does nothing until the broker's replicas are created."""

    def failed(self, failure: LogDirFailure, live_log_dirs: Sequence[Path]) -> None:
        """Handles the failure of a log directory; ``live_log_dirs`` are those that still work."""
        log_dir = failure.log_dir
        if not self._may_lose_one:
            _log.error(
                "[ReplicaManager broker=%d] Halting broker because dir %s is offline",
                self._broker_id,
                log_dir,
            )
            self._halt()
            return
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
    """Does nothing: while logs are loaded, the broker has no replicas yet."""
