"""SCRAM credentials of users, from ``/config/users/<user>`` or the metadata log.

Source: Kafka ``CredentialProvider``, ``UserConfigHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_common.protocol.scram import MECHANISMS, ScramCredential
from kafka_common.sanitizer import desanitize

_log = logging.getLogger("org.apache.kafka.common.security.scram.internals.ScramCredentialUtils")


class ScramCredentials:
    """All SCRAM credentials.  For the event loop."""

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def of(self, mechanism_name: str, user: str) -> ScramCredential | None:
        """A user's credential for SCRAM-SHA-256 or SCRAM-SHA-512; None if there is none."""
        return self._credentials.get((mechanism_name, user))

    def put(self, mechanism_name: str, user: str, credential: ScramCredential | None) -> None:
        """Sets a user's credential; None removes it."""
        if credential is None:
            self._credentials.pop((mechanism_name, user), None)
        else:
            self._credentials[mechanism_name, user] = credential

    def clear(self) -> None:
        """Removes all credentials."""
        self._credentials.clear()

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of ``users/alice``; ignores other paths."""
        match entity_path.split("/"):
            case ["users", name] if name:
                user = desanitize(name)
            case _:
                return
        for mechanism_name in MECHANISMS:
            text = config.get(mechanism_name)
            self._credentials.pop((mechanism_name, user), None)
            if text is None:
                continue
            try:
                credential = ScramCredential.decode(text)
            except ValueError as wrong:
                # The user cannot authenticate now.  The text is not logged: it is a secret.
                _log.error(
                    "The %s credential of user %s is ignored: %s", mechanism_name, user, wrong
                )
                continue
            self._credentials[mechanism_name, user] = credential
