"""The security of the clients' listener: none, TLS, SASL, or both.

Brokers use a listener of their own without TLS or SASL, so that a proxy can read their requests.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_common.errors import ConfigInvalid

PROTOCOLS: Final = {
    "plaintext": "PLAINTEXT",
    "tls": "SSL",
    "sasl": "SASL_PLAINTEXT",
    "sasl_tls": "SASL_SSL",
}
USER: Final = "alice"
PASSWORD: Final = "alice-secret"
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def protocol_named(listeners: str) -> str:
    """Kafka's name of the security protocol; ConfigInvalid if the name is unknown."""
    if listeners not in PROTOCOLS:
        raise ConfigInvalid("listeners", listeners, f"is none of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[listeners]


def security_properties(protocol: str, directory: Path) -> dict[str, str]:
    """The broker's configuration for the listener CLIENTS; writes certificates if needed."""
    properties = {
        "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,CLIENTS:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
    }
    if protocol.endswith("SSL"):
        _write_certificates(directory)
        properties |= {
            "listener.name.clients.ssl.keystore.type": "PEM",
            "listener.name.clients.ssl.keystore.location": str(directory / "server.pem"),
        }
    if protocol.startswith("SASL"):
        properties |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": (
                f'{_PLAIN_MODULE} user_{USER}="{PASSWORD}";'
            ),
        }
    return properties


def client_settings(protocol: str, directory: Path) -> Mapping[str, str]:
    """The configuration that a librdkafka client needs besides the addresses."""
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = str(directory / "ca.pem")
    if protocol.startswith("SASL"):
        settings |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
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
