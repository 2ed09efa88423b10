"""A Produce request with acks=all that waits until its records are committed.

Source: Kafka ``DelayedProduce``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition

CheckCommitted: TypeAlias = Callable[[TopicPartition, int], tuple[bool, ErrorCode]]
"""Whether everything below an offset is committed; an error ends the waiting as well."""

_TIMED_OUT: Final = ErrorCode.request_timed_out


class DelayedProduce:
    """Waits for every partition with appended records; the others have an error."""

    def __init__(
        self,
        appended: Mapping[TopicPartition, int],
        refused: Mapping[TopicPartition, ErrorCode],
        check_committed: CheckCommitted,
    ) -> None:
        """``appended`` holds the offset after the last record, per partition."""
        self._pending = dict(appended)
        self._check = check_committed
        self.errors: dict[TopicPartition, ErrorCode] = {
            **refused,
            **dict.fromkeys(appended, _TIMED_OUT),
        }
        """What to answer for each partition; what still waits has timed out, its records stay."""

    def is_complete(self) -> bool:
        """Checks the waiting partitions; True once none is left."""
        for partition, required_offset in list(self._pending.items()):
            is_committed, error = self._check(partition, required_offset)
            if is_committed or error is not ErrorCode.none:
                self.errors[partition] = error
                del self._pending[partition]
        return not self._pending


def must_wait(acks: int, appended: Mapping[TopicPartition, int]) -> bool:
    """Whether a Produce request waits: it has acks=all, and some records were appended."""
    return acks == -1 and bool(appended)
