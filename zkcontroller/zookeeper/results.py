"""What a caller makes of a result that may be an error code: only NO_NODE means "not there".

Any other code says that ZooKeeper did not answer the question.  Taking it for "not there" would
empty a cache, a list of topics, a set of rules.
"""

from __future__ import annotations

from typing import TypeVar

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import ZkCode

_T = TypeVar("_T")


def required(path: str, result: _T | ZkCode) -> _T:
    """The result; ZooKeeperRefused for any error code."""
    if isinstance(result, ZkCode):
        raise ZooKeeperRefused(path, result.name)
    return result


def optional(path: str, result: _T | ZkCode) -> _T | None:
    """The result, or None for NO_NODE; ZooKeeperRefused for any other error code."""
    return None if result is ZkCode.NO_NODE else required(path, result)
