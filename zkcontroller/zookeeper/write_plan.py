"""Bulk writes: packs independent operations into multis, and splits a multi that failed.

The caller asked for independent writes; a multi is all or nothing.  When one fails, ZooKeeper names
the first operation that did, as judged after those before it.  That is this operation's verdict,
and the others are asked again without it, in smaller multis for as long as failures go on and in
larger ones afterwards: a batch in which everything fails costs what single requests cost.

Independent still means *in order*: a parent is created before its child, a child deleted before its
parent.  Multis under way together must therefore not touch each other's paths, their parents or
their children, since one of them may fail and be asked again after the other.  And if the operation
that sank a multi stands close to an earlier one of the same multi, that verdict was given on a
state that never came to be: the earlier ones go first, then it is asked again.

A fenced batch carries the check of ``/controller_epoch`` at the head of every multi.  A multi whose
reply was lost is asked again as it was; if it had landed its operations read BAD_VERSION,
NODE_EXISTS or NO_NODE then, each its own.

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
# Between two operations that must not share a multi.
_CUT: Final = -1


class Encoder:
    """Encodes operations with this session's chroot and access control lists.

    ``absolute`` and ``relative`` put the chroot before a path and take it away; ``acl`` is the
    encoded list for a new znode at a path.
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

    Raises (from :meth:`answered`) ControllerMoved when the fence fails, ZooKeeperRefused when it
    cannot be read.  An operation larger than ``max_request_bytes`` is never sent, for the server
    would drop the connection: its verdict is MARSHALLING_ERROR.
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
        # Overwriting znodes, each once, has no effect on others; and a controller does little else.
        self._may_touch = not _are_apart(operations)
        # How many operations under way touch a path, and how many a child of it.
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
        """Takes the results, or splits the failed multi."""
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
        """Re-queues a multi lost with its connection, before anything that follows it."""
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
        """The multi got an error as a whole, which names no operation."""
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

    A transaction whose reply was lost is sent again, so one that had landed answers what its own
    doing makes of it (NODE_EXISTS, BAD_VERSION) with ``is_repeated``; the caller recognises its
    success by reading.
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
        """The multi, once."""
        return self._asks.popleft() if self._asks else None

    def answered(self, _ask: Ask, reply: Reply) -> None:
        """Takes the outcome."""
        if reply.code is not ZkCode.OK:
            self.result = RolledBack(reply.code, 0, self._is_repeated)
            return
        match decode_multi(reply, self._operations, self._relative):
            case MultiFailed(position, code):
                self.result = RolledBack(code, position, self._is_repeated)
            case results:
                self.result = Committed(tuple(results))

    def lost(self, ask: Ask) -> None:
        """Re-queues a request lost with its connection."""
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
