"""Checks whether a broker is empty: by metadata, and by its own log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.moving.moves_reading import read_moving
from zkcontroller_cli.wire.log_dirs import readable_log_dirs
from zkcontroller_cli.wire.requests import Deadline

PROOF_S: Final = 30.0
"""Seconds that a broker may take to delete the logs that are no longer assigned to it."""
_POLL_S: Final = 0.5


async def proof_of(
    bootstrap: Bootstrap, request_s: float, broker_id: int, exclude: Sequence[str]
) -> dict[str, Any]:
    """The record of what the broker still has; ``is_drained`` if only excluded topics.

    ``log_count`` is None if its log directories could not be read.  A dead broker needs no
    ``log_count`` to be drained.
    """
    patience = Deadline(PROOF_S)
    while True:
        record = await _look(bootstrap, request_s, broker_id, exclude)
        if record["is_drained"] or record["replica_count"] or patience.is_over:
            return record
        await asyncio.sleep(_POLL_S)


async def _look(
    bootstrap: Bootstrap, request_s: float, broker_id: int, exclude: Sequence[str]
) -> dict[str, Any]:
    reading = await read_moving(bootstrap, Deadline(request_s))
    held = [name for name, replicas in reading.current.items() if broker_id in replicas]
    kept = [name for name in held if _is_excluded(name.topic, exclude)]
    found = await readable_log_dirs(
        reading.addresses, Deadline(request_s), bootstrap.security, {broker_id: None}
    )
    logs: int | None = None
    if not found.unread:
        logs = sum(
            not _is_excluded(replica.topic, exclude)
            for each in found.log_dirs
            for replica in each.replicas
        )
    is_alive = broker_id in reading.live
    left = len(held) - len(kept)
    return {
        "broker_id": broker_id,
        "is_drained": left == 0 and (logs == 0 or not is_alive),
        "is_alive": is_alive,
        "replica_count": left,
        "leader_count": sum(leader == broker_id for leader in reading.leaders.values()),
        "log_count": logs,
        "excluded_count": len(kept),
        "reason": found.unread.get(broker_id),
    }


def _is_excluded(topic: str, exclude: Sequence[str]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in exclude)
