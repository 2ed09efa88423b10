"""Handles broker heartbeats, expired sessions and UnregisterBroker.

The heartbeats themselves are only in memory and change at once.  What follows from them for
brokers and partitions is written as records.

Source: Kafka ``ReplicationControlManager.processBrokerHeartbeat`` and the methods beside it.
"""

from __future__ import annotations

from typing import assert_never

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.observability.prefixed_log import PrefixedLog
from kraft.controller.broker_transitions import BrokerTransitions
from kraft.controller.cluster_control import ClusterControlManager
from kraft.controller.features import FeatureControlManager
from kraft.controller.heartbeats import (
    BrokerControlState,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
)
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)


class HeartbeatControl:
    """Fences, unfences and unregisters brokers."""

    def __init__(
        self,
        cluster: ClusterControlManager,
        features: FeatureControlManager,
        transitions: BrokerTransitions,
        logger: PrefixedLog,
    ) -> None:
        self._cluster = cluster
        self._logger = logger
        self._features = features
        self._transitions = transitions

    def process_broker_heartbeat(
        self, heartbeat: BrokerHeartbeat, now_ms: int
    ) -> ControllerResult[BrokerHeartbeatReply]:
        """Handles a heartbeat; the response has the broker's new state.

        STALE_BROKER_EPOCH for another incarnation of the broker.
        """
        broker_id, epoch = heartbeat.broker_id, heartbeat.broker_epoch
        registered_at = self._cluster.register_broker_record_offset(broker_id)
        if registered_at is None:
            message = f"a heartbeat of broker {broker_id}, which is not registered"
            raise ApiException(ErrorCode.stale_broker_epoch, message)
        self._cluster.check_broker_epoch(broker_id, epoch)
        heartbeats = self._cluster.heartbeats
        states = heartbeats.calculate_next_state(
            heartbeat, registered_at, lambda: self._transitions.has_leaderships(broker_id)
        )
        records = []
        if states.current is not states.next:
            records += self._records_of_change(states.next, broker_id, epoch)
        offset = heartbeat.current_metadata_offset
        is_fenced = states.next.is_fenced
        heartbeats.touch(broker_id, fenced=is_fenced, metadata_offset=offset, now_ms=now_ms)
        if self._features.metadata_version.is_directory_assignment_supported:
            offline = heartbeat.offline_log_dirs
            records += self._transitions.handle_directories_offline(broker_id, epoch, offline)
        reply = BrokerHeartbeatReply(
            is_caught_up=offset >= registered_at,
            is_fenced=is_fenced,
            in_controlled_shutdown=states.next is BrokerControlState.CONTROLLED_SHUTDOWN,
            should_shut_down=states.next is BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult.of(records, reply)

    def _records_of_change(
        self, state: BrokerControlState, broker_id: int, epoch: int
    ) -> list[VersionedRecord]:
        match state:
            case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
                return self._transitions.handle_broker_fenced(broker_id)
            case BrokerControlState.UNFENCED:
                return self._transitions.handle_broker_unfenced(broker_id, epoch)
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                return self._transitions.handle_broker_in_controlled_shutdown(broker_id, epoch)
            case _:
                assert_never(state)

    def process_expired_broker_heartbeat(self, heartbeat: BrokerHeartbeat, now_ms: int) -> None:
        """Counts a heartbeat that timed out in the queue as contact.

        Otherwise an overloaded controller would fence healthy brokers and have even more work.
        STALE_BROKER_EPOCH for another incarnation of the broker.
        """
        self._cluster.check_broker_epoch(heartbeat.broker_id, heartbeat.broker_epoch)
        self._cluster.heartbeats.touch(
            heartbeat.broker_id,
            fenced=not self._cluster.is_unfenced(heartbeat.broker_id),
            metadata_offset=heartbeat.current_metadata_offset,
            now_ms=now_ms,
        )

    def maybe_fence_one_stale_broker(self, now_ms: int) -> ControllerResult[None]:
        """Fences the broker with the oldest contact, if its session has ended.

        Only one at a time: the elections for the next broker must not choose this one.
        """
        heartbeats = self._cluster.heartbeats
        broker_id = heartbeats.find_one_stale_broker(now_ms)
        if broker_id is None:
            return ControllerResult.of((), None)
        self._logger.info("Fencing broker %d because its session has timed out.", broker_id)
        records = self._transitions.handle_broker_fenced(broker_id)
        heartbeats.fence(broker_id)
        return ControllerResult.of(records, None)

    def unregister_broker(self, broker_id: int) -> ControllerResult[None]:
        """Unregisters a broker; BROKER_ID_NOT_REGISTERED if it is unknown."""
        broker = self._cluster.registration(broker_id)
        if broker is None:
            message = f"broker {broker_id} is not registered"
            raise ApiException(ErrorCode.broker_id_not_registered, message)
        records = BoundedRecords()
        records.extend(self._transitions.handle_broker_unregistered(broker_id, broker.epoch))
        return ControllerResult.of(records.to_tuple(), None)
