"""Security of a quorum node: listeners, connections to other nodes, authorizer.

ACLs and SCRAM credentials are in the metadata log.  So quorum nodes can authenticate to each other
with SCRAM only if they already have the log; with PLAIN or certificates they always can.

Source: Kafka ``ControllerServer``, ``KafkaRaftManager.buildNetworkClient``, ``CredentialProvider``
(KIP-801, KIP-900).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_common.net.client_security import ClientSecurity
from kafka_common.protocol.scram import MECHANISMS
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.metadata_publishing import MetadataPublisher
from kraft.node.quorum_requests import refusal
from kraft.node.security_publishers import AclPublisher, ScramPublisher
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.security.principals import Principal
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.settings import (
    STANDARD_AUTHORIZER,
    authorizer_settings,
    controller_client_security,
    security_of,
)
from replica_manager.security.standard_authorizer import StandardAuthorizer


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """The security of listeners and connections, and the publishers that update it."""

    authenticators: Mapping[str, ListenerAuthenticator]
    """How clients authenticate, by listener name; only for listeners with TLS or SASL."""
    client: ClientSecurity
    """How this node connects and authenticates to other nodes."""
    authorizer: StandardAuthorizer | None
    """None if every client may do everything."""
    publishers: Sequence[MetadataPublisher]
    """They update ACLs and SCRAM credentials from the metadata log."""


def node_security(config: ControllerServerConfig) -> NodeSecurity:
    """The security that is configured; ConfigInvalid if invalid.  Reads key stores."""
    credentials = ScramCredentials()
    secured = {
        name: each
        for name, each in security_of(config, config.listeners).items()
        if each.tls is not None or each.sasl is not None
    }
    publishers: list[MetadataPublisher] = []
    if any(
        mechanism in MECHANISMS
        for each in secured.values()
        if each.sasl is not None
        for mechanism in each.sasl.mechanisms
    ):
        publishers.append(ScramPublisher(credentials))
    authorizer = _authorizer(config)
    if authorizer is not None:
        publishers.append(AclPublisher(authorizer))
    return NodeSecurity(
        authenticators={
            name: ListenerAuthenticator(each, credentials, refusal)
            for name, each in secured.items()
        },
        client=controller_client_security(config, config.quorum_listener),
        authorizer=authorizer,
        publishers=publishers,
    )


def _authorizer(config: ControllerServerConfig) -> StandardAuthorizer | None:
    settings = authorizer_settings(config, STANDARD_AUTHORIZER)
    if settings is None:
        return None
    return StandardAuthorizer(
        node_id=config.node_id,
        super_users=frozenset(Principal(*user) for user in settings.super_users),
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
        now_s=time.monotonic,
    )
