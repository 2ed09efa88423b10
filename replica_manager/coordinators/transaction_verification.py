"""Verifies transactions with their coordinator before the first append to a partition.

Without verification, a late Produce request, whose transaction has ended, would open a transaction
that never ends, and read_committed consumers would wait for ever.  The log creates a verification
guard before the request to the coordinator.  When the records are appended, the guard shows whether
the verification is still valid.

While a request to a coordinator is in flight, further verifications wait and are then sent together
in one request.  At most one verification per transactional id waits.

Source: Kafka ``AddPartitionsToTxnManager``,
``ReplicaManager.maybeStartTransactionVerificationForPartitions`` (KIP-890).
Deviation: ``inter.broker.protocol.version`` determines the version of the request, where Kafka asks
each broker for its versions; before 3.5 nothing is verified.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics, mbean
from replica_manager.coordinators.transaction_messages import (
    Verification,
    read_verification_errors,
    verification_request,
)
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.log.producer_state_manager import VerificationGuard
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.network.broker_links import BrokerLinks
from replica_manager.replication.partition import Role
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

_log = logging.getLogger("kafka.server.AddPartitionsToTxnManager")

_Errors = Mapping[TopicPartition, ErrorCode]


class Verified(NamedTuple):
    """The result of a verification: guards for the append, and errors of refused partitions."""

    errors: _Errors
    guards: Mapping[TopicPartition, VerificationGuard]


NOTHING_TO_VERIFY: Final = Verified({}, {})


class _Waiting(NamedTuple):
    wanted: Verification
    response: asyncio.Future[_Errors]


class TransactionVerification:
    """Verifies partitions with the transaction coordinators.  Runs on the event loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata_cache: ZkMetadataCache,
        links: BrokerLinks,
        partition_for: Callable[[str], int],
        *,
        version: int | None,
        is_enabled: Callable[[], bool],
        now_ms: Callable[[], int],
        metrics: Metrics | None = None,
    ) -> None:
        """``partition_for`` returns the partition of ``__transaction_state`` of a transactional id.

        ``version`` is that of AddPartitionsToTxn; None if some broker may not know verification.
        ``is_enabled`` returns ``transaction.partition.verification.enable``.
        """
        self._replicas = replicas
        self._metadata_cache = metadata_cache
        self._links = links
        self._partition_for = partition_for
        self._version = version
        self._is_enabled = is_enabled
        self._now_ms = now_ms
        self._waiting: dict[int, dict[str, _Waiting]] = {}
        """The waiting verifications, by coordinator and transactional id."""
        self._senders: dict[int, asyncio.Task[None]] = {}
        metrics = Metrics() if metrics is None else metrics
        kind = "AddPartitionsToTxnManager"
        self._failures = metrics.meter(
            mbean("kafka.server", kind, "VerificationFailureRate"), "failures"
        )
        self._time_ms = metrics.histogram(mbean("kafka.server", kind, "VerificationTimeMs"))

    async def verify(
        self,
        sequences: Mapping[TopicPartition, int],
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        *,
        knows_abortable: bool,
    ) -> Verified:
        """Verifies that the transaction contains the partitions to append to.

        ``sequences`` holds the first sequence number of the batch for each partition.
        ``knows_abortable`` says whether the client knows the error TRANSACTION_ABORTABLE.
        """
        if transactional_id is None or not self._is_enabled():
            return NOTHING_TO_VERIFY
        errors: dict[TopicPartition, ErrorCode] = {}
        guards: dict[TopicPartition, VerificationGuard] = {}
        for tp, sequence in sequences.items():
            log = self._led_log(tp)
            if isinstance(log, ErrorCode):
                errors[tp] = log
                continue
            guard = log.start_verification(producer_id, sequence, producer_epoch)
            if guard is not None:
                guards[tp] = guard
        if not guards:
            return Verified(errors, {})
        wanted = Verification(transactional_id, producer_id, producer_epoch, tuple(guards))
        began_ms = self._now_ms()
        found = await self._ask(wanted)
        self._time_ms.update(self._now_ms() - began_ms)
        self._failures.mark(len(found))
        client_errors = {
            tp: _client_error(error, knows_abortable=knows_abortable) for tp, error in found.items()
        }
        return Verified(errors | client_errors, guards)

    async def stop(self) -> None:
        """Stops all requests; waiting verifications end with NETWORK_EXCEPTION."""
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        for waiting in self._waiting.values():
            for each in waiting.values():
                _respond(each, ErrorCode.network_exception)
        self._waiting.clear()
        await self._links.close()

    def _led_log(self, tp: TopicPartition) -> UnifiedLog | ErrorCode:
        partition = self._replicas.get_partition_or_error(tp)
        if isinstance(partition, ErrorCode):
            return partition
        if partition.role is not Role.LEADER or not isinstance(partition.log, UnifiedLog):
            return ErrorCode.not_leader_or_follower
        return partition.log

    async def _ask(self, wanted: Verification) -> _Errors:
        partition = self._partition_for(wanted.transactional_id)
        state = self._metadata_cache.snapshot.partition(TRANSACTION_TOPIC, partition)
        if state is None or not self._links.leads_to(state.leader):
            return dict.fromkeys(wanted.partitions, ErrorCode.coordinator_not_available)
        queue = self._waiting.setdefault(state.leader, {})
        known = queue.get(wanted.transactional_id)
        if known is not None:
            if known.wanted.producer_epoch > wanted.producer_epoch:
                return dict.fromkeys(wanted.partitions, ErrorCode.invalid_producer_epoch)
            is_same = known.wanted.producer_epoch == wanted.producer_epoch
            # The client has probably sent its request again, and waits only for the new one.
            _respond(
                known,
                ErrorCode.network_exception if is_same else ErrorCode.invalid_producer_epoch,
            )
        waiting = _Waiting(wanted, asyncio.get_running_loop().create_future())
        queue[wanted.transactional_id] = waiting
        if state.leader not in self._senders:
            sender = asyncio.get_running_loop().create_task(self._send(state.leader))
            self._senders[state.leader] = sender
        return await waiting.response

    async def _send(self, broker_id: int) -> None:
        """Sends the waiting verifications to a coordinator, until none is left."""
        asked: dict[str, _Waiting] = {}
        try:
            while True:
                asked = self._waiting.pop(broker_id, {})
                if not asked:
                    return
                await self._exchange(broker_id, asked)
        finally:
            del self._senders[broker_id]
            for each in asked.values():
                _respond(each, ErrorCode.network_exception)

    async def _exchange(self, broker_id: int, asked: Mapping[str, _Waiting]) -> None:
        assert self._version is not None
        error = ErrorCode.none
        results: Mapping[str, _Errors] = {}
        try:
            request = verification_request([each.wanted for each in asked.values()], self._version)
            response = await self._links.ask(broker_id, request)
            error = response.error_code
            results = read_verification_errors(response)
        except (OSError, InvalidFrame) as failure:
            _log.warning(
                "AddPartitionsToTxnRequest failed for node %d with a network exception: %s",
                broker_id, failure,
            )  # fmt: skip
            error = ErrorCode.network_exception
        except Exception:  # noqa: BLE001 - the waiting requests must get a result
            _log.exception("AddPartitionsToTxnRequest failed for node %d", broker_id)
            error = ErrorCode.network_exception
        if error is ErrorCode.cluster_authorization_failed:
            # The client needs no authorization for the cluster: it gets INVALID_TXN_STATE.
            error = ErrorCode.invalid_txn_state
        for transactional_id, each in asked.items():
            if error is not ErrorCode.none:
                _respond(each, error)
            elif transactional_id not in results:
                _respond(each, ErrorCode.network_exception)
            elif not each.response.done():
                each.response.set_result(results[transactional_id])


def _respond(waiting: _Waiting, error: ErrorCode) -> None:
    if not waiting.response.done():
        waiting.response.set_result(dict.fromkeys(waiting.wanted.partitions, error))


def _client_error(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error of a verification, changed to one that the producer knows."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    return error
