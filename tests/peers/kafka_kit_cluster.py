"""The kit's cluster with brokers of Kafka: what can be done to ours can be done to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from typing_extensions import override

from benchmarks.kafka_peer import VERSION, KafkaBroker
from tests.peers.kafka_versions import required_libs
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.brokers import BrokerProcesses

local_cluster: Final[Any] = import_module("zkcontroller_cli.local.local_cluster")
processes: Final[Any] = import_module("zkcontroller_cli.machine.processes")


class KafkaKitCluster(KafkaCluster):
    """``KafkaCluster`` of real brokers; their own logs are where those of ours would be."""

    version = VERSION
    log_levels: ClassVar[Mapping[str, str]] = {}

    @override
    def _build(self) -> None:
        super()._build()
        ours = self._brokers
        self._brokers = _KafkaProcesses(
            *(ours._file, ours._internal_ports, ours._overrides, ours._holds, ours._loop),
            libs=required_libs(self.version),
            log_levels=self.log_levels,
        )


class _KafkaProcesses(BrokerProcesses):
    """Processes of Kafka's, with the properties that ours would have."""

    def __init__(self, *of_ours: Any, libs: Path, log_levels: Mapping[str, str]) -> None:
        super().__init__(*of_ours)
        self._libs = libs
        self._log_levels = log_levels

    @override
    def start(self, broker_ids: Collection[int]) -> None:
        for broker_id in broker_ids:
            entry = self.entry(broker_id)
            folder = self._file.logs_directory(broker_id).parent
            known = local_cluster.properties_of(self._file, entry) | self._overrides[broker_id]
            broker = _Kafka(
                broker_id,
                "",
                folder,
                known,
                log_levels=self._log_levels,
                heap="512M",
                libs=self._libs,
                is_brief=True,
            )
            console = self._file.console_path(broker_id)
            entry.process = processes.spawn(broker.command(), console, is_bound=True)


class _Kafka(KafkaBroker):
    """A broker that another one starts."""

    def command(self) -> list[str]:
        """Writes its properties; the command that takes them."""
        self.logs.mkdir(parents=True, exist_ok=True)
        properties: Path = self.directory / "kafka.properties"
        lines = [f"{key}={value}\n" for key, value in self._properties.items()]
        properties.write_text("".join(lines))
        return list(self._command(properties))
