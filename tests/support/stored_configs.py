"""What takes a stored configuration."""

from __future__ import annotations

from kafka_common.protocol.scram import MECHANISMS, ScramCredential, salt_password


def accepts(text: str, mechanism: str, password: str) -> bool:
    """Whether a server with that stored credential accepts the password."""
    stored = ScramCredential.decode(text)
    kind = MECHANISMS[mechanism]
    salted = salt_password(kind, password, stored.salt, stored.iterations)
    made = ScramCredential.of_salted_password(kind, stored.salt, salted, stored.iterations)
    return made == stored
