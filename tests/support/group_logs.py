"""Logs of ``__consumer_offsets`` in a folder of the test, for a group coordinator to write to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from replica_manager.log.log_config import LogConfig
from replica_manager.log.producer_state import AppendOrigin, VerificationGuard
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import LogWorld
from zkcontroller.model import TopicPartition
from zkcontroller.protocol.record_batch import MemoryRecords


class Outcome(NamedTuple):
    error: ErrorCode
    base_offset: int


class GroupLogs:
    """The logs of one broker that leads what a test asks for, and has no followers."""

    def __init__(self, folder: Path, config: LogConfig | None = None) -> None:
        self.folder = folder
        self._config = LogConfig() if config is None else config
        self.led: dict[TopicPartition, UnifiedLog] = {}

    def lead(self, partition: TopicPartition) -> None:
        self.led[partition] = LogWorld(self.folder / str(partition), self._config).open()

    async def append_records(
        self,
        batches: Mapping[TopicPartition, MemoryRecords],
        *,
        acks: int,  # noqa: ARG002 - there is one replica
        timeout_ms: int,  # noqa: ARG002
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,  # noqa: ARG002
    ) -> Mapping[TopicPartition, Outcome]:
        outcomes = {}
        for partition, records in batches.items():
            log = self.led.get(partition)
            if log is None:
                outcomes[partition] = Outcome(ErrorCode.not_leader_or_follower, -1)
                continue
            info = log.append_as_leader(records.buffer, 0, origin=origin)
            await asyncio.sleep(0)
            outcomes[partition] = Outcome(ErrorCode.none, info.first_offset)
        return outcomes
