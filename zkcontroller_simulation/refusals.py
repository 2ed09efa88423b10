"""Makes ZooKeeper refuse any part of a controller's question, with any possible error code.

A refused part is not done and leaves no watch; the other parts of the question are done.  NO_NODE,
NODE_EXISTS, BAD_VERSION and NOT_EMPTY are not among the codes: they would be false statements about
the znodes, which ZooKeeper never makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import (
    CheckExists,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    UnfencedBatch,
    ZkCode,
    ZkRequest,
    ZkTransaction,
)
from zkcontroller.zookeeper.znodes import ControllerEpochZnode

READ_REFUSALS: Final = (
    ZkCode.SYSTEM_ERROR,
    ZkCode.RUNTIME_INCONSISTENCY,
    ZkCode.DATA_INCONSISTENCY,
    ZkCode.MARSHALLING_ERROR,
    ZkCode.UNIMPLEMENTED,
    ZkCode.OPERATION_TIMEOUT,
    ZkCode.BAD_ARGUMENTS,
    ZkCode.API_ERROR,
    ZkCode.NO_AUTH,
    ZkCode.SESSION_MOVED,
    ZkCode.THROTTLED_OP,
)
WRITE_REFUSALS: Final = (
    *READ_REFUSALS,
    ZkCode.INVALID_ACL,
    ZkCode.NOT_READ_ONLY,
    ZkCode.QUOTA_EXCEEDED,
)


Refusal: TypeAlias = Callable[[str, Sequence[ZkCode]], ZkCode | None]
"""Maps a path and possible codes to the code with which ZooKeeper refuses; None: it does not."""


def perform_in_part(
    request: ZkRequest, refusal: Refusal, perform: Callable[[ZkRequest], Any]
) -> Any:
    """Performs ``request`` without the parts that ``refusal`` refuses; returns the whole result."""
    codes = READ_REFUSALS if _is_read(request) else WRITE_REFUSALS
    items = _items(request)
    if isinstance(request, FencedBatch) and (code := refusal(ControllerEpochZnode.PATH, codes)):
        raise ZooKeeperRefused(ControllerEpochZnode.PATH, code.name)
    verdicts = [refusal(each if isinstance(each, str) else each.path, codes) for each in items]
    if isinstance(request, ZkTransaction):
        refused = [(at, code) for at, code in enumerate(verdicts) if code is not None]
        return RolledBack(refused[0][1], refused[0][0]) if refused else perform(request)
    allowed = [item for item, code in zip(items, verdicts, strict=True) if code is None]
    done = iter(perform(_of(request, allowed)))
    return [next(done) if code is None else code for code in verdicts]


def _is_read(request: ZkRequest) -> bool:
    return isinstance(request, ReadZnodes | ListChildren | CheckExists)


def _items(request: ZkRequest) -> Sequence[Any]:
    match request:
        case ReadZnodes(paths) | ListChildren(paths) | CheckExists(paths):
            return paths
        case FencedBatch(operations) | UnfencedBatch(operations) | ZkTransaction(operations):
            return operations


def _of(request: ZkRequest, items: Sequence[Any]) -> ZkRequest:
    """The request, reduced to some of its paths or operations."""
    match request:
        case ReadZnodes(_, watch):
            return ReadZnodes(items, watch)
        case ListChildren(_, watch):
            return ListChildren(items, watch)
        case CheckExists(_, watch):
            return CheckExists(items, watch)
        case FencedBatch(_, zk_version):
            return FencedBatch(items, zk_version)
        case UnfencedBatch():
            return UnfencedBatch(items)
        case ZkTransaction():
            return ZkTransaction(items)
