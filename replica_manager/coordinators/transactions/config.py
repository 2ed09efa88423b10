"""The configuration of a transaction coordinator, and its own bounds.

The fields carry Kafka's defaults; the broker's assembly fills them from ``server.properties``.

Source: Kafka ``TransactionConfig``, ``TransactionStateManagerConfigs``, ``TransactionLogConfigs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_TRANSACTIONAL_IDS: Final = 200_000
"""Of one coordinator; past it no new one is taken (COORDINATOR_NOT_AVAILABLE).

All of them are looked over every ten seconds, which takes some 20 ms.
"""

MAX_INSTALLED_AT_ONCE: Final = 1_000
"""How many ids of a partition that was read one tick makes."""

MAX_MARKERS_PER_REQUEST: Final = 500
"""Markers in one WriteTxnMarkers; the others wait for the next."""

MARKER_RETRY_MS: Final = 100
"""Before a marker, or the record of a completion, that failed is tried again."""

MAX_TOMBSTONE_BATCH_BYTES: Final = 16_384
"""Keys of expired ids in one batch; Kafka's own first size of such a batch."""


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The settings of a transaction coordinator; times in milliseconds."""

    broker_id: int = 0
    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``: the longest transaction that a producer may ask for."""
    transactional_id_expiration_ms: int = 604_800_000
    """``transactional.id.expiration.ms``"""
    abort_timed_out_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``"""
    remove_expired_interval_ms: int = 3_600_000
    """``transaction.remove.expired.transaction.cleanup.interval.ms``"""
    request_timeout_ms: int = 30_000
    """``request.timeout.ms``: how long the records of expired ids may take."""
