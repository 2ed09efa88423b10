"""Requests to coordinators: found by FindCoordinator, asked again while they move or load.

FindCoordinator is sent in version 3, which has one key per request, as older versions have.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.static.primitive import i8

from zkcontroller_cli.console.errors import CannotConnect, TimedOut
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.wire.logs import addresses_in, ask_broker
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    connected,
    error_text,
    metadata,
    parse_bootstrap,
    raise_for_code,
)
from zkcontroller_cli.wire.versions import BrokerConnection


class ListingResponse(Protocol):
    """A response that lists what a broker coordinates."""

    @property
    def error_code(self) -> ErrorCode: ...


ListingT = TypeVar("ListingT", bound=ListingResponse)

MOVING: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
"""Errors after which the request is repeated: the coordinator moves, or still loads its state."""

_RETRY_S: Final = 0.2


class CoordinatorType(IntEnum):
    """The kind of key that a coordinator serves: ``key_type`` of FindCoordinator."""

    GROUP = 0
    TRANSACTIONAL_ID = 1

    @property
    def text(self) -> str:
        """The name of this kind in messages."""
        return "group" if self is CoordinatorType.GROUP else "transactional id"


class CoordinatorBroker(NamedTuple):
    """The broker that is the coordinator of a key, and its address."""

    broker_id: int
    address: BrokerAddress


class KeyResult(NamedTuple):
    """A coordinator's result for one key; the value means nothing if there is an error."""

    error_code: ErrorCode
    value: Any


Ask = Callable[[BrokerConnection, Sequence[str]], Awaitable[Mapping[str, KeyResult]]]


async def ask_coordinators(
    bootstrap: Bootstrap, deadline: Deadline, kind: CoordinatorType, keys: Sequence[str], ask: Ask
) -> dict[str, tuple[CoordinatorBroker, KeyResult]]:
    """Send a request to the coordinator of each key, again while coordinators move or load.

    ``ask`` gets a connection to a broker and the keys that this broker coordinates.  TimedOut if a
    key has no ready coordinator before the deadline, Refused if FindCoordinator fails.
    """
    found: dict[str, tuple[CoordinatorBroker, KeyResult]] = {}
    left = list(dict.fromkeys(keys))
    why = "no answer"
    while left:
        by_coordinator: defaultdict[CoordinatorBroker, list[str]] = defaultdict(list)
        for key, coordinator in (await _find(bootstrap, deadline, kind, left)).items():
            if isinstance(coordinator, ErrorCode):
                why = f"{kind.text} {key}: {error_text(coordinator)}"
            else:
                by_coordinator[coordinator].append(key)
        for outcome in await asyncio.gather(
            *(
                _ask_one(bootstrap, deadline, coordinator, those, ask)
                for coordinator, those in by_coordinator.items()
            )
        ):
            if isinstance(outcome, str):
                why = outcome
            else:
                found |= outcome
        left = [key for key in left if key not in found]
        if left and deadline.is_over:
            raise TimedOut(f"{kind.text} {left[0]}: no coordinator answered in time ({why})")
        if left:
            await asyncio.sleep(min(_RETRY_S, deadline.left_s))
    return {key: found[key] for key in dict.fromkeys(keys)}


async def list_by_every_broker(
    bootstrap: Bootstrap,
    deadline: Deadline,
    what: str,
    ask: Callable[[BrokerConnection], Awaitable[ListingT]],
) -> list[tuple[int, ListingT]]:
    """Send a listing request to every broker; returns each broker id with the response.

    While a coordinator moves, the request is sent again.  CannotConnect if a broker is not reached,
    as the list would then be incomplete.  ``what`` names the listed things in messages.
    """
    known = await metadata(bootstrap, deadline, ())

    async def listing(broker_id: int, address: BrokerAddress) -> tuple[int, ListingT]:
        while True:
            response = await ask_broker(address, deadline, bootstrap.security, ask)
            if isinstance(response, CannotConnect):
                raise CannotConnect(f"broker {broker_id}: {response}")
            if response.error_code not in MOVING:
                break
            if deadline.is_over:
                raise TimedOut(f"broker {broker_id}: {error_text(response.error_code)}")
            await asyncio.sleep(min(_RETRY_S, deadline.left_s))
        raise_for_code(f"the {what} of broker {broker_id}", response.error_code)
        return broker_id, response

    return await asyncio.gather(*(listing(*each) for each in addresses_in(known).items()))


async def _ask_one(
    bootstrap: Bootstrap,
    deadline: Deadline,
    coordinator: CoordinatorBroker,
    keys: Sequence[str],
    ask: Ask,
) -> dict[str, tuple[CoordinatorBroker, KeyResult]] | str:
    """The final results by key, or a text why this coordinator gave none."""
    try:
        async with connected([coordinator.address], deadline, bootstrap.security) as connection:
            responses = await ask(connection, keys)
    except CannotConnect as error:
        return f"coordinator {coordinator.broker_id}: {error}"
    final = {
        key: (coordinator, response)
        for key, response in responses.items()
        if response.error_code not in MOVING
    }
    if responses and not final:
        code = next(iter(responses.values())).error_code
        return f"coordinator {coordinator.broker_id}: {error_text(code)}"
    return final


async def _find(
    bootstrap: Bootstrap, deadline: Deadline, kind: CoordinatorType, keys: Sequence[str]
) -> dict[str, CoordinatorBroker | ErrorCode]:
    found: dict[str, CoordinatorBroker | ErrorCode] = {}
    where = parse_bootstrap(bootstrap.servers)
    async with connected(where, deadline, bootstrap.security) as connection:
        for key in keys:
            response = await connection.request(
                FindCoordinatorRequest(key=key, key_type=i8(kind.value))
            )
            assert isinstance(response, FindCoordinatorResponse), "request() answers in kind"
            if response.error_code in MOVING:
                found[key] = response.error_code
            elif response.error_code is not ErrorCode.none:
                raise_for_code(f"{kind.text} {key}", response.error_code, response.error_message)
            else:
                address = BrokerAddress(response.host, int(response.port))
                found[key] = CoordinatorBroker(int(response.node_id), address)
    return found
