"""Brokers of a quorum that are alive and do nothing, and topics to lie on them.

With them a controller has as much to keep and to decide as with real ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from kio.static.primitive import i16, i32, i64, u16

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from tests.peers.quorum_cluster import CLUSTER_ID

HEARTBEAT_S: Final = 1.0
_STILL_FENCED_S: Final = 0.02
_METADATA_VERSION: Final = (1, 21)
_EVERYTHING: Final = 2**62
"""What a broker says that it has read: it is never behind."""


class SilentBroker:
    """A broker that is alive as long as it sends heartbeats, and does nothing else."""

    def __init__(self, broker_id: int, connection: Connection) -> None:
        self.broker_id = broker_id
        self.last_beat_s = 0.0
        """When its last heartbeat was answered."""
        self._connection = connection
        self._epoch = -1
        self._beating: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Registers, and is unfenced by its first heartbeat."""
        schema = request_schema(ApiKey.BROKER_REGISTRATION, 4)
        listener = schema.part(
            "Listener",
            name="PLAINTEXT",
            host="localhost",
            port=u16(9092),
            security_protocol=i16(0),
        )
        first, last = _METADATA_VERSION
        feature = schema.part(
            "Feature",
            name="metadata.version",
            min_supported_version=i16(first),
            max_supported_version=i16(last),
        )
        response: Any = await self._connection.request(
            schema.request(
                broker_id=i32(self.broker_id),
                cluster_id=CLUSTER_ID,
                incarnation_id=uuid4(),
                listeners=(listener,),
                features=(feature,),
                rack=None,
                is_migrating_zk_broker=False,
                log_dirs=(UUID(int=500 + self.broker_id),),
                previous_broker_epoch=i64(-1),
            )
        )
        assert response.error_code == 0, f"the registration was refused: {response}"
        self._epoch = response.broker_epoch
        while await self._beat():
            await asyncio.sleep(_STILL_FENCED_S)
        self._beating = asyncio.create_task(self._beat_on())

    def fall_silent(self) -> None:
        """Sends no more heartbeats."""
        assert self._beating is not None, "it has joined"
        self._beating.cancel()

    async def _beat(self) -> bool:
        """Whether it is fenced."""
        schema = request_schema(ApiKey.BROKER_HEARTBEAT, 1)
        response: Any = await self._connection.request(
            schema.request(
                broker_id=i32(self.broker_id),
                broker_epoch=i64(self._epoch),
                current_metadata_offset=i64(_EVERYTHING),
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=(),
            )
        )
        self.last_beat_s = time.monotonic()
        return bool(response.is_fenced)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._beat()


async def create_topics(
    connection: Connection, names: Sequence[str], *, partitions: int, replicas: int
) -> None:
    """Topics of so many partitions each; returns when they are committed."""
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
    response: Any = await connection.request(
        schema.request(topics=topics, timeout=timedelta(minutes=1), validate_only=False)
    )
    refused = [topic for topic in response.topics if topic.error_code != 0]
    assert not refused, f"topics were refused, the first so: {refused[0]}"
