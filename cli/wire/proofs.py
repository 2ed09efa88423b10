"""Proves a change at every broker: each is asked until it shows the change or time is up.

The broker that made a change knows it when it responds; the others read it from ZooKeeper later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap, say
from zkcontroller_cli.wire.logs import addresses_in, ask_broker
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, metadata
from zkcontroller_cli.wire.versions import BrokerConnection

T = TypeVar("T")

_RETRY_S: Final = 0.2


class BrokersProof(NamedTuple, Generic[T]):
    """The parts of a change that brokers did not show, and the brokers that could not be asked."""

    missed: Mapping[int, set[T]]
    """The parts that a broker did not show before the deadline; empty if it showed all."""
    silent: Mapping[int, str]
    """The brokers that could not be asked, and why."""

    def brokers_without(self, part: T) -> list[int]:
        """The brokers that were asked and did not show this part."""
        return sorted(each for each, those in self.missed.items() if part in those)

    def warn_of_silent(self) -> None:
        """Name on stderr the brokers that could not be asked."""
        for broker_id, reason in sorted(self.silent.items()):
            say(f"warning: broker {broker_id} could not be asked: {reason}")


async def asked_until_shown(
    bootstrap: Bootstrap,
    deadline: Deadline,
    missed_by: Callable[[BrokerConnection], Awaitable[set[T]]],
) -> BrokersProof[T]:
    """Ask every broker until ``missed_by`` finds nothing missing there, or until the deadline."""
    known = await metadata(bootstrap, deadline, ())

    async def wait(connection: BrokerConnection) -> set[T]:
        while True:
            missed = await missed_by(connection)
            if not missed or deadline.is_over:
                return missed
            await asyncio.sleep(min(_RETRY_S, deadline.left_s))

    async def answer_of(address: BrokerAddress) -> set[T] | CommandFailed:
        # The failure of one broker must not lose the results of the others.
        try:
            return await ask_broker(address, deadline, bootstrap.security, wait)
        except CommandFailed as error:
            return error

    addresses = addresses_in(known)
    responses = await asyncio.gather(*map(answer_of, addresses.values()))
    missed: dict[int, set[T]] = {}
    silent: dict[int, str] = {}
    for broker_id, response in zip(addresses, responses, strict=True):
        if isinstance(response, set):
            missed[broker_id] = response
        else:
            silent[broker_id] = str(response)
    return BrokersProof(missed, silent)
