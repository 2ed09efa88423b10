"""Bulk writes: packs independent operations into multis, and splits a multi that failed.

The writes of a batch are independent, but a multi does all or nothing.  If a multi fails, ZooKeeper
names the first operation that failed and its error code.  That code is this operation's result, and
the others are sent again without it: in smaller multis while failures continue, in larger ones
afterwards.  So a batch in which all operations fail costs as much as single requests.

Independent writes are still done *in order*: a parent is created before its child, a child deleted
before its parent.  Multis in flight at the same time must therefore not have paths that are equal,
or parent and child, because one multi may fail and be sent again after the other.  Two operations
with such paths are *near*.  If the operation that failed is near an earlier one of the same multi,
ZooKeeper judged it after that one, which was not done.  The earlier ones are then sent first, and
the failed operation after them.

Every multi of a fenced batch begins with the check of ``/controller_epoch``.  A multi whose reply
was lost is sent again unchanged; if the first sending was done, the results of its operations are
BAD_VERSION, NODE_EXISTS or NO_NODE.

Source: Kafka 3.9 ``KafkaZkClient.retryRequestsUntilConnected``, ``ZooKeeperClient.handleRequests``
(one request per write there); ZooKeeper ``DataTree.processTxn`` for the codes of a failed multi.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kafka_common.errors import ControllerMoved, ZooKeeperRefused
from zkcontroller.zookeeper.jute import (
    MultiFailed,
    OpCode,
    Reply,
    decode_multi,
    encode_multi,
    encode_write,
)
from zkcontroller.zookeeper.plans import MAX_OPERATIONS, Ask
from zkcontroller.zookeeper.requests import (
    Check,
    Committed,
    Create,
    RolledBack,
    SetData,
    Write,
    WriteResult,
    ZkCode,
    ZkTransaction,
)

SHRINK: Final = 8
GROW: Final = 2
# A mark in the queue between two operations that must not be in the same multi.
_CUT: Final = -1


class Encoder:
    """Encodes operations with this session's chroot and access control lists.

    ``absolute`` puts the chroot before a path, ``relative`` removes it.  ``acl`` returns the
    encoded access control list for a new znode at a path.
    """

    def __init__(
        self,
        absolute: Callable[[str], str],
        relative: Callable[[str], str],
        acl: Callable[[str], bytes],
    ) -> None:
        self.absolute = absolute
        self.relative = relative
        self._acl = acl

    def encode(self, operation: Write | Check) -> bytes:
        """One operation of a multi."""
        path = operation.path
        acl = self._acl(path) if isinstance(operation, Create) else b""
        return encode_write(operation, self.absolute(path), acl)


class WritePlan:
    """The plan of independent writes; ``results`` is complete when the plan is finished.

    :meth:`answered` raises ControllerMoved if the fence fails, and ZooKeeperRefused if ZooKeeper
    cannot check the fence.  An operation larger than ``max_request_bytes`` is not sent, because the
    server would drop the connection: its result is MARSHALLING_ERROR.
    """

    def __init__(
        self,
        operations: Sequence[Write],
        encoder: Encoder,
        *,
        fence: Check | None,
        max_request_bytes: int,
    ) -> None:
        self._operations = operations
        self._encoded = [encoder.encode(operation) for operation in operations]
        self._relative = encoder.relative
        self._fence = fence
        self._head = () if fence is None else (encoder.encode(fence),)
        self._max_bytes = max_request_bytes - sum(map(len, self._head))
        self._limit = MAX_OPERATIONS
        self._again: deque[Ask] = deque()
        self._waiting: deque[int] = deque()
        # The usual batch of a controller overwrites each znode once: no two operations are near.
        self._may_touch = not _are_apart(operations)
        # The numbers of operations in flight, by their path and by the parent of their path.
        self._touched: dict[str, int] = {}
        self._parents: dict[str, int] = {}
        self._verdicts: list[WriteResult | None] = [None] * len(operations)
        for position, encoded in enumerate(self._encoded):
            if len(encoded) > self._max_bytes:
                self._verdicts[position] = ZkCode.MARSHALLING_ERROR
            else:
                self._waiting.append(position)

    @property
    def results(self) -> list[WriteResult]:
        """One result per operation, in order."""
        assert None not in self._verdicts
        return [verdict for verdict in self._verdicts if verdict is not None]

    def next(self) -> Ask | None:
        """The next multi; None while it must wait for those in flight."""
        if self._again:
            return self._again.popleft()
        part = self._take_part()
        if not part:
            return None
        self._remember(part)
        body = encode_multi((*self._head, *(self._encoded[position] for position in part)))
        return Ask(OpCode.MULTI, body, part)

    def answered(self, ask: Ask, reply: Reply) -> None:
        """Stores the results, or queues the operations of a failed multi again."""
        self._forget(ask.part)
        operations: list[Write | Check] = [self._operations[position] for position in ask.part]
        if self._fence is not None:
            operations.insert(0, self._fence)
        if reply.code is not ZkCode.OK:
            self._refused(ask.part, reply.code)
            return
        outcome = decode_multi(reply, operations, self._relative)
        if not isinstance(outcome, MultiFailed):
            for position, written in zip(ask.part, outcome[len(self._head) :], strict=True):
                self._verdicts[position] = written
            self._limit = min(MAX_OPERATIONS, self._limit * GROW)
            return
        if outcome.position < len(self._head):
            raise _fence_failed(operations[0], outcome.code)
        self._failed(ask.part, outcome.position - len(self._head), outcome.code)

    def lost(self, ask: Ask) -> None:
        """Queues a multi whose reply was lost again, before all others."""
        self._again.append(ask)

    def _take_part(self) -> list[int]:
        part: list[int] = []
        size = 0
        while self._waiting and len(part) < self._limit:
            position = self._waiting[0]
            if position == _CUT:
                if part:
                    break
                self._waiting.popleft()
                continue
            size += len(self._encoded[position])
            if (size > self._max_bytes and part) or self._is_near_flying(position):
                break
            part.append(self._waiting.popleft())
        return part

    def _is_near_flying(self, position: int) -> bool:
        if not self._touched:
            return False
        path = self._operations[position].path
        touched = self._touched
        return path in touched or _parent(path) in touched or path in self._parents

    def _remember(self, part: Sequence[int]) -> None:
        if not self._may_touch:
            return
        for position in part:
            path = self._operations[position].path
            _increment(self._touched, path)
            _increment(self._parents, _parent(path))

    def _forget(self, part: Sequence[int]) -> None:
        if not self._may_touch:
            return
        for position in part:
            path = self._operations[position].path
            _decrement(self._touched, path)
            _decrement(self._parents, _parent(path))

    def _failed(self, part: Sequence[int], at: int, code: ZkCode) -> None:
        self._limit = max(1, self._limit // SHRINK)
        before, culprit, after = part[:at], part[at], part[at + 1 :]
        if self._is_near_any(culprit, before):
            self._ask_again((*before, _CUT, culprit, *after))
            return
        self._verdicts[culprit] = code
        self._ask_again((*before, *after))

    def _refused(self, part: Sequence[int], code: ZkCode) -> None:
        """Handles an error of the whole multi, which names no operation."""
        if len(part) == 1:
            self._verdicts[part[0]] = code
            return
        self._limit = max(1, min(self._limit, len(part)) // SHRINK)
        self._ask_again(part)

    def _ask_again(self, part: Sequence[int]) -> None:
        self._waiting.extendleft(reversed(part))

    def _is_near_any(self, position: int, others: Sequence[int]) -> bool:
        path = self._operations[position].path
        parent = _parent(path)
        return any(
            other in (path, parent) or _parent(other) == path
            for other in (self._operations[each].path for each in others)
        )


class TransactionPlan:
    """The plan of a :class:`ZkTransaction`: one multi, all or nothing.

    A transaction whose reply was lost is sent again.  If the first sending was committed, the
    second one fails (NODE_EXISTS, BAD_VERSION) with ``is_repeated``; the caller must read the
    znodes to recognise its own success.
    """

    def __init__(
        self, transaction: ZkTransaction, encoder: Encoder, *, max_request_bytes: int
    ) -> None:
        self._operations = transaction.operations
        self._relative = encoder.relative
        encoded = [encoder.encode(operation) for operation in transaction.operations]
        self._asks: deque[Ask] = deque()
        self._is_repeated = False
        self.result: Committed | RolledBack | None = None
        if sum(map(len, encoded)) > max_request_bytes:
            largest = max(range(len(encoded)), key=lambda position: len(encoded[position]))
            self.result = RolledBack(ZkCode.MARSHALLING_ERROR, largest)
        elif not encoded:
            self.result = Committed(())
        else:
            self._asks.append(Ask(OpCode.MULTI, encode_multi(encoded)))

    def next(self) -> Ask | None:
        """The multi on the first call; afterwards None."""
        return self._asks.popleft() if self._asks else None

    def answered(self, _ask: Ask, reply: Reply) -> None:
        """Stores the result."""
        if reply.code is not ZkCode.OK:
            self.result = RolledBack(reply.code, 0, self._is_repeated)
            return
        match decode_multi(reply, self._operations, self._relative):
            case MultiFailed(position, code):
                self.result = RolledBack(code, position, self._is_repeated)
            case results:
                self.result = Committed(tuple(results))

    def lost(self, ask: Ask) -> None:
        """Queues the multi again, because its reply was lost."""
        self._is_repeated = True
        self._asks.append(ask)


def _fence_failed(fence: Write | Check, code: ZkCode) -> Exception:
    if code is ZkCode.BAD_VERSION and isinstance(fence, Check):
        return ControllerMoved(
            f"Controller epoch zkVersion check fails. Expected zkVersion = {fence.zk_version}"
        )
    return ZooKeeperRefused(fence.path, code.name)


def _are_apart(operations: Sequence[Write]) -> bool:
    """Whether the operations are SetData of different znodes."""
    paths = {operation.path for operation in operations if type(operation) is SetData}
    return len(paths) == len(operations)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _increment(counts: dict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1


def _decrement(counts: dict[str, int], key: str) -> None:
    left = counts.pop(key) - 1
    if left:
        counts[key] = left
