"""The parts of a broker that serves clients.

No part is replaced while the broker runs; a part changes only its own state.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from msgspec import Struct

from replica_manager.broker.broker_listeners import BrokerListeners
from replica_manager.broker.broker_records import BrokerRecords
from replica_manager.broker.broker_status import BrokerStatus
from replica_manager.broker.metadata_source import BrokerMetadata, ClusterMembership
from replica_manager.broker.storage import Storage
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.listeners import connection_string
from replica_manager.server.context import BrokerContext

_log = logging.getLogger("kafka.server.KafkaServer")


class RunningBroker(Struct, frozen=True):
    """The parts of one running broker."""

    broker_id: int
    started_at_ms: int
    status_dir: Path
    """The log directory with ``broker.json``."""
    metadata: BrokerMetadata
    membership: ClusterMembership
    listeners: BrokerListeners
    storage: Storage
    records: BrokerRecords
    context: BrokerContext
    """The context that request handlers get."""

    def advertise(self, config: BrokerConfig) -> None:
        """Registers the endpoints that ``config`` advertises, if they have changed.  Blocks."""
        endpoints = self.listeners.advertised(config)
        if endpoints != self.listeners.endpoints:
            self.membership.advertise(endpoints)
            # Not before: if ZooKeeper refuses them, they are still to be registered.
            self.listeners.endpoints = endpoints
            self.write_status()

    def write_status(self) -> None:
        """Writes ``broker.json``; logs an error if that fails.  For any thread."""
        status = BrokerStatus(
            pid=os.getpid(),
            broker_id=self.broker_id,
            broker_epoch=self.metadata.broker_epoch,
            started_at_ms=self.started_at_ms,
            listeners={
                endpoint.listener_name: connection_string(endpoint)
                for endpoint in self.listeners.endpoints
            },
        )
        try:
            status.write(self.status_dir)
        except OSError as failure:  # the directory may have failed; the others still work
            _log.error(
                "[KafkaServer id=%d] The status file cannot be written: %s",
                self.broker_id,
                failure,
            )
