"""The process of a quorum node: from its properties file to its exit code.

On SIGTERM or SIGINT the node leaves the quorum; a second signal ends the process at once.  The exit
code is 0 after a stop, and 1 if the node could not start, or had to end because an input
contradicted its state or its disk failed.  Then a supervisor may start it again: it reads its state
from its files.

Source: Kafka ``kafka.Kafka``, ``KafkaRaftServer``, ``SharedServer`` (its fatal fault handler).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO
from uuid import uuid4

from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import ClientSecurity
from kafka_common.observability.log_text import Log4jFormatter
from kafka_common.observability.loop_watch import watching
from kafka_common.observability.metrics import Metrics
from kafka_common.process.interpreter import set_up_interpreter
from kafka_common.process.spare_descriptors import MOST_SPARE, SPARE_DESCRIPTORS
from kafka_common.process.stop_signals import stop_at_signals
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.node.controller_config import ControllerServerConfig, load_controller_config
from kraft.node.controller_service import (
    ControllerRegistrations,
    controller_maker,
    read_bootstrap,
)
from kraft.node.described_config import described_config
from kraft.node.metadata_publishing import LISTENER_NAME as PUBLISHING
from kraft.node.metadata_publishing import MetadataPublisher, MetadataPublishing
from kraft.node.node_files import initialize_log_dirs, lock_metadata_log_dir
from kraft.node.node_security import NodeSecurity, node_security
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from kraft.node.quota_publisher import MutationQuotaPublisher, mutation_quotas
from kraft.raft.messages import Endpoints
from kraft.raft.values import NodeAddress, ReplicaKey
from replica_manager.configuration.config import parse_connection_overrides
from replica_manager.network.listener import ServerLimits
from replica_manager.quotas.mutation_quotas import MutationQuotas

FAILED: Final = 1
MAX_QUEUED_CHARACTERS: Final = 32 * 1024 * 1024
"""The most characters of log lines that wait to be written.  Further lines are lost and counted,
because elections must not wait for a terminal."""
CLOSE_TIMEOUT_S: Final = 10.0
"""What a terminal does not take within this time at the end of the node is lost."""
GATHER_S: Final = 0.02
"""The pause in which lines gather before they are written."""
_REFUSED: Final[Mapping[str, str]] = {
    "zookeeper.metadata.migration.enable": "false: migration from ZooKeeper is not supported",
    "create.topic.policy.class.name": "no value: Java policies cannot be loaded",
    "alter.config.policy.class.name": "no value: Java policies cannot be loaded",
}
"""Keys that are not supported, with the only allowed value.  A user relies on a value that is set,
so it is refused and not ignored."""
_log: Final = logging.getLogger("kafka.server.KafkaRaftServer")


def run_node(path: Path, metrics_port: int | None = None) -> int:
    """Runs the node of that controller.properties until it is stopped; returns the exit code.

    ConfigInvalid or NodeFilesInvalid if the node must not start.
    """
    config = load_controller_config(path)
    config.check_voters_are_routable()
    _refuse_unsupported(config)
    security = node_security(config)
    with ExitStack() as stack:
        dirs = initialize_log_dirs(config.log_dirs, config.metadata_log_dir, config.node_id, uuid4)
        locks = lock_metadata_log_dir(
            config.metadata_log_dir, config.log_dirs, is_only_controller=config.is_only_controller
        )
        stack.callback(locks.release)
        lines = _log_to_stderr()
        stack.callback(lines.close)
        metrics = Metrics()
        if metrics_port is not None:
            from replica_manager.metrics_server import MetricsServer

            stack.enter_context(MetricsServer(metrics, metrics_port))
        stack.enter_context(watching(metrics, has_readers=metrics_port is not None))
        stack.enter_context(SPARE_DESCRIPTORS.kept(MOST_SPARE))
        meta = dirs.found[config.metadata_log_dir]
        assert meta.cluster_id is not None, "a node's directories name its cluster"
        local = ReplicaKey(config.node_id, meta.directory_id)
        bootstrap = read_bootstrap(
            config.metadata_log_dir, config.originals.get("inter.broker.protocol.version")
        )
        mutations = mutation_quotas(config)
        settings = _settings(config, local, meta.cluster_id, security, mutations)
        publishers = (*security.publishers, MutationQuotaPublisher(mutations))
        set_up_interpreter()
        return asyncio.run(_run(config, settings, bootstrap, metrics, publishers))


async def _run(
    config: ControllerServerConfig,
    settings: QuorumNodeSettings,
    bootstrap: BootstrapMetadata,
    metrics: Metrics,
    publishers: Sequence[MetadataPublisher],
) -> int:
    node = QuorumNode(settings, metrics)
    node.add_listener(
        PUBLISHING, MetadataPublishing(config.node_id, lambda: node.driver, publishers)
    )
    node.set_controller(controller_maker(config, settings.cluster_id, bootstrap))
    stop_at_signals(node.stop)
    registering = asyncio.create_task(_register(config, node, settings.security))
    try:
        await node.run()
    except Exception:  # noqa: BLE001 - whatever it is, a node that goes on would endanger others
        _log.error("Encountered fatal fault: the node cannot go on", exc_info=True)
        return FAILED
    finally:
        registering.cancel()
    return 0


async def _register(
    config: ControllerServerConfig, node: QuorumNode, security: ClientSecurity
) -> None:
    await node.started()
    await ControllerRegistrations(config, node.driver, node.controller, security).run()


def _settings(
    config: ControllerServerConfig,
    local: ReplicaKey,
    cluster_id: str,
    security: NodeSecurity,
    mutations: MutationQuotas,
) -> QuorumNodeSettings:
    first = config.listener_name
    # The quorum's own listener comes first, whatever the order in the file.
    listeners = sorted(config.listeners, key=lambda listener: listener.listener_name != first)
    return QuorumNodeSettings(
        local=local,
        cluster_id=cluster_id,
        metadata_log_dir=config.metadata_log_dir,
        voters=config.voters,
        listeners=tuple(listeners),
        advertised=_advertised(config),
        bootstrap_servers=config.bootstrap_servers,
        quorum=config.quorum,
        log=config.metadata_log,
        snapshots=config.snapshots,
        limits=_limits(config),
        authenticators=security.authenticators,
        security=security.client,
        authorizer=security.authorizer,
        config=described_config(config),
        mutations=mutations,
    )


def _advertised(config: ControllerServerConfig) -> Endpoints:
    return {
        listener.listener_name: NodeAddress(listener.host or socket.getfqdn(), listener.port)
        for listener in config.advertised
    }


def _limits(config: ControllerServerConfig) -> ServerLimits:
    return ServerLimits(
        max_request_bytes=config.integer("socket.request.max.bytes"),
        max_queued_request_bytes=config.integer("queued.max.request.bytes"),
        max_idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides=parse_connection_overrides(
            str(config.values["max.connections.per.ip.overrides"])
        ),
        backlog=config.integer("socket.listen.backlog.size"),
        send_buffer_bytes=config.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=config.integer("socket.receive.buffer.bytes"),
    )


def _refuse_unsupported(config: ControllerServerConfig) -> None:
    """ConfigInvalid for settings that this node would ignore."""
    if not config.is_only_controller:
        raise ConfigInvalid("process.roles", ",".join(config.roles), "controller, and nothing else")
    if not config.voters.endpoints:
        raise ConfigInvalid("controller.quorum.voters", "", "the voters: they are static here")
    for key, allowed in _REFUSED.items():
        if config.values[key] not in (None, "", False):
            raise ConfigInvalid(key, str(config.values[key]), allowed)


class LineWriter(logging.Handler):
    """Writes log lines in a thread of its own; the caller never waits for the terminal."""

    def __init__(self, terminal: TextIO, most_queued: int = MAX_QUEUED_CHARACTERS) -> None:
        super().__init__()
        self.setFormatter(Log4jFormatter())
        self._terminal = terminal
        self._most_queued = most_queued
        self._lines: list[str] = []
        self._queued = 0
        """The number of characters in ``_lines``; both change under the handler's lock."""
        self._lost = 0
        self._is_closed = False
        self._has_work = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except (TypeError, ValueError):
            self.handleError(record)
            return
        if self._lines and self._queued + len(line) > self._most_queued:
            self._lost += 1
            return
        if self._lost:
            text = f"{self._lost} log lines before this one were lost: stderr takes no more"
            lost = logging.makeLogRecord(
                {"name": _log.name, "levelno": logging.WARNING, "msg": text}
            )
            self._lost = 0
            self._lines.append(self.format(lost))
        self._lines.append(line)
        self._queued += len(line)
        if not self._has_work.is_set():
            self._has_work.set()

    @override
    def close(self) -> None:
        """Returns when all lines are written, or after ``CLOSE_TIMEOUT_S``."""
        if self._is_closed:
            return  # logging closes every handler at the end of the process
        self._is_closed = True
        self._has_work.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        super().close()

    def _run(self) -> None:
        while not self._is_closed or self._lines:
            self._has_work.wait()
            if not self._is_closed:
                # Many lines often follow each other; to write each by itself costs more time.
                time.sleep(GATHER_S)
            self._has_work.clear()
            if lines := self._take():
                with contextlib.suppress(OSError):  # its reader is gone
                    self._terminal.write("".join(f"{line}\n" for line in lines))
                    self._terminal.flush()

    def _take(self) -> list[str]:
        self.acquire()
        try:
            lines, self._lines, self._queued = self._lines, [], 0
        finally:
            self.release()
        return lines


def _log_to_stderr() -> LineWriter:
    writer = LineWriter(sys.stderr)
    root = logging.getLogger()
    root.addHandler(writer)
    root.setLevel(logging.INFO)
    return writer
