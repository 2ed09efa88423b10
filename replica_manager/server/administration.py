"""What handlers ask of the source of metadata: topics, configurations, quotas, ACLs, tokens.

A registered broker has one value of this kind, made by its source of metadata; the context of
handlers has the same parts.

Source: Kafka ``MetadataSupport``, ``ZkAdminManager``.
"""

from __future__ import annotations

from dataclasses import dataclass

from replica_manager.security.acl_store import AclStore
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.server.context import Controller, FinalizedFeatures
from replica_manager.server.topics.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import ZooKeeperAdmin


@dataclass(frozen=True, slots=True)
class Administration:
    """The services of one source of metadata.  For the event loop."""

    controller: Controller
    topics: TopicAdmin
    admin: ZooKeeperAdmin
    features: FinalizedFeatures
    acls: AclStore | None
    """None: every client may do everything."""
    token_store: DelegationTokenStore | None
    """None without a secret for delegation tokens."""
