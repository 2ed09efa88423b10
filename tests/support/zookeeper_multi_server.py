"""A link to the simulated ZooKeeper that speaks multi, and loses what a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import Final

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.plans import Ask, ConnectionLostError
from zkcontroller.zookeeper.requests import Check, Create, SetData, Write, Written, ZkCode
from zkcontroller_simulation.zookeeper_server import RefusedError, SimulatedZooKeeper

LAST: Final = pack("!ibi", -1, True, -1)


class Answer:
    """A request that has been answered, or never will be."""

    def __init__(self, reply: Reply | None) -> None:
        self._reply = reply

    def wait(self) -> Reply:
        if self._reply is None:
            raise ConnectionLostError("lost")
        return self._reply


class MultiServer:
    """Answers the multis of a plan over ``operations``.

    ``fate`` is asked for every multi: "answered", "lost" before or "unanswered" after it was done.
    """

    def __init__(
        self,
        operations: Sequence[Write],
        fence: Check | None = None,
        fate: Callable[[], str] = lambda: "answered",
    ) -> None:
        self.zookeeper = SimulatedZooKeeper()
        self.session_id = self.zookeeper.open_session(1000, lambda _: None)
        self.largest_request_bytes = 0
        self.asked: list[Ask] = []
        self._operations = operations
        self._fence = fence
        self._fate = fate

    def ask(self, ask: Ask) -> Answer:
        assert ask.opcode is OpCode.MULTI
        self.asked.append(ask)
        self.largest_request_bytes = max(self.largest_request_bytes, len(ask.body))
        operations: list[Write | Check] = [self._operations[position] for position in ask.part]
        if self._fence is not None:
            operations.insert(0, self._fence)
        fate = self._fate()
        if fate == "lost":
            return Answer(None)
        body = self._do(operations)
        return Answer(None if fate == "unanswered" else Reply(1, ZkCode.OK, body, 0))

    def _do(self, operations: Sequence[Write | Check]) -> bytes:
        try:
            written = self.zookeeper.transact(self.session_id, operations)
        except RefusedError as refusal:
            codes = [ZkCode.OK] * refusal.index + [refusal.code]
            codes += [ZkCode.RUNTIME_INCONSISTENCY] * (len(operations) - len(codes))
            return b"".join(pack("!ibii", -1, False, code, code) for code in codes) + LAST
        results = (_result(*pair) for pair in zip(operations, written, strict=True))
        return b"".join(results) + LAST


def _result(operation: Write | Check, written: Written) -> bytes:
    match operation:
        case Create():
            path = written.path.encode()
            return pack("!ibii", OpCode.CREATE, False, 0, len(path)) + path
        case SetData():
            stat = pack("!q24xi8xq16x", written.czxid, written.zk_version, 0)
            return pack("!ibi", OpCode.SET_DATA, False, 0) + stat
        case Check():
            return pack("!ibi", OpCode.CHECK, False, 0)
        case _:
            return pack("!ibi", OpCode.DELETE, False, 0)
