"""Broker heartbeats on the active controller: contact times, metadata offsets, shutdowns.

This state is not in the log, and a standby has none.  A new active controller begins as if every
registered broker had just been in contact.

Source: Kafka ``BrokerHeartbeatManager``, ``BrokerControlState``, ``BrokerControlStates``.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from kafka_common.errors import IllegalState
from kafka_common.observability.prefixed_log import PrefixedLog

NO_OFFSET: Final = -1
NO_ACTIVE_BROKER: Final = (1 << 63) - 1
"""The lowest active offset if no broker is active: higher than any real offset."""


class BrokerControlState(Enum):
    """A broker's state: fenced, unfenced, controlled shutdown or shutdown now."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


class BrokerControlStates(NamedTuple):
    """A broker's states before and after its heartbeat."""

    current: BrokerControlState
    next: BrokerControlState


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    """The fields of a BrokerHeartbeat request."""

    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatReply:
    """The response to a heartbeat; ``in_controlled_shutdown`` is not sent to the broker."""

    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


class _HeartbeatState:
    __slots__ = (
        "broker_id",
        "controlled_shutdown_offset",
        "is_fenced",
        "last_contact_ms",
        "metadata_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.last_contact_ms = 0
        self.metadata_offset = NO_OFFSET
        self.controlled_shutdown_offset = NO_OFFSET
        self.is_fenced = True

    @property
    def is_shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != NO_OFFSET


class BrokerHeartbeatManager:
    """The heartbeats of every registered broker."""

    def __init__(self, session_timeout_ms: int, logger: PrefixedLog | None = None) -> None:
        self._logger = logger or PrefixedLog(logging.getLogger(__name__), "")
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, _HeartbeatState] = {}
        self._unfenced: list[_HeartbeatState] = []  # the broker with the oldest contact comes first

    # ------------------------------------------------------------------ contacts

    def register(self, broker_id: int, *, fenced: bool, now_ms: int) -> None:
        """Handles a replayed registration, or a change of it; both count as contact."""
        broker = self._brokers.setdefault(broker_id, _HeartbeatState(broker_id))
        # As in Kafka, the metadata offset is kept only if ``fenced`` changes.  Otherwise it is
        # unknown until the next heartbeat.
        was_turned = broker.is_fenced != fenced
        offset = broker.metadata_offset if was_turned else NO_OFFSET
        self.touch(broker_id, fenced=fenced, metadata_offset=offset, now_ms=now_ms)

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int, now_ms: int) -> None:
        """Records a contact; :class:`IllegalState` if the broker is not registered."""
        broker = self._broker(broker_id)
        self._untrack(broker)
        broker.last_contact_ms = now_ms
        broker.metadata_offset = metadata_offset
        broker.is_fenced = fenced
        if fenced:
            # A fenced broker is not in controlled shutdown; it may stop at its next heartbeat.
            broker.controlled_shutdown_offset = NO_OFFSET
        else:
            bisect.insort_right(self._unfenced, broker, key=_last_contact_ms)

    def fence(self, broker_id: int) -> None:
        """Ends the broker's session; does nothing for an unknown broker."""
        broker = self._brokers.get(broker_id)
        if broker is not None:
            self._untrack(broker)
            broker.is_fenced = True

    def remove(self, broker_id: int) -> None:
        """Removes a broker."""
        broker = self._brokers.pop(broker_id, None)
        if broker is not None:
            self._untrack(broker)

    # ------------------------------------------------------------------ sessions

    def has_valid_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether the broker is unfenced and its last contact is within the session timeout."""
        broker = self._brokers.get(broker_id)
        return broker is not None and self._has_valid_session(broker, now_ms)

    def next_check_time_ms(self) -> int | None:
        """The time at which the next session ends; None if there is no session."""
        if not self._unfenced:
            return None
        return self._unfenced[0].last_contact_ms + self._session_timeout_ms

    def find_one_stale_broker(self, now_ms: int) -> int | None:
        """The broker with the oldest contact, if its session has ended; None otherwise."""
        if not self._unfenced or self._has_valid_session(self._unfenced[0], now_ms):
            return None
        return self._unfenced[0].broker_id

    # ------------------------------------------------------------------ shutdown

    def lowest_active_offset(self) -> int:
        """The lowest metadata offset of the active brokers; NO_ACTIVE_BROKER if there is none."""
        offsets = (broker.metadata_offset for broker in self._unfenced if _is_active(broker))
        return min(offsets, default=NO_ACTIVE_BROKER)

    def maybe_update_controlled_shutdown_offset(self, broker_id: int, offset: int) -> None:
        """Records the log offset of the first leader moves of a controlled shutdown.

        Later calls for the same shutdown do nothing.
        """
        broker = self._broker(broker_id)
        if broker.is_fenced:
            raise IllegalState(
                f"broker {broker_id} is fenced: it cannot shut down in an orderly way"
            )
        if not broker.is_shutting_down:
            broker.controlled_shutdown_offset = offset

    def controlled_shutdown_offset(self, broker_id: int) -> int | None:
        """The log offset of the shutdown's first leader moves; None outside of a shutdown."""
        broker = self._brokers.get(broker_id)
        return broker.controlled_shutdown_offset if broker and broker.is_shutting_down else None

    def usable_broker_ids(self) -> list[int]:
        """The brokers that may get replicas, ascending; fenced ones are included."""
        brokers = self._brokers.values()
        return sorted(broker.broker_id for broker in brokers if not broker.is_shutting_down)

    # ------------------------------------------------------------------ states

    def current_state(self, broker_id: int) -> BrokerControlState:
        """The broker's current state."""
        broker = self._broker(broker_id)
        if broker.is_shutting_down:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if broker.is_fenced else BrokerControlState.UNFENCED

    def calculate_next_state(
        self,
        heartbeat: BrokerHeartbeat,
        register_broker_record_offset: int,
        has_leaderships: Callable[[], bool],
    ) -> BrokerControlStates:
        """The broker's state after its heartbeat; changes nothing."""
        current = self.current_state(heartbeat.broker_id)
        match current:
            case BrokerControlState.FENCED:
                following = self._after_fenced(heartbeat, register_broker_record_offset)
            case BrokerControlState.UNFENCED:
                following = self._after_unfenced(heartbeat, has_leaderships)
            case _:
                following = self._after_controlled_shutdown(heartbeat.broker_id, has_leaderships)
        return BrokerControlStates(current, following)

    def _after_controlled_shutdown(
        self, broker_id: int, has_leaderships: Callable[[], bool]
    ) -> BrokerControlState:
        offset = self._broker(broker_id).controlled_shutdown_offset
        # Until every active broker has read the new leaders, it still sends clients to this one.
        if has_leaderships() or offset > self.lowest_active_offset():
            return BrokerControlState.CONTROLLED_SHUTDOWN
        self._logger.info(
            "The request from broker %d to shut down has been granted since the lowest active "
            "offset %d is now greater than the broker's controlled shutdown offset %d.",
            broker_id, self.lowest_active_offset(), offset,
        )  # fmt: skip
        return BrokerControlState.SHUTDOWN_NOW

    def _after_fenced(self, heartbeat: BrokerHeartbeat, registered_at: int) -> BrokerControlState:
        broker_id = heartbeat.broker_id
        if heartbeat.want_shut_down:
            self._logger.info(
                "Fenced broker %d has requested and been granted an immediate shutdown.", broker_id
            )
            return BrokerControlState.SHUTDOWN_NOW
        if heartbeat.want_fence:
            return BrokerControlState.FENCED
        if heartbeat.current_metadata_offset < registered_at:
            self._logger.debug(
                "The request from broker %d to unfence cannot yet be granted because it has not "
                "caught up with the offset of its register broker record %d. It is still at "
                "offset %d.",
                broker_id, registered_at, heartbeat.current_metadata_offset,
            )  # fmt: skip
            return BrokerControlState.FENCED
        self._logger.info(
            "The request from broker %d to unfence has been granted because it has caught up with "
            "the offset of its register broker record %d.",
            broker_id, registered_at,
        )  # fmt: skip
        return BrokerControlState.UNFENCED

    def _after_unfenced(
        self, heartbeat: BrokerHeartbeat, has_leaderships: Callable[[], bool]
    ) -> BrokerControlState:
        if heartbeat.want_fence:
            following, granted = BrokerControlState.FENCED, "fencing"
            if heartbeat.want_shut_down:
                following, granted = BrokerControlState.SHUTDOWN_NOW, "an immediate shutdown."
        elif not heartbeat.want_shut_down:
            return BrokerControlState.UNFENCED
        elif has_leaderships():
            following = BrokerControlState.CONTROLLED_SHUTDOWN
            granted = "a controlled shutdown."
        else:
            following, granted = BrokerControlState.SHUTDOWN_NOW, "an immediate shutdown."
        self._logger.info(
            "Unfenced broker %d has requested and been granted %s", heartbeat.broker_id, granted
        )
        return following

    def _has_valid_session(self, broker: _HeartbeatState, now_ms: int) -> bool:
        return not broker.is_fenced and broker.last_contact_ms + self._session_timeout_ms >= now_ms

    def _untrack(self, broker: _HeartbeatState) -> None:
        if not broker.is_fenced:
            self._unfenced.remove(broker)

    def _broker(self, broker_id: int) -> _HeartbeatState:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise IllegalState(f"broker {broker_id} is not registered")
        return broker


def _last_contact_ms(broker: _HeartbeatState) -> int:
    return broker.last_contact_ms


def _is_active(broker: _HeartbeatState) -> bool:
    return not broker.is_shutting_down
