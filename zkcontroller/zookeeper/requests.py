"""Requests to ZooKeeper and their results, as values.

Requests are *bulk* by nature: a controller reads 100,000 znodes or writes 10,000, never one.  Each
request has one result per path or operation, in order.  Refusals that a caller must expect
(no such node, bad version) are :class:`ZkCode` members in the result list.  These travel as
exceptions instead, because no step can go on after them:

* :class:`kafka_common.errors.ControllerMoved`: the fence of a :class:`FencedBatch` failed;
* :class:`kafka_common.errors.SessionExpired`, ``AuthenticationFailed``: the session is over.

``session.py`` performs these against a real ZooKeeper, the simulator against one in memory; the
contract tests hold both to the same behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

ANY_VERSION: Final = -1


class ZkCode(IntEnum):
    """ZooKeeper's error codes (``KeeperException.Code``)."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class Stat(NamedTuple):
    """A znode's metadata, fields in ZooKeeper's order."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    zk_version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Znode(NamedTuple):
    """Data of a znode (null data reads as ``b""``) and the part of its stat that decisions need."""

    data: bytes
    zk_version: int
    czxid: int
    ephemeral_owner: int


class Written(NamedTuple):
    """The result of one successful write.

    ``zk_version`` is the node's new dataVersion (0 after a create); ``czxid`` is -1 for a create,
    whose reply carries none; ``path`` is the created path (with its suffix if sequential) or the
    path written.
    """

    path: str
    zk_version: int
    czxid: int


class Create(NamedTuple):
    """Create a znode; ``data`` None writes null data, as Kafka does for parents."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace a znode's data if it is at ``zk_version`` (-1: any version)."""

    path: str
    data: bytes | None
    zk_version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a znode if it is at ``zk_version`` (-1: any version)."""

    path: str
    zk_version: int = ANY_VERSION


class Check(NamedTuple):
    """Part of a :class:`ZkTransaction`: fails it unless the znode is at ``zk_version``."""

    path: str
    zk_version: int


Write: TypeAlias = Create | SetData | Delete
WriteResult: TypeAlias = Written | ZkCode


class ReadZnodes(Struct, frozen=True):
    """Data of every path.  Result: ``list[Znode | ZkCode]``.

    ``watch`` leaves a one-shot data watch on each path that exists.
    """

    paths: Sequence[str]
    watch: bool = False


class ListChildren(Struct, frozen=True):
    """Names of the children of every path.  Result: ``list[list[str] | ZkCode]``."""

    paths: Sequence[str]
    watch: bool = False


class CheckExists(Struct, frozen=True):
    """Stat of every path.  Result: ``list[Stat | ZkCode]``.

    ``watch`` leaves a one-shot watch on each path, *also where nothing exists*: there it fires on
    creation.
    """

    paths: Sequence[str]
    watch: bool = False


class FencedBatch(Struct, frozen=True):
    """Independent writes, each refused unless ``/controller_epoch`` is at that version.

    Result: ``list[Written | ZkCode]``, one per operation; if one fails, the others are still done.
    Raises ControllerMoved if the fence fails; some writes may have been done before that.
    A write whose reply was lost is sent again.  If the first sending was done, the result is
    BAD_VERSION or NODE_EXISTS, as in Kafka (``KafkaZkClient.retryRequestsUntilConnected``).
    """

    operations: Sequence[Write]
    controller_epoch_zk_version: int


class UnfencedBatch(Struct, frozen=True):
    """Independent writes without a fence, for brokers and tools.

    Result: ``list[Written | ZkCode]``.
    """

    operations: Sequence[Write]


class ZkTransaction(Struct, frozen=True):
    """All operations or none.  Result: :class:`Committed` or :class:`RolledBack`."""

    operations: Sequence[Write | Check]


class Committed(NamedTuple):
    """One :class:`Written` per operation; a Check yields its path, its version and czxid -1."""

    results: tuple[Written, ...]


class RolledBack(NamedTuple):
    """The transaction wrote nothing, at least not in the sending that got this reply.

    ``code`` is the first operation's error that is not RUNTIME_INCONSISTENCY (which only says
    "another one failed"); ``failed_index`` is that operation's position.  ``is_repeated``: the
    reply to an earlier sending was lost, and that sending may have been committed.
    """

    code: ZkCode
    failed_index: int
    is_repeated: bool = False


ZkRequest: TypeAlias = (
    ReadZnodes | ListChildren | CheckExists | FencedBatch | UnfencedBatch | ZkTransaction
)


class WatchKind(IntEnum):
    """What a fired watch reports (``Watcher.Event.EventType``)."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


class WatchFired(NamedTuple):
    """A one-shot watch fired; ``path`` is without the chroot."""

    kind: WatchKind
    path: str
