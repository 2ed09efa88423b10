"""The states of a transactional id, and the allowed transitions.

::

    Empty   → Ongoing | Empty | Dead
    Ongoing → PrepareCommit → CompleteCommit → Ongoing | Empty | Dead
            → PrepareAbort  → CompleteAbort  → Ongoing | Empty | Dead
            → PrepareEpochFence → PrepareAbort
            → Ongoing

* **Empty**: a producer uses the id, but has added no partition yet;
* **Ongoing**: a transaction is open and has partitions;
* **PrepareCommit**, **PrepareAbort**: the decision is in the log; markers are being written;
* **CompleteCommit**, **CompleteAbort**: every partition has its marker;
* **PrepareEpochFence**: the transaction of a fenced producer will be aborted; only a pending state,
  never in the log;
* **Dead**: the id expires and will be removed; also only a pending state.

Source: Kafka ``TransactionState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The states of a transactional id; the values are those in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state, such as ``PrepareCommit``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_ending(self) -> bool:
        """Whether the end is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether no transaction is open, so that the id may expire."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


_SETTLED: Final = frozenset(state for state in TransactionState if state.may_expire)

VALID_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _SETTLED,
    TransactionState.ONGOING: _SETTLED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _SETTLED,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""Legal transitions: for each state, the states from which it may be entered."""

STATE_OF_LABEL: Final[Mapping[str, TransactionState]] = {
    state.label: state for state in TransactionState
}
