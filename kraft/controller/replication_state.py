"""Topics and partitions, as replayed from the metadata log.

Only the ``replay`` methods change anything here.  Besides the partitions, the state keeps indexes,
so that these are found without a look at every partition: the partitions of a broker or of a log
directory, those that are being reassigned, and those not led by their preferred replica.

Source: Kafka ``ReplicationControlManager.replay``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common import topic_names
from kafka_common.api_error import ApiError
from kafka_common.errors import IllegalState
from kafka_common.observability.java_values import message_text
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller import directory_ids
from kraft.controller.brokers_to_isrs import BrokersToIsrs
from kraft.controller.partition_registration import (
    PartitionId,
    PartitionRegistration,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineSet, TimelineValue
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    NO_LEADER,
    ZERO_UUID,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    VersionedRecord,
)

ReplicationRecord: TypeAlias = (
    TopicRecord | PartitionRecord | PartitionChangeRecord | RemoveTopicRecord
)


class TopicControlInfo:
    """A topic: its name, its id and its partitions."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, registry: SnapshotRegistry, name: str, topic_id: UUID) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: TimelineDict[int, PartitionRegistration] = TimelineDict(registry)


class ReplicationState:
    """Every topic of the cluster."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self.logger = registry.logger("ReplicationControlManager")
        self.topics: TimelineDict[UUID, TopicControlInfo] = TimelineDict(registry)
        self.topics_by_name: TimelineDict[str, UUID] = TimelineDict(registry)
        self.brokers_to_isrs = BrokersToIsrs(registry)
        self.reassigning_partitions: TimelineSet[PartitionId] = TimelineSet(registry)
        self.imbalanced_partitions: TimelineSet[PartitionId] = TimelineSet(registry)
        self.partition_count: TimelineValue[int] = TimelineValue(registry, 0)
        self.unclean_elections: TimelineValue[int] = TimelineValue(registry, 0)
        """The number of unclean elections since the log began or a snapshot was loaded."""
        # Names by their form in metrics; two may share one if created before KAFKA-13743.
        self._names_by_unified: TimelineDict[str, TimelineSet[str]] = TimelineDict(registry)
        self._partitions_by_directory: TimelineDict[UUID, TimelineSet[PartitionId]] = TimelineDict(
            registry
        )

    # ------------------------------------------------------------------ replay

    def replay_topic(self, record: TopicRecord) -> None:
        """Creates a topic without partitions; IllegalState if the name exists."""
        before = self.topics_by_name.get(record.name)
        if before is not None:
            raise IllegalState(
                f"Found duplicate TopicRecord for {record.name} with topic ID {record.topic_id}; "
                f"the topic has the ID {before}"
            )
        self.topics_by_name[record.name] = record.topic_id
        if topic_names.has_collision_characters(record.name):
            unified = topic_names.unified(record.name)
            names = self._names_by_unified.get(unified)
            if names is None:
                names = self._names_by_unified[unified] = TimelineSet(self._registry)
            names.add(record.name)
        self.topics[record.topic_id] = TopicControlInfo(
            self._registry, record.name, record.topic_id
        )
        self.logger.info(
            "Replayed TopicRecord for topic %s with topic ID %s.",
            record.name, uuid_text(record.topic_id),
        )  # fmt: skip

    def replay_partition(self, record: PartitionRecord) -> None:
        """Creates or replaces a partition."""
        topic = self._topic_of(record)
        before = topic.partitions.get(record.partition_id)
        after = PartitionRegistration.from_record(record)
        self._put(topic, record.partition_id, before, after)
        if self.logger.isEnabledFor(logging.INFO):
            self.logger.info(
                "Replayed PartitionRecord for %s partition %s and %s.",
                "new" if before is None else "existing", _described(topic, record.partition_id),
                after,
            )  # fmt: skip

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        """Changes a partition; IllegalState if it does not exist."""
        topic = self._topic_of(record)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise IllegalState(f"no partition {topic.name}-{record.partition_id} for {record}")
        self._put(topic, record.partition_id, before, before.merge(record))
        if record.removing_replicas is not None or record.adding_replicas is not None:
            self.logger.info(
                "Replayed partition assignment change %s for topic %s",
                message_text(record), topic.name,
            )  # fmt: skip

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Deletes a topic with its partitions; returns the topic's name."""
        topic = self.topics.pop(record.topic_id)
        if topic is None:
            raise IllegalState(f"Can't find topic with ID {record.topic_id} to remove.")
        del self.topics_by_name[topic.name]
        names = self._names_by_unified.get(topic_names.unified(topic.name))
        if names is not None:
            names.discard(topic.name)
            if not names:
                del self._names_by_unified[topic_names.unified(topic.name)]
        for partition_id, partition in topic.partitions.items():
            self._index(PartitionId(topic.topic_id, partition_id), partition, None)
        self.partition_count.set(self.partition_count.get() - len(topic.partitions))
        self.logger.info(
            "Replayed RemoveTopicRecord for topic %s with ID %s.",
            topic.name, uuid_text(topic.topic_id),
        )  # fmt: skip
        return topic.name

    def _topic_of(self, record: PartitionRecord | PartitionChangeRecord) -> TopicControlInfo:
        topic = self.topics.get(record.topic_id)
        if topic is None:
            raise IllegalState(f"no topic with the ID of {record}")
        return topic

    def _put(
        self,
        topic: TopicControlInfo,
        partition_id: int,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        topic.partitions[partition_id] = after
        if before is None:
            self.partition_count.set(self.partition_count.get() + 1)
        elif after.leader not in (NO_LEADER, *before.isr):
            self.unclean_elections.set(self.unclean_elections.get() + 1)
            self.logger.info(
                "UNCLEAN partition change for %s: %s",
                _described(topic, partition_id), after.difference_text(before),
            )  # fmt: skip
        self._index(PartitionId(topic.topic_id, partition_id), before, after)

    def _index(
        self,
        key: PartitionId,
        before: PartitionRegistration | None,
        after: PartitionRegistration | None,
    ) -> None:
        self.brokers_to_isrs.update(key, before, after)
        _set_membership(
            self.reassigning_partitions, key, after is not None and after.is_being_reassigned
        )
        _set_membership(
            self.imbalanced_partitions, key, after is not None and not after.has_preferred_leader
        )
        old = before.directories if before is not None else ()
        new = after.directories if after is not None else ()
        if old != new:
            self._move_directories(key, old, new)

    def _move_directories(
        self, key: PartitionId, before: Iterable[UUID], after: Iterable[UUID]
    ) -> None:
        for directory in before:
            partitions = self._partitions_by_directory.get(directory)
            if partitions is not None:
                partitions.discard(key)
                if not partitions:
                    del self._partitions_by_directory[directory]
        for directory in after:
            if directory_ids.is_reserved(directory):
                continue
            partitions = self._partitions_by_directory.get(directory)
            if partitions is None:
                partitions = self._partitions_by_directory[directory] = TimelineSet(self._registry)
            partitions.add(key)

    # ------------------------------------------------------------------ reads

    def state_records(self, epoch: int, version: MetadataVersion) -> Iterator[VersionedRecord]:
        """A record for every topic at offset ``epoch``, each followed by its partitions."""
        record_version = version.partition_record_version()
        with_directories = version.is_directory_assignment_supported
        for topic in self.topics.values(epoch=epoch):
            yield VersionedRecord(TopicRecord(topic.name, topic.topic_id), 0)
            for partition_id, partition in topic.partitions.items(epoch=epoch):
                if not with_directories and set(partition.directories) - {directory_ids.MIGRATING}:
                    version.refuse_loss(f"the directories of {topic.name}-{partition_id}")
                record = partition.to_record(topic.topic_id, partition_id, version)
                yield VersionedRecord(record, record_version)

    def topic_named(self, name: str) -> TopicControlInfo | None:
        """The topic of that name; None if there is none."""
        topic_id = self.topics_by_name.get(name)
        return None if topic_id is None else self.topics.get(topic_id)

    def partition(self, key: PartitionId) -> PartitionRegistration | None:
        """The partition; None if it or its topic does not exist."""
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition_id)

    def located(self, key: PartitionId) -> tuple[TopicControlInfo, PartitionRegistration]:
        """The topic and the partition of an index entry; IllegalState if they do not exist."""
        topic = self.topics.get(key.topic_id)
        partition = None if topic is None else topic.partitions.get(key.partition_id)
        if topic is None or partition is None:
            raise IllegalState(f"{key} is in an index, and not among the partitions")
        return topic, partition

    def colliding_topic(self, name: str) -> str | None:
        """An existing topic with the same name in metrics; None if there is none."""
        if not topic_names.has_collision_characters(name):
            return None
        return next(iter(self._names_by_unified.get(topic_names.unified(name)) or ()), None)

    def partitions_in_directory(self, directory: UUID) -> list[PartitionId]:
        """The partitions with a replica in that log directory."""
        return list(self._partitions_by_directory.get(directory) or ())

    def find_topic_ids(
        self, names: Iterable[str], epoch: int | None = None
    ) -> dict[str, UUID | ApiError]:
        """The ids of these topics at offset ``epoch``, or UNKNOWN_TOPIC_OR_PARTITION."""
        unknown = ApiError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
        return {name: self.topics_by_name.get(name, unknown, epoch=epoch) for name in names}

    def find_all_topic_ids(self, epoch: int | None = None) -> dict[str, UUID]:
        """The ids of all topics at offset ``epoch``."""
        return dict(self.topics_by_name.items(epoch=epoch))

    def find_topic_names(
        self, topic_ids: Iterable[UUID], epoch: int | None = None
    ) -> dict[UUID, str | ApiError]:
        """The names of these topics at offset ``epoch``, or UNKNOWN_TOPIC_ID."""
        names: dict[UUID, str | ApiError] = {}
        for topic_id in topic_ids:
            topic = self.topics.get(topic_id, epoch=epoch)
            if topic_id == ZERO_UUID:
                names[topic_id] = ApiError(
                    ErrorCode.invalid_request,
                    f"Attempt to find topic with invalid topicId {topic_id}",
                )
            elif topic is None:
                names[topic_id] = ApiError(
                    ErrorCode.unknown_topic_id, "This server does not host this topic ID."
                )
            else:
                names[topic_id] = topic.name
        return names


def _set_membership(partitions: TimelineSet[PartitionId], key: PartitionId, belongs: bool) -> None:
    if belongs:
        partitions.add(key)
    else:
        partitions.discard(key)


def _described(topic: TopicControlInfo, partition_id: int) -> str:
    return f"{topic.name}-{partition_id} with topic ID {uuid_text(topic.topic_id)}"
