"""Authenticates a connection before its first request, by TLS and SASL as its listener requires.

Source: Kafka ``SslChannelBuilder``, ``SaslChannelBuilder``, ``DefaultKafkaPrincipalBuilder``.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from kafka_common.protocol.scram import MECHANISMS
from kafka_common.wall_time import wall_time_ms
from replica_manager.security.certificate_names import distinguished_name
from replica_manager.security.delegation_tokens import DelegationTokens, TokenLogin
from replica_manager.security.principals import ANONYMOUS, USER, Principal
from replica_manager.security.sasl_authenticator import Login, SaslAuthenticator
from replica_manager.security.sasl_mechanisms import (
    PLAIN,
    OAuthBearerServer,
    PlainServer,
    SaslServer,
    ScramServer,
)
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.settings import ListenerSecurity, SaslSettings

Refusal: TypeAlias = Callable[[bytes, ErrorCode], bytes | None]
"""Makes the response frame with an error to a request frame; None if there is no response."""


class AdmissionRefused(ZkControllerError):
    """Authentication failed; ``reply`` is the response frame with the error, if there is one."""

    def __init__(self, reason: str, reply: bytes | None = None) -> None:
        super().__init__(reason)
        self.reply = reply


class ListenerAuthenticator:
    """Authenticates the connections of one listener."""

    def __init__(
        self,
        security: ListenerSecurity,
        credentials: ScramCredentials,
        refusal: Refusal,
        tokens: DelegationTokens | None = None,
    ) -> None:
        """``refusal``: makes the dispatcher's response to a request before authentication.

        ``tokens``: None if clients cannot authenticate with delegation tokens.
        """
        self._security = security
        self.delay_s = security.failed_authentication_delay_s
        """The delay in seconds before the response to a failed authentication."""
        self.sasl = security.sasl
        self._mapper = security.principal_mapper
        self._refusal = refusal
        self._servers = (
            {} if security.sasl is None else _servers(security.sasl, credentials, tokens)
        )

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The current TLS context; None without TLS."""
        return self._security.tls

    def principal_of(self, certificate: bytes | None) -> Principal:
        """The principal of a client certificate (DER), ANONYMOUS without one.

        AdmissionRefused if no rule maps its name.
        """
        if certificate is None or self._mapper is None:
            return ANONYMOUS
        name = self._mapper.name_of(distinguished_name(certificate))
        if name is None:
            raise AdmissionRefused("no rule of ssl.principal.mapping.rules applies to its name")
        return Principal(USER, name)

    def authenticator(self, before: Login | None = None) -> SaslAuthenticator:
        """The state of a SASL authentication, which renews the login ``before`` if given."""
        assert self.sasl is not None
        return SaslAuthenticator(
            self._servers,
            max_reauth_ms=self.sasl.max_reauth_ms,
            refusal=self._refusal,
            before=before,
        )


def _servers(
    sasl: SaslSettings, credentials: ScramCredentials, tokens: DelegationTokens | None
) -> Mapping[str, Callable[[], SaslServer]]:
    servers: dict[str, Callable[[], SaslServer]] = {}
    for name in sasl.mechanisms:
        if name == PLAIN:
            servers[name] = partial(PlainServer, sasl.plain_users)
        elif name == OAUTHBEARER:
            assert sasl.validate_token is not None
            servers[name] = partial(OAuthBearerServer, sasl.validate_token, wall_time_ms)
        else:
            servers[name] = partial(_scram_server, name, credentials, tokens)
    return servers


def _scram_server(
    name: str, credentials: ScramCredentials, tokens: DelegationTokens | None
) -> SaslServer:
    def token_of(token_id: str) -> TokenLogin | None:
        return None if tokens is None else tokens.login(name, token_id)

    credential_of = partial(credentials.of, name)
    return ScramServer(MECHANISMS[name], credential_of, secrets.token_urlsafe(24), token_of)
