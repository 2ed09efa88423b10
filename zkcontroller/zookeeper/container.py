"""Runs a ZooKeeper server in a Docker container, with Testcontainers.

For tests against a published ZooKeeper image.  testcontainers is imported only when a container is
started, so that it need not be installed for anything else.
"""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from kafka_common.errors import NotInstalled, ZooKeeperUnavailable
from zkcontroller.zookeeper.embedded import is_serving

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

DEFAULT_IMAGE: Final = "zookeeper:3.9"
IMAGE_VARIABLE: Final = "ZKCONTROLLER_ZOOKEEPER_IMAGE"
CLIENT_PORT: Final = 2181
READY_TIMEOUT_S: Final = 60.0
READY_POLL_S: Final = 0.1
LOG_BYTES_IN_ERRORS: Final = 2000


class ZooKeeperContainer:
    """One ZooKeeper server in a container, reached through a port that Docker picks.

    ``image``: by default ``$ZKCONTROLLER_ZOOKEEPER_IMAGE``, else ``zookeeper:3.9``.  ``network``:
    the Docker network in which other containers reach the server as ``alias``.

    Raises:
        NotInstalled: testcontainers is not installed (from :meth:`start`).
        ZooKeeperUnavailable: Docker does not answer, has no such image, or the server does not come
            up; the message ends with its last log lines.
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        network: Network | None = None,
        alias: str = "zookeeper",
    ) -> None:
        self.image = image or os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE
        self._network = network
        self._alias = alias
        self._container: DockerContainer | None = None

    @property
    def connect(self) -> str:
        """``host:port`` of the server on this machine."""
        assert self._container is not None, "not started"
        return f"{self.host}:{self._container.get_exposed_port(CLIENT_PORT)}"

    @property
    def host(self) -> str:
        """The name or address of the Docker host, whose ports lead to containers."""
        assert self._container is not None, "not started"
        return self._container.get_container_host_ip()

    def start(self) -> None:
        """Starts the container and waits until the server serves."""
        assert self._container is None, "already started"
        try:
            from docker.errors import DockerException  # type: ignore[import-untyped]  # no types
            from testcontainers.core.container import DockerContainer
        except ImportError as error:
            raise NotInstalled(
                f"a ZooKeeper in a container needs testcontainers ({error}): "
                "pip install 'zkcontroller[container]', or name a ZooKeeper host:port"
            ) from error
        try:
            container = DockerContainer(self.image).with_exposed_ports(CLIENT_PORT)
            if self._network is not None:
                container.with_network(self._network).with_network_aliases(self._alias)
            container.start()
        except (DockerException, OSError) as error:
            raise ZooKeeperUnavailable(
                f"Docker could not start a container of {self.image}: {error}; is the Docker "
                f"daemon running, and is the image there ({IMAGE_VARIABLE} names another)?"
            ) from error
        self._container = container
        try:
            self._wait_until_ready(container)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops and removes the container."""
        if self._container is not None:
            self._container.stop()
            self._container = None

    def __enter__(self) -> ZooKeeperContainer:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait_until_ready(self, container: DockerContainer) -> None:
        host, _, port = self.connect.rpartition(":")
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not is_serving(host, int(port)):
            if time.monotonic() > deadline:
                log = b"".join(container.get_logs())[-LOG_BYTES_IN_ERRORS:]
                raise ZooKeeperUnavailable(
                    f"the ZooKeeper of {self.image} at {self.connect} did not answer within "
                    f"{READY_TIMEOUT_S:.0f} s: {log.decode(errors='replace')}"
                )
            time.sleep(READY_POLL_S)
