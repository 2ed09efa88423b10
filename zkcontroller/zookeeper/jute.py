"""ZooKeeper's wire format (jute): encodes and decodes bulk requests.

Only bodies are encoded and decoded here.  The connection handles the length, xid and opcode before
each request and the header before each reply.  The decoders read up to a thousand results per call
with a few ``struct`` calls per result, because a failover reads 100,000 znodes before it can decide
anything.

Source: ZooKeeper 3.9 ``zookeeper.jute``, ``MultiOperationRecord``, ``MultiResponse``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from zkcontroller.zookeeper.requests import (
    Check,
    Create,
    SetData,
    Stat,
    Write,
    Written,
    ZkCode,
    Znode,
)


class OpCode(IntEnum):
    """Request types (``ZooDefs.OpCode``)."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_CHILDREN = 8
    CHECK = 13
    MULTI = 14
    MULTI_READ = 22
    SET_WATCHES = 101


class Reply(NamedTuple):
    """A reply: zxid and error code from its header, and its body from ``frame[offset]`` on."""

    zxid: int
    code: ZkCode
    frame: bytes
    offset: int


class MultiFailed(NamedTuple):
    """A multi that wrote nothing: the first operation that failed, and its error."""

    position: int
    code: ZkCode


ERROR_RESULT: Final = -1
NO_VERSION: Final = -1

_INT: Final = Struct("!i")
_LONG: Final = Struct("!q")
# The header of each operation and of each result in a multi: type, done, error code.
_MULTI_HEADER: Final = Struct("!ibi")
# The header of a result, and the first int of its body: a length, a count or an error code.
_RESULT_HEAD: Final = Struct("!ibii")
_STAT: Final = Struct("!qqqqiiiqiiq")
# The czxid, version and ephemeralOwner in the 68 bytes of a stat.
_STAT_PARTS: Final = Struct("!q24xi8xq16x")
# The beginning of a notification: event type, keeper state, length of the path.
_WATCH: Final = Struct("!iii")
_LAST_HEADER: Final = _MULTI_HEADER.pack(-1, True, -1)
_NULL: Final = _INT.pack(-1)
_READ_HEADERS: Final = {
    opcode: _MULTI_HEADER.pack(opcode, False, -1)
    for opcode in (OpCode.GET_DATA, OpCode.GET_CHILDREN)
}
_CREATE_HEADER: Final = _MULTI_HEADER.pack(OpCode.CREATE, False, -1)
_DELETE_HEADER: Final = _MULTI_HEADER.pack(OpCode.DELETE, False, -1)
_SET_DATA_HEADER: Final = _MULTI_HEADER.pack(OpCode.SET_DATA, False, -1)
_CHECK_HEADER: Final = _MULTI_HEADER.pack(OpCode.CHECK, False, -1)
_SET_DATA: Final = int(OpCode.SET_DATA)
_CODES: Final = {code.value: code for code in ZkCode}

# The bytes of an operation without its path: header, length of the path and watch flag.
MULTI_READ_OPERATION_BYTES: Final = 14


def code_of(value: int) -> ZkCode:
    """The error code with that number; SYSTEM_ERROR for an unknown number."""
    return _CODES.get(value, ZkCode.SYSTEM_ERROR)


# Requests


def encode_read(path: str, *, watch: bool) -> bytes:
    """The body of a getData, getChildren or exists request."""
    return _string(path) + (b"\1" if watch else b"\0")


def encode_multi_read(opcode: OpCode, paths: Sequence[bytes]) -> bytes:
    """The body of a MultiRead: reads every path with ``opcode``; it cannot set watches."""
    header = _READ_HEADERS[opcode]
    pack = _INT.pack
    # One operation is header, length, path, no watch.  The join puts "no watch" and the next header
    # between two paths.
    operations = [pack(len(path)) + path for path in paths]
    body = (b"\0" + header).join(operations)
    return header + body + b"\0" + _LAST_HEADER if operations else _LAST_HEADER


def encode_set_watches(
    relative_zxid: int, data: Sequence[str], exists: Sequence[str], children: Sequence[str]
) -> bytes:
    """The body of setWatches; a watch fires at once if its path changed after ``relative_zxid``."""
    return _LONG.pack(relative_zxid) + _strings(data) + _strings(exists) + _strings(children)


def encode_write(operation: Write | Check, path: str, acl: bytes) -> bytes:
    """One operation of a multi, its header included.

    ``path`` is the operation's path below the server's root (chroot included); ``acl`` comes from
    :mod:`zkcontroller.zookeeper.acls` and only a create carries it.
    """
    name = _string(path)
    # A failed broker causes 30,000 of these, and a match takes almost twice as long.
    if type(operation) is SetData:
        _, data, zk_version = operation
        return b"".join((_SET_DATA_HEADER, name, _buffer(data), _INT.pack(zk_version)))
    match operation:
        case Create(_, data, ephemeral, sequential):
            flags = _INT.pack(ephemeral + 2 * sequential)
            return b"".join((_CREATE_HEADER, name, _buffer(data), acl, flags))
        case Check(_, zk_version):
            return b"".join((_CHECK_HEADER, name, _INT.pack(zk_version)))
        case _:
            return b"".join((_DELETE_HEADER, name, _INT.pack(operation.zk_version)))


def encode_multi(encoded: Sequence[bytes]) -> bytes:
    """The body of a multi of operations that :func:`encode_write` made."""
    return b"".join((*encoded, _LAST_HEADER))


# Replies


def decode_znode(frame: bytes, offset: int) -> Znode:
    """The reply to getData."""
    (length,) = _INT.unpack_from(frame, offset)
    end = offset + 4 + max(length, 0)
    czxid, zk_version, owner = _STAT_PARTS.unpack_from(frame, end)
    return Znode(frame[offset + 4 : end], zk_version, czxid, owner)


def decode_stat(frame: bytes, offset: int) -> Stat:
    """The reply to exists."""
    return Stat._make(_STAT.unpack_from(frame, offset))


def decode_children(frame: bytes, offset: int) -> list[str]:
    """The reply to getChildren."""
    (count,) = _INT.unpack_from(frame, offset)
    return _read_strings(frame, offset + 4, count)[0]


def decode_znodes(reply: Reply, count: int) -> list[Znode | ZkCode]:
    """The reply to a MultiRead of getData: one result per path."""
    frame, offset = reply.frame, reply.offset
    head, stat = _RESULT_HEAD.unpack_from, _STAT_PARTS.unpack_from
    new = tuple.__new__  # a third of the time of _make
    results: list[Znode | ZkCode] = []
    append = results.append
    for _ in range(count):
        kind, _done, _code, length = head(frame, offset)
        offset += 13
        if kind == ERROR_RESULT:
            append(code_of(length))
            continue
        end = offset + length if length > 0 else offset
        czxid, zk_version, owner = stat(frame, end)
        append(new(Znode, (frame[offset:end], zk_version, czxid, owner)))
        offset = end + 68
    return results


def decode_stats(reply: Reply, count: int) -> list[Stat | ZkCode]:
    """The stats in the reply to a MultiRead of getData."""
    frame, offset = reply.frame, reply.offset
    results: list[Stat | ZkCode] = []
    for _ in range(count):
        kind, _done, _code, length = _RESULT_HEAD.unpack_from(frame, offset)
        offset += 13
        if kind == ERROR_RESULT:
            results.append(code_of(length))
            continue
        offset += max(length, 0)
        results.append(decode_stat(frame, offset))
        offset += 68
    return results


def decode_child_lists(reply: Reply, count: int) -> list[list[str] | ZkCode]:
    """The reply to a MultiRead of getChildren: one result per path."""
    frame, offset = reply.frame, reply.offset
    results: list[list[str] | ZkCode] = []
    for _ in range(count):
        kind, _done, _code, length = _RESULT_HEAD.unpack_from(frame, offset)
        offset += 13
        if kind == ERROR_RESULT:
            results.append(code_of(length))
            continue
        names, offset = _read_strings(frame, offset, length)
        results.append(names)
    return results


def decode_multi(
    reply: Reply, operations: Sequence[Write | Check], relative: Callable[[str], str]
) -> list[Written] | MultiFailed:
    """The reply to a multi: one result per operation, or the operation that failed.

    ``relative`` removes the chroot from the created path in a reply.  If a multi fails, the results
    before the failed operation are OK, and those after it RUNTIME_INCONSISTENCY.
    """
    frame, offset = reply.frame, reply.offset
    new = tuple.__new__
    header, stat = _MULTI_HEADER.unpack_from, _STAT_PARTS.unpack_from
    results: list[Written] = []
    failed: MultiFailed | None = None
    for position, operation in enumerate(operations):
        kind, _done, _code = header(frame, offset)
        offset += 9
        if kind == _SET_DATA:
            czxid, zk_version, _owner = stat(frame, offset)
            offset += 68
            results.append(new(Written, (operation.path, zk_version, czxid)))
        elif kind == ERROR_RESULT:
            code = code_of(*_INT.unpack_from(frame, offset))
            offset += 4
            if failed is None and code not in (ZkCode.OK, ZkCode.RUNTIME_INCONSISTENCY):
                failed = MultiFailed(position, code)
        elif kind == OpCode.CREATE:
            (length,) = _INT.unpack_from(frame, offset)
            path = frame[offset + 4 : offset + 4 + length].decode()
            offset += 4 + length
            results.append(Written(relative(path), 0, -1))
        else:
            at = operation.zk_version if isinstance(operation, Check) else NO_VERSION
            results.append(Written(operation.path, at, -1))
    if failed is not None:
        return failed
    if len(results) < len(operations):
        return MultiFailed(0, ZkCode.RUNTIME_INCONSISTENCY)
    return results


def decode_watch(frame: bytes, offset: int) -> tuple[int, str]:
    """A notification: event type and path (chroot included)."""
    kind, _state, length = _WATCH.unpack_from(frame, offset)
    return kind, frame[offset + 12 : offset + 12 + length].decode()


def _string(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw


def _buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT.pack(len(data)) + data


def _strings(texts: Sequence[str]) -> bytes:
    return _INT.pack(len(texts)) + b"".join(map(_string, texts))


def _read_strings(frame: bytes, offset: int, count: int) -> tuple[list[str], int]:
    unpack = _INT.unpack_from
    texts: list[str] = []
    for _ in range(count):
        (length,) = unpack(frame, offset)
        offset += 4
        texts.append(frame[offset : offset + length].decode())
        offset += length
    return texts, offset
