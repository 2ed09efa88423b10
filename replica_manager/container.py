"""Runs a broker in a container: ``python -m replica_manager.container [run|health]``.

``run``, the default, takes the configuration from environment variables named as Kafka's own images
name them (:mod:`.configuration.environment`), over a ``server.properties`` mounted in
``/mnt/shared/config``.  It writes no file of it, so that passwords reach no disk.  Signals and exit
codes are those of :mod:`.__main__`; so are the variables named there.  ``LOG_DIR`` is the folder of
log files.  ``ZKCONTROLLER_METRICS_PORT`` serves metrics to Prometheus, on the address
``ZKCONTROLLER_METRICS_HOST`` (all of the container's).

``health`` ends with 0 if the broker answers an ApiVersions request, which it does only while it is
registered, else with 1 and the reason.  It does not ask ZooKeeper: restarting brokers because
ZooKeeper is away would turn one failure into two.

Source: Kafka 3.9 ``docker/resources/common-scripts/run``.  Deviation: data is kept in the volume
``/var/lib/kafka/data`` unless ``log.dirs`` says otherwise; with Kafka's own default it would be
lost with the container.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from kafka_common.errors import ConfigInvalid, ZkControllerError
from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.net.connection import Connection
from replica_manager.configuration.config import BrokerConfig, read_properties_file
from replica_manager.configuration.environment import EnvironmentConfig, read_environment

MOUNTED_FILE: Final = Path("/mnt/shared/config/server.properties")
SECRETS: Final = Path("/etc/kafka/secrets")
DATA: Final = Path("/var/lib/kafka/data")
LOGS: Final = Path("/var/log/kafka")
METRICS_PORT: Final = "ZKCONTROLLER_METRICS_PORT"
METRICS_HOST: Final = "ZKCONTROLLER_METRICS_HOST"
LOOPBACK: Final = "127.0.0.1"
EVERY_ADDRESS: Final = "0.0.0.0"
HEALTH_TIMEOUT_MS: Final = 4_000
"""For each of connecting and answering; below the time that the image's health check gives."""
MAX_HEALTH_BYTES: Final = 64 * 1024
_WANTS_CERTIFICATE: Final = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_HANDSHAKE_FAILURE")
"""How TLS 1.3 and 1.2 refuse a client without a certificate, in OpenSSL's words."""
FAILED: Final = 1
_USAGE: Final = 2


class ContainerConfig(NamedTuple):
    """The settings in a container's environment variables and in its mounted file."""

    broker: BrokerConfig
    log_levels: Mapping[str, str]
    metrics_port: int | None
    metrics_host: str


def container_config(
    environment: Mapping[str, str],
    *,
    mounted: Path = MOUNTED_FILE,
    secrets: Path = SECRETS,
    data: Path = DATA,
) -> ContainerConfig:
    """The configuration of the container's broker.

    Raises ConfigInvalid; it names the environment variable if that set the invalid key.
    """
    said = read_environment(environment, secrets)
    in_file = read_properties_file(mounted) if mounted.exists() else {}
    properties = {**in_file, **said.properties}
    if "zookeeper.connect" not in properties:
        raise ConfigInvalid(
            "zookeeper.connect", None, f"set KAFKA_ZOOKEEPER_CONNECT, or mount {mounted}"
        )
    if "log.dirs" not in properties and "log.dir" not in properties:
        properties["log.dirs"] = str(data)
    broker = _parse(properties, said)
    return ContainerConfig(
        replace(broker, warnings=(*said.warnings, *broker.warnings)),
        said.log_levels,
        _metrics_port(environment),
        environment.get(METRICS_HOST) or EVERY_ADDRESS,
    )


def _parse(properties: Mapping[str, str], said: EnvironmentConfig) -> BrokerConfig:
    try:
        return BrokerConfig.parse(properties)
    except ConfigInvalid as refused:
        variable = said.variables.get(refused.key)
        if variable is None:
            raise
        raise ConfigInvalid(f"{refused.key} ({variable})", refused.value, refused.allowed) from None


def _metrics_port(environment: Mapping[str, str]) -> int | None:
    text = environment.get(METRICS_PORT, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536):
        raise ConfigInvalid(METRICS_PORT, text, "a port between 1 and 65535")
    return int(text)


def run(environment: Mapping[str, str]) -> int:
    """Runs the broker until a signal ends it; returns the exit code."""
    # Imported here: the health check, a new process every few seconds, does without it.
    from replica_manager.__main__ import MetricsServing, run_broker

    config = container_config(environment)
    logs = Path(environment.get("LOG_DIR") or LOGS)
    for folder in (*config.broker.log_dirs, logs):
        _require_writable(folder)
    return run_broker(
        config.broker,
        source="environment",
        logs_dir=logs,
        levels=config.log_levels,
        metrics=MetricsServing(config.metrics_port, config.metrics_host),
    )


def _require_writable(folder: Path) -> None:
    """ConfigInvalid if the process may not write to the folder, or not create a missing one."""
    existing = next(
        each for each in (folder.absolute(), *folder.absolute().parents) if each.exists()
    )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigInvalid(
            "log.dirs or LOG_DIR",
            str(folder),
            f"a folder, or a volume, that user {os.geteuid()} may write",
        )


async def unhealthy(listener: Endpoint) -> str | None:
    """Why the broker at that listener is not healthy; None if it is."""
    if not listener.port:
        return f"the listener {listener.listener_name} has no fixed port that could be asked"
    host = LOOPBACK if listener.host in ("", EVERY_ADDRESS, "::") else listener.host
    try:
        connection = await Connection.open(
            host,
            listener.port,
            client_id="health",
            connect_timeout_ms=HEALTH_TIMEOUT_MS,
            request_timeout_ms=HEALTH_TIMEOUT_MS,
            max_response_bytes=MAX_HEALTH_BYTES,
            security=ClientSecurity(_unverified() if _has_tls(listener) else None),
        )
        try:
            # A broker responds to ApiVersions before the client has logged in.
            response = await connection.request(ApiVersionsRequest())
        finally:
            await connection.close()
    except (OSError, ZkControllerError) as failure:
        # The broker runs: it has refused this client, which has no certificate.
        return None if any(alert in str(failure) for alert in _WANTS_CERTIFICATE) else str(failure)
    assert isinstance(response, ApiVersionsResponse)
    return None if response.error_code is ErrorCode.none else response.error_code.name


def _has_tls(listener: Endpoint) -> bool:
    return "SSL" in listener.security_protocol.removeprefix("SASL_")


def _unverified() -> ssl.SSLContext:
    """A TLS context that verifies no certificate.

    The health check connects only to its own container, and sends nothing secret.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def health(environment: Mapping[str, str]) -> int:
    """Checks the broker that runs with this environment; returns the exit code.

    Prints the reason if the broker is unhealthy.
    """
    bound = container_config(environment).broker.listeners.bound
    # Prefer a listener without TLS: a handshake costs time on both sides.
    reason = asyncio.run(unhealthy(min(bound, key=_has_tls)))
    if reason is not None:
        print(f"unhealthy: {reason}", file=sys.stderr)
    return FAILED if reason is not None else 0


_VERBS: Final = {"run": run, "health": health}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the verb ``run`` or ``health``; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    verb = _VERBS.get(words[0] if words else "run")
    if verb is None or len(words) > 1:
        print("usage: python -m replica_manager.container [run|health]", file=sys.stderr)
        return _USAGE
    try:
        return verb(os.environ)
    except ZkControllerError as refused:
        print(f"{refused}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
