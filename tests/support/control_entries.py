"""One partition of a controller's request; the controller itself shares the pieces in loops."""

from __future__ import annotations

from kafka_common.model import LeaderAndIsr
from kafka_common.protocol.bulk import (
    IntTuple,
    StateLayout,
    leader_and_isr_end,
    leader_and_isr_layout,
    state_encoder,
    update_metadata_end,
    update_metadata_layout,
)


def leader_and_isr_entry(
    version: int,
    topic: str,
    partition: int,
    state: LeaderAndIsr,
    replicas: IntTuple,
    adding_replicas: IntTuple,
    removing_replicas: IntTuple,
    is_new: bool,
) -> bytes:
    """One partition of a LeaderAndIsr request; loops share the state and its end."""
    return _state(
        leader_and_isr_layout(version), topic, partition, state, replicas
    ) + leader_and_isr_end(
        version, adding_replicas, removing_replicas, is_new, state.leader_recovery_state
    )


def update_metadata_entry(
    version: int,
    topic: str,
    partition: int,
    state: LeaderAndIsr,
    replicas: IntTuple,
    offline_replicas: IntTuple,
) -> bytes:
    """One partition of an UpdateMetadata request; loops share the state and its end."""
    return _state(
        update_metadata_layout(version), topic, partition, state, replicas
    ) + update_metadata_end(version, offline_replicas)


def _state(
    layout: StateLayout, topic: str, partition: int, state: LeaderAndIsr, replicas: IntTuple
) -> bytes:
    return state_encoder(layout)(
        topic,
        partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.in_sync_replicas,
        state.zk_version,
        replicas,
    )
