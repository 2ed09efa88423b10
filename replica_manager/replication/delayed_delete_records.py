"""A DeleteRecords request that waits until every live replica raised its log start offset.

Source: Kafka ``DelayedDeleteRecords``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition

NO_LOW_WATERMARK: Final = -1


class DeletedRecords(NamedTuple):
    """The response for one partition."""

    error: ErrorCode
    low_watermark: int = NO_LOW_WATERMARK
    """The smallest log start offset among the live replicas; -1 if unknown."""


LowWatermark: TypeAlias = Callable[[TopicPartition], int | ErrorCode]
"""The low watermark of a partition; an error if this broker is not its leader."""


class DelayedDeleteRecords:
    """Waits for the low watermark of every partition whose log start was raised."""

    def __init__(
        self,
        raised: Mapping[TopicPartition, int],
        refused: Mapping[TopicPartition, ErrorCode],
        low_watermark: LowWatermark,
    ) -> None:
        """``raised`` holds the log start offset that the replicas must reach, per partition."""
        self._pending = dict(raised)
        self._low_watermark = low_watermark
        self.results: dict[TopicPartition, DeletedRecords] = {
            tp: DeletedRecords(error) for tp, error in refused.items()
        }
        """The response for each partition.

        A partition that still waits has REQUEST_TIMED_OUT and the low watermark that it had at the
        beginning.  Its log start offset stays raised.
        """
        for tp in raised:
            now = low_watermark(tp)
            self.results[tp] = DeletedRecords(
                ErrorCode.request_timed_out,
                NO_LOW_WATERMARK if isinstance(now, ErrorCode) else now,
            )

    def is_complete(self) -> bool:
        """Checks the waiting partitions; True once none is left."""
        for tp, required_offset in list(self._pending.items()):
            low_watermark = self._low_watermark(tp)
            if isinstance(low_watermark, ErrorCode):
                self.results[tp] = DeletedRecords(low_watermark)
            elif low_watermark >= required_offset:
                self.results[tp] = DeletedRecords(ErrorCode.none, low_watermark)
            else:
                continue
            del self._pending[tp]
        return not self._pending
