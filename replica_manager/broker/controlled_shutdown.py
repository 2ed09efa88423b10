"""The stopping broker's side of controlled shutdown: asks the controller to move its leaderships.

Source: Kafka ``KafkaServer.controlledShutdown``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from kafka_common.errors import InvalidFrame
from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_name
from kafka_common.protocol.inter_broker_versions import controlled_shutdown_version
from kafka_common.protocol.messages import request_type
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

_log = logging.getLogger("kafka.server.KafkaServer")


class ControlledShutdownClient:
    """Sends ControlledShutdown requests, at most ``controlled.shutdown.max.retries`` of them."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        config: BrokerConfig,
        metadata_cache: ZkMetadataCache,
        security: ClientSecurity,
    ) -> None:
        """``security`` is the client security of the inter-broker listener."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._config = config
        self._metadata_cache = metadata_cache
        self._security = security
        self._prefix = f"[KafkaServer id={broker_id}] "

    async def run(self) -> bool:
        """Asks the controller to move all leaderships; False if every attempt failed."""
        _log.info("%sStarting controlled shutdown", self._prefix)
        remaining = self._config.integer("controlled.shutdown.max.retries")
        while remaining > 0:
            remaining -= 1
            if await self._attempt():
                return True
            if remaining > 0:
                await asyncio.sleep(
                    self._config.integer("controlled.shutdown.retry.backoff.ms") / 1000
                )
                _log.info(
                    "%sRetrying controlled shutdown (%d retries remaining)",
                    self._prefix,
                    remaining,
                )
        _log.warning(
            "%sProceeding to do an unclean shutdown as all the controlled shutdown attempts failed",
            self._prefix,
        )
        return False

    async def _attempt(self) -> bool:
        endpoint = self._controller_endpoint()
        if endpoint is None:
            return False
        started_s = time.monotonic()
        try:
            response = await self._ask(endpoint)
        except (OSError, TimeoutError, InvalidFrame) as failure:
            _log.warning(
                "%sError during controlled shutdown, possibly because leader movement took longer "
                "than the configured controller.socket.timeout.ms and/or request.timeout.ms: %s",
                self._prefix,
                failure,
            )
            return False
        elapsed_ms = int((time.monotonic() - started_s) * 1000)
        if response.error_code != 0:
            _log.info(
                "%sControlled shutdown request returned after %dms with error %s",
                self._prefix,
                elapsed_ms,
                error_name(response.error_code),
            )
            return False
        if response.remaining_partitions:
            _log.info(
                "%sControlled shutdown request returned after %dms with %d partitions remaining to "
                "move",
                self._prefix,
                elapsed_ms,
                len(response.remaining_partitions),
            )
            return False
        _log.info(
            "%sControlled shutdown request returned successfully after %dms",
            self._prefix,
            elapsed_ms,
        )
        return True

    def _controller_endpoint(self) -> Endpoint | None:
        snapshot = self._metadata_cache.snapshot
        if snapshot.controller_id is None:
            _log.info("%sNo zk controller present in the metadata cache", self._prefix)
            return None
        endpoint = snapshot.endpoint(snapshot.controller_id, self._config.listeners.inter_broker)
        if endpoint is None:
            _log.info(
                "%sBroker registration for controller %d is not available in the metadata cache",
                self._prefix,
                snapshot.controller_id,
            )
        return endpoint

    async def _ask(self, endpoint: Endpoint) -> Any:
        version = controlled_shutdown_version(self._config.inter_broker_version)
        fields: dict[str, int] = {"broker_id": self._broker_id}
        request_class: Any = request_type(ApiKey.CONTROLLED_SHUTDOWN, version)
        if "broker_epoch" in request_class.__dataclass_fields__:
            fields["broker_epoch"] = self._broker_epoch()
        connection = await Connection.open(
            endpoint.host,
            endpoint.port,
            client_id=str(self._broker_id),
            connect_timeout_ms=self._config.integer("controller.socket.timeout.ms"),
            request_timeout_ms=self._config.integer("request.timeout.ms"),
            security=self._security,
        )
        try:
            return await connection.request(request_class(**fields))
        finally:
            await connection.close()
