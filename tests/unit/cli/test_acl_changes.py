"""``zkctl acl add`` and ``remove`` at two brokers on sockets, which may be late or refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from itertools import starmap
from typing import Any, Final

import pytest
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseBroker
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i32Timedelta

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.protocol.api_versions import ApiKey, api_versions_response
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.security.acl_cache import AclBinding, AclCache, VersionedAcls
from replica_manager.server.acl_messages import binding_of, deleted, described, filter_of
from tests.support.cli_world import CommandResult, Zkctl, installed_zkctl
from tests.support.wire_peer import WirePeer

TIMED_OUT, REFUSED = 4, 5
NONE: Final = ErrorCode.none
NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
AUTHORIZER: Final = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
EVERYONE: Final = "allow.everyone.if.no.acl.found"
OFFERED: Final = {
    ApiKey.METADATA: (0, 12),
    ApiKey.DESCRIBE_ACLS: (0, 3),
    ApiKey.CREATE_ACLS: (0, 3),
    ApiKey.DELETE_ACLS: (0, 3),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (0, 3),
    ApiKey.DESCRIBE_CONFIGS: (0, 4),
}


def rule(principal: str, operation: AclOperation = AclOperation.READ) -> AclBinding:
    entry = AccessControlEntry(principal, "*", operation, PermissionType.ALLOW)
    return AclBinding(ResourcePattern(ResourceType.TOPIC, "orders"), entry)


class RuleBroker:
    """One broker: its own view of the rules, and what clients sent it."""

    def __init__(self, cluster: RuleCluster) -> None:
        self._cluster = cluster
        self.peer = WirePeer(self._answer)
        self.asked: list[tuple[ApiKey, Any]] = []
        self.late_for = 0
        """So many times it shows the rules as they were at first."""
        self._first = set(cluster.rules)

    async def _answer(self, key: int, version: int, request: Any) -> Any:
        self.asked.append((ApiKey(key), request))
        schema = response_schema(key, version) if key != ApiKey.METADATA else None
        match key:
            case ApiKey.API_VERSIONS:
                return api_versions_response(version, {int(k): v for k, v in OFFERED.items()})
            case ApiKey.METADATA:
                return self._cluster.metadata()
            case ApiKey.DESCRIBE_ACLS:
                assert schema is not None
                error = self._cluster.describe_error
                return schema.response(
                    error_code=error,
                    error_message=None,
                    resources=() if error else described(schema, self._shown(filter_of(request))),
                )
            case ApiKey.DESCRIBE_CONFIGS:
                [resource] = request.resources
                entries = tuple(starmap(_config, self._cluster.settings.items()))
                result = DescribeConfigsResult(
                    error_code=NONE,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=entries,
                )
                return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=(result,))
            case ApiKey.CREATE_ACLS:
                assert schema is not None
                return schema.response(results=tuple(self._created(schema, request)))
            case ApiKey.DELETE_ACLS:
                assert schema is not None
                return schema.response(filter_results=tuple(self._removed(schema, request)))
            case _:
                assert schema is not None
                return schema.response(error_code=self._cluster.describe_error, tokens=())

    def _shown(self, wanted: Any) -> list[AclBinding]:
        rules = self._cluster.rules
        if self.late_for:
            self.late_for -= 1
            rules = self._first
        by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
        for pattern, entry in sorted(rules):
            by_pattern.setdefault(pattern, []).append(entry)
        cache = AclCache({p: VersionedAcls(tuple(those), 0) for p, those in by_pattern.items()})
        return cache.bindings(wanted)

    def _created(self, schema: Any, request: Any) -> Iterator[Any]:
        for creation in request.creations:
            binding = binding_of(creation)
            error = self._cluster.refused.get(binding, NONE)
            if error is NONE:
                self._cluster.rules.add(binding)
            yield schema.part("AclCreationResult", error_code=error, error_message=None)

    def _removed(self, schema: Any, request: Any) -> Iterator[Any]:
        for wanted in map(filter_of, request.filters):
            gone = [each for each in self._cluster.rules if wanted.matches(each)]
            self._cluster.rules -= set(gone)
            yield schema.part(
                "DeleteAclsFilterResult",
                error_code=NONE,
                error_message=None,
                matching_acls=tuple(deleted(schema, *each) for each in gone),
            )


def _config(name: str, value: str | None) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=True,
        config_source=i8(4),
        is_sensitive=value is None,
        synonyms=(),
        config_type=i8(2),
        documentation=None,
    )


class RuleCluster:
    """Two brokers with the same rules."""

    def __init__(self, zkctl: Zkctl, *rules: AclBinding) -> None:
        self._zkctl = zkctl
        self.rules = set(rules)
        self.refused: dict[AclBinding, ErrorCode] = {}
        self.describe_error = NONE
        self.settings: dict[str, str | None] = dict(AUTHORIZER)
        self.brokers = [RuleBroker(self), RuleBroker(self)]
        self.absent_port: int | None = None

    def metadata(self) -> MetadataResponse:
        ports = [each.peer.port for each in self.brokers]
        if self.absent_port is not None:
            ports[1] = self.absent_port
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                MetadataResponseBroker(
                    node_id=BrokerId(number), host="127.0.0.1", port=i32(port), rack=None
                )
                for number, port in enumerate(ports, 1)
            ),
            cluster_id="one",
            controller_id=BrokerId(1),
            topics=(),
        )

    def __call__(self, *arguments: str, timeout: str = "10") -> CommandResult:
        """Runs ``zkctl`` at broker 1."""

        async def run() -> CommandResult:
            for each in self.brokers:
                await each.peer.listen()
            try:
                server = f"127.0.0.1:{self.brokers[0].peer.port}"
                words = ("-b", server, "-o", "json", "--timeout", timeout)
                return await asyncio.to_thread(self._zkctl, *arguments, *words)
            finally:
                for each in self.brokers:
                    await each.peer.close()

        return asyncio.run(run())

    def changes(self) -> list[Any]:
        """What was sent to change something."""
        keys = (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
        return [request for each in self.brokers for key, request in each.asked if key in keys]


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


ADD: Final = ("acl", "add", "--allow-principal", "User:bob", "--operation", "read")
BOB: Final = rule("User:bob")


def test_a_broker_that_learns_of_it_later_is_waited_for(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl)
    cluster.brokers[1].late_for = 2

    result = cluster(*ADD, "--topic", "orders", "--yes")

    assert result.exit_code == 0, result.stderr
    assert [row["is_there"] for row in result.json] == [True]
    assert [key for key, _ in cluster.brokers[1].asked].count(ApiKey.DESCRIBE_ACLS) == 3


def test_a_broker_that_does_not_learn_of_it_in_time_is_named(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl)
    cluster.brokers[1].late_for = 1_000_000

    result = cluster(*ADD, "--topic", "orders", "--yes", timeout="1")

    assert result.exit_code == TIMED_OUT
    assert [row["is_there"] for row in result.json] == [False]
    assert "not added at brokers 2: allow User:bob read on topic:orders (1 of 1)" in result.stderr
    assert "zkctl broker list" in result.stderr


def test_a_broker_that_cannot_be_asked_is_no_proof(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl)
    cluster.absent_port = 1

    result = cluster(*ADD, "--topic", "orders", "--yes")

    assert result.exit_code == TIMED_OUT
    assert "warning: broker 2 could not be asked" in result.stderr
    assert "brokers 2 did not prove the change" in result.stderr
    assert cluster.rules == {BOB}


def test_what_a_broker_refuses_is_shown_among_what_it_added(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl)
    refused = BOB._replace(pattern=ResourcePattern(ResourceType.TOPIC, "a/b"))
    cluster.refused[refused] = ErrorCode.invalid_request

    result = cluster(*ADD, "--topic", "orders", "--topic", "a/b", "--yes")

    assert result.exit_code == REFUSED
    assert [(row["resource"], row["is_there"], row["error"]) for row in result.json] == [
        ("orders", True, None),
        ("a/b", False, "INVALID_REQUEST"),
    ]
    assert "1 of 2 ACLs are not added" in result.stderr


def test_what_is_there_already_is_not_sent_again(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl, BOB)

    result = cluster(*ADD, "--topic", "orders", "--topic", "paid", "--yes")

    assert result.exit_code == 0
    assert [each.resource_name for each in cluster.changes()[0].creations] == ["paid"]
    assert "1 of 2 are there already" in result.stderr


@pytest.mark.parametrize("verb", ["add", "remove"])
def test_a_dry_run_sends_no_change(zkctl: Zkctl, verb: str) -> None:
    cluster = RuleCluster(zkctl, BOB)

    result = cluster("acl", verb, *ADD[2:], "--topic", "orders", "--dry-run")

    assert result.exit_code == 0
    assert [row["principal"] for row in result.json] == ["User:bob"]
    assert cluster.changes() == []
    assert cluster.rules == {BOB}


def test_what_came_after_the_question_is_not_removed(zkctl: Zkctl) -> None:
    eve = rule("User:eve")
    cluster = RuleCluster(zkctl, BOB, rule("User:carol"))
    # The rule of another client comes between the listing and the removal.
    first = cluster.brokers[0]
    first.late_for = 1
    cluster.rules.add(eve)

    result = cluster("acl", "remove", "--topic", "orders", "--yes")

    assert result.exit_code == 0, result.stderr
    assert sorted(row["principal"] for row in result.json) == ["User:bob", "User:carol"]
    assert cluster.rules == {eve}
    [request] = cluster.changes()
    assert [(each.principal_filter, each.operation) for each in request.filters] == [
        ("User:bob", AclOperation.READ),
        ("User:carol", AclOperation.READ),
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, None),
        ({EVERYONE: "false"}, None),
        ({EVERYONE: "true"}, f"{EVERYONE} is true, so every"),
        ({EVERYONE: None}, f"if {EVERYONE} is true, every"),
    ],
)
def test_the_first_and_the_last_acl_of_a_resource_are_noted_where_everyone_is_allowed(
    zkctl: Zkctl, settings: dict[str, str | None], said: str | None
) -> None:
    cluster = RuleCluster(zkctl)
    cluster.settings |= settings

    first = cluster(*ADD, "--topic", "orders", "--yes")
    cluster.brokers = [RuleBroker(cluster), RuleBroker(cluster)]
    more = cluster(*ADD, "--operation", "write", "--topic", "orders", "--yes")
    cluster.brokers = [RuleBroker(cluster), RuleBroker(cluster)]
    one_of_them = cluster("acl", "remove", "--operation", "read", "--topic", "orders", "--yes")
    cluster.brokers = [RuleBroker(cluster), RuleBroker(cluster)]
    last = cluster("acl", "remove", "--topic", "orders", "--yes")

    assert {each.exit_code for each in (first, more, one_of_them, last)} == {0}
    assert cluster.rules == set()
    assert "the first ACLs" not in more.stderr
    assert "the last ACLs" not in one_of_them.stderr
    if said is None:
        assert "note:" not in first.stderr + last.stderr
    else:
        assert f"the first ACLs of topic:orders: {said} other principal loses it" in first.stderr
        assert f"the last ACLs of topic:orders: {said} principal may use it" in last.stderr


def test_what_brokers_show_of_their_settings_counts(zkctl: Zkctl) -> None:
    cluster = RuleCluster(zkctl, BOB)
    cluster.settings |= {"super.users": "User:admin;User:ops", EVERYONE: "true"}
    asked = ("acl", "explain", "--operation", "read", "--principal")

    of_ops = cluster(*asked, "User:ops", "topic:orders")
    cluster.brokers = [RuleBroker(cluster), RuleBroker(cluster)]
    of_carol = cluster(*asked, "User:carol", "topic:other")

    assert (of_ops.json["because"], of_ops.json["is_super_user"]) == ("super_user", True)
    assert of_carol.json["is_allowed"] is True
    assert of_carol.json["reason"] == f"there is no ACL at all, and {EVERYONE} is true"
    assert of_ops.stderr + of_carol.stderr == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.security_disabled, "authorizer.class.name is not set"),
        (ErrorCode.cluster_authorization_failed, "that takes Describe on the cluster"),
    ],
)
def test_a_broker_without_acls_or_rights_is_refused_with_the_reason(
    zkctl: Zkctl, error: ErrorCode, said: str
) -> None:
    cluster = RuleCluster(zkctl)
    cluster.describe_error = error

    for words in (("acl", "list"), (*ADD, "--topic", "orders", "--yes")):
        result = cluster(*words)
        assert result.exit_code == REFUSED
        assert said in result.stderr
    assert cluster.changes() == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.delegation_token_auth_disabled, "set delegation.token.secret.key"),
        (ErrorCode.delegation_token_request_not_allowed, "--command-config FILE"),
    ],
)
@pytest.mark.parametrize("verb", ["create", "renew", "expire"])
def test_tokens_that_are_off_are_refused_before_anything_is_sent(
    zkctl: Zkctl, verb: str, error: ErrorCode, said: str
) -> None:
    cluster = RuleCluster(zkctl)
    cluster.describe_error = error

    result = cluster("token", verb, *(() if verb == "create" else ("id",)), "--yes")

    assert result.exit_code == REFUSED
    assert said in result.stderr
    assert {key for each in cluster.brokers for key, _ in each.asked} <= {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
