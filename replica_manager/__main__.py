"""Runs a broker: ``python -m replica_manager server.properties [--override key=value …]``.

``--metrics-port`` serves its metrics to Prometheus.

SIGTERM and SIGINT stop it by controlled shutdown; a second one ends it at once.  It is ready when
server.log says ``[KafkaServer id=1] started`` and ``broker.json`` is in the first log directory.
Exit code 0 after a stop, 1 after a failure.  The environment variable
``ZKCONTROLLER_ZOOKEEPER_AUTH``, ``digest:USER:PASSWORD`` or ``sasl:USER:PASSWORD``, holds its
credentials for ZooKeeper.  With ``ZKCONTROLLER_HOLD_SOCKET`` a test may hold the controller
between two of its steps (:mod:`zkcontroller.runtime.hold_points`), and the broker ends with the
test.  With ``ZKCONTROLLER_LOOP_WATCH_MS`` server.log names each callback that
holds the event loop for at least this many milliseconds.

Source: Kafka's ``kafka-server-start.sh``, ``kafka.Kafka``.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from msgspec import Struct

from kafka_common.errors import ZkControllerError
from kafka_common.observability.loop_watch import watching
from kafka_common.observability.metrics import Metrics
from kafka_common.process.interpreter import set_up_interpreter
from kafka_common.process.stop_signals import stop_at_signals
from kafka_common.wall_time import set_wall_time_by_environment
from replica_manager.broker.broker_identity import stored_broker_id
from replica_manager.broker.broker_settings import ZOOKEEPER_AUTH_VARIABLE
from replica_manager.broker.zookeeper_broker import zookeeper_broker
from replica_manager.configuration.config import BrokerConfig, load_config, parse_overrides
from replica_manager.metrics_server import LOOPBACK, MetricsServer
from replica_manager.regular_files import root_warning
from replica_manager.security.jaas_file import read_jaas_file
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER
from zkcontroller.state_changes.log_files import LogFiles, install_log_files
from zkcontroller.zookeeper.connect_string import parse_credentials

FAILED: Final = 1
_log = logging.getLogger("kafka.Kafka$")


def main(arguments: list[str] | None = None) -> int:
    """Runs a broker by the arguments of the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        config = load_config(options.properties, parse_overrides(options.override))
    except ZkControllerError as refused:
        print(f"{options.properties}: {refused}", file=sys.stderr)
        return FAILED
    levels = {STATE_CHANGE_LOGGER: "TRACE"} if options.trace_state_changes else {}
    return run_broker(
        config,
        source=str(options.properties),
        logs_dir=_logs_dir(options.logs_dir),
        levels=levels,
        metrics=MetricsServing(
            options.metrics_port, options.metrics_host, options.metrics_of_partitions
        ),
        is_quiet=options.quiet,
    )


class MetricsServing(Struct, frozen=True):
    """Where a broker serves its metrics, and which ones; ``port`` None: it serves none."""

    port: int | None = None
    host: str = LOOPBACK
    of_partitions: bool = False


def run_broker(
    config: BrokerConfig,
    *,
    source: str,
    logs_dir: Path,
    levels: Mapping[str, str],
    metrics: MetricsServing,
    is_quiet: bool = False,
) -> int:
    """Runs the broker until a signal ends it; returns the exit code.  Called once per process.

    ``source`` names the origin of the configuration in messages.  ``levels`` are log4j's levels by
    logger, instead of the defaults.  With ``is_quiet``, server.log is not repeated on stdout.
    """
    set_wall_time_by_environment()
    set_up_interpreter()
    raise_open_files_limit()
    try:
        zookeeper_auth = parse_credentials(
            ZOOKEEPER_AUTH_VARIABLE, os.environ.get(ZOOKEEPER_AUTH_VARIABLE, "")
        )
        if (jaas_file := read_jaas_file(os.environ)) is not None:
            config = jaas_file.with_logins(config)
            zookeeper_auth = zookeeper_auth or jaas_file.zookeeper_auth()
        broker_id = config.broker_id
        if broker_id < 0:
            broker_id = stored_broker_id(config.log_dirs) or -1
    except ZkControllerError as refused:
        print(f"{source}: {refused}", file=sys.stderr)
        return FAILED
    log_files = install_log_files(logs_dir, broker_id=broker_id, levels=levels, stdout=not is_quiet)
    try:
        for warning in config.warnings:
            logging.getLogger("kafka.server.KafkaConfig").warning("%s", warning)
        if not is_quiet and (rights := root_warning(os.geteuid())) is not None:
            # Not in server.log: Kafka has no such line there, so log readers do not know it.
            print(f"warning: {rights}", file=sys.stderr)
        values = Metrics()
        is_served = metrics.port is not None
        with (
            watching(values, has_readers=is_served),
            nullcontext()
            if metrics.port is None
            else MetricsServer(values, metrics.port, metrics.host),
        ):
            return asyncio.run(
                _run(
                    config,
                    log_files,
                    values,
                    zookeeper_auth,
                    counts_requests=is_served,
                    counts_partitions=metrics.of_partitions,
                )
            )
    except ZkControllerError as failure:
        print(f"broker {broker_id}: {failure}", file=sys.stderr)
        return FAILED
    finally:
        log_files.close()


def raise_open_files_limit() -> None:
    """Raises the limit of open files to its hard limit: each log and each client needs some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(
    config: BrokerConfig,
    log_files: LogFiles,
    metrics: Metrics,
    zookeeper_auth: tuple[tuple[str, str], ...],
    *,
    counts_requests: bool,
    counts_partitions: bool,
) -> int:
    stop_wanted = asyncio.Event()
    broker = zookeeper_broker(
        config,
        state_changes=log_files.state_changes,
        trace_state_changes=log_files.is_tracing_state_changes,
        metrics=metrics,
        counts_requests=counts_requests,
        counts_partitions=counts_partitions,
        zookeeper_auth=zookeeper_auth,
    )

    log_files.give_way(lambda: broker.is_controller_at_work)

    stop_at_signals(stop_wanted.set, log_files.flush)
    starting = asyncio.ensure_future(broker.start())
    stopping = asyncio.ensure_future(stop_wanted.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return 0
    starting.result()
    failing = asyncio.ensure_future(broker.has_failed.wait())
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    has_failed = failing.done()
    failing.cancel()
    stopping.cancel()
    if broker.must_halt:
        log_files.flush()
        os._exit(FAILED)
    await broker.stop(is_graceful=not has_failed)
    return FAILED if has_failed else 0


def _logs_dir(option: Path | None) -> Path:
    return option or Path(os.environ.get("LOG_DIR") or "logs")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m replica_manager", description="Runs a broker in ZooKeeper mode."
    )
    parser.add_argument("properties", type=Path, help="Kafka's server.properties")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that wins over the file's; may be repeated",
    )
    parser.add_argument(
        "--logs-dir",
        type=Path,
        help="where server.log, controller.log and state-change.log go "
        "(default: $LOG_DIR, else ./logs)",
    )
    parser.add_argument(
        "--trace-state-changes",
        action="store_true",
        help="log every partition's state changes, as Kafka does at TRACE",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve metrics in Prometheus' format at http://HOST:PORT/metrics (0: a free port, "
        "named in server.log; default: do not serve them)",
    )
    parser.add_argument(
        "--metrics-of-partitions",
        action="store_true",
        help="serve also those of single partitions: ten of each",
    )
    parser.add_argument(
        "--metrics-host",
        default=LOOPBACK,
        metavar="HOST",
        help="the address of the metrics port (default: %(default)s)",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="do not repeat server.log on standard output, and do not warn about root",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
