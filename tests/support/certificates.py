"""An authority and what it signs, made anew for each test run."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def key_pem(self, password: str | None = None) -> str:
        """The key in PKCS8, encrypted if there is a password."""
        encryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str, *chain: Identity) -> bytes:
        """Key and certificates in one file."""
        return serialize_key_and_certificates(
            b"kafka",
            self.key,
            self.certificate,
            [PKCS12Certificate(each.certificate, None) for each in chain],
            BestAvailableEncryption(password.encode()),
        )

    def write(self, directory: Path, name: str) -> Path:
        """One PEM file with key and certificate; its path."""
        path = directory / f"{name}.pem"
        path.write_text(self.key_pem() + self.certificate_pem)
        return path


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.identity = Identity(key, _certificate(subject, key, subject, key, is_authority=True))

    def sign(self, *subject: tuple[x509.ObjectIdentifier, str], hosts: bool = False) -> Identity:
        """An identity; with ``hosts`` it is good for this machine's servers."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(*attribute) for attribute in subject])
        own = self.identity
        certificate = _certificate(
            name, key, own.certificate.subject, own.key, is_authority=False, hosts=hosts
        )
        return Identity(key, certificate)


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
    hosts: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    )
    if hosts:
        names: list[x509.GeneralName] = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
