"""The security of the clients' listener: none, TLS, SASL by password or by token, or both.

Brokers use a listener of their own without TLS or SASL, so that a proxy can read their requests.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid

USER: Final = "alice"
PASSWORD: Final = "alice-secret"
_MODULES: Final = "org.apache.kafka.common.security"


class _Mechanism(NamedTuple):
    """How clients log in: for the broker, the login module; for librdkafka, its settings."""

    name: str
    login: str
    settings: Mapping[str, str]


_PASSWORD: Final = _Mechanism(
    "PLAIN",
    f'plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    {"sasl.username": USER, "sasl.password": PASSWORD},
)
_TOKEN: Final = _Mechanism(
    "OAUTHBEARER",
    "oauthbearer.OAuthBearerLoginModule required;",
    {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={USER}",
    },
)


class ListenerKind(NamedTuple):
    """What clients speak: Kafka's security protocol, and how they log in."""

    protocol: str
    mechanism: _Mechanism | None = None

    @property
    def has_tls(self) -> bool:
        """Whether what clients send cannot be read on its way."""
        return self.protocol.endswith("SSL")


KINDS: Final[Mapping[str, ListenerKind]] = {
    "plaintext": ListenerKind("PLAINTEXT"),
    "tls": ListenerKind("SSL"),
    "sasl": ListenerKind("SASL_PLAINTEXT", _PASSWORD),
    "sasl_tls": ListenerKind("SASL_SSL", _PASSWORD),
    "oauth": ListenerKind("SASL_PLAINTEXT", _TOKEN),
    "oauth_tls": ListenerKind("SASL_SSL", _TOKEN),
}
"""By the name in the arguments of a cluster.  The tokens of ``oauth`` are unsecured ones."""


def kind_named(listeners: str) -> ListenerKind:
    """The kind with that name; ConfigInvalid if the name is unknown."""
    if listeners not in KINDS:
        raise ConfigInvalid("listeners", listeners, f"is none of {', '.join(KINDS)}")
    return KINDS[listeners]


def security_properties(kind: ListenerKind, directory: Path) -> dict[str, str]:
    """The broker's configuration for the listener CLIENTS; writes certificates if needed."""
    protocol, mechanism = kind
    properties = {
        "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,CLIENTS:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
    }
    if kind.has_tls:
        _write_certificates(directory)
        properties |= {
            "listener.name.clients.ssl.keystore.type": "PEM",
            "listener.name.clients.ssl.keystore.location": str(directory / "server.pem"),
        }
    if mechanism is not None:
        prefix = f"listener.name.clients.{mechanism.name.lower()}."
        properties |= {
            "sasl.enabled.mechanisms": mechanism.name,
            f"{prefix}sasl.jaas.config": f"{_MODULES}.{mechanism.login}",
        }
    return properties


def client_settings(kind: ListenerKind, directory: Path) -> Mapping[str, str]:
    """The configuration that a librdkafka client needs besides the addresses."""
    protocol, mechanism = kind
    settings = {"security.protocol": protocol}
    if kind.has_tls:
        settings["ssl.ca.location"] = str(directory / "ca.pem")
    if mechanism is not None:
        settings |= {"sasl.mechanism": mechanism.name, **mechanism.settings}
    return settings if len(settings) > 1 else {}


def _write_certificates(directory: Path) -> None:
    """Writes ``ca.pem``, and ``server.pem`` with key; valid for this machine and for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    if (directory / "server.pem").exists():
        return
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka_cluster")])

    def signed(name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(authority_key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.pem").write_bytes(signed("kafka_cluster", authority_key, is_authority=True))
    key = ec.generate_private_key(ec.SECP256R1())
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (directory / "server.pem").write_bytes(key_pem + signed("broker", key, is_authority=False))
