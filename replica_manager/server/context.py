"""The arguments of a handler beside the request: its origin, and the broker's services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kio.static.protocol import ResponsePayload

from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_service import GroupService
from replica_manager.coordinators.transaction_service import TransactionService
from replica_manager.coordinators.transaction_verification import TransactionVerification
from replica_manager.log.files import FileSlice
from replica_manager.log.log_manager import LogManager
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.quotas.quota_managers import QuotaManagers, RequestUsage
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.log_dir_moves import LogDirMoves
from replica_manager.replication.metadata_cache import MetadataCache
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.record_reads import RecordReads
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.server.administration import (
    AclAdmin,
    ClusterAdmin,
    Controller,
    FinalizedFeatures,
    TokenAdmin,
    Topics,
)
from replica_manager.server.configs.reconfiguring import Reconfiguring
from replica_manager.server.error_counts import ErrorCounts
from replica_manager.server.producer_ids import ProducerIdManager
from replica_manager.server.record_deletions import RecordDeletions
from replica_manager.server.request_metrics import RequestMetrics
from replica_manager.server.topics.auto_creation import AutoTopicCreation


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request's header and connection."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    listener_name: str
    client_address: str
    principal: Principal = ANONYMOUS
    usage: RequestUsage | None = None
    """What it uses of its client's quotas; None where there are no quotas."""
    is_token_authenticated: bool = False
    """The client logged in by a delegation token."""


class EncodedBody(NamedTuple):
    """A response body that the handler encoded itself, in chunks.

    A slice of a file is sent from there; it is not read before.
    """

    chunks: Sequence[bytes | FileSlice]
    errors: Callable[[], ErrorCounts]
    """The errors in it, for the metrics; called at most once."""
    conversions: RecordConversions = NO_CONVERSIONS
    throttled: Callable[[int], Sequence[bytes | FileSlice]] | None = None
    """The chunks with that throttle time; None where there is no place for it, or it is there."""


class Unanswered(NamedTuple):
    """No response is sent; after an error the connection is closed instead."""

    closes: bool
    errors: Callable[[], ErrorCounts]
    """The error, if its connection is closed."""
    conversions: RecordConversions = NO_CONVERSIONS


class Throttled(NamedTuple):
    """A response after which the connection is muted for a while."""

    response: ResponsePayload | EncodedBody
    throttle_ms: int


Response: TypeAlias = ResponsePayload | EncodedBody | Throttled | Unanswered
"""What a handler says."""


@dataclass(slots=True)
class BrokerContext:
    """The broker's services for handlers.  All of it belongs to the event loop."""

    broker_id: int
    cluster_id: str
    config: Callable[[], BrokerConfig]
    """The configuration as it is now: dynamic changes replace it."""
    metadata_cache: MetadataCache
    replica_manager: ReplicaManager
    logs: LogManager
    appends: RecordAppends
    reads: RecordReads
    fetch_sessions: FetchSessionCache
    topic_stats: BrokerTopicStats
    groups: GroupService
    transactions: TransactionService
    verification: TransactionVerification
    learn_topics: Callable[[Sequence[str]], Awaitable[None]]
    """Reads how topics are configured, before their logs are made."""
    deletions: RecordDeletions
    log_dir_moves: LogDirMoves
    producer_ids: ProducerIdManager
    topics: Topics
    admin: ClusterAdmin
    reconfiguring: Reconfiguring
    auto_creation: AutoTopicCreation
    controller: Controller
    quotas: QuotaManagers
    offered: Mapping[int, tuple[int, int]]
    """API key to the first and last version that is answered."""
    broker_epoch: Callable[[], int]
    """czxid of the broker's registration in the current ZooKeeper session."""
    features: FinalizedFeatures
    authorizer: Authorizer | None = None
    """None: every client may do everything."""
    acls: AclAdmin | None = None
    """Changes the authorizer's rules."""
    tokens: DelegationTokens | None = None
    """Every delegation token; None without a secret."""
    token_admin: TokenAdmin | None = None
    """Changes the delegation tokens; None without a secret."""
    request_metrics: RequestMetrics | None = None
    """None where they cannot be read."""
