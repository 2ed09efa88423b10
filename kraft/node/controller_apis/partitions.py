"""AlterPartition and AssignReplicasToDirs for brokers.

Source: Kafka ``ControllerApis.handleAlterPartitionRequest``, ``handleAssignReplicasToDirs``
(KIP-497, KIP-858).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiException
from kafka_common.model import RECOVERED
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.alter_partition import (
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.quorum_controller_requests import (
    AlterPartitions,
    AssignReplicasToDirs,
)
from kraft.node.controller_apis.call import Call, ControllerApi, uuid_or_zero


async def _alter_partition(
    request: request_types.AlterPartitionRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_PARTITION, call.version)
    proposals = AlterPartitionRequest(
        request.broker_id,
        request.broker_epoch,
        tuple(
            ProposedTopic(
                topic_id=uuid_or_zero(field_or(topic, "topic_id", None)),
                topic_name=field_or(topic, "topic_name", ""),
                partitions=tuple(map(_proposed, topic.partitions)),
            )
            for topic in request.topics
        ),
    )
    try:
        topics = await call.ask(AlterPartitions(proposals, call.version))
    except ApiException as refused:
        return schema.response(error_code=refused.error, topics=())
    return schema.response(
        error_code=ErrorCode.none,
        topics=tuple(
            schema.part(
                "TopicData",
                topic_id=topic.topic_id,
                topic_name=topic.topic_name,
                partitions=tuple(
                    schema.part(
                        "PartitionData",
                        partition_index=partition.partition_index,
                        error_code=partition.error,
                        leader_id=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        isr=partition.isr,
                        leader_recovery_state=partition.leader_recovery_state,
                        partition_epoch=partition.partition_epoch,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _proposed(partition: request_types.AlterPartitionPartitionData) -> ProposedPartition:
    brokers = field_or(partition, "new_isr", None)
    if brokers is not None:
        isr = tuple(IsrMember(broker) for broker in brokers)
    else:
        isr = tuple(
            IsrMember(member.broker_id, member.broker_epoch)
            for member in field_or(partition, "new_isr_with_epochs", ())
        )
    return ProposedPartition(
        partition_index=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=isr,
        leader_recovery_state=field_or(partition, "leader_recovery_state", RECOVERED),
    )


async def _assign_replicas_to_dirs(
    request: request_types.AssignReplicasToDirsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ASSIGN_REPLICAS_TO_DIRS, call.version)
    wanted = AssignReplicasToDirs(
        request.broker_id,
        request.broker_epoch,
        tuple(
            AssignedDirectory(
                uuid_or_zero(directory.id_),
                tuple(
                    (
                        uuid_or_zero(topic.topic_id),
                        tuple(partition.partition_index for partition in topic.partitions),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        ),
    )
    try:
        directories = await call.ask(wanted)
    except ApiException as refused:
        return schema.response(error_code=refused.error, directories=())
    return schema.response(
        error_code=ErrorCode.none,
        directories=tuple(
            schema.part(
                "DirectoryData",
                id_=directory.directory,
                topics=tuple(
                    schema.part(
                        "TopicData",
                        topic_id=topic_id,
                        partitions=tuple(
                            schema.part("PartitionData", partition_index=index, error_code=error)
                            for index, error in partitions
                        ),
                    )
                    for topic_id, partitions in directory.topics
                ),
            )
            for directory in directories
        ),
    )


PARTITION_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.ALTER_PARTITION: ControllerApi(0, 3, _alter_partition, AclOperation.CLUSTER_ACTION),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ControllerApi(
        0, 0, _assign_replicas_to_dirs, AclOperation.CLUSTER_ACTION
    ),
}
