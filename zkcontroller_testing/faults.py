"""Faults of requests: delays, losses and error responses, by API.

A fault contains to which requests it applies, how often, and what happens to them.  If several
faults apply to a request, the first one is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from kafka_common.protocol.api_versions import ApiKey
from zkcontroller_testing.door import Peer


class Action(Enum):
    """What happens to a request."""

    DELAY = auto()  # the broker gets the request later
    DROP_REQUEST = auto()  # the connection breaks before the broker gets the request
    DROP_ANSWER = auto()  # the broker handles the request; the connection breaks at its response
    ERROR = auto()  # the client gets an error response; the broker never gets the request


@dataclass(eq=False)
class Fault:
    """A fault that a test arranged; ``count`` is the number of requests it has affected."""

    action: Action
    api_key: ApiKey
    broker: int | None = None
    """The broker that receives the request; None: any."""
    sender: Peer | None = None
    """The sender of the request: a broker id, or ``clients``; None: any."""
    client_id: str | None = None
    needles: tuple[bytes, ...] = ()
    """The request must contain one of these: a topic's name or id. Empty: any request."""
    times: int | None = None
    """Most requests that it affects; None: no limit."""
    delay_ms: int = 0
    error: ErrorCode = ErrorCode.none
    count: int = field(default=0, init=False)

    def applies(
        self, broker: int, sender: Peer, api_key: int, client_id: str | None, frame: bytes
    ) -> bool:
        """Whether the fault applies to the request; if so, counts it."""
        if (
            api_key != self.api_key
            or self.times == self.count
            or self.broker not in (None, broker)
            or self.sender not in (None, sender)
            or self.client_id not in (None, client_id)
            or (self.needles and not any(needle in frame for needle in self.needles))
        ):
            return False
        self.count += 1
        return True


_SPELLINGS: Final = {key.name.replace("_", "").lower(): key for key in ApiKey}


def api_named(name: str | int) -> ApiKey:
    """The API for ``Produce``, ``ALTER_PARTITION`` or a number; ConfigInvalid if unknown."""
    found = (
        next((key for key in ApiKey if key == name), None)
        if isinstance(name, int)
        else _SPELLINGS.get(name.replace("_", "").lower())
    )
    if found is None:
        known = ", ".join(key.name.title().replace("_", "") for key in ApiKey)
        raise ConfigInvalid("api", name, f"is none of {known}")
    return found


def error_named(name: str | int) -> ErrorCode:
    """The error for ``NOT_LEADER_OR_FOLLOWER`` or a number; ConfigInvalid if unknown."""
    try:
        return ErrorCode(name) if isinstance(name, int) else ErrorCode[name.lower()]
    except (KeyError, ValueError):
        known = ", ".join(code.name.upper() for code in ErrorCode)
        raise ConfigInvalid("error", name, f"is none of {known}") from None
