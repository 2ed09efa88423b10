"""Puts together what handlers get: a broker's parts, and the services of its metadata's source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_service import GroupService
from replica_manager.coordinators.transaction_service import TransactionService
from replica_manager.coordinators.transaction_verification import TransactionVerification
from replica_manager.log.log_manager import LogManager
from replica_manager.quotas.quota_managers import QuotaManagers
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.log_dir_moves import LogDirMoves
from replica_manager.replication.metadata_cache import MetadataCache
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.record_reads import RecordReads
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.server.administration import Administration
from replica_manager.server.configs.reconfiguring import Reconfiguring
from replica_manager.server.context import BrokerContext, Handler
from replica_manager.server.producer_ids import ProducerIdManager
from replica_manager.server.record_deletions import RecordDeletions
from replica_manager.server.request_metrics import RequestMetrics
from replica_manager.server.topics.auto_creation import AutoTopicCreation


class Records(Protocol):
    """What keeps and serves records, as far as handlers need it: a :class:`.BrokerRecords`."""

    @property
    def replica_manager(self) -> ReplicaManager: ...

    @property
    def appends(self) -> RecordAppends: ...

    @property
    def reads(self) -> RecordReads: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def topic_stats(self) -> BrokerTopicStats: ...

    @property
    def groups(self) -> GroupService: ...

    @property
    def transactions(self) -> TransactionService: ...

    @property
    def verification(self) -> TransactionVerification: ...

    @property
    def deletions(self) -> RecordDeletions: ...

    @property
    def log_dir_moves(self) -> LogDirMoves: ...


def handler_context(
    records: Records,
    administration: Administration,
    *,
    handlers: Mapping[int, Handler],
    broker_id: int,
    cluster_id: str,
    config: Callable[[], BrokerConfig],
    metadata_cache: MetadataCache,
    logs: LogManager,
    learn_topics: Callable[[Sequence[str]], Awaitable[None]],
    producer_ids: ProducerIdManager,
    reconfiguring: Reconfiguring,
    quotas: QuotaManagers,
    broker_epoch: Callable[[], int],
    authorizer: Authorizer | None = None,
    tokens: DelegationTokens | None = None,
    request_metrics: RequestMetrics | None = None,
) -> BrokerContext:
    """The context of every request; each parameter is described there."""
    topics, token_admin = administration.topics, administration.token_admin
    return BrokerContext(
        broker_id=broker_id,
        cluster_id=cluster_id,
        config=config,
        metadata_cache=metadata_cache,
        replica_manager=records.replica_manager,
        logs=logs,
        appends=records.appends,
        reads=records.reads,
        fetch_sessions=records.fetch_sessions,
        topic_stats=records.topic_stats,
        groups=records.groups,
        transactions=records.transactions,
        verification=records.verification,
        learn_topics=learn_topics,
        deletions=records.deletions,
        log_dir_moves=records.log_dir_moves,
        producer_ids=producer_ids,
        topics=topics,
        admin=administration.admin,
        reconfiguring=reconfiguring,
        auto_creation=AutoTopicCreation(topics, metadata_cache, config),
        controller=administration.controller,
        quotas=quotas,
        handlers=handlers,
        broker_epoch=broker_epoch,
        features=administration.features,
        authorizer=authorizer,
        acls=administration.acls,
        tokens=None if token_admin is None else tokens,
        token_admin=token_admin,
        request_metrics=request_metrics,
    )
