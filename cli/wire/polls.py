"""Polls many brokers at once for the controller in their metadata caches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, ask_metadata, connected, run

_ONE_ANSWER_S: Final = 5.0
_POLL_S: Final = 0.01


def controllers_in_caches(
    brokers: Mapping[int, tuple[str, int]], security: ClientSecurity = PLAINTEXT
) -> dict[int, int]:
    """By broker id, the controller in its metadata cache, -1 for none.

    Brokers that do not answer are left out.
    """

    async def ask_all() -> dict[int, int]:
        responses = await asyncio.gather(
            *(
                _controller_named_by(BrokerAddress(host, port), security)
                for host, port in brokers.values()
            )
        )
        return {
            broker_id: response
            for broker_id, response in zip(brokers, responses, strict=True)
            if response is not None
        }

    return run(ask_all())


async def _controller_named_by(address: BrokerAddress, security: ClientSecurity) -> int | None:
    try:
        async with connected([address], Deadline(_ONE_ANSWER_S), security) as connection:
            return int((await ask_metadata(connection, ())).controller_id)
    except CommandFailed:
        return None


@dataclass
class CacheHistory:
    """By broker id, when its metadata cache began to name which controller.

    One task fills it while another makes the change to observe.  Times are ``time.monotonic()`` in
    seconds, taken when the response arrived: at most one poll and one round trip late.
    """

    seen: dict[int, list[tuple[float, int]]] = field(default_factory=dict)

    def first_naming(self, controller_id: int, since: float) -> dict[int, float]:
        """By broker id, when it began to name this controller at or after ``since``."""
        return {
            broker_id: next(at for at, named in changes if named == controller_id and at >= since)
            for broker_id, changes in self.seen.items()
            if any(named == controller_id and at >= since for at, named in changes)
        }


async def record_caches(
    brokers: Mapping[int, tuple[str, int]], history: CacheHistory, security: ClientSecurity
) -> None:
    """Poll every broker's Metadata until cancelled, also brokers that do not answer."""

    async def record(broker_id: int, address: BrokerAddress) -> None:
        changes = history.seen.setdefault(broker_id, [])
        while True:
            try:
                async with connected([address], Deadline(_ONE_ANSWER_S), security) as connection:
                    while True:
                        named = int((await ask_metadata(connection, ())).controller_id)
                        if not changes or changes[-1][1] != named:
                            changes.append((time.monotonic(), named))
                        await asyncio.sleep(_POLL_S)
            except CommandFailed:
                await asyncio.sleep(_POLL_S)

    async with asyncio.TaskGroup() as polls:
        for broker_id, (host, port) in brokers.items():
            polls.create_task(record(broker_id, BrokerAddress(host, port)))
