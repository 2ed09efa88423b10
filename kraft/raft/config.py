"""Every timer, back-off and bound of the raft quorum, by Kafka's names.

Source: Kafka ``QuorumConfig``, ``KafkaRaftClient``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RETRY_BACKOFF_BASE_MS: Final = 100
"""The unit of a candidate's back-off."""
MAX_FETCH_WAIT_MS: Final = 500
"""How long a replica lets the leader wait for records before it answers a Fetch."""
MAX_PARKED_MS: Final = 30_000
"""No Fetch waits longer for records, whatever it asks for."""
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
MAX_FETCH_BYTES: Final = 8 * 1024 * 1024
MAX_FETCH_ANSWER_BYTES: Final = 1024 * 1024
"""A leader answers a Fetch with so much, or one batch: a follower, which answers nothing meanwhile,
checks and appends 1 MiB of the smallest batches in 0.2 s."""
MAX_COMPLETED_BATCHES: Final = 10
"""So many batches may wait in the accumulator; more appends are refused."""
MAX_PARKED_FETCHES: Final = 1_000
"""So many Fetch requests wait for records at once; the next one is answered as it comes."""
MAX_OBSERVERS: Final = 1_000
"""A leader remembers this many observers; beyond, the one with the oldest fetch is forgotten."""
CHECK_QUORUM_FACTOR: Final = 1.5
OBSERVER_SESSION_MS: Final = 300_000
"""An observer silent for so long is left out of DescribeQuorum."""
CLEANER_PERIOD_MS: Final = 60_000
FETCH_JITTER_DIVISOR: Final = 4
"""Up to this part of its fetch timeout a voter waits longer, so that not all stand at once."""
LAST_EPOCH: Final = 2**31 - 1
"""Four bytes hold no higher one: after it no leader can be elected any more."""
MAX_EPOCH_LEAP: Final = 2**24
"""More elections than a node can miss: at one a second, half a year of them."""
NEVER_MS: Final = 2**63 - 1
"""A timer that does not run."""


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """``controller.quorum.*``, in milliseconds."""

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
