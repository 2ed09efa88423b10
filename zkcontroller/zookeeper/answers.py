"""What a caller makes of an answer that may be an error code: only NO_NODE means "not there".

Any other code says that ZooKeeper did not answer the question.  Taking it for "not there" would
empty a cache, a list of topics, a set of rules.
"""

from __future__ import annotations

from typing import TypeVar

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import ZkCode

_T = TypeVar("_T")


def required(path: str, answer: _T | ZkCode) -> _T:
    """The answer; ZooKeeperRefused for any error code."""
    if isinstance(answer, ZkCode):
        raise ZooKeeperRefused(path, answer.name)
    return answer


def optional(path: str, answer: _T | ZkCode) -> _T | None:
    """The answer, or None for NO_NODE; ZooKeeperRefused for any other error code."""
    return None if answer is ZkCode.NO_NODE else required(path, answer)
