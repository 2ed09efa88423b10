"""The configuration of a transaction coordinator, and its own bounds.

The fields have Kafka's defaults; :mod:`..transaction_settings` sets them from
``server.properties``.

Source: Kafka ``TransactionConfig``, ``TransactionStateManagerConfigs``, ``TransactionLogConfigs``.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_TRANSACTIONAL_IDS: Final = 200_000
"""Limit of ids of one coordinator; then a new id gets COORDINATOR_NOT_AVAILABLE.

All of them are checked for timeouts every ten seconds, which takes some 20 ms.
"""

MAX_INSTALLED_AT_ONCE: Final = 1_000
"""Transactional ids of a loaded partition that one tick creates."""

MAX_MARKERS_PER_REQUEST: Final = 500
"""Limit of markers in one WriteTxnMarkers request; the others wait for the next request."""

MARKER_RETRY_MS: Final = 100
"""Pause before a failed marker, or a failed write of a completion, is tried again."""

MAX_TOMBSTONE_BATCH_BYTES: Final = 16_384
"""Limit of the bytes of keys in one batch of tombstones for expired ids.

In Kafka this is the initial size of the batch's buffer.
"""


class TransactionConfig(Struct, frozen=True):
    """The settings of a transaction coordinator; times in milliseconds."""

    broker_id: int = 0
    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``: the longest transaction timeout that a producer may set."""
    transactional_id_expiration_ms: int = 604_800_000
    """``transactional.id.expiration.ms``"""
    abort_timed_out_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``"""
    remove_expired_interval_ms: int = 3_600_000
    """``transaction.remove.expired.transaction.cleanup.interval.ms``"""
    request_timeout_ms: int = 30_000
    """``request.timeout.ms``: the timeout for appending the tombstones of expired ids."""
