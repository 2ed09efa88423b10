"""A metadata image that holds everything there is."""

from __future__ import annotations

from uuid import UUID

from kafka_common.model import ConfigResourceType
from kraft.controller.config_schema import ConfigResource
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.state_records import state_records
from kraft.metadata.records import VersionedRecord
from tests.unit.kraft.controller.controller_scenario import BROKERS, TOPICS

USER = (("user", "alice"),)


DEFAULTS = (("client-id", None), ("user", None))


def everything(controller: QuorumController) -> tuple[object, ...]:
    """What a controller holds now, looked up in other ways than for its records."""
    state = controller.state
    topics = state.replication.state
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in TOPICS]
    resources.append(ConfigResource(ConfigResourceType.BROKER, ""))
    return (
        state.cluster.registrations(),
        state.cluster.controllers(),
        state.features.finalized_features().levels,
        state.features.zk_migration_state,
        {topic_id: (each.name, dict(each.partitions.items()))
         for topic_id, each in topics.topics.items()},
        dict(topics.topics_by_name.items()),
        set(topics.imbalanced_partitions),
        set(topics.reassigning_partitions),
        set(topics.brokers_to_isrs.partitions_with_no_leader()),
        [set(topics.brokers_to_isrs.partitions_with_broker_in_isr(each)) for each in BROKERS],
        [set(topics.partitions_in_directory(UUID(int=(1 << 64) + each))) for each in BROKERS],
        [state.configs.configs(resource) for resource in resources],
        [state.quotas.quotas(entity) for entity in (USER, DEFAULTS)],
        state.producer_ids.next_producer_id,
        state.acls.acls(),
        state.scram.credential("alice", 1),
    )  # fmt: skip


def stable_records(controller: QuorumController) -> list[VersionedRecord]:
    return list(state_records(controller.state, controller.state.offsets.last_stable_offset))
