"""The controller of a node: built from its configuration, registered, and kept running.

Source: Kafka ``ControllerServer``, ``ControllerRegistrationManager`` (KIP-919).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode
from kio.static.primitive import u16

from kafka_common.api_error import ApiError, ApiException
from kafka_common.errors import InvalidFrame
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.observability.java_values import boolean, java_list, message_text
from kafka_common.observability.prefixed_log import PrefixedLog
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk import SECURITY_PROTOCOL_IDS
from kafka_common.protocol.uuid_text import uuid_text
from kafka_common.protocol.versioned_messages import request_schema
from kafka_common.sanitizer import is_ip_address
from kafka_common.wall_time import wall_time_ms
from kraft.controller.cluster_requests import ControllerRegistrationRequest
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import RegisterController
from kraft.controller.quorum_controller_state import (
    ControllerEnvironment,
    QuorumControllerConfig,
)
from kraft.controller.quorum_controller_values import RaftAppender
from kraft.controller.quorum_features import QuorumFeatures, default_feature_map
from kraft.controller.replica_placer import StripedReplicaPlacer
from kraft.controller.replication_control import ReplicationConfig
from kraft.metadata.bootstrap import (
    BOOTSTRAP_FILE,
    BootstrapMetadata,
    decode_bootstrap,
)
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.controller_configuration import (
    BrokerConfigSchema,
    BrokerConfigValidator,
)
from kraft.node.controller_loop import ControllerLoop
from kraft.node.raft_driver import RaftDriver
from kraft.raft.values import NodeAddress
from replica_manager.security.delegation_tokens import token_settings

MAX_BOOTSTRAP_BYTES: Final = 64 * 1024 * 1024
REGISTRATION_BACKOFF_MS: Final = 100
REGISTRATION_BACKOFF_MAX_MS: Final = 120_000
_REGISTRATION_TIMEOUT_MS: Final = 5_000
_CHECK_INTERVAL_S: Final = 0.5

_registration_log: Final = logging.getLogger("kafka.server.ControllerRegistrationManager")


class _Found(NamedTuple):
    """What the metadata log says of the registration of this node."""

    metadata_version: MetadataVersion
    incarnation_id: UUID | None
    """None: it is not registered."""

    @property
    def is_unsupported(self) -> bool:
        return not self.metadata_version.is_controller_registration_supported


def read_bootstrap(
    metadata_log_dir: Path, inter_broker_protocol_version: str | None
) -> BootstrapMetadata:
    """The first records of an empty log: from the file of the formatting, or the configuration.

    CorruptRecord or InvalidRecord if the file is malformed or has no metadata.version.
    """
    file = metadata_log_dir / BOOTSTRAP_FILE
    if not file.exists():
        return BootstrapMetadata.from_configuration(inter_broker_protocol_version)
    with file.open("rb") as content:
        read = decode_bootstrap(content.read(MAX_BOOTSTRAP_BYTES))
    return replace(read, source=f"the binary bootstrap metadata file: {file}")


def controller_maker(
    config: ControllerServerConfig, cluster_id: str, bootstrap: BootstrapMetadata
) -> Callable[[RaftAppender], QuorumController]:
    """Returns a function that makes the controller, given its interface to the quorum."""
    chance = random.Random()
    environment = ControllerEnvironment(
        quorum_features=QuorumFeatures(config.node_id, default_feature_map(), config.voters.ids),
        config_schema=BrokerConfigSchema(),
        config_validator=BrokerConfigValidator(config.values),
        placer=StripedReplicaPlacer(chance),
        new_uuid=uuid4,
        # Kafka resolves host names, too; the controller must not wait for a resolver.
        is_resolvable=is_ip_address,
        wall_time_ms=wall_time_ms,
        nano_time=time.monotonic_ns,
    )
    interval_s = config.integer("leader.imbalance.check.interval.seconds")
    is_balancing = config.is_enabled("auto.leader.rebalance.enable")
    idle_ms = config.integer("metadata.max.idle.interval.ms")
    settings = QuorumControllerConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        session_timeout_ms=config.integer("broker.session.timeout.ms"),
        leader_imbalance_check_interval_ms=interval_s * 1000 if is_balancing else None,
        max_idle_interval_ms=idle_ms or None,
        unclean_leader_election_interval_ms=config.integer("unclean.leader.election.interval.ms"),
        static_config=config.originals,
        replication=ReplicationConfig(
            default_num_partitions=config.integer("num.partitions"),
            default_replication_factor=config.integer("default.replication.factor"),
            eligible_leader_replicas_enabled=config.is_enabled("eligible.leader.replicas.enable"),
        ),
        delegation_tokens=token_settings(config.values),
        delegation_token_check_interval_ms=config.integer(
            "delegation.token.expiry.check.interval.ms"
        ),
    )
    return lambda raft: QuorumController(settings, environment, raft, bootstrap)


class ControllerRegistrations:
    """Registers this controller with the active controller.

    Feature levels can be raised only after every controller has registered the levels it supports.
    """

    def __init__(
        self,
        config: ControllerServerConfig,
        driver: RaftDriver,
        loop: ControllerLoop,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._node_id = config.node_id
        self._logged: _Found | None = None
        self._voters = config.voters
        self._driver = driver
        self._loop = loop
        self._security = security
        self._wanted = ControllerRegistrationRequest(
            controller_id=config.node_id,
            incarnation_id=uuid4(),
            listeners=tuple(
                BrokerEndpoint(
                    name=listener.listener_name,
                    host=listener.host or socket.getfqdn(),
                    port=listener.port,
                    security_protocol=SECURITY_PROTOCOL_IDS[listener.security_protocol],
                )
                for listener in config.advertised
            ),
            features=tuple(
                BrokerFeature(
                    name=name, min_supported_version=known.min, max_supported_version=known.max
                )
                for name, known in default_feature_map().items()
            ),
        )
        self._logger = PrefixedLog(
            _registration_log,
            f"[ControllerRegistrationManager id={config.node_id} "
            f"incarnation={uuid_text(self._wanted.incarnation_id)}] ",
        )

    async def run(self) -> None:
        """Registers whenever the registration is missing, until the controller ends."""
        self._logger.info("initialized channel manager.")
        with contextlib.suppress(ConnectionAbortedError):
            await self._keep_registered()

    async def _keep_registered(self) -> None:
        backoff_ms = REGISTRATION_BACKOFF_MS
        while True:
            found = await self._loop.look(self._found)
            if found != self._logged:
                self._logged = found
                self._log_found(found)
            if found.is_unsupported or found.incarnation_id == self._wanted.incarnation_id:
                await asyncio.sleep(_CHECK_INTERVAL_S)
                continue
            if await self._register():
                backoff_ms = REGISTRATION_BACKOFF_MS
                await asyncio.sleep(_CHECK_INTERVAL_S)
                continue
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, REGISTRATION_BACKOFF_MAX_MS)

    def _found(self, controller: QuorumController) -> _Found:
        state = controller.state
        known = state.cluster.controllers().get(self._node_id)
        return _Found(
            state.features.metadata_version, None if known is None else known.incarnation_id
        )

    def _log_found(self, found: _Found) -> None:
        if found.is_unsupported:
            self._logger.info(
                "maybeSendControllerRegistration: cannot register yet because the metadata.version "
                "is still %s, which does not support KIP-919 controller registration.",
                found.metadata_version,
            )
        elif found.incarnation_id == self._wanted.incarnation_id:
            self._logger.info("Our registration has been persisted to the metadata log.")
        elif found.incarnation_id is not None:
            self._logger.info(
                "Found registration for %s instead of our incarnation.",
                uuid_text(found.incarnation_id),
            )

    async def _register(self) -> bool:
        """Sends the registration to the active controller; whether it was acknowledged."""
        leader_id = self._driver.node.leader_and_epoch.leader_id
        if leader_id is None:
            return False
        self._logger.info(
            "sendControllerRegistration: attempting to send %s", _request_text(self._wanted)
        )
        refusal: ApiError | None = None
        try:
            if leader_id == self._node_id:
                await self._loop.ask(RegisterController(self._wanted), _REGISTRATION_TIMEOUT_MS)
            else:
                refusal = await self._register_at(self._voters.endpoints[leader_id])
        except ApiException as error:
            refusal = error.to_error()
        except (OSError, InvalidFrame) as error:
            self._logger.info("Unable to send the registration to node %d: %s", leader_id, error)
            return False
        except Exception:
            self._logger.exception("RegistrationResponseHandler: unknown error")
            return False
        if refusal is not None:
            # Kafka's channel asks the next controller without a word.
            is_moving = refusal.error is ErrorCode.not_controller
            self._logger.log(
                logging.DEBUG if is_moving else logging.INFO,
                "RegistrationResponseHandler: controller returned error %s (%s)",
                refusal.error.name.upper(), refusal.message,
            )  # fmt: skip
            return False
        self._logger.info(
            "RegistrationResponseHandler: controller acknowledged ControllerRegistrationRequest."
        )
        return True

    async def _register_at(self, endpoint: NodeAddress) -> ApiError | None:
        schema = request_schema(ApiKey.CONTROLLER_REGISTRATION, 0)
        wanted = self._wanted
        connection = await Connection.open(
            endpoint.host,
            endpoint.port,
            client_id=str(self._node_id),
            connect_timeout_ms=_REGISTRATION_TIMEOUT_MS,
            request_timeout_ms=_REGISTRATION_TIMEOUT_MS,
            security=self._security,
        )
        try:
            response: Any = await connection.request(
                schema.request(
                    controller_id=wanted.controller_id,
                    incarnation_id=wanted.incarnation_id,
                    zk_migration_ready=wanted.zk_migration_ready,
                    listeners=_listeners(schema, wanted.listeners),
                    features=tuple(
                        schema.part(
                            "Feature",
                            name=feature.name,
                            min_supported_version=feature.min_supported_version,
                            max_supported_version=feature.max_supported_version,
                        )
                        for feature in wanted.features
                    ),
                )
            )
        finally:
            await connection.close()
        error = ErrorCode(response.error_code)
        return None if error is ErrorCode.none else ApiError(error, response.error_message)


def _request_text(request: ControllerRegistrationRequest) -> str:
    listeners = (
        message_text(each).replace("BrokerEndpoint", "Listener") for each in request.listeners
    )
    features = (message_text(each).replace("BrokerFeature", "Feature") for each in request.features)
    return (
        f"ControllerRegistrationRequestData(controllerId={request.controller_id}, "
        f"incarnationId={uuid_text(request.incarnation_id)}, "
        f"zkMigrationReady={boolean(request.zk_migration_ready)}, "
        f"listeners={java_list(listeners)}, features={java_list(features)})"
    )


def _listeners(schema: Any, endpoints: Sequence[BrokerEndpoint]) -> tuple[Any, ...]:
    return tuple(
        schema.part(
            "Listener",
            name=endpoint.name,
            host=endpoint.host,
            port=u16(endpoint.port),
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    )
