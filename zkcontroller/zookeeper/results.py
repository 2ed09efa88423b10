"""Reads a result that may be an error code: only NO_NODE means that the znode is missing.

Any other code says nothing about the znode.  A caller that took it for a missing znode would empty
a cache, a list of topics or a set of ACLs.
"""

from __future__ import annotations

from typing import TypeVar

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import ZkCode

_T = TypeVar("_T")


def required(path: str, result: _T | ZkCode) -> _T:
    """The result; raises ZooKeeperRefused for any error code."""
    if isinstance(result, ZkCode):
        raise ZooKeeperRefused(path, result.name)
    return result


def optional(path: str, result: _T | ZkCode) -> _T | None:
    """The result, or None for NO_NODE; raises ZooKeeperRefused for any other error code."""
    return None if result is ZkCode.NO_NODE else required(path, result)
