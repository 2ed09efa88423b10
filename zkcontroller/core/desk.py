"""What every story of the controller works with: context, journal, outbox and questions.

The questions are procedures with a typed answer, so that a story reads ``states = yield from
desk.read(paths)`` and mypy knows what it got.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkcontroller.core.broker_requests import RequestBatch
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.context import ControllerContext
from zkcontroller.core.effects import Outbox, Procedure
from zkcontroller.core.journal import Journal
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Delete,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    Stat,
    Write,
    WriteResult,
    ZkCode,
    Znode,
)


class Desk:
    """Shared by all stories of one controller."""

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config
        self.context = ControllerContext()
        self.outbox: Outbox = []
        self.journal = Journal(self.outbox, config.broker_id, is_tracing=config.trace_state_changes)

    def new_batch(self) -> RequestBatch:
        return RequestBatch(self.context, self.config, self.journal, self.outbox)

    def send_update_metadata(
        self, broker_ids: Sequence[int] | None = None, rows: Sequence[int] = ()
    ) -> None:
        """UpdateMetadata to these brokers (all that are up if None) about these partitions."""
        batch = self.new_batch()
        if broker_ids is None:
            broker_ids = self.context.live_or_shutting_down_broker_ids
        batch.add_update_metadata(broker_ids, rows)
        batch.send()

    # ------------------------------------------------------------------ questions

    def read(self, paths: Sequence[str], *, watch: bool = False) -> Procedure[list[Znode | ZkCode]]:
        if not paths:
            return []
        answer: list[Znode | ZkCode] = yield ReadZnodes(paths, watch)
        return answer

    def read_one(self, path: str, *, watch: bool = False) -> Procedure[Znode | ZkCode]:
        answer = yield from self.read([path], watch=watch)
        return answer[0]

    def children(self, path: str, *, watch: bool = False) -> Procedure[list[str]]:
        """Children of a node, sorted so that runs are alike; none if there is no node."""
        answer: list[list[str] | ZkCode] = yield ListChildren([path], watch)
        names = answer[0]
        return [] if isinstance(names, ZkCode) else sorted(names)

    def exists(
        self, paths: Sequence[str], *, watch: bool = False
    ) -> Procedure[list[Stat | ZkCode]]:
        if not paths:
            return []
        answer: list[Stat | ZkCode] = yield CheckExists(paths, watch)
        return answer

    def write(self, operations: Sequence[Write]) -> Procedure[list[WriteResult]]:
        """Fenced writes: they land only while this controller's epoch is the cluster's."""
        if not operations:
            return []
        answer: list[WriteResult] = yield FencedBatch(operations, self.context.epoch_zk_version)
        return answer

    def delete_recursively(self, path: str) -> Procedure[None]:
        """Remove a node and everything under it, deepest first; what is gone already is fine."""
        levels = [[path]]
        while levels[-1]:
            answer: list[list[str] | ZkCode] = yield ListChildren(levels[-1])
            levels.append(
                [
                    f"{parent}/{name}"
                    for parent, names in zip(levels[-1], answer, strict=True)
                    if not isinstance(names, ZkCode)
                    for name in names
                ]
            )
        for level in reversed(levels):
            yield from self.write([Delete(each) for each in level])
