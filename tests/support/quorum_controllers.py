"""Nodes of a quorum with their controllers, in this process: real sockets, real folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final, TypeVar

from typing_extensions import override

from kafka_common.model import ConfigResourceType, OpType
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import IncrementalAlterConfigs
from kraft.controller.snapshot_trigger import SnapshotConfig
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.controller_service import controller_maker, read_bootstrap
from kraft.node.metadata_log import FOLDER
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from tests.support.quorum import CLUSTER_ID, Quorum, in_the_end
from tests.support.state_records import everything

SMALL: Final = SnapshotConfig(max_record_bytes_between_snapshots=1_000)
TIGHT: Final = MetadataLogConfig(retention_max_bytes=1, file_delete_delay_ms=0)
T = TypeVar("T")


class Controllers(Quorum):
    """Nodes with controllers, which make snapshots often and keep nothing that is old."""

    @override
    def settings(self, node_id: int) -> QuorumNodeSettings:
        settings = super().settings(node_id)
        return dataclasses.replace(settings, snapshots=SMALL, log=TIGHT)

    @override
    def equip(self, node: QuorumNode, settings: QuorumNodeSettings) -> None:
        listener, voters = settings.listeners[0], self.voters.endpoints.items()
        config = ControllerServerConfig.parse(
            {
                "process.roles": "controller",
                "node.id": str(settings.local.id),
                "controller.quorum.voters": ",".join(
                    f"{each}@{endpoint.host}:{endpoint.port}" for each, endpoint in voters
                ),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://{listener.host}:{listener.port}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                "log.dirs": str(settings.metadata_log_dir),
                "metadata.max.idle.interval.ms": "0",
            }
        )
        bootstrap = read_bootstrap(settings.metadata_log_dir, None)
        node.set_controller(controller_maker(config, CLUSTER_ID, bootstrap))

    async def look(self, node_id: int, read: Callable[[QuorumController], T]) -> T:
        return await self.nodes[node_id].controller.look(read)

    async def everything(self) -> list[object]:
        """What each of them holds."""
        return [await self.look(each, everything) for each in self.nodes]

    async def active(self) -> int:
        """The node whose controller is at work."""
        found: list[int] = []

        async def is_one_at_work() -> bool:
            found[:] = [each for each in self.nodes if await self.look(each, is_at_work)]
            return len(found) == 1

        await in_the_end(is_one_at_work, "a controller is at work")
        return found[0]

    async def configure(self, node_id: int, value: str) -> None:
        """Writes some hundred bytes, and waits until they are committed."""
        resource = ConfigResource(ConfigResourceType.BROKER, "")
        change = {"ssl.truststore.location": ConfigOperation(OpType.SET, value * 100)}
        asked = IncrementalAlterConfigs({resource: change})
        await self.nodes[node_id].controller.ask(asked, 10_000)

    def snapshots(self, node_id: int) -> dict[str, bytes]:
        folder = self.directory / f"node-{node_id}" / FOLDER
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.checkpoint"))}

    def is_cut(self, node_id: int) -> bool:
        return self.nodes[node_id].driver.node.log.start_offset > 0


def is_at_work(controller: QuorumController) -> bool:
    version = controller.state.features.finalized_features(
        controller.state.offsets.last_stable_offset
    )
    return controller.is_active and version.levels["metadata.version"] == 21


def stable_offset(controller: QuorumController) -> int:
    return controller.state.offsets.last_stable_offset
