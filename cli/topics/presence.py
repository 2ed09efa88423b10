"""Checks whether topics that are being deleted are gone, by brokers or by znodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafka_common.errors import ZkControllerError
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import DeleteTopicZnode, TopicZnode
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap, Settings

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.znodes.session import ZooKeeper

_POLL_S: Final = 0.2
_LAST_LOOK_S: Final = 1.0


def until_gone(
    given: Settings, bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str]
) -> dict[str, bool | None]:
    """Wait until all topics are gone or time is up; by topic whether it exists, None: not known.

    Asks brokers, and ZooKeeper for topics that brokers do not show, if the settings name it.
    """
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.topic_state import topics_still_there

    found: dict[str, bool | None] = dict.fromkeys(topics, True)
    while True:
        left = [topic for topic, is_there in found.items() if is_there]
        if not left:
            break
        # One more look after the deadline, as the controller may have responded at its end.
        last = Deadline(max(_LAST_LOOK_S, deadline.left_s))
        try:
            found |= run(topics_still_there(bootstrap, last, left))
        except CommandFailed:  # the controller moves, or is gone
            if deadline.is_over:
                found |= dict.fromkeys(left)
        if deadline.is_over or not any(found.values()):
            break
        time.sleep(min(_POLL_S, deadline.left_s))
    hidden = [topic for topic, is_there in found.items() if is_there is None]
    if hidden and given.find_zookeeper() is not None:
        found |= _in_zookeeper(given, deadline, hidden)
    return found


def _in_zookeeper(
    given: Settings, deadline: Deadline, topics: Sequence[str]
) -> dict[str, bool | None]:
    from zkcontroller_cli.znodes.session import open_zookeeper

    try:
        with open_zookeeper(given) as zookeeper:
            while True:
                found: dict[str, bool | None] = dict(topics_in_znodes(zookeeper, topics))
                if deadline.is_over or not any(found.values()):
                    return found
                time.sleep(min(_POLL_S, deadline.left_s))
    except ZkControllerError:
        return dict.fromkeys(topics)


def topics_in_znodes(zookeeper: ZooKeeper, topics: Sequence[str]) -> dict[str, bool]:
    """By topic, whether its znode or its deletion mark exists."""
    paths = [
        path for topic in topics for path in (TopicZnode.path(topic), DeleteTopicZnode.path(topic))
    ]
    stats = list(map(optional, paths, zookeeper.stats(paths)))
    return {
        topic: stats[2 * at] is not None or stats[2 * at + 1] is not None
        for at, topic in enumerate(topics)
    }
