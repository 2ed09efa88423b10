"""``zkctl acl`` and ``zkctl token`` on two secured brokers of ours."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.broker_processes import Cluster
from tests.integration.client_logins import login, over_tls, trusting, written
from tests.integration.secured_cluster import (
    Certificates,
    address,
    broker_properties,
    secured_cluster,
)
from tests.support.cli_world import CommandResult, zkctl_here

pytestmark = pytest.mark.integration

FINDING, USAGE, REFUSED = 1, 2, 5
SECRET: Final = "opensesame-0451"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def connect(zookeeper_connect: str) -> str:
    return f"{zookeeper_connect}/cli-acls"


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, connect: str, certificates: Certificates
) -> Iterator[Cluster]:
    """One cluster for all: its brokers take the longest."""
    properties = broker_properties(certificates, **{"delegation.token.secret.key": SECRET})
    directory = tmp_path_factory.mktemp("cluster")
    with secured_cluster(directory, connect, properties) as cluster:
        yield cluster


@pytest.fixture
def as_user(
    cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> Callable[..., CommandResult]:
    """Runs a verb as a user, by SCRAM over TLS, at one of the brokers."""

    def run(
        user: str, *arguments: str, broker_id: int = 1, listener: str = "CLOSED"
    ) -> CommandResult:
        file = written(tmp_path, over_tls(certificates, user))
        server = address(cluster, broker_id, listener)
        return zkctl_here("-b", server, "--command-config", file, "-o", "json", *arguments)

    return run


@pytest.fixture
def as_admin(as_user: Callable[..., CommandResult]) -> Callable[..., Any]:
    """Runs a verb that must succeed, as a super user; what it says."""

    def run(*arguments: str, broker_id: int = 1) -> Any:
        result = as_user("admin", *arguments, broker_id=broker_id)
        assert result.exit_code == 0, result.stderr
        return result.json

    return run


def test_what_is_added_counts_at_every_broker_and_is_removed_exactly(
    as_user: Callable[..., CommandResult], as_admin: Callable[..., Any], connect: str
) -> None:
    who = ("--allow-principal", "User:bob", "--producer", "--idempotent", "--topic", "paid")
    planned = as_admin("acl", "add", *who, "--dry-run")
    untouched = as_admin("acl", "list", "--topic", "paid")
    added = as_admin("acl", "add", *who, "--yes")
    again = as_user("admin", "acl", "add", *who, "--yes")
    at_2 = as_admin("acl", "list", "--topic", "paid", broker_id=2)
    in_zookeeper = zkctl_here("acl", "list", "--topic", "paid", "-z", connect, "-o", "json").json

    assert untouched == []
    assert {row["is_there"] for row in planned} == {False}
    assert {row["is_there"] for row in added} == {True}
    assert {(row["resource"], row["operation"]) for row in added} == {
        *(("paid", operation) for operation in ("write", "describe", "create")),
        ("kafka-cluster", "idempotent_write"),
    }
    assert "4 of 4 are there already" in again.stderr
    assert again.exit_code == 0
    assert at_2 == in_zookeeper
    assert len(at_2) == 3

    other = ("--allow-principal", "User:eve", "--operation", "write", "--topic", "paid")
    as_admin("acl", "add", *other, "--yes")
    removed = as_user("admin", "acl", "remove", *who, "--yes")
    left = as_admin("acl", "list", "--topic", "paid", broker_id=2)

    assert removed.exit_code == 0, removed.stderr
    assert "remove: allow User:bob write on topic:paid" in removed.stderr
    assert {row["is_there"] for row in removed.json} == {False}
    assert [row["principal"] for row in left] == ["User:eve"]
    as_admin("acl", "remove", "--topic", "paid", "--yes")
    nothing = as_user("admin", "acl", "remove", "--topic", "paid", "--yes")
    assert nothing.exit_code == REFUSED
    assert "no ACL matches" in nothing.stderr


def test_removal_by_match_shows_all_that_applies_and_removes_no_more(
    as_user: Callable[..., CommandResult], as_admin: Callable[..., Any]
) -> None:
    prefixed = ("--resource-pattern-type", "prefixed")
    as_admin(*("acl", "add", "--allow-principal", "User:bob", "--topic", "m-", *prefixed, "--yes"))
    as_admin("acl", "add", "--deny-principal", "User:bob", "--topic", "m-1", "--yes")
    as_admin("acl", "add", "--allow-principal", "User:bob", "--topic", "m-2", "--yes")

    match = ("--topic", "m-1", "--resource-pattern-type", "match")
    planned = as_admin("acl", "remove", *match, "--dry-run")
    removed = as_user("admin", "acl", "remove", *match, "--yes")

    assert [(row["resource"], row["pattern_type"]) for row in planned] == [
        ("m-", "prefixed"),
        ("m-1", "literal"),
    ]
    assert removed.stderr.count("remove: ") == 2
    left = as_admin("acl", "list", "--principal", "User:bob")
    assert [row["resource"] for row in left] == ["m-2"]
    as_admin("acl", "remove", "--principal", "User:bob", "--yes")


def test_notes_say_what_a_rule_does_to_others_and_what_wins_over_it(
    as_user: Callable[..., CommandResult], as_admin: Callable[..., Any]
) -> None:
    dry = ("--dry-run", "--operation", "read")
    first = as_user("admin", *("acl", "add", "--allow-principal", "User:x", "--topic", "n", *dry))
    as_admin("acl", "add", "--deny-principal", "User:*", "--topic", "n", "--yes")
    beaten = as_user("admin", *("acl", "add", "--allow-principal", "User:x", "--topic", "n", *dry))
    star = as_user("admin", *("acl", "add", "--allow-principal", "User:x", "--topic", "n*", *dry))

    assert "first ACLs" not in first.stderr  # allow.everyone.if.no.acl.found is false
    assert "deny User:* all on topic:n wins over allow User:x read on topic:n" in beaten.stderr
    assert "one resource with a * in its name" in star.stderr
    as_admin("acl", "remove", "--topic", "n", "--yes")


def test_explain_says_what_the_broker_does_and_its_command_allows_it(
    as_user: Callable[..., CommandResult], as_admin: Callable[..., Any]
) -> None:
    asked = (
        "acl",
        "explain",
        "--principal",
        "User:alice",
        "--operation",
        "create",
        "topic:her-own",
    )
    before = as_user("admin", *asked, "--check")
    refused = as_user("alice", "topic", "create", "her-own", "--replica-assignment", "1")
    [command] = before.json["commands"]
    as_admin(*command.split()[1:], "--yes")
    after = as_user("admin", *asked, "--check")
    created = as_user("alice", "topic", "create", "her-own", "--replica-assignment", "1")

    assert before.exit_code == FINDING
    assert (before.json["is_allowed"], before.json["is_super_user"]) == (False, None)
    assert refused.exit_code == REFUSED
    assert (after.exit_code, after.json["because"]) == (0, "allow")
    assert created.exit_code == 0, created.stderr
    as_admin("topic", "delete", "her-own", "--yes")


def test_who_lists_the_rules_of_the_brokers(as_admin: Callable[..., Any]) -> None:
    rows = as_admin("acl", "who", "topic:alice-secret", "--operation", "describe")
    of_alice = as_admin("acl", "who", "--principal", "User:alice")

    assert ("User:*", False, "deny User:* describe on topic:alice-secret") in [
        (row["principal"], row["is_allowed"], row["rule"]) for row in rows
    ]
    assert "alice-" in {row["resource"] for row in of_alice if row["is_allowed"]}


def test_a_user_without_the_right_is_refused_with_the_next_step(
    as_user: Callable[..., CommandResult],
) -> None:
    listed = as_user("alice", "acl", "list")
    added = as_user("alice", *("acl", "add", "--allow-principal", "User:a", "--cluster", "--yes"))

    for result in (listed, added):
        assert result.exit_code == REFUSED
        assert result.stdout == ""
        assert "that takes Describe on the cluster" in result.stderr


# Tokens.


def test_a_token_lives_its_life_at_both_brokers(
    as_user: Callable[..., CommandResult],
    as_admin: Callable[..., Any],
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    planned = as_admin("token", "create", "--renewer", "User:admin", "--dry-run")
    made = as_user("alice", "token", "create", "--renewer", "User:admin", "--yes")
    token = made.json
    listed = as_user("admin", "token", "list", "--owner", "User:alice", broker_id=2)

    assert (planned["token_id"], planned["hmac"]) == (None, None)
    assert made.exit_code == 0, made.stderr
    assert (token["owner"], token["requester"]) == ("User:alice", "User:alice")
    assert (token["renewers"], token["is_shown"]) == (["User:admin"], True)
    assert len(base64.b64decode(token["hmac"])) == 64
    assert "not shown again" in made.stderr
    assert [row["token_id"] for row in listed.json] == [token["token_id"]]
    assert token["hmac"] not in listed.stdout + listed.stderr
    assert as_admin("token", "list", "--requester", "User:bob") == []

    # It is a login: of its owner, and one that gets no token.
    module = login("SCRAM-SHA-512", token["token_id"], token["hmac"])
    module["sasl.jaas.config"] = module["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    properties = {"security.protocol": "SASL_SSL", **trusting(certificates), **module}
    directory = tmp_path / "token"
    directory.mkdir()
    by_token = ("--command-config", written(directory, properties))
    at_2 = ("-b", address(cluster, 2, "CLOSED"))
    assert zkctl_here(*at_2, *by_token, "topic", "list").exit_code == 0
    refused = zkctl_here(*at_2, *by_token, "token", "create", "--yes")
    assert refused.exit_code == REFUSED
    assert "and not by a token" in refused.stderr

    # The renewer prolongs it by its id, the owner ends it by its HMAC.
    named = ("--", token["token_id"])  # which may begin with a dash
    renewed = as_admin("token", "renew", "--period", "60000", "--yes", *named)
    file = tmp_path / "hmac"
    file.write_text(token["hmac"] + "\n")
    ended = as_user("alice", "token", "expire", "--hmac-file", str(file), "--yes", broker_id=2)

    assert renewed["is_shown"]
    assert renewed["previous_expires_at_ms"] == token["expires_at_ms"]
    assert renewed["expires_at_ms"] < token["expires_at_ms"]
    assert ended.exit_code == 0, ended.stderr
    assert ended.json["is_shown"]
    assert as_admin("token", "list") == []
    again = as_user("alice", "token", "expire", "--yes", *named)
    assert again.exit_code == REFUSED
    assert "you see no token" in again.stderr


def test_a_renewal_that_shortens_the_life_of_a_token_is_announced_as_such(
    as_user: Callable[..., CommandResult],
) -> None:
    made = as_user("alice", "token", "create", "--max-lifetime", "600000", "--yes")
    named = ("--dry-run", "--", made.json["token_id"])

    shorter = as_user("alice", "token", "renew", "--period", "60000", *named)
    longer = as_user("alice", "token", "renew", "--period", "6000000", *named)
    as_user("alice", "token", "expire", "--yes", *named[1:])

    assert made.json["expires_at_ms"] == made.json["max_at_ms"]
    assert "note: it expires sooner by this than without it" in shorter.stderr
    assert "changes nothing" not in shorter.stderr
    assert "to renew it changes nothing" in longer.stderr


def test_a_token_for_another_user_is_not_shown_to_its_requester(
    as_user: Callable[..., CommandResult], as_admin: Callable[..., Any]
) -> None:
    create = ("token", "create", "--owner", "User:carol", "--yes")
    refused = as_user("alice", *create)
    right = ("--allow-principal", "User:alice", "--operation", "create_tokens")
    as_admin("acl", "add", *right, "--user-principal", "User:carol", "--yes")
    made = as_user("alice", *create)

    assert refused.exit_code == REFUSED
    assert "--operation create_tokens --user-principal OWNER allows it" in refused.stderr
    assert made.exit_code == 0, made.stderr
    assert (made.json["owner"], made.json["requester"]) == ("User:carol", "User:alice")
    assert made.json["is_shown"] is None
    [seen] = as_admin("token", "list", "--owner", "User:carol")
    assert seen["token_id"] == made.json["token_id"]
    as_admin("acl", "remove", "--user-principal", "User:carol", "--yes")


def test_a_connection_without_a_login_gets_no_token(cluster: Cluster) -> None:
    result = zkctl_here("-b", address(cluster, 1, "OPEN"), "token", "create", "--yes")

    assert result.exit_code == REFUSED
    assert "tokens are for users who have logged in" in result.stderr
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in result.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("renew",), "which token?"),
        (("expire", "id", "--hmac-file", "f"), "which token?"),
        (("expire", "--hmac-file", "no-such-file"), "No such file"),
        (("create", "--owner", "carol"), "TYPE:NAME"),
    ],
)
def test_a_command_line_that_lacks_something_is_refused(words: tuple[str, ...], why: str) -> None:
    result = zkctl_here("-b", "127.0.0.1:1", "token", *words, "--yes")

    assert result.exit_code == USAGE
    assert why in result.stderr
