"""Describes questions in plain words, for the history of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkcontroller.core.effects import Pause, Question, RegisterBrokerZnode
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Check,
    CheckExists,
    Create,
    Delete,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    Write,
    ZkTransaction,
)

SHOWN: Final = 4
"""The number of paths or operations that are shown; the rest is counted."""


def in_words(question: Question) -> str:
    """What a process does with this question, in plain words."""
    match question:
        case RegisterBrokerZnode():
            return "registers again"
        case Pause(delay_ms):
            return f"pauses for {delay_ms} ms"
        case ReadZnodes(paths, watch):
            return f"reads{_watching(watch)} {_some(paths)}"
        case ListChildren(paths, watch):
            return f"lists{_watching(watch)} {_some(paths)}"
        case CheckExists(paths, watch):
            return f"looks{_watching(watch)} for {_some(paths)}"
        case FencedBatch(operations, zk_version):
            return f"writes, fenced by version {zk_version}: {_operations(operations)}"
        case UnfencedBatch(operations):
            return f"writes: {_operations(operations)}"
        case ZkTransaction(operations):
            return f"writes all or nothing: {_operations(operations)}"


def _watching(watch: bool) -> str:
    return " and watches" if watch else ""


def _operations(operations: Sequence[Write | Check]) -> str:
    return _some([_operation(operation) for operation in operations])


def _operation(operation: Write | Check) -> str:
    match operation:
        case Create(path, data, ephemeral):
            return f"create{' ephemeral' if ephemeral else ''} {path}{_data(data)}"
        case SetData(path, data, zk_version):
            return f"set {path}{_version(zk_version)}{_data(data)}"
        case Delete(path, zk_version):
            return f"delete {path}{_version(zk_version)}"
        case Check(path, zk_version):
            return f"check {path}{_version(zk_version)}"


def _version(zk_version: int) -> str:
    return "" if zk_version == ANY_VERSION else f" at {zk_version}"


def _data(data: bytes | None) -> str:
    return f" = {data.decode(errors='replace')}" if data else ""


def _some(texts: Sequence[str]) -> str:
    rest = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
