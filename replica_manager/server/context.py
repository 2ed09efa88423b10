"""The arguments of a handler besides the request: its connection, and the broker's services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from msgspec import Struct

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


class RequestContext(Struct, frozen=True):
    """The header of a request, and its connection."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    listener_name: str
    client_address: str
    principal: Principal = ANONYMOUS
    usage: RequestUsage | None = None
    """The request's share of the client's quotas; None if quotas are not enforced."""
    is_token_authenticated: bool = False
    """Whether the client authenticated with a delegation token."""


class EncodedBody(NamedTuple):
    """A response body that the handler has encoded, in chunks.

    A FileSlice is sent from its file directly, without reading it into memory.
    """

    chunks: Sequence[bytes | FileSlice]
    errors: Callable[[], ErrorCounts]
    """Counts the errors in the response for the metrics; called at most once."""
    conversions: RecordConversions = NO_CONVERSIONS
    throttled: Callable[[int], Sequence[bytes | FileSlice]] | None = None
    """The chunks with a given throttle time in ms.

    None if the response has no such field, or has its throttle time already.
    """


class Unanswered(NamedTuple):
    """No response is sent; ``closes`` says whether the connection is closed instead."""

    closes: bool
    errors: Callable[[], ErrorCounts]
    """Counts the errors for the metrics."""
    conversions: RecordConversions = NO_CONVERSIONS


class Throttled(NamedTuple):
    """A response after which the connection is muted for ``throttle_ms``."""

    response: ResponsePayload | EncodedBody
    throttle_ms: int


Response: TypeAlias = ResponsePayload | EncodedBody | Throttled | Unanswered
"""What is sent back."""


class Later(NamedTuple):
    """A response to wait for; the connection's next request may be handled before."""

    response: Callable[[], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class RecordServices:
    """The services of one broker that store and serve records.  For the event loop."""

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
    """The broker's services for handlers.  For the event loop."""

    broker_id: int
    cluster_id: str
    config: Callable[[], BrokerConfig]
    """Returns the current configuration, which dynamic changes replace."""
    metadata_cache: ZkMetadataCache
    logs: LogManager
    records: RecordServices
    administration: Administration
    learn_topics: Callable[[Sequence[str]], Awaitable[None]]
    """Reads the configuration of topics, before their logs are created."""
    producer_ids: ProducerIdManager
    reconfiguring: Reconfiguring
    auto_creation: AutoTopicCreation = field(init=False)
    quotas: QuotaManagers
    handlers: Mapping[int, Handler]
    """The handlers by API key; an API without a handler is not supported."""
    broker_epoch: Callable[[], int]
    """The broker epoch: the czxid of its registration in the current ZooKeeper session."""
    authorizer: Authorizer | None = None
    """None if the broker has no authorizer: every client may do everything."""
    tokens: DelegationTokens | None = None
    """All delegation tokens; None if the broker has no ``delegation.token.secret.key``."""
    request_metrics: RequestMetrics | None = None
    """None if no metrics are exported."""
    volumes: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "log-dir-volumes"))
    """One thread that reads the volume sizes of log directories: a hung disk blocks only it."""

    def __post_init__(self) -> None:
        topics = self.administration.topics
        self.auto_creation = AutoTopicCreation(topics, self.metadata_cache, self.config)

    @property
    def offered(self) -> Mapping[int, tuple[int, int]]:
        """The supported APIs: API key to first and last version."""
        return versions_of(self.handlers)


class Handler(Protocol):
    """A module of :mod:`replica_manager.server.handlers`."""

    API_KEY: ApiKey
    VERSIONS: tuple[int, int]

    def handle(
        self, request: Any, context: RequestContext, broker: BrokerContext
    ) -> Coroutine[Any, Any, Response | Later]:
        """The response to a request; if it raises, the dispatcher sends that of ``refuse``."""

    def refuse(self, request: Any, context: RequestContext, error: ErrorCode) -> Response:
        """The response with ``error`` to a request that failed as a whole."""


def versions_of(handlers: Mapping[int, Handler]) -> dict[int, tuple[int, int]]:
    """API key to the first and last version of its handler."""
    return {api_key: handler.VERSIONS for api_key, handler in handlers.items()}
