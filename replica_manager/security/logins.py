"""SASL login configuration in Kafka's keys: a mechanism and its ``sasl.jaas.config``.

Source: Kafka ``JaasContext``, ``PlainLoginModule``, ``ScramLoginModule``,
``OAuthBearerLoginModule``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import (
    PLAIN,
    SUPPORTED_MECHANISMS,
    AnyCredentials,
    Credentials,
)
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from replica_manager.security.jaas import JaasEntry, parse_jaas
from replica_manager.security.oauth_settings import MechanismValues, credentials_by_token

_PACKAGE: Final = "org.apache.kafka.common.security"
_MODULES: Final[Mapping[str, str]] = {
    PLAIN: "plain.PlainLoginModule",
    OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule",
}
_SCRAM_MODULE: Final = "scram.ScramLoginModule"


def login_entry(key: str, mechanism: str, text: str | None) -> JaasEntry:
    """The login module in ``text``; ConfigInvalid if it is not that of the mechanism."""
    if text is None:
        raise ConfigInvalid(key, None, "the login module of that mechanism")
    entry = parse_jaas(key, text)
    if entry.module != (module := module_of(mechanism)):
        # If it is not the name of a login module, it may be a password in the wrong place.
        shown = entry.module if entry.module.endswith("LoginModule") else "[hidden]"
        raise ConfigInvalid(key, shown, module)
    return entry


def module_of(mechanism: str) -> str:
    """The class of the mechanism's login module."""
    return f"{_PACKAGE}.{_MODULES.get(mechanism, _SCRAM_MODULE)}"


def check_mechanism(key: str, mechanism: str) -> None:
    """Raises ConfigInvalid for an unsupported mechanism."""
    if mechanism not in SUPPORTED_MECHANISMS:
        raise ConfigInvalid(key, mechanism, "out of " + ", ".join(SUPPORTED_MECHANISMS))


def credentials_of(
    key: str, mechanism: str, text: str | None, values: MechanismValues
) -> AnyCredentials:
    """How to log in by the login module ``text``; ConfigInvalid if an option is missing.

    ``values``: what else is configured for the mechanism.
    """
    options = login_entry(key, mechanism, text).options
    if mechanism == OAUTHBEARER:
        return credentials_by_token(values, key, options)
    if not options.get("username") or "password" not in options:
        raise ConfigInvalid(
            key, "[hidden]", "username and password: one logs in at the others by them"
        )
    is_token = options.get("tokenauth", "").lower() == "true"
    return Credentials(mechanism, options["username"], options["password"], is_token)
