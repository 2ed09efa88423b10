"""A broker's identity: its id, and its locked log directories.

The id is configured, or stands in the log directories, or the source of metadata gives out a
new one.  Every
directory is locked against other processes and says in ``meta.properties`` whose it is.

Source: Kafka ``KafkaServer.getOrGenerateBrokerId``, ``checkpointBrokerMetadata``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.meta_properties import (
    LogDirLocks,
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)

_log = logging.getLogger("kafka.server.KafkaServer")


class FailedCall(NamedTuple):
    """What could not be done in a log directory, and the system's error."""

    doing: str
    error: OSError

    @override
    def __str__(self) -> str:
        return f"{self.doing}: {self.error}"


class BrokerIdentity:
    """The log directories a broker has locked, and its id."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._locks = LogDirLocks()
        self.failed_log_dirs: dict[Path, FailedCall] = {}
        """Directories that cannot be used, and why; known once the id is."""

    def establish(self, cluster_id: str, new_broker_id: Callable[[int], int]) -> int:
        """The broker id; locks the log directories and writes who they belong to.  Blocks.

        ``new_broker_id`` gives out an id above the one that it gets.
        ConfigInvalid if no directory can be used, or there is no id and none may be generated.
        """
        config = self._config
        found = self._lock_and_read()
        broker_id = check_meta_properties(
            found, cluster_id=cluster_id, configured_broker_id=config.broker_id
        )
        if broker_id is None:
            if not config.is_enabled("broker.id.generation.enable"):
                raise ConfigInvalid(
                    "broker.id", config.broker_id, "an id, because no id may be generated"
                )
            broker_id = new_broker_id(config.integer("reserved.broker.max.id"))
        self._write(found, MetaProperties(broker_id, cluster_id))
        return broker_id

    def release(self) -> None:
        """Unlocks the log directories."""
        self._locks.release()

    def _lock_and_read(self) -> dict[Path, MetaProperties | None]:
        found: dict[Path, MetaProperties | None] = {}
        for log_dir in self._config.log_dirs:
            try:
                log_dir.mkdir(parents=True, exist_ok=True)
                self._locks.acquire((log_dir,))
                found[log_dir] = read_meta_properties(log_dir)
            except OSError as failure:
                self.failed_log_dirs[log_dir] = FailedCall(
                    f"Failed to create or validate data directory {log_dir}", failure
                )
        if not found:
            failed = "; ".join(map(str, self.failed_log_dirs.values()))
            raise ConfigInvalid(
                "log.dirs",
                ",".join(map(str, self._config.log_dirs)),
                f"directories that can be used ({failed})",
            )
        return found

    def _write(self, found: dict[Path, MetaProperties | None], meta: MetaProperties) -> None:
        for log_dir, stored in found.items():
            if stored == meta:
                continue
            _log.info("[KafkaServer id=%d] Rewriting %s/meta.properties", meta.node_id, log_dir)
            try:
                write_meta_properties(log_dir, meta)
            except OSError as failure:
                self.failed_log_dirs[log_dir] = FailedCall(
                    f"Error while writing meta.properties to {log_dir}", failure
                )


def stored_broker_id(log_dirs: tuple[Path, ...]) -> int | None:
    """The id in a readable ``meta.properties``, for log files that open before ZooKeeper."""
    for log_dir in log_dirs:
        try:
            meta = read_meta_properties(log_dir)
        except (OSError, ConfigInvalid):
            continue
        if meta is not None and meta.node_id is not None:
            return meta.node_id
    return None
