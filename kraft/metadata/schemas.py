"""A table of every metadata record's schema: key, versions, and fields in wire order.

A record has a field from version ``since`` on.  A field with a ``tag`` is a tagged field (KIP-482):
it is written after all other fields, and only if its value is not the default.  The defaults are
those of the record's class.

Source: Kafka 3.9 ``metadata/src/main/resources/common/metadata/*.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kraft.metadata.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from kraft.metadata.struct_types import Field, struct
from kraft.metadata.wire_types import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT32_ARRAY,
    INT64,
    STRING,
    UINT16,
    UUID_TYPE,
    array,
    nullable,
)


class Schema(NamedTuple):
    """The schema of one record type."""

    record_type: type[Any]
    api_key: int
    newest_version: int
    """Versions begin at 0."""
    fields: tuple[Field, ...]


ENDPOINT: Final = struct(
    BrokerEndpoint,
    Field("name", STRING),
    Field("host", STRING),
    Field("port", UINT16),
    Field("security_protocol", INT16),
)
FEATURE: Final = struct(
    BrokerFeature,
    Field("name", STRING),
    Field("min_supported_version", INT16),
    Field("max_supported_version", INT16),
)
ENTITY: Final = struct(
    EntityData,
    Field("entity_type", STRING),
    Field("entity_name", nullable(STRING)),
)

_SCHEMAS: Final = (
    Schema(
        RegisterBrokerRecord,
        api_key=0,
        newest_version=3,
        fields=(
            Field("broker_id", INT32),
            Field("is_migrating_zk_broker", BOOL, since=2),
            Field("incarnation_id", UUID_TYPE),
            Field("broker_epoch", INT64),
            Field("end_points", array(ENDPOINT)),
            Field("features", array(FEATURE)),
            Field("rack", nullable(STRING)),
            Field("fenced", BOOL),
            Field("in_controlled_shutdown", BOOL, since=1),
            Field("log_dirs", array(UUID_TYPE), since=3, tag=0),
        ),
    ),
    Schema(
        UnregisterBrokerRecord,
        api_key=1,
        newest_version=0,
        fields=(Field("broker_id", INT32), Field("broker_epoch", INT64)),
    ),
    Schema(
        TopicRecord,
        api_key=2,
        newest_version=0,
        fields=(Field("name", STRING), Field("topic_id", UUID_TYPE)),
    ),
    Schema(
        PartitionRecord,
        api_key=3,
        newest_version=2,
        fields=(
            Field("partition_id", INT32),
            Field("topic_id", UUID_TYPE),
            Field("replicas", INT32_ARRAY),
            Field("isr", INT32_ARRAY),
            Field("removing_replicas", INT32_ARRAY),
            Field("adding_replicas", INT32_ARRAY),
            Field("leader", INT32),
            Field("leader_recovery_state", INT8, tag=0),
            Field("leader_epoch", INT32),
            Field("partition_epoch", INT32),
            Field("directories", array(UUID_TYPE), since=1),
            Field("eligible_leader_replicas", nullable(INT32_ARRAY), since=2, tag=1),
            Field("last_known_elr", nullable(INT32_ARRAY), since=2, tag=2),
        ),
    ),
    Schema(
        ConfigRecord,
        api_key=4,
        newest_version=0,
        fields=(
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("name", STRING),
            Field("value", nullable(STRING)),
        ),
    ),
    Schema(
        PartitionChangeRecord,
        api_key=5,
        newest_version=2,
        fields=(
            Field("partition_id", INT32),
            Field("topic_id", UUID_TYPE),
            Field("isr", nullable(INT32_ARRAY), tag=0),
            Field("leader", INT32, tag=1),
            Field("replicas", nullable(INT32_ARRAY), tag=2),
            Field("removing_replicas", nullable(INT32_ARRAY), tag=3),
            Field("adding_replicas", nullable(INT32_ARRAY), tag=4),
            Field("leader_recovery_state", INT8, tag=5),
            Field("directories", nullable(array(UUID_TYPE)), since=1, tag=8),
            Field("eligible_leader_replicas", nullable(INT32_ARRAY), since=2, tag=6),
            Field("last_known_elr", nullable(INT32_ARRAY), since=2, tag=7),
        ),
    ),
    Schema(
        FenceBrokerRecord,
        api_key=7,
        newest_version=0,
        fields=(Field("id", INT32), Field("epoch", INT64)),
    ),
    Schema(
        UnfenceBrokerRecord,
        api_key=8,
        newest_version=0,
        fields=(Field("id", INT32), Field("epoch", INT64)),
    ),
    Schema(RemoveTopicRecord, api_key=9, newest_version=0, fields=(Field("topic_id", UUID_TYPE),)),
    Schema(
        DelegationTokenRecord,
        api_key=10,
        newest_version=0,
        fields=(
            Field("owner", STRING),
            Field("requester", STRING),
            Field("renewers", array(STRING)),
            Field("issue_timestamp", INT64),
            Field("max_timestamp", INT64),
            Field("expiration_timestamp", INT64),
            Field("token_id", STRING),
        ),
    ),
    Schema(
        UserScramCredentialRecord,
        api_key=11,
        newest_version=0,
        fields=(
            Field("name", STRING),
            Field("mechanism", INT8),
            Field("salt", BYTES),
            Field("stored_key", BYTES),
            Field("server_key", BYTES),
            Field("iterations", INT32),
        ),
    ),
    Schema(
        FeatureLevelRecord,
        api_key=12,
        newest_version=0,
        fields=(Field("name", STRING), Field("feature_level", INT16)),
    ),
    Schema(
        ClientQuotaRecord,
        api_key=14,
        newest_version=0,
        fields=(
            Field("entity", array(ENTITY)),
            Field("key", STRING),
            Field("value", FLOAT64),
            Field("remove", BOOL),
        ),
    ),
    Schema(
        ProducerIdsRecord,
        api_key=15,
        newest_version=0,
        fields=(
            Field("broker_id", INT32),
            Field("broker_epoch", INT64),
            Field("next_producer_id", INT64),
        ),
    ),
    Schema(
        BrokerRegistrationChangeRecord,
        api_key=17,
        newest_version=2,
        fields=(
            Field("broker_id", INT32),
            Field("broker_epoch", INT64),
            Field("fenced", INT8, tag=0),
            Field("in_controlled_shutdown", INT8, since=1, tag=1),
            Field("log_dirs", array(UUID_TYPE), since=2, tag=2),
        ),
    ),
    Schema(
        AccessControlEntryRecord,
        api_key=18,
        newest_version=0,
        fields=(
            Field("id", UUID_TYPE),
            Field("resource_type", INT8),
            Field("resource_name", STRING),
            Field("pattern_type", INT8),
            Field("principal", STRING),
            Field("host", STRING),
            Field("operation", INT8),
            Field("permission_type", INT8),
        ),
    ),
    Schema(
        RemoveAccessControlEntryRecord,
        api_key=19,
        newest_version=0,
        fields=(Field("id", UUID_TYPE),),
    ),
    Schema(NoOpRecord, api_key=20, newest_version=0, fields=()),
    Schema(
        ZkMigrationStateRecord,
        api_key=21,
        newest_version=0,
        fields=(Field("zk_migration_state", INT8),),
    ),
    Schema(
        RemoveUserScramCredentialRecord,
        api_key=22,
        newest_version=0,
        fields=(Field("name", STRING), Field("mechanism", INT8)),
    ),
    Schema(
        BeginTransactionRecord,
        api_key=23,
        newest_version=0,
        fields=(Field("name", nullable(STRING), tag=0),),
    ),
    Schema(EndTransactionRecord, api_key=24, newest_version=0, fields=()),
    Schema(
        AbortTransactionRecord,
        api_key=25,
        newest_version=0,
        fields=(Field("reason", nullable(STRING), tag=0),),
    ),
    Schema(
        RemoveDelegationTokenRecord,
        api_key=26,
        newest_version=0,
        fields=(Field("token_id", STRING),),
    ),
    Schema(
        RegisterControllerRecord,
        api_key=27,
        newest_version=0,
        fields=(
            Field("controller_id", INT32),
            Field("incarnation_id", UUID_TYPE),
            Field("zk_migration_ready", BOOL),
            Field("end_points", array(ENDPOINT)),
            Field("features", array(FEATURE)),
        ),
    ),
)

BY_API_KEY: Final[Mapping[int, Schema]] = {schema.api_key: schema for schema in _SCHEMAS}
BY_TYPE: Final[Mapping[type[MetadataRecord], Schema]] = {
    schema.record_type: schema for schema in _SCHEMAS
}
