"""Every timer, back-off and bound of the raft quorum, by Kafka's names.

Source: Kafka ``QuorumConfig``, ``KafkaRaftClient``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RETRY_BACKOFF_BASE_MS: Final = 100
"""A candidate's back-off is a random multiple of this."""
MAX_FETCH_WAIT_MS: Final = 500
"""The ``max_wait_ms`` of a Fetch: how long the leader may wait for records before it responds."""
MAX_PARKED_MS: Final = 30_000
"""The longest time that a Fetch waits for records, whatever its ``max_wait_ms``."""
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
MAX_FETCH_BYTES: Final = 8 * 1024 * 1024
MAX_FETCH_RESPONSE_BYTES: Final = 1024 * 1024
"""The most bytes of records in a Fetch response, unless one batch is larger.  A follower needs
0.2 s to check and append 1 MiB of the smallest batches, and responds to no request meanwhile."""
MAX_COMPLETED_BATCHES: Final = 10
"""The most batches that may wait in the accumulator; further appends are refused."""
MAX_PARKED_FETCHES: Final = 1_000
"""The most Fetch requests that wait for records; a further one gets its response at once."""
MAX_OBSERVERS: Final = 1_000
"""The most observers that a leader tracks; a further one replaces the one with the oldest fetch."""
CHECK_QUORUM_FACTOR: Final = 1.5
OBSERVER_SESSION_MS: Final = 300_000
"""DescribeQuorum leaves out an observer that has not fetched for this long."""
CLEANER_PERIOD_MS: Final = 60_000
FETCH_JITTER_DIVISOR: Final = 4
"""A voter waits up to a quarter of its fetch timeout longer, so that not all voters become
candidates at once."""
LAST_EPOCH: Final = 2**31 - 1
"""The highest epoch that fits in four bytes; no leader can be elected after it."""
MAX_EPOCH_LEAP: Final = 2**24
"""The largest credible step between two epochs: half a year of elections at one a second."""
NEVER_MS: Final = 2**63 - 1
"""The deadline of a timer that does not run."""


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """The keys ``controller.quorum.*``, in milliseconds."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader resigns when no majority has fetched from it for this long."""
        return int(self.fetch_timeout_ms * CHECK_QUORUM_FACTOR)

    @property
    def fetch_jitter_ms(self) -> int:
        """The upper bound of the random time that a voter adds to its fetch timeout."""
        return self.fetch_timeout_ms // FETCH_JITTER_DIVISOR

    @property
    def begin_quorum_epoch_period_ms(self) -> int:
        """The interval at which a leader sends BeginQuorumEpoch to the voters."""
        return self.fetch_timeout_ms // 2
