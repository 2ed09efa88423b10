"""What the active controller of a quorum answers on the wire, and what its log holds then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64

from kafka_common.protocol.api_versions import ApiKey, request_header_version
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.primitives import MAX_STRING_BYTES
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.security.principals import ANONYMOUS
from tests.support.envelopes import principal_bytes
from tests.support.frames import parse_response_header, request_header
from tests.unit.kraft.node.controller_client import BROKER, SOON, Client, client_of_voter

NO_ID: Final = UUID(int=0)


async def test_a_broker_registers_and_is_unfenced_by_its_first_heartbeat(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        registered = await client.register()
        assert ErrorCode(registered.error_code) is ErrorCode.none

        answered = await client.heartbeat()

        assert ErrorCode(answered.error_code) is ErrorCode.none
        assert answered.is_caught_up
        assert not answered.is_fenced
        assert not answered.should_shut_down
        assert (await client.heartbeat(want_shut_down=True)).should_shut_down


async def test_a_heartbeat_of_another_life_is_refused(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        client.broker_epoch += 1

        answered = await client.heartbeat()

        assert ErrorCode(answered.error_code) is ErrorCode.stale_broker_epoch


async def test_topics_are_created_once_validated_and_never_twice(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()

        only_validated = await client.create("validated", validate_only=True)
        created = await client.create("orders", "twice", "twice", "__cluster_metadata")
        again = await client.create("orders")

        assert ErrorCode(only_validated["validated"].error_code) is ErrorCode.none
        assert ErrorCode(created["orders"].error_code) is ErrorCode.none
        assert created["orders"].num_partitions == 2
        assert {config.name for config in created["orders"].configs} >= {"retention.ms"}
        assert ErrorCode(created["twice"].error_code) is ErrorCode.invalid_request
        assert ErrorCode(created["__cluster_metadata"].error_code) is ErrorCode.invalid_request
        assert ErrorCode(again["orders"].error_code) is ErrorCode.topic_already_exists
        assert await client.topics() == {"orders"}


async def test_no_topic_has_more_replicas_than_there_are_brokers(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()

        refused = await client.create("wide", replicas=2)

        assert ErrorCode(refused["wide"].error_code) is ErrorCode.invalid_replication_factor
        assert await client.topics() == set()


async def test_topics_are_deleted_by_name_and_by_id(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        created = await client.create("by-name", "by-id", "kept")

        results = await client.delete(
            "by-name", created["by-id"].topic_id, "unknown", UUID(int=99), "kept",
            created["kept"].topic_id,
        )  # fmt: skip

        assert sorted(results, key=str) == sorted(
            [
                ("by-name", ErrorCode.none),
                ("by-id", ErrorCode.none),
                ("unknown", ErrorCode.unknown_topic_or_partition),
                (None, ErrorCode.unknown_topic_id),
                ("kept", ErrorCode.invalid_request),
            ],
            key=str,
        )
        assert await client.topics() == {"kept"}


async def test_a_topic_gets_more_partitions_but_never_fewer(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        await client.create("grown", "kept")
        schema = request_schema(ApiKey.CREATE_PARTITIONS, 3)

        response = await client.ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            topics=tuple(
                schema.part("CreatePartitionsTopic", name=name, count=i32(count), assignments=None)
                for name, count in (("grown", 5), ("kept", 1))
            ),
            timeout=SOON,
            validate_only=False,
        )

        verdicts = {row.name: ErrorCode(row.error_code) for row in response.results}
        assert verdicts == {"grown": ErrorCode.none, "kept": ErrorCode.invalid_partitions}


async def test_configurations_are_changed_key_by_key_and_as_a_whole(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        await client.create("set")
        schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)

        def resource(name: str, *keys: tuple[str, str]) -> Any:
            configs = tuple(
                schema.part("AlterableConfig", name=key, config_operation=i8(0), value=value)
                for key, value in keys
            )
            return schema.part(
                "AlterConfigsResource", resource_type=i8(2), resource_name=name, configs=configs
            )

        response = await client.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=(
                resource("set", ("retention.ms", "1000")),
                resource("missing", ("retention.ms", "1000")),
            ),
            validate_only=False,
        )
        wrong = await client.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=(resource("set", ("no.such.key", "1")),),
            validate_only=False,
        )

        verdicts = {row.resource_name: ErrorCode(row.error_code) for row in response.responses}
        assert verdicts["set"] is ErrorCode.none
        assert verdicts["missing"] is ErrorCode.unknown_topic_or_partition
        [refused] = wrong.responses
        assert ErrorCode(refused.error_code) is ErrorCode.invalid_config

        altered = [await _alter_as_a_whole(client, key) for key in ("segment.bytes", "no.such.key")]

        assert altered == [ErrorCode.none, ErrorCode.invalid_config]
        assert await _keys_set(client) == {"segment.bytes"}


async def _alter_as_a_whole(client: Client, key: str) -> ErrorCode:
    schema = request_schema(ApiKey.ALTER_CONFIGS, 2)
    config = schema.part("AlterableConfig", name=key, value="2000000")
    resource = schema.part(
        "AlterConfigsResource", resource_type=i8(2), resource_name="set", configs=(config,)
    )
    response = await client.ask(ApiKey.ALTER_CONFIGS, 2, resources=(resource,), validate_only=False)
    [result] = response.responses
    return ErrorCode(result.error_code)


async def _keys_set(client: Client) -> set[str]:
    """The keys whose values are the topic's own."""
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
    resource = schema.part(
        "DescribeConfigsResource", resource_type=i8(2), resource_name="set", configuration_keys=None
    )
    response = await client.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=(resource,),
        include_synonyms=False,
        include_documentation=False,
    )
    [result] = response.results
    return {config.name for config in result.configs if config.config_source == 1}


@pytest.mark.parametrize("version", [0, 1])
async def test_a_refusal_that_quotes_the_longest_key_reaches_its_client(
    tmp_path: Path, version: int
) -> None:
    async with client_of_voter(tmp_path) as client:
        schema = request_schema(ApiKey.ALTER_CLIENT_QUOTAS, version)
        longest = "x" * MAX_STRING_BYTES

        response = await client.ask(
            ApiKey.ALTER_CLIENT_QUOTAS,
            version,
            entries=(
                schema.part(
                    "EntryData",
                    entity=(schema.part("EntityData", entity_type="user", entity_name="alice"),),
                    ops=(schema.part("OpData", key=longest, value=1.0, remove=False),),
                ),
            ),
            validate_only=False,
        )

        [refused] = response.entries
        assert ErrorCode(refused.error_code) is ErrorCode.invalid_request
        assert "xxx…" in refused.error_message


async def test_producer_ids_come_in_blocks_that_are_given_once(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()

        blocks = [
            await client.ask(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                0,
                broker_id=i32(BROKER),
                broker_epoch=i64(client.broker_epoch),
            )
            for _ in range(2)
        ]
        refused = await client.ask(
            ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=i32(99), broker_epoch=i64(0)
        )

        assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
            (0, 1000),
            (1000, 1000),
        ]
        assert ErrorCode(refused.error_code) is ErrorCode.stale_broker_epoch


async def test_a_leader_may_shrink_its_isr_but_not_below_itself(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        topic = (await client.create("led", partitions=1))["led"]
        schema = request_schema(ApiKey.ALTER_PARTITION, 3)
        proposal = schema.part(
            "PartitionData",
            partition_index=i32(0),
            leader_epoch=i32(0),
            new_isr_with_epochs=(),
            leader_recovery_state=i8(0),
            partition_epoch=i32(0),
        )

        response = await client.ask(
            ApiKey.ALTER_PARTITION,
            3,
            broker_id=i32(BROKER),
            broker_epoch=i64(client.broker_epoch),
            topics=(
                schema.part("TopicData", topic_id=topic.topic_id, partitions=(proposal,)),
                schema.part("TopicData", topic_id=UUID(int=5), partitions=(proposal,)),
            ),
        )

        codes = [ErrorCode(row.partitions[0].error_code) for row in response.topics]
        assert codes == [ErrorCode.invalid_request, ErrorCode.unknown_topic_id]


async def forwarded(client: Client, api_key: ApiKey, version: int, body: bytes) -> Any:
    head = request_header(int(api_key), version, 42, "client")
    assert request_header_version(int(api_key), version) >= 1
    return await client.ask(
        ApiKey.ENVELOPE,
        0,
        request_data=head + body,
        request_principal=principal_bytes(ANONYMOUS),
        client_host_address=b"\x7f\0\0\1",
    )


def creation(name: str) -> bytes:
    schema = request_schema(ApiKey.CREATE_TOPICS, 7)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=i32(1),
        replication_factor=i16(1),
        assignments=(),
        configs=(),
    )
    return write(schema.request(topics=(topic,), timeout=SOON, validate_only=False))


async def test_a_broker_forwards_what_its_client_wants_in_an_envelope(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()

        envelope = await forwarded(client, ApiKey.CREATE_TOPICS, 7, creation("forwarded"))

        assert ErrorCode(envelope.error_code) is ErrorCode.none
        correlation_id, start = parse_response_header(
            int(ApiKey.CREATE_TOPICS), 7, envelope.response_data
        )
        assert correlation_id == 42
        inner: Any = read_response(int(ApiKey.CREATE_TOPICS), 7, envelope.response_data, start)
        assert [(t.name, ErrorCode(t.error_code)) for t in inner.topics] == [
            ("forwarded", ErrorCode.none)
        ]
        assert await client.topics() == {"forwarded"}


@pytest.mark.parametrize(
    ("api_key", "version", "body", "error"),
    [
        (ApiKey.CREATE_TOPICS, 7, b"\xff", ErrorCode.unsupported_version),
        (ApiKey.CREATE_TOPICS, 1, b"", ErrorCode.unsupported_version),
        (ApiKey.BROKER_HEARTBEAT, 1, b"", ErrorCode.invalid_request),
    ],
)
async def test_what_cannot_be_forwarded_is_refused_by_the_envelope(
    tmp_path: Path, api_key: ApiKey, version: int, body: bytes, error: ErrorCode
) -> None:
    async with client_of_voter(tmp_path) as client:
        envelope = await forwarded(client, api_key, version, body)

        assert ErrorCode(envelope.error_code) is error
        assert envelope.response_data is None


async def test_a_controller_that_does_not_lead_says_so_by_the_envelope(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, voters=(1, 2)) as client:
        envelope = await forwarded(client, ApiKey.CREATE_TOPICS, 7, creation("refused"))
        direct = await client.create("refused")

        assert ErrorCode(envelope.error_code) is ErrorCode.not_controller
        assert envelope.response_data is None
        assert ErrorCode(direct["refused"].error_code) is ErrorCode.not_controller
        assert await client.topics() == set()

    # The other voter never comes, so no one is ever elected.


async def test_rules_are_refused_for_want_of_an_authorizer(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        schema = request_schema(ApiKey.CREATE_ACLS, 3)
        rule = schema.part(
            "AclCreation",
            resource_type=i8(2),
            resource_name="orders",
            resource_pattern_type=i8(3),
            principal="User:alice",
            host="*",
            operation=i8(3),
            permission_type=i8(3),
        )

        response = await client.ask(ApiKey.CREATE_ACLS, 3, creations=(rule, rule))

        codes = [ErrorCode(row.error_code) for row in response.results]
        assert codes == [ErrorCode.security_disabled] * 2


async def test_feature_levels_that_are_not_known_are_refused(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        schema = request_schema(ApiKey.UPDATE_FEATURES, 1)
        update = schema.part(
            "FeatureUpdateKey",
            feature="metadata.version",
            max_version_level=i16(99),
            upgrade_type=i8(1),
        )

        response = await client.ask(
            ApiKey.UPDATE_FEATURES,
            1,
            timeout=SOON,
            feature_updates=(update,),
            validate_only=False,
        )

        [result] = response.results
        assert ErrorCode(result.error_code) is ErrorCode.invalid_update_version
        assert result.feature == "metadata.version"
