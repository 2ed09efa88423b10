"""What shall happen to requests: delays, losses, errors and narrowed versions, by API.

A fault says to which requests it applies, how often, and what happens to them.  The first fault
that applies to a request decides.
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

    DELAY = auto()  # it reaches the broker later
    DROP_REQUEST = auto()  # the connection breaks before the broker has it
    DROP_ANSWER = auto()  # the broker does it, the connection breaks before the answer is through
    ERROR = auto()  # it is answered with an error code, and the broker never has it


@dataclass(eq=False)
class Fault:
    """One arrangement; ``count`` says how often it has happened."""

    action: Action
    api_key: ApiKey
    broker: int | None = None
    """The broker that is asked; None: any."""
    sender: Peer | None = None
    """Who asks: a broker id, or ``clients``; None: anyone."""
    client_id: str | None = None
    needles: tuple[bytes, ...] = ()
    """One of them stands in the request: a topic's name, or its id."""
    times: int | None = None
    """How often at most; None: until it is removed."""
    delay_ms: int = 0
    error: ErrorCode = ErrorCode.none
    count: int = field(default=0, init=False)

    def applies(
        self, broker: int, sender: Peer, api_key: int, client_id: str | None, frame: bytes
    ) -> bool:
        """Whether this happens to the request; counts it if it does."""
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
    """``Produce``, ``LeaderAndIsr``, ``ALTER_PARTITION`` or a number; ConfigInvalid for others."""
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
    """``NOT_LEADER_OR_FOLLOWER`` or a number; ConfigInvalid for others."""
    try:
        return ErrorCode(name) if isinstance(name, int) else ErrorCode[name.lower()]
    except (KeyError, ValueError):
        known = ", ".join(code.name.upper() for code in ErrorCode)
        raise ConfigInvalid("error", name, f"is none of {known}") from None
