"""A snapshot from brokers alone: what clients can read, without the versions and times of znodes.

Each part is one request, or one for some hundred topics.  ``not_known`` names what brokers have no
request for, and what they refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse
from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
)
from kio.static.primitive import i8
from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_common.acls import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    by_code,
    pascal_name,
)
from kafka_common.json_values import JsonObject
from kafka_common.model import address_text
from kafka_common.sanitizer import DEFAULT_ENTITY, sanitize
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.snapshots.file import HIDDEN, SavedHeader, SavedMetadata, SnapshotRecord
from zkcontroller_cli.snapshots.reading import acl_record, entity_name, quota_of
from zkcontroller_cli.values.config_entities import BROKER, DEFAULT_NAME, ConfigEntity
from zkcontroller_cli.values.config_values import own_place
from zkcontroller_cli.wire.admin import configs_set_on, ongoing_reassignments
from zkcontroller_cli.wire.configs import describe_configs
from zkcontroller_cli.wire.metadata import answer_of
from zkcontroller_cli.wire.metadata_responses import ReportedMetadata
from zkcontroller_cli.wire.requests import (
    Deadline,
    ask_metadata,
    connected,
    parse_bootstrap,
    raise_for_code,
)
from zkcontroller_cli.znodes.session import now_ms
from zkcontroller_cli.znodes.topics import topic_id_text

TOPICS_A_REQUEST: Final = 500
"""The most topics in one request for configurations."""

_ONLY_ZOOKEEPER: Final = (
    "controller_epoch",
    "feature",
    "migration",
    "producer_id_block",
    "reassignment",
    "preferred_election",
    "deletion",
)
"""Kinds that no request of a client shows."""
_ANY: Final = 1
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def ask_snapshot(bootstrap: Bootstrap, answer_s: float) -> SavedMetadata:
    """Read a snapshot from brokers; CannotConnect if none of them answers.

    ``answer_s``: seconds that one request may take.
    """
    reading = _Reading(bootstrap, answer_s)
    began_ms = now_ms()
    async with connected(
        parse_bootstrap(bootstrap.servers), Deadline(answer_s), bootstrap.security
    ) as connection:
        response = answer_of(await ask_metadata(connection))
    await reading.take_metadata(response)
    await reading.take_configs(response)
    for kind, take in (
        ("quota", reading.take_quotas),
        ("scram_user", reading.take_scram_users),
        ("acl", reading.take_acls),
        ("delegation_token", reading.take_tokens),
    ):
        try:
            await take()
        except CommandFailed as error:
            reading.not_known[kind] = str(error)
    header = SavedHeader(response.cluster_id, began_ms, "brokers")
    return SavedMetadata(header, reading.records, reading.not_known)


class _Reading:
    """Collects the records of the snapshot from the responses to several requests."""

    def __init__(self, bootstrap: Bootstrap, answer_s: float) -> None:
        self._bootstrap = bootstrap
        self._answer_s = answer_s
        self.records: list[SnapshotRecord] = []
        self.not_known = dict.fromkeys(_ONLY_ZOOKEEPER, "only ZooKeeper holds it")

    def _add(self, kind: str, name: str, value: JsonObject) -> None:
        self.records.append(SnapshotRecord(kind, name, value, None))

    async def _ask(self, request: RequestPayload) -> ResponsePayload:
        where = parse_bootstrap(self._bootstrap.servers)
        deadline = Deadline(self._answer_s)
        async with connected(where, deadline, self._bootstrap.security) as connection:
            return await connection.request(request)

    async def take_metadata(self, response: ReportedMetadata) -> None:
        self._add("cluster", "cluster", {"cluster_id": response.cluster_id})
        if response.controller_id >= 0:
            self._add("controller", "controller", {"controller_id": response.controller_id})
        for broker_id, broker in sorted(response.brokers.items()):
            address = address_text(broker.host, broker.port)
            self._add("broker", str(broker_id), {"address": address, "rack": broker.rack})
        moving: dict[tuple[str, int], JsonObject] = {}
        try:
            for each in await ongoing_reassignments(self._bootstrap, Deadline(self._answer_s)):
                moving[each.topic, each.partition] = {
                    "adding_replicas": list(each.adding_replicas),
                    "removing_replicas": list(each.removing_replicas),
                }
        except CommandFailed as error:
            self.not_known["topic"] = f"what is added and removed by moves: {error}"
        self._add_topics(response, moving)
        for (topic, number), state in sorted(response.partitions.items()):
            self._add(
                "partition",
                f"{topic}-{number}",
                {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": [*state.isr]},
            )

    def _add_topics(
        self, response: ReportedMetadata, moving: Mapping[tuple[str, int], JsonObject]
    ) -> None:
        topics: dict[str, JsonObject] = {}
        for (topic, number), state in sorted(response.partitions.items()):
            partitions = topics.setdefault(topic, {})
            partitions[str(number)] = {
                "replicas": list(state.replicas),
                **moving.get((topic, number), {}),
            }
        for topic, partitions in topics.items():
            topic_id = topic_id_text(response.topic_ids.get(topic))
            self._add("topic", topic, {"topic_id": topic_id, "partitions": partitions})

    async def take_configs(self, response: ReportedMetadata) -> None:
        topics = sorted(response.topics)
        for start in range(0, len(topics), TOPICS_A_REQUEST):
            part = topics[start : start + TOPICS_A_REQUEST]
            try:
                found = await configs_set_on(self._bootstrap, Deadline(self._answer_s), part)
            except CommandFailed as error:
                self.not_known["topic_config"] = str(error)
                break
            for topic, config in sorted(found.items()):
                if config is None:
                    self.not_known["topic_config"] = f"the configuration of {topic} is not shown"
                else:
                    self._add("topic_config", topic, dict(config))
        for name in (DEFAULT_NAME, *map(str, sorted(response.brokers))):
            try:
                await self._take_broker_config(name)
            except CommandFailed as error:
                self.not_known["broker_config"] = str(error)

    async def _take_broker_config(self, name: str) -> None:
        entity = ConfigEntity(BROKER, name)
        described = await describe_configs(self._bootstrap, Deadline(self._answer_s), [entity])
        config: JsonObject = {}
        for setting in described[entity].values():
            own = own_place(entity, setting)
            if own is not None:
                config[own.name] = HIDDEN if setting.is_sensitive else own.value
        if config:
            self._add("broker_config", DEFAULT_ENTITY if entity.is_default else name, config)

    async def take_quotas(self) -> None:
        response = await self._ask(DescribeClientQuotasRequest(components=(), strict=False))
        assert isinstance(response, DescribeClientQuotasResponse), "request() answers in kind"
        raise_for_code("the quotas", response.error_code, response.error_message)
        for entry in response.entries or ():
            names = {
                each.entity_type: DEFAULT_ENTITY
                if each.entity_name is None
                else sanitize(each.entity_name)
                for each in entry.entity
            }
            entity = [(kind, names[kind]) for kind in ("user", "client-id", "ip") if kind in names]
            values: JsonObject = {each.key: quota_of(str(each.value)) for each in entry.values}
            self._add("quota", entity_name(entity), values)

    async def take_scram_users(self) -> None:
        response = await self._ask(DescribeUserScramCredentialsRequest(users=None))
        assert isinstance(response, DescribeUserScramCredentialsResponse)
        raise_for_code("the SCRAM users", response.error_code, response.error_message)
        for result in response.results:
            raise_for_code(f"user {result.user}", result.error_code, result.error_message)
            credentials: JsonObject = {
                _MECHANISMS.get(each.mechanism, str(each.mechanism)): {
                    "iterations": int(each.iterations)
                }
                for each in result.credential_infos
            }
            self._add("scram_user", result.user, credentials)

    async def take_acls(self) -> None:
        response = await self._ask(
            DescribeAclsRequest(
                resource_type_filter=i8(_ANY),
                resource_name_filter=None,
                pattern_type_filter=i8(_ANY),
                principal_filter=None,
                host_filter=None,
                operation=i8(_ANY),
                permission_type=i8(_ANY),
            )
        )
        assert isinstance(response, DescribeAclsResponse), "request() answers in kind"
        raise_for_code("the ACLs", response.error_code, response.error_message)
        for resource in response.resources:
            pattern = (
                pascal_name(by_code(ResourceType, resource.resource_type)),
                resource.resource_name,
                pascal_name(by_code(PatternType, resource.pattern_type)),
            )
            rules = [
                (
                    rule.principal,
                    rule.host,
                    pascal_name(by_code(AclOperation, rule.operation)),
                    pascal_name(by_code(PermissionType, rule.permission_type)),
                )
                for rule in resource.acls
            ]
            self.records += [acl_record(pattern, rule, None) for rule in sorted(rules)]

    async def take_tokens(self) -> None:
        response = await self._ask(DescribeDelegationTokenRequest(owners=None))
        assert isinstance(response, DescribeDelegationTokenResponse), "request() answers in kind"
        raise_for_code("the delegation tokens", response.error_code)
        for token in response.tokens:
            owner = f"{token.principal_type}:{token.principal_name}"
            requester = (
                f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
            )
            self._add(
                "delegation_token",
                token.token_id,
                {
                    "owner": owner,
                    # Before Kafka 3.3 a token is requested by its owner.
                    "requester": owner if requester == ":" else requester,
                    "renewers": [f"{r.principal_type}:{r.principal_name}" for r in token.renewers],
                    "issued_at_ms": int(token.issue_timestamp),
                    "expires_at_ms": int(token.expiry_timestamp),
                    "max_at_ms": int(token.max_timestamp),
                },
            )
