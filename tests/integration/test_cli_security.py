"""``zkctl --command-config``: every verb that speaks to brokers, through secured listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.x509.oid import NameOID

from tests.integration.broker_processes import Cluster, wait_for
from tests.integration.client_logins import Properties, login, over_tls, trusting, written
from tests.integration.secured_cluster import (
    USERS,
    Certificates,
    address,
    broker_properties,
    secured_cluster,
)
from tests.support.cli_world import zkctl_here

pytestmark = pytest.mark.integration

CANNOT_CONNECT: Final = 3
REFUSED: Final = 5


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates.make(tmp_path_factory.mktemp("certificates"))
    (made.directory / "alice.p12").write_bytes(made.alice.pkcs12("storepass"))
    elsewhere = made.authority.sign((NameOID.COMMON_NAME, "elsewhere.example.org"))
    elsewhere.write(made.directory, "elsewhere")
    return made


@pytest.fixture(scope="module")
def connect(zookeeper_connect: str) -> str:
    return f"{zookeeper_connect}/cli-security"


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, connect: str, certificates: Certificates
) -> Iterator[Cluster]:
    """One cluster for all: its brokers take the longest."""
    # One listener less that anybody may use, and one whose certificate is another host's.
    properties = broker_properties(certificates)
    for name in ("listeners", "listener.security.protocol.map"):
        open_listener, *others = properties[name].split(",")
        properties[name] = ",".join((open_listener.replace("OPEN", "STRANGE"), *others))
    properties["listener.security.protocol.map"] = properties[
        "listener.security.protocol.map"
    ].replace("STRANGE:PLAINTEXT", "STRANGE:SSL")
    properties["listener.name.strange.ssl.keystore.location"] = certificates.path("elsewhere.pem")
    directory = tmp_path_factory.mktemp("cluster")
    with secured_cluster(directory, connect, properties) as cluster:
        yield cluster


@pytest.fixture
def as_admin(cluster: Cluster, certificates: Certificates, tmp_path: Path) -> Callable[..., Any]:
    """Runs a verb that must succeed, by SCRAM over TLS; what it says."""
    file = written(tmp_path, over_tls(certificates))
    server = address(cluster, 1, "CLOSED")

    def run(*arguments: str) -> Any:
        result = zkctl_here("-b", server, "--command-config", file, "-o", "json", *arguments)
        assert result.exit_code == 0, result.stderr
        return result.json if result.stdout else None

    return run


def test_every_verb_that_asks_brokers_goes_through_the_closed_door(
    as_admin: Callable[..., Any],
) -> None:
    as_admin("topic", "create", "moved", "--replica-assignment", "1")
    as_admin("topic", "alter", "moved", "--partitions", "2", "--yes")
    wait_for(lambda: len(as_admin("topic", "describe", "moved")["partitions"]) == 2, "both")
    assert "moved" in [row["topic"] for row in as_admin("topic", "list")]
    wait_for(
        lambda: all(row["latest_offset"] == 0 for row in as_admin("topic", "offsets", "moved")),
        "leaders",
    )
    as_admin("config", "set", "topic", "moved", "--config", "retention.ms=1000", "--yes")
    changed = {row["name"]: row["value"] for row in as_admin("config", "get", "topic", "moved")}
    assert changed["retention.ms"] == "1000"
    # Only broker 2 itself tells of its own configuration: its name is found, and its closed door.
    own = {row["name"]: row["value"] for row in as_admin("config", "get", "broker", "2")}
    assert own["broker.id"] == "2"
    assert {row["broker_id"] for row in as_admin("log-dirs", "sizes")} == {1, 2}
    as_admin("reassign", "start", "--yes", "moved-0:2,1", "--wait", "--throttle", "100000000")
    assert as_admin("reassign", "status") == []
    assert as_admin("partition", "elect", "--yes", "moved-0")[0]["topic"] == "moved"
    as_admin("topic", "delete", "moved", "--yes")
    wait_for(lambda: "moved" not in [row["topic"] for row in as_admin("topic", "list")], "its end")


def test_an_election_is_seen_in_the_brokers_by_their_secured_listeners(
    cluster: Cluster, connect: str, certificates: Certificates, tmp_path: Path
) -> None:
    assert set(cluster.brokers) == {1, 2}
    file = written(tmp_path, over_tls(certificates))

    def moved() -> Any:
        words = ("controller", "elect", "--yes", "-o", "json")
        result = zkctl_here("-z", connect, "--command-config", file, *words)
        assert result.exit_code == 0, result.stderr
        outcome = result.json
        # The same broker may win again, and then its name tells nothing.
        return outcome if outcome["controller_id"] != outcome["controller_id_before"] else None

    outcome = wait_for(moved, "the other broker to win")
    assert outcome["first_update_metadata_source"] == "metadata"
    assert outcome["all_brokers_updated_ms"] is not None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["PLAIN", "CLOSED"])
def test_a_client_that_logs_in_sees_what_its_acls_allow(
    listener: str,
    mechanism: str,
    as_admin: Callable[..., Any],
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    names = {row["topic"] for row in as_admin("topic", "list")}
    for topic in {"alice-orders", "orders"} - names:
        as_admin("topic", "create", topic, "--replica-assignment", "1")
    tls = trusting(certificates) if listener == "CLOSED" else {}
    protocol = "SASL_SSL" if tls else "SASL_PLAINTEXT"
    properties = {"security.protocol": protocol, **tls, **login(mechanism, "alice", USERS["alice"])}
    file = written(tmp_path, properties)
    list_topics = partial(
        zkctl_here, "-b", address(cluster, 1, listener), "--command-config", file, "topic"
    )

    wait_for(lambda: list_topics("list", "-o", "name").stdout == "alice-orders\n", "her topic")
    refused = list_topics("create", "orders-too", "--partitions", "1")
    assert refused.exit_code == REFUSED
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "describe", "orders"),
        ("topic", "list", "orders"),
        ("topic", "delete", "orders", "--yes"),
        ("topic", "offsets", "orders"),
        ("txn", "producers", "orders-0"),
        ("txn", "find-hanging", "--topic", "orders"),
    ],
    ids=" ".join,
)
def test_a_topic_that_a_client_may_not_see_is_no_empty_topic(
    words: tuple[str, ...],
    as_admin: Callable[..., Any],
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    if "orders" not in {row["topic"] for row in as_admin("topic", "list")}:
        as_admin("topic", "create", "orders", "--replica-assignment", "1")
    properties = over_tls(certificates) | login("SCRAM-SHA-512", "alice", USERS["alice"])
    file = written(tmp_path, properties)

    result = zkctl_here("-b", address(cluster, 1, "CLOSED"), "--command-config", file, *words)

    assert result.exit_code == REFUSED, result.stdout
    assert result.stdout == ""
    assert "may not see topic orders, that takes Describe on it" in result.stderr


def test_a_topic_that_exists_and_is_hidden_has_no_counts(
    as_admin: Callable[..., Any], cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    as_admin("topic", "create", "hidden", "--replica-assignment", "1")
    creator = ("--allow-principal", "User:alice", "--operation", "create", "--topic", "hidden")
    as_admin("acl", "add", *creator, "--yes")
    properties = over_tls(certificates) | login("SCRAM-SHA-512", "alice", USERS["alice"])
    where = ("-b", address(cluster, 1, "CLOSED"), "--command-config", written(tmp_path, properties))
    words = ("topic", "create", "hidden", "--if-not-exists")
    create = partial(zkctl_here, *where, "-o", "json", *words)

    wait_for(lambda: create().exit_code == 0, "alice to be allowed to create it")
    row = create().json

    assert (row["is_created"], row["topic_id"]) == (False, None)
    assert (row["partition_count"], row["replication_factor"]) == (None, None)


@pytest.mark.parametrize(
    ("words", "things"),
    [
        (("topic", "list"), "topics"),
        (("txn", "find-hanging"), "topics"),
        (("txn", "list"), "transactional ids"),
        (("group", "list"), "groups"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else each,
)
def test_an_empty_list_may_be_one_of_things_that_the_client_may_not_see(
    words: tuple[str, ...],
    things: str,
    as_admin: Callable[..., Any],
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    if "orders" not in {row["topic"] for row in as_admin("topic", "list")}:
        as_admin("topic", "create", "orders", "--replica-assignment", "1")
    password = tmp_path / "password"
    password.write_text("bob-secret\n")
    of_file = ("--mechanism", "SCRAM-SHA-512", "--password-file", str(password))
    as_admin("user", "set", "bob", *of_file, "--yes")
    properties = over_tls(certificates) | login("SCRAM-SHA-512", "bob", "bob-secret")
    file = written(tmp_path, properties)

    result = zkctl_here(
        "-b", address(cluster, 1, "CLOSED"), "--command-config", file, "-o", "json", *words
    )

    assert (result.exit_code, result.json) == (0, []), result.stderr
    assert f"no {things}: there are none, or this user may describe none" in result.stderr


@pytest.mark.parametrize("kind", ["PEM file", "PEM text", "PKCS12"])
def test_a_certificate_tells_who_asks(
    kind: str,
    as_admin: Callable[..., Any],
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    if "alice-orders" not in {row["topic"] for row in as_admin("topic", "list")}:
        as_admin("topic", "create", "alice-orders", "--replica-assignment", "1")
    alice = certificates.alice
    joined = "\\\n"
    stores = {
        "PEM file": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.path("alice.pem"),
        },
        "PEM text": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": alice.key_pem().strip().replace("\n", f"\\n{joined}"),
            "ssl.keystore.certificate.chain": alice.certificate_pem.strip().replace(
                "\n", f"\\n{joined}"
            ),
        },
        "PKCS12": {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": certificates.path("alice.p12"),
            "ssl.keystore.password": "storepass",
        },
    }
    file = written(tmp_path, {"security.protocol": "SSL", **trusting(certificates), **stores[kind]})

    def seen() -> str:
        server = address(cluster, 1, "CERTIFIED")
        return zkctl_here(
            "-b", server, "--command-config", file, "topic", "list", "-o", "name"
        ).stdout

    wait_for(lambda: seen() == "alice-orders\n", "her topic")


@pytest.mark.parametrize(
    ("listener", "changes", "said"),
    [
        ("CLOSED", login("SCRAM-SHA-512", "admin", "guessed"), "SASL_AUTHENTICATION_FAILED"),
        ("CLOSED", login("SCRAM-SHA-512", "nobody", "guessed"), "SASL_AUTHENTICATION_FAILED"),
        ("BROKERS", login("PLAIN", "admin", USERS["admin"]), "but by: SCRAM-SHA-512"),
        ("CLOSED", {"ssl.truststore.location": "stranger.pem"}, "CERTIFICATE_VERIFY_FAILED"),
        ("STRANGE", {"security.protocol": "SSL"}, "not valid for '127.0.0.1'"),
        ("CERTIFIED", {"security.protocol": "SSL"}, "CERTIFICATE_REQUIRED"),
        ("CLOSED", {"security.protocol": "PLAINTEXT"}, "--command-config"),
        ("PLAIN", {"security.protocol": "PLAINTEXT"}, "--command-config"),
        ("CLOSED", {"security.protocol": "SASL_PLAINTEXT"}, "security.protocol=SASL_PLAINTEXT"),
        ("CLOSED", {"security.protocol": "SSL"}, "is security.protocol=SSL right"),
        ("PLAIN", {}, "within the TLS handshake"),
    ],
    ids=[
        "another password",
        "an unknown user",
        "a mechanism that is not offered",
        "an unknown authority",
        "another host's certificate",
        "no certificate",
        "no TLS",
        "no login",
        "a login without TLS",
        "TLS without a login",
        "TLS where there is none",
    ],
)
def test_a_refused_login_shows_its_reason(
    listener: str,
    changes: Properties,
    said: str,
    cluster: Cluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    properties = over_tls(certificates) | dict(changes)
    if properties["ssl.truststore.location"] == "stranger.pem":
        properties["ssl.truststore.location"] = certificates.path("stranger.pem")
    file = written(tmp_path, properties)

    result = zkctl_here(
        "-b", address(cluster, 1, listener), "--command-config", file, "topic", "list"
    )

    assert result.exit_code == CANNOT_CONNECT, result.stderr
    assert said in result.stderr
    # An alert about a certificate says by itself what is wrong.
    assert "CERTIFICATE" not in result.stderr or "right for this listener" not in result.stderr
    assert "Traceback" not in result.stderr
    assert USERS["admin"] not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_host_that_is_not_checked_comes_in(
    cluster: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    unchecked = {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        **trusting(certificates),
    }
    file = written(tmp_path, unchecked)

    result = zkctl_here(
        "-b", address(cluster, 1, "STRANGE"), "--command-config", file, "topic", "list"
    )

    assert result.exit_code == 0, result.stderr


def test_a_snapshot_of_secured_brokers_equals_zookeepers(
    as_admin: Callable[..., Any], connect: str, tmp_path: Path
) -> None:
    """Rules and users included; what both know holds no secret."""
    ours, theirs = str(tmp_path / "zookeeper.jsonl"), str(tmp_path / "brokers.jsonl")
    saved = zkctl_here("-z", connect, "-o", "json", "snapshot", "save", ours)
    of_brokers = as_admin("snapshot", "save", theirs)

    compared = zkctl_here("-o", "json", "snapshot", "diff", ours, theirs)

    assert saved.exit_code == 0, saved.stderr
    assert (compared.exit_code, compared.json) == (0, []), compared.stderr
    for kind in ("acl", "scram_user"):
        assert of_brokers["records"][kind] == saved.json["records"][kind] > 0
    for file in (ours, theirs):
        content = Path(file).read_text()
        assert "stored_key" not in content
        assert not any(password in content for password in USERS.values())


def test_metadata_is_compared_through_secured_listeners(
    cluster: Cluster,  # noqa: ARG001 - the brokers at that ZooKeeper
    connect: str,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    file = written(tmp_path, over_tls(certificates))
    secured = ("-z", connect, "--command-config", file, "-o", "json", "metadata", "diff")

    wait_for(lambda: zkctl_here(*secured, "--patience", "0").exit_code == 0, "no difference")
    alice = written(tmp_path, over_tls(certificates, user="alice"))
    result = zkctl_here(*secured[:3], alice, *secured[4:], "--patience", "0")

    assert result.exit_code == 2, result.stdout
    assert "not compared: DescribeLogDirs of broker 1: " in result.stderr
