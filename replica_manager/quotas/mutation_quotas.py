"""The quota of created and deleted partitions: ``controller_mutation_rate`` (KIP-599).

Pure.  Each client has a bucket of tokens, which fills at its rate up to the tokens of eleven
seconds (``controller.quota.window.num`` times ``.size.seconds``).  A partition takes a token, and a
request may make the number of tokens negative.  While it is negative, a *strict* quota (newer
versions of the APIs) refuses with THROTTLING_QUOTA_EXCEEDED, and a *permissive* one allows the
request.  Both throttle the client until the bucket has zero tokens again.

Source: Kafka ``ControllerMutationQuotaManager``, ``TokenBucket``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from replica_manager.quotas.client_quotas import (
    ClientKey,
    ClientQuotas,
    RecentClients,
    whole_throttle_ms,
)
from replica_manager.request_errors import RequestRefused
from replica_manager.security.principals import ANONYMOUS

QUOTA_KEY: Final = "controller_mutation_rate"


class _Bucket:
    """A token bucket; it is full at first."""

    __slots__ = ("_last_used_ms", "_tokens")

    def __init__(self, now_ms: int) -> None:
        self._tokens = math.inf
        self._last_used_ms = now_ms

    def tokens(self, rate: float, burst: float, now_ms: int) -> float:
        """The current number of tokens, at most ``burst``."""
        elapsed_s = (now_ms - self._last_used_ms) / 1000
        self._tokens = min(burst, self._tokens + rate * elapsed_s)
        self._last_used_ms = now_ms
        return self._tokens

    def take(self, count: float) -> None:
        """Takes tokens; the number may become negative.  Call it after :meth:`tokens`."""
        self._tokens -= count


class MutationQuotas:
    """The buckets of all clients.  For one thread; ``now_ms`` is a monotonic clock.

    ``quotas`` may be replaced by another thread.

    ``window_s``: a full bucket has the tokens of this many seconds.
    """

    def __init__(self, window_s: int, now_ms: Callable[[], int]) -> None:
        self.quotas = ClientQuotas(QUOTA_KEY)
        self._window_s = window_s
        self._now_ms = now_ms
        self._buckets: RecentClients[ClientKey, _Bucket] = RecentClients(
            lambda _: _Bucket(now_ms())
        )

    def __len__(self) -> int:
        return len(self._buckets)

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of a path such as ``users/a/clients/b``."""
        self.quotas.configure(entity_path, config)

    def of(self, client_id: str, *, is_strict: bool, user: str = ANONYMOUS.name) -> MutationQuota:
        """The quota use of one request of the client."""
        return MutationQuota(self, user, client_id, is_strict=is_strict)

    def charge(self, user: str, client_id: str, count: int, *, is_strict: bool) -> int:
        """Takes ``count`` tokens; returns the throttle time in milliseconds.

        A strict quota takes no tokens if the bucket is below zero already.
        """
        quotas = self.quotas
        key = quotas.key(user, client_id)
        rate = quotas.bound(key)
        if rate is None:
            self._buckets.remove(key)  # if a quota is set later, it begins with a full bucket
            return 0
        now_ms = self._now_ms()
        bucket = self._buckets.use(key, now_ms)
        burst = rate * self._window_s
        tokens = bucket.tokens(rate, burst, now_ms)
        if tokens >= 0 or not is_strict:
            bucket.take(count)
            tokens -= count
            if is_strict:
                return 0
        if tokens >= 0:
            return 0
        wait_ms = -tokens / rate * 1000 if rate > 0 else math.inf
        return whole_throttle_ms(wait_ms)

    def now_ms(self) -> int:
        return self._now_ms()


class MutationQuota:
    """The use of a client's quota by one request."""

    def __init__(
        self, quotas: MutationQuotas, user: str, client_id: str, *, is_strict: bool
    ) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._charged_at_ms = 0

    def charge(self, partitions: int) -> None:
        """Takes tokens for partitions about to be created or deleted.

        RequestRefused(THROTTLING_QUOTA_EXCEEDED) if the quota is strict and used up.
        """
        throttle_ms = self._quotas.charge(
            self._user, self._client_id, partitions, is_strict=self._is_strict
        )
        if throttle_ms > 0:
            self._throttle_ms = throttle_ms
            self._charged_at_ms = self._quotas.now_ms()
            if self._is_strict:
                raise RequestRefused(ErrorCode.throttling_quota_exceeded)

    @property
    def throttle_ms(self) -> int:
        """The remaining throttle time in ms: the time since the charge is subtracted."""
        if self._throttle_ms == 0:
            return 0
        return max(0, self._throttle_ms - (self._quotas.now_ms() - self._charged_at_ms))
