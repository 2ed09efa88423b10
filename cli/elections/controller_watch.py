"""Shows changes of the controller as they happen, by ZooKeeper's watches."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from kafka_common.errors import SessionExpired
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, ControllerZnode
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.wire.requests import Deadline
from zkcontroller_cli.znodes.cluster_view import ControllerView, read_controller
from zkcontroller_cli.znodes.session import ZooKeeper, now_ms, open_zookeeper

_PATHS: Final = (ControllerZnode.PATH, ControllerEpochZnode.PATH)
_LOOK_S: Final = 0.5
"""Seconds between two checks for a lost connection, which no watch reports."""
_FOREVER_S: Final = 10.0 * 365 * 24 * 3600


def changes(settings: Settings, timeout_s: float | None) -> Iterator[dict[str, Any]]:
    """A row for the current controller, then one after each change, until ``timeout_s`` is over.

    Two changes within one round trip to ZooKeeper may show as one.  None: without an end.
    """
    fired: queue.SimpleQueue[WatchFired] = queue.SimpleQueue()
    deadline = Deadline(_FOREVER_S if timeout_s is None else timeout_s)
    with open_zookeeper(settings, on_watch=fired.put) as zookeeper:
        before = _look(zookeeper)
        yield _row("current", before)
        while not deadline.is_over:
            try:
                fired.get(timeout=min(deadline.left_s, _LOOK_S))
            except queue.Empty:
                if zookeeper.is_lost:
                    raise SessionExpired("the connection is lost") from None
                continue
            after = _look(zookeeper)
            if after != before:
                yield _row(_name_change(before, after), after)
                before = after


def _look(zookeeper: ZooKeeper) -> ControllerView:
    # The watch is set before the read, else a change between the two would be missed.
    zookeeper.stats(_PATHS, watch=True)
    return read_controller(zookeeper)


def _row(change: str, view: ControllerView) -> dict[str, Any]:
    values = asdict(view)
    del values["controller_session_id"]
    return {"time_ms": now_ms(), "change": change, **values}


def _name_change(before: ControllerView, after: ControllerView) -> str:
    if after.controller_id is None:
        return "epoch_changed" if before.controller_id is None else "vanished"
    is_another = after.controller_session_id != before.controller_session_id
    if is_another or after.elected_at_ms != before.elected_at_ms:
        return "elected"
    return "epoch_changed"
