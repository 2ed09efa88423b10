"""What every part of the controller shares: configuration, context, journal, outbox, questions.

The questions are procedures with a typed result, so that a caller reads ``znodes = yield from
tools.read(paths)`` and mypy knows the type of the result.

One rule holds for every result: only NO_NODE means "there is nothing".  Any other code is asked
again if ZooKeeper was busy, and then raised as ZooKeeperRefused, which makes the controller resign:
a controller that takes a refusal for an empty list forgets its brokers or its topics.  The
exceptions are :meth:`ControllerTools.try_read` and :meth:`ControllerTools.write`, whose callers
judge each result.

Source: Kafka ``KafkaZkClient`` (``getChildren``, ``getDataAndStat``, ``deleteRecursive`` …).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.core.broker_requests import RequestBatch
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.context import ControllerContext
from zkcontroller.core.effects import Outbox, Pause, Procedure
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
    ZkRequest,
    Znode,
)

T = TypeVar("T")
Item = TypeVar("Item")

BUSY: Final = frozenset({ZkCode.THROTTLED_OP, ZkCode.OPERATION_TIMEOUT})
"""Results of an overloaded ZooKeeper; the same question may succeed later."""
BUSY_TRIES: Final = 10
"""How often a question is asked again while ZooKeeper is busy."""
BUSY_PAUSE_MS: Final = 100
"""The pause between two of these tries."""


class ControllerTools:
    """The context, journal and outbox of one controller, and its questions to ZooKeeper."""

    def __init__(self, config: ControllerConfig, outbox: Outbox | None = None) -> None:
        self.config = config
        self.context = ControllerContext()
        self.outbox: Outbox = [] if outbox is None else outbox
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

    def read(self, paths: Sequence[str], *, watch: bool = False) -> Procedure[list[Znode | None]]:
        """Each znode, None where there is none.  Raises ZooKeeperRefused for any other result."""
        results = yield from self.try_read(paths, watch=watch)
        return _found(paths, results)

    def try_read(
        self, paths: Sequence[str], *, watch: bool = False
    ) -> Procedure[list[Znode | ZkCode]]:
        """Each znode, or why it cannot be read, for callers that judge each one by itself."""
        results: list[Znode | ZkCode] = yield from _persistently(
            paths, lambda some: ReadZnodes(some, watch)
        )
        return results

    def read_one(self, path: str, *, watch: bool = False) -> Procedure[Znode | None]:
        """As :meth:`read` for one path."""
        result = yield from self.read([path], watch=watch)
        return result[0]

    def children(self, path: str, *, watch: bool = False) -> Procedure[list[str]]:
        """The names of a znode's children, sorted so that runs are repeatable.

        Empty if the znode does not exist.

        Raises ZooKeeperRefused for any other result.
        """
        names = yield from self._children_of([path], watch=watch)
        return sorted(names[0] or ())

    def _children_of(
        self, paths: Sequence[str], *, watch: bool = False
    ) -> Procedure[list[list[str] | None]]:
        results: list[list[str] | ZkCode] = yield from _persistently(
            paths, lambda some: ListChildren(some, watch)
        )
        return _found(paths, results)

    def exists(self, paths: Sequence[str], *, watch: bool = False) -> Procedure[list[bool]]:
        """Whether each path exists.

        Raises ZooKeeperRefused for any error code but NO_NODE, since no watch was set then.
        """
        results: list[Stat | ZkCode] = yield from _persistently(
            paths, lambda some: CheckExists(some, watch)
        )
        return [stat is not None for stat in _found(paths, results)]

    def write(self, operations: Sequence[Write]) -> Procedure[list[WriteResult]]:
        """Writes, fenced by this controller's epoch: refused once another controller is elected."""
        fence = self.context.epoch_zk_version
        results: list[WriteResult] = yield from _persistently(
            operations, lambda some: FencedBatch(some, fence)
        )
        return results

    def delete(self, paths: Sequence[str]) -> Procedure[None]:
        """Deletes znodes; a znode that does not exist is no error.

        Raises ZooKeeperRefused for the first one that stays.
        """
        _found(paths, (yield from self.write([Delete(path) for path in paths])))

    def delete_recursively(self, path: str) -> Procedure[None]:
        """Deletes a znode and all znodes below it, deepest first; raises as :meth:`delete`."""
        levels = [[path]]
        while levels[-1]:
            children = yield from self._children_of(levels[-1])
            levels.append(
                [
                    f"{parent}/{name}"
                    for parent, names in zip(levels[-1], children, strict=True)
                    for name in names or ()
                ]
            )
        for level in reversed(levels):
            yield from self.delete(level)


def _found(paths: Sequence[str], results: Sequence[T | ZkCode]) -> list[T | None]:
    """The results with None for NO_NODE; raises ZooKeeperRefused for any other code."""
    if ZkCode not in set(map(type, results)):
        return list(results)  # type: ignore[arg-type]
    found: list[T | None] = []
    for path, result in zip(paths, results, strict=True):
        if not isinstance(result, ZkCode):
            found.append(result)
        elif result is ZkCode.NO_NODE:
            found.append(None)
        else:
            raise ZooKeeperRefused(path, result.name)
    return found


def _persistently(
    items: Sequence[Item], make: Callable[[Sequence[Item]], ZkRequest]
) -> Procedure[list[Any]]:
    """Sends a request for all items; retries the items for which ZooKeeper was busy."""
    if not items:
        return []
    results: list[Any] = yield make(items)
    for _ in range(BUSY_TRIES):
        if ZkCode not in set(map(type, results)):
            break
        busy = [at for at, each in enumerate(results) if type(each) is ZkCode and each in BUSY]
        if not busy:
            break
        yield Pause(BUSY_PAUSE_MS)
        again: list[Any] = yield make([items[at] for at in busy])
        results = list(results)
        for at, result in zip(busy, again, strict=True):
            results[at] = result
    return results
