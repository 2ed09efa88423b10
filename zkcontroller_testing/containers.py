"""A cluster in containers: a ZooKeeper, and brokers of the image that compose/Dockerfile builds.

It is for tests that need each broker on a host of its own, or that test the deployed image.
:mod:`.cluster` needs no Docker, starts sooner, and can cause more kinds of faults.

Testcontainers starts and removes the containers; it is imported when a cluster is started, so that
other users need not install it.  Each broker has a listener for the other brokers, and one for
clients at a port of the Docker host, which it keeps when it is killed and started again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kafka_common.errors import ConfigInvalid, ContainerUnavailable, NotInstalled
from replica_manager.configuration.environment import PREFIX, variable_name
from replica_manager.configuration.properties import format_properties
from zkcontroller.zookeeper.container import CLIENT_PORT, LOG_BYTES_IN_ERRORS, ZooKeeperContainer
from zkcontroller_testing.reserved_ports import ReservedPorts
from zkcontroller_testing.waiting import until

if TYPE_CHECKING:
    from docker.models.containers import Container  # type: ignore[import-untyped]  # no types
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

IMAGE: Final = "zkcontroller"
IMAGE_VARIABLE: Final = "ZKCONTROLLER_IMAGE"
MOST_CONTAINERS: Final = 20
HEALTHY_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 30
"""Time for a controlled shutdown; after it Docker kills the broker."""
_INTERNAL_PORT: Final = 9092
_EXTERNAL_PORT: Final = 19092
_HEALTH_INTERVAL_NS: Final = 1_000_000_000
"""Time between two health checks; shorter than that of the image, so that tests start sooner."""
_ZOOKEEPER: Final = "zookeeper"
_DEFAULTS: Final = {
    # The first consumer of a group need not wait for others.
    "group.initial.rebalance.delay.ms": "0",
    # Creating Kafka's default of fifty partitions would take most of the start.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # The session of a killed broker expires after this, instead of 18 s.
    "zookeeper.session.timeout.ms": "6000",
}


class KafkaClusterContainer:
    """Brokers 1 to ``brokers`` in containers.  Use it as a ``with`` block.

    ``image``: by default ``$ZKCONTROLLER_IMAGE``, else ``zkcontroller``; ``zookeeper_image``: by
    default ``$ZKCONTROLLER_ZOOKEEPER_IMAGE``, else ``zookeeper:3.9``.  ``configs``: keys of
    ``server.properties`` for every broker.  An exception that leaves the block gets the last log
    lines of all brokers as notes.

    Raises:
        NotInstalled: testcontainers is not installed.
        ZooKeeperUnavailable, ContainerUnavailable: Docker does not answer, has no such image, or
            what ran in a container ended; the message ends with its last log lines.
        NotInTime: a broker is not healthy within 90 s.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        image: str | None = None,
        zookeeper_image: str | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= brokers <= MOST_CONTAINERS:
            raise ConfigInvalid("brokers", brokers, f"between 1 and {MOST_CONTAINERS}")
        self.image = image or os.environ.get(IMAGE_VARIABLE) or IMAGE
        self.broker_ids: tuple[int, ...] = tuple(range(1, brokers + 1))
        self._zookeeper_image = zookeeper_image
        factor = str(min(brokers, 3))
        self._configs = {
            **_DEFAULTS,
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "transaction.state.log.min.isr": str(min(brokers, 2)),
            **(configs or {}),
        }
        self._ports: dict[int, int] = {}
        self._containers: dict[int, DockerContainer] = {}
        self._host = ""
        self._stack = contextlib.ExitStack()

    # Start and end

    def start(self, broker_id: int | None = None) -> KafkaClusterContainer:
        """Starts the cluster, or one stopped broker; returns when the started ones are healthy."""
        if broker_id is not None:
            self._wrapped(broker_id).start()
            self.wait_healthy(broker_id)
            return self
        assert not self._containers, "the cluster runs"
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Removes the containers, their volumes and their network."""
        self._stack.close()
        self._containers.clear()
        self._ports.clear()

    def __enter__(self) -> KafkaClusterContainer:
        return self if self._containers else self.start()

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exception is not None:
            for broker_id in self._containers:
                exception.add_note(
                    f"the log of broker {broker_id} ends with:\n{self._end(broker_id)}"
                )
        self.close()

    # Addresses and state

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,host:port`` for clients; the same for as long as the cluster lives."""
        return ",".join(f"{self._host}:{port}" for port in self._ports.values())

    def health(self, broker_id: int) -> str:
        """Docker's state: ``healthy``, ``unhealthy``, ``starting``, ``exited`` or ``paused``."""
        container = self._wrapped(broker_id)
        container.reload()
        status: str = container.status
        if status != "running":
            return status
        found: str = container.health
        return found

    def logs(self, broker_id: int) -> str:
        """The broker's whole output, which is its ``server.log``."""
        return b"".join(self._container(broker_id).get_logs()).decode(errors="replace")

    # Faults

    def kill(self, broker_id: int) -> None:
        """Kills the broker's container (SIGKILL), as a power cut would."""
        self._wrapped(broker_id).kill()

    def stop(self, broker_id: int) -> None:
        """Stops the broker by controlled shutdown: its leaderships move first."""
        self._wrapped(broker_id).stop(timeout=STOP_TIMEOUT_S)

    def pause(self, broker_id: int) -> None:
        """Pauses every process of the container; Docker runs no health checks meanwhile."""
        self._wrapped(broker_id).pause()

    def unpause(self, broker_id: int) -> None:
        """Continues a paused broker."""
        self._wrapped(broker_id).unpause()

    def wait_healthy(self, *broker_ids: int, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
        """Waits until these brokers (by default all) are registered and serve clients."""
        for broker_id in broker_ids or self.broker_ids:

            def is_healthy(broker_id: int = broker_id) -> bool | None:
                health = self.health(broker_id)
                if health in ("exited", "dead"):
                    raise ContainerUnavailable(
                        f"broker {broker_id} ended instead of starting: {self._end(broker_id)}"
                    )
                return True if health == "healthy" else None

            def what(broker_id: int = broker_id) -> str:
                return f"broker {broker_id} healthy; its log ends with:\n{self._end(broker_id)}"

            until(is_healthy, what, timeout_s)

    # Private

    def _start_all(self) -> None:
        try:
            from docker.errors import DockerException  # type: ignore[import-untyped]  # no types
            from testcontainers.core.container import DockerContainer
            from testcontainers.core.network import Network
        except ImportError as error:
            raise NotInstalled(
                f"brokers in containers need testcontainers ({error}): "
                "pip install 'zkcontroller[container]'"
            ) from error
        ports = ReservedPorts()
        self._stack.callback(ports.close)
        try:
            network = self._stack.enter_context(Network())
            zookeeper = ZooKeeperContainer(self._zookeeper_image, network=network, alias=_ZOOKEEPER)
            self._stack.enter_context(zookeeper)
            self._host = zookeeper.host
            for broker_id in self.broker_ids:
                self._ports[broker_id] = ports.take()
                container = DockerContainer(self.image)
                self._stack.callback(container.stop)
                self._configure(container, broker_id, network)
                container.start()
                self._containers[broker_id] = container
        except (DockerException, OSError) as error:
            raise ContainerUnavailable(
                f"Docker could not start the containers of {self.image}: {error}; is the Docker "
                f"daemon running, and is the image there ({IMAGE_VARIABLE} names another; "
                "docker build -f compose/Dockerfile -t zkcontroller . builds it)?"
            ) from error
        self.wait_healthy()

    def _configure(self, container: DockerContainer, broker_id: int, network: Network) -> None:
        name = f"broker-{broker_id}"
        port = self._ports[broker_id]
        variables = {
            f"{PREFIX}BROKER_ID": str(broker_id),
            f"{PREFIX}ZOOKEEPER_CONNECT": f"{_ZOOKEEPER}:{CLIENT_PORT}/kafka",
            f"{PREFIX}LISTENERS": f"INTERNAL://:{_INTERNAL_PORT},EXTERNAL://:{_EXTERNAL_PORT}",
            f"{PREFIX}ADVERTISED_LISTENERS": (
                f"INTERNAL://{name}:{_INTERNAL_PORT},EXTERNAL://{self._host}:{port}"
            ),
            f"{PREFIX}LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            f"{PREFIX}INTER_BROKER_LISTENER_NAME": "INTERNAL",
        }
        for key, value in self._configs.items():
            variables[variable_name(key)] = format_properties({"": value})[1:-1]
        container.with_envs(**variables)
        container.with_bind_ports(_EXTERNAL_PORT, port)
        container.with_network(network).with_network_aliases(name)
        container.with_kwargs(
            hostname=name, read_only=True, healthcheck={"interval": _HEALTH_INTERVAL_NS}
        )

    def _container(self, broker_id: int) -> DockerContainer:
        if broker_id not in self._containers:
            raise ConfigInvalid(
                "broker_id", broker_id, f"one of {self.broker_ids} that was started"
            )
        return self._containers[broker_id]

    def _wrapped(self, broker_id: int) -> Container:
        return self._container(broker_id).get_wrapped_container()

    def _end(self, broker_id: int) -> str:
        return self.logs(broker_id)[-LOG_BYTES_IN_ERRORS:]
