"""A Produce request with acks=all that waits until its records are committed.

Source: Kafka ``DelayedProduce``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition

CheckCommitted: TypeAlias = Callable[[TopicPartition, int], tuple[bool, ErrorCode]]
"""Whether all records below an offset are committed; an error ends the wait as well."""

_TIMED_OUT: Final = ErrorCode.request_timed_out


class DelayedProduce:
    """Waits until the appended records of every partition are committed."""

    def __init__(
        self,
        appended: Mapping[TopicPartition, int],
        refused: Mapping[TopicPartition, ErrorCode],
        check_committed: CheckCommitted,
    ) -> None:
        """``appended`` holds the offset after the last appended record, per partition.

        ``refused`` holds the errors of the partitions to which nothing was appended.
        """
        self._pending = dict(appended)
        self._check = check_committed
        self.errors: dict[TopicPartition, ErrorCode] = {
            **refused,
            **dict.fromkeys(appended, _TIMED_OUT),
        }
        """The error of each partition in the response.

        A partition that still waits has REQUEST_TIMED_OUT; its records stay in the log.
        """

    def is_complete(self) -> bool:
        """Checks the waiting partitions; True once none is left."""
        for partition, required_offset in list(self._pending.items()):
            is_committed, error = self._check(partition, required_offset)
            if is_committed or error is not ErrorCode.none:
                self.errors[partition] = error
                del self._pending[partition]
        return not self._pending


def must_wait(acks: int, appended: Mapping[TopicPartition, int]) -> bool:
    """Whether a Produce request must wait: it has acks=all and appended some records."""
    return acks == -1 and bool(appended)
