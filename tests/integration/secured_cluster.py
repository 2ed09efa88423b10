"""Two brokers with a listener of each kind, an authorizer, and users of each mechanism."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.x509.oid import NameOID

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.protocol.scram import ScramCredential, ScramMechanism, salt_password
from tests.integration.broker_processes import Cluster, cluster_in
from tests.support.certificates import Authority, Identity
from zkcontroller.zookeeper.kafka_acl_znodes import AclZnode
from zkcontroller.zookeeper.requests import Create, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode

BROKER_PASSWORD: Final = "broker-secret-0451"
USERS: Final = {"admin": "admin-secret-0451", "alice": "alice-secret-0451"}
LISTENERS: Final = {
    "OPEN": "PLAINTEXT",
    "PLAIN": "SASL_PLAINTEXT",
    "CLOSED": "SASL_SSL",
    "CERTIFIED": "SSL",
    "BROKERS": "SASL_SSL",
}
_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN_MODULE: Final = f"{_SECURITY}.plain.PlainLoginModule required"
_SCRAM_MODULE: Final = f"{_SECURITY}.scram.ScramLoginModule required"


@dataclass(frozen=True)
class Certificates:
    """The files that brokers and clients need."""

    directory: Path
    authority: Authority
    server: Identity
    alice: Identity
    stranger: Identity

    @staticmethod
    def make(directory: Path) -> Certificates:
        authority = Authority()
        certificates = Certificates(
            directory,
            authority,
            authority.sign((NameOID.COMMON_NAME, "broker"), hosts=True),
            authority.sign(
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.ORGANIZATION_NAME, "Acme, Inc."),
                (NameOID.COMMON_NAME, "alice"),
            ),
            Authority("Another").sign((NameOID.COMMON_NAME, "alice")),
        )
        (directory / "trusted.pem").write_text(authority.identity.certificate_pem)
        for name in ("server", "alice", "stranger"):
            getattr(certificates, name).write(directory, name)
        (directory / "server.p12").write_bytes(
            certificates.server.pkcs12("storepass", authority.identity)
        )
        return certificates

    def path(self, name: str) -> str:
        return str(self.directory / name)


def broker_properties(certificates: Certificates, **others: str) -> dict[str, str]:
    """``server.properties`` of a secured broker."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    login = f'username="broker" password="{BROKER_PASSWORD}"'
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(map(":".join, LISTENERS.items())),
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": f"{_SCRAM_MODULE} {login};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.path("server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("trusted.pem"),
        "listener.name.closed.ssl.keystore.type": "PKCS12",
        "listener.name.closed.ssl.keystore.location": certificates.path("server.p12"),
        "listener.name.closed.ssl.keystore.password": "storepass",
        "listener.name.certified.ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": "10",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:admin",
        **others,
    }
    for name in ("plain", "closed"):
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{_PLAIN_MODULE} {users};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):  # Kafka wants one for each
            key = f"listener.name.{name}.{mechanism}.sasl.jaas.config"
            properties[key] = f"{_SCRAM_MODULE};"
    return properties


def in_a_jaas_file(properties: Mapping[str, str], path: Path) -> dict[str, str]:
    """The properties without their logins, which stand in that file instead."""
    sections: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in properties.items():
        if key.endswith(".sasl.jaas.config"):
            listener = key.split(".")[2]
            sections[listener] = f"{sections.get(listener, '')}    {value}\n"
        else:
            others[key] = value
    text = "".join(f"{name}.KafkaServer {{\n{logins}}};\n" for name, logins in sections.items())
    path.write_text(text)
    return others


def scram_config(*users: tuple[str, str]) -> dict[str, dict[str, str]]:
    """User to the configuration that ``kafka-configs`` would write for that password."""
    return {user: _credentials(password) for user, password in users}


def _credentials(password: str) -> dict[str, str]:
    config = {}
    for mechanism in ScramMechanism:
        salt = os.urandom(16)
        salted = salt_password(mechanism, password, salt, 4096)
        credential = ScramCredential.of_salted_password(mechanism, salt, salted, 4096)
        config[mechanism.mechanism_name] = credential.encode()
    return config


@contextmanager
def secured_cluster(
    directory: Path, connect: str, properties: Mapping[str, str]
) -> Iterator[Cluster]:
    """Two brokers that find the users and the rules when they start."""
    session = ZooKeeperSession(ZooKeeperConfig(connect))
    session.start()
    try:
        write_users(session)
        write_rules(session)
    finally:
        session.close()
    with cluster_in(directory, connect) as cluster:
        cluster.start(1, 2, **properties)
        yield cluster


def write_users(session: ZooKeeperSession) -> None:
    """The brokers' own user and everyone else, by SCRAM."""
    everybody = [("broker", BROKER_PASSWORD), *USERS.items()]
    session.create_missing([ConfigZnode.type_path("users")])
    for user, config in scram_config(*everybody).items():
        created = session.write(
            Create(ConfigZnode.path(f"users/{user}"), ConfigZnode(config).encode())
        )
        assert not isinstance(created, ZkCode)


def write_acl(
    session: ZooKeeperSession,
    pattern: ResourcePattern,
    *entries: tuple[str, AclOperation, PermissionType],
) -> None:
    """Rules as they stand before any broker starts."""
    session.create_missing([AclZnode.type_path(pattern.resource_type, pattern.pattern_type)])
    znode = AclZnode(
        tuple(AccessControlEntry(who, "*", operation, kind) for who, operation, kind in entries)
    )
    created = session.write(Create(AclZnode.path(pattern), znode.encode()))
    assert not isinstance(created, ZkCode)


def write_rules(session: ZooKeeperSession) -> None:
    """Alice may see and create what begins with ``alice-``, however she logs in; nothing else."""
    who = ("User:alice", "User:CN=alice,O=Acme\\, Inc.,C=DE")
    write_acl(
        session,
        ResourcePattern(ResourceType.TOPIC, "alice-", PatternType.PREFIXED),
        *((each, AclOperation.ALL, PermissionType.ALLOW) for each in who),
    )
    write_acl(
        session,
        ResourcePattern(ResourceType.TOPIC, "alice-secret"),
        ("User:*", AclOperation.DESCRIBE, PermissionType.DENY),
    )


def address(cluster: Cluster, broker_id: int, listener: str) -> str:
    """``host:port`` of a listener."""
    status: dict[str, Any] = cluster.brokers[broker_id].status
    return str(status["listeners"][listener]).partition("://")[2]
