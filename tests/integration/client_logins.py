"""Files for ``--command-config``: logins, and whom to trust."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.integration.secured_cluster import (
    USERS,
    Certificates,
)

_MODULES: Final = "org.apache.kafka.common.security"


Properties = Mapping[str, str]


def trusting(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("trusted.pem"),
    }


def login(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_MODULES}.{module}LoginModule required "
        f'username="{user}" password="{password}";',
    }


def over_tls(certificates: Certificates, user: str = "admin", **changes: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        **trusting(certificates),
        **login("SCRAM-SHA-512", user, USERS[user]),
        **{key.replace("_", "."): value for key, value in changes.items()},
    }


def written(directory: Path, properties: Properties) -> str:
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)
