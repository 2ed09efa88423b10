"""Bulk reads: MultiRead with up to a thousand paths a request, watches armed after the read.

MultiRead (opcode 22, ZooKeeper 3.6 and newer) reads 100,000 znodes with a hundred replies, but the
server ignores its watch flags.  So a bulk read with watches sends, after each reply, a
``setWatches`` whose ``relativeZxid`` is the zxid of that reply.  The watch of a znode that changed
after the reply fires at once, so no change is missed.

The size of a reply is not known in advance.  The first request is small; later ones have as many
paths as should fit into ``max_reply_bytes``, judged by the most bytes per path in earlier replies.

A server older than 3.6 replies UNIMPLEMENTED to the first MultiRead and closes the connection.  The
session then reads path by path, as it does for a few paths.  The four-letter word ``srvr`` would
name the version before, but a server may have it disabled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.jute import (
    MULTI_READ_OPERATION_BYTES,
    OpCode,
    Reply,
    decode_child_lists,
    decode_children,
    decode_stat,
    decode_stats,
    decode_znode,
    decode_znodes,
    encode_multi_read,
    encode_read,
    encode_set_watches,
)
from zkcontroller.zookeeper.plans import MAX_OPERATIONS, Ask
from zkcontroller.zookeeper.requests import (
    CheckExists,
    ListChildren,
    ReadZnodes,
    Stat,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.watch_table import WatchTable, WatchType

ReadResult: TypeAlias = Znode | Stat | list[str] | ZkCode

FEW_PATHS: Final = 8  # up to here plain reads cost less than a MultiRead and a setWatches
PROBE_PATHS: Final = 50
SET_WATCHES_BYTES: Final = 128 * 1024
"""The most bytes of paths in a setWatches on a new connection, as in ZooKeeper's client."""
_LENGTH_BYTES: Final = 4

_SINGLE: Final = {
    ReadZnodes: OpCode.GET_DATA,
    ListChildren: OpCode.GET_CHILDREN,
    CheckExists: OpCode.EXISTS,
}


class ReadPlan:
    """The plan of one bulk read; ``results`` is complete when the plan is finished.

    ``absolute`` puts the chroot before a path.  ``multi_read``: whether the server may know
    MultiRead; it becomes False when the server replies UNIMPLEMENTED.
    """

    def __init__(
        self,
        request: ReadZnodes | ListChildren | CheckExists,
        absolute: Callable[[str], str],
        watches: WatchTable,
        *,
        multi_read: bool,
        max_request_bytes: int,
        max_reply_bytes: int,
    ) -> None:
        self._opcode = _SINGLE[type(request)]
        self._paths = [absolute(path) for path in request.paths]
        self._watch = request.watch
        self._watches = watches
        self.multi_read = multi_read
        self._max_request_bytes = max_request_bytes
        self._max_reply_bytes = max_reply_bytes
        self._ready: deque[Ask] = deque()
        self._next_position = 0
        self._paths_per_request = PROBE_PATHS
        self._reply_bytes_per_path = 0
        self._probe_in_flight = False
        self._singly: deque[int] = deque()
        self._results: list[ReadResult | None] = [None] * len(self._paths)
        if len(self._paths) <= FEW_PATHS or not multi_read:
            self._read_singly(range(len(self._paths)))
            self._next_position = len(self._paths)

    @property
    def results(self) -> list[ReadResult]:
        """One result per path, in order."""
        assert None not in self._results
        return [result for result in self._results if result is not None]

    def next(self) -> Ask | None:
        """The next request."""
        if self._ready:
            return self._ready.popleft()
        if self._singly:
            return self._single(self._singly.popleft())
        if self._probe_in_flight or self._next_position == len(self._paths):
            return None
        return self._multi()

    def answered(self, ask: Ask, reply: Reply) -> None:
        """Handles a reply."""
        match ask.opcode:
            case OpCode.MULTI_READ:
                self._probe_in_flight = False
                self._answered_many(ask, reply)
            case OpCode.SET_WATCHES:
                if reply.code is not ZkCode.OK:
                    raise ZooKeeperRefused(self._paths[ask.part[0]], reply.code.name)
            case _:
                self._results[ask.part[0]] = (
                    self._decode_one(reply) if reply.code is ZkCode.OK else reply.code
                )

    def lost(self, ask: Ask) -> None:
        """Repeats the request: reads and setWatches may be sent again."""
        self._ready.append(ask)

    def _read_singly(self, part: Sequence[int]) -> None:
        self._singly.extend(part)

    def _single(self, position: int) -> Ask:
        path = self._paths[position]
        kind = WatchType.CHILDREN if self._opcode is OpCode.GET_CHILDREN else WatchType.DATA
        return Ask(
            self._opcode,
            encode_read(path, watch=self._watch),
            (position,),
            (kind, path) if self._watch else None,
        )

    def _multi(self) -> Ask:
        start = self._next_position
        end = min(start + self._paths_per_request, len(self._paths))
        raw = [path.encode() for path in self._paths[start:end]]
        size = 0
        for count, each in enumerate(raw):
            size += MULTI_READ_OPERATION_BYTES + len(each)
            if size > self._max_request_bytes and count:
                end = start + count
                break
        self._next_position = end
        self._probe_in_flight = self._reply_bytes_per_path == 0
        children = self._opcode is OpCode.GET_CHILDREN
        opcode = OpCode.GET_CHILDREN if children else OpCode.GET_DATA
        body = encode_multi_read(opcode, raw[: end - start])
        return Ask(OpCode.MULTI_READ, body, range(start, end))

    def _answered_many(self, ask: Ask, reply: Reply) -> None:
        part = ask.part
        if reply.code is ZkCode.UNIMPLEMENTED:
            self.multi_read = False
            self._read_singly(part)
            self._read_singly(range(self._next_position, len(self._paths)))
            self._next_position = len(self._paths)
            return
        if reply.code is not ZkCode.OK:
            self._results[part[0] : part[-1] + 1] = [reply.code] * len(part)
            return
        results = self._decode_many(reply, len(part))
        self._results[part[0] : part[-1] + 1] = results
        if self._opcode is OpCode.EXISTS:
            # This MultiRead reads data, which needs a permission, but exists needs none: ask again
            # with exists for the paths with NO_AUTH.
            self._read_singly([at for at in part if self._results[at] is ZkCode.NO_AUTH])
        if self._watch:
            self._arm(part, reply.zxid)
        per_path = -(-len(reply.frame) // len(part))
        self._reply_bytes_per_path = max(self._reply_bytes_per_path, per_path)
        fitting = self._max_reply_bytes // self._reply_bytes_per_path
        self._paths_per_request = max(1, min(MAX_OPERATIONS, fitting))

    def _arm(self, part: Sequence[int], zxid: int) -> None:
        there = [self._paths[at] for at in part if not isinstance(self._results[at], ZkCode)]
        data: list[str] = []
        exists: list[str] = []
        children: list[str] = []
        if self._opcode is OpCode.GET_CHILDREN:
            children = self._watches.arm(WatchType.CHILDREN, there, zxid)
        else:
            data = self._watches.arm(WatchType.DATA, there, zxid)
        if self._opcode is OpCode.EXISTS:
            missing = [self._paths[at] for at in part if self._results[at] is ZkCode.NO_NODE]
            exists = self._watches.arm(WatchType.EXISTS, missing, zxid)
        if data or exists or children:
            body = encode_set_watches(zxid, data, exists, children)
            self._ready.append(Ask(OpCode.SET_WATCHES, body, part))

    def _decode_one(self, reply: Reply) -> ReadResult:
        match self._opcode:
            case OpCode.GET_DATA:
                return decode_znode(reply.frame, reply.offset)
            case OpCode.GET_CHILDREN:
                return decode_children(reply.frame, reply.offset)
            case _:
                return decode_stat(reply.frame, reply.offset)

    def _decode_many(self, reply: Reply, count: int) -> Sequence[ReadResult]:
        match self._opcode:
            case OpCode.GET_DATA:
                return decode_znodes(reply, count)
            case OpCode.GET_CHILDREN:
                return decode_child_lists(reply, count)
            case _:
                return decode_stats(reply, count)


def requests_to_arm_again(table: WatchTable, seen_zxid: int) -> list[Ask]:
    """The setWatches requests for a resumed session whose client has seen ``seen_zxid``."""
    asks: list[Ask] = []
    for kind in WatchType:
        paths = table.entries(kind)
        for part in _parts(paths):
            body = encode_set_watches(
                seen_zxid,
                part if kind is WatchType.DATA else (),
                part if kind is WatchType.EXISTS else (),
                part if kind is WatchType.CHILDREN else (),
            )
            asks.append(Ask(OpCode.SET_WATCHES, body))
    return asks


def _parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths in parts that fit into one request."""
    start = size = 0
    for end, path in enumerate(paths):
        size += len(path.encode()) + _LENGTH_BYTES
        if end > start and (size > SET_WATCHES_BYTES or end - start == MAX_OPERATIONS):
            yield paths[start:end]
            start, size = end, len(path.encode()) + _LENGTH_BYTES
    if start < len(paths):
        yield paths[start:]
