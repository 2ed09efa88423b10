"""A client of a quorum's controller."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32, i64, u16

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.controller_service import ControllerRegistrations, controller_maker, read_bootstrap
from kraft.node.described_config import described_config
from kraft.node.quorum_node import QuorumNode
from tests.support.quorum import CLUSTER_ID, Quorum, in_the_end

BROKER: Final = 11


SOON: Final = timedelta(seconds=10)


class Client:
    """A connection to the controller, and the broker that speaks by it."""

    def __init__(self, node: QuorumNode, connection: Connection) -> None:
        self.node = node
        self.connection = connection
        self.broker_epoch = -1

    async def ask(self, api_key: ApiKey, version: int, **values: object) -> Any:
        return await self.connection.request(request_schema(api_key, version).request(**values))

    async def register(self) -> Any:
        """Registers the broker."""
        schema = request_schema(ApiKey.BROKER_REGISTRATION, 4)
        response = await self.ask(
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_id=i32(BROKER),
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=77),
            listeners=(
                schema.part(
                    "Listener",
                    name="PLAINTEXT",
                    host="localhost",
                    port=u16(9092),
                    security_protocol=i16(0),
                ),
            ),
            features=(
                schema.part(
                    "Feature",
                    name="metadata.version",
                    min_supported_version=i16(1),
                    max_supported_version=i16(21),
                ),
            ),
            rack=None,
            is_migrating_zk_broker=False,
            log_dirs=(UUID(int=500),),
            previous_broker_epoch=i64(-1),
        )
        self.broker_epoch = response.broker_epoch
        return response

    async def heartbeat(self, *, want_shut_down: bool = False) -> Any:
        """A heartbeat of the broker, which has read everything."""
        return await self.ask(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_id=i32(BROKER),
            broker_epoch=i64(self.broker_epoch),
            current_metadata_offset=i64(10**6),
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=(),
        )

    async def join(self) -> None:
        """Registers the broker and has it unfenced."""
        assert ErrorCode((await self.register()).error_code) is ErrorCode.none
        assert not (await self.heartbeat()).is_fenced

    async def create(
        self, *names: str, partitions: int = 2, replicas: int = 1, validate_only: bool = False
    ) -> Any:
        schema = request_schema(ApiKey.CREATE_TOPICS, 7)
        topics = tuple(
            schema.part(
                "CreatableTopic",
                name=name,
                num_partitions=i32(partitions),
                replication_factor=i16(replicas),
                assignments=(),
                configs=(),
            )
            for name in names
        )
        response = await self.ask(
            ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=SOON, validate_only=validate_only
        )
        return {topic.name: topic for topic in response.topics}

    async def delete(self, *topics: str | UUID) -> list[tuple[str | None, ErrorCode]]:
        schema = request_schema(ApiKey.DELETE_TOPICS, 6)
        states = tuple(
            schema.part(
                "DeleteTopicState",
                name=topic if isinstance(topic, str) else None,
                topic_id=topic if isinstance(topic, UUID) else None,
            )
            for topic in topics
        )
        response = await self.ask(ApiKey.DELETE_TOPICS, 6, topics=states, timeout=SOON)
        return [(row.name, ErrorCode(row.error_code)) for row in response.responses]

    async def topics(self) -> set[str]:
        """As the controller's state has them."""
        return await self.node.controller.look(
            lambda controller: set(controller.state.replication.state.topics_by_name)
        )


@asynccontextmanager
async def client_of_voter(
    directory: Path,
    voters: Sequence[int] = (1,),
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[Client]:
    """A client of one voter of a quorum; alone, its controller is active."""
    quorum = Quorum(directory, voters)
    settings = quorum.settings(1)
    config = ControllerServerConfig.parse(
        {
            "process.roles": "controller",
            "node.id": "1",
            "controller.quorum.voters": ",".join(
                f"{voter}@{endpoint.host}:{endpoint.port}"
                for voter, endpoint in quorum.voters.endpoints.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{settings.listeners[0].port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            **(properties or {}),
        }
    )
    node = QuorumNode(dataclasses.replace(settings, config=described_config(config)))
    node.set_controller(
        controller_maker(config, CLUSTER_ID, read_bootstrap(settings.metadata_log_dir, None))
    )
    running = asyncio.create_task(node.run())
    await node.started()
    registering = asyncio.create_task(
        ControllerRegistrations(config, node.driver, node.controller).run()
    )

    async def is_registered() -> bool:
        return await node.controller.look(lambda at: 1 in at.state.cluster.controllers())

    try:
        if len(voters) == 1:
            await in_the_end(is_registered, "it is registered")
        connection = await Connection.open(
            "127.0.0.1", settings.listeners[0].port, client_id="test"
        )
        try:
            yield Client(node, connection)
        finally:
            await connection.close()
    finally:
        registering.cancel()
        if len(voters) == 1:
            node.stop()
            await running
        else:  # no one could take over
            running.cancel()
            await asyncio.wait((running,))
