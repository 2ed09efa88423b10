"""The arguments of a handler beside the request: its origin, and the broker's services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol.api_versions import ApiKey
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
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.record_reads import RecordReads
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.server.administration import Administration
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
class RecordServices:
    """The parts of one broker that keep and serve records.  All of it belongs to the event loop."""

    replica_manager: ReplicaManager
    appends: RecordAppends
    reads: RecordReads
    fetch_sessions: FetchSessionCache
    topic_stats: BrokerTopicStats
    groups: GroupService
    transactions: TransactionService
    verification: TransactionVerification
    deletions: RecordDeletions
    log_dir_moves: LogDirMoves


@dataclass(slots=True, kw_only=True)
class BrokerContext:
    """The broker's services for handlers.  All of it belongs to the event loop."""

    broker_id: int
    cluster_id: str
    config: Callable[[], BrokerConfig]
    """The configuration as it is now: dynamic changes replace it."""
    metadata_cache: ZkMetadataCache
    logs: LogManager
    records: RecordServices
    administration: Administration
    learn_topics: Callable[[Sequence[str]], Awaitable[None]]
    """Reads how topics are configured, before their logs are made."""
    producer_ids: ProducerIdManager
    reconfiguring: Reconfiguring
    auto_creation: AutoTopicCreation = field(init=False)
    quotas: QuotaManagers
    handlers: Mapping[int, Handler]
    """By API key; what has none is neither offered nor answered."""
    broker_epoch: Callable[[], int]
    """czxid of the broker's registration in the current ZooKeeper session."""
    authorizer: Authorizer | None = None
    """None: every client may do everything."""
    tokens: DelegationTokens | None = None
    """Every delegation token; None without a secret."""
    request_metrics: RequestMetrics | None = None
    """None where they cannot be read."""
    volumes: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "log-dir-volumes"))
    """Asks the volumes of log directories, one after the other: one may never answer."""

    def __post_init__(self) -> None:
        topics = self.administration.topics
        self.auto_creation = AutoTopicCreation(topics, self.metadata_cache, self.config)

    @property
    def offered(self) -> Mapping[int, tuple[int, int]]:
        """API key to the first and last version that is answered."""
        return versions_of(self.handlers)


class Handler(Protocol):
    """A module of :mod:`replica_manager.server.handlers`."""

    API_KEY: ApiKey
    VERSIONS: tuple[int, int]

    def handle(
        self, request: Any, context: RequestContext, broker: BrokerContext
    ) -> Coroutine[Any, Any, Response]:
        """The response; RequestRefused and other errors of this project go to ``refuse``."""

    def refuse(self, request: Any, context: RequestContext, error: ErrorCode) -> Response:
        """The response to a request that failed as a whole."""


def versions_of(handlers: Mapping[int, Handler]) -> dict[int, tuple[int, int]]:
    """API key to the first and last version of its handler."""
    return {api_key: handler.VERSIONS for api_key, handler in handlers.items()}
