"""The result of a manager: records to append and the response.

Generating a result changes no state; a manager changes its state when the records are replayed.

Source: Kafka ``ControllerResult``, ``ApiMessageAndVersion``, ``BoundedList``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.metadata.records import VersionedRecord

__all__ = (
    "MAX_RECORDS_PER_BATCH",
    "MAX_RECORDS_PER_USER_OP",
    "BoundedRecords",
    "ControllerResult",
    "VersionedRecord",
)

T = TypeVar("T")

MAX_RECORDS_PER_BATCH: Final = 10_000
MAX_RECORDS_PER_USER_OP: Final = 10_000


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """Records to append, and the response to send once they are committed.

    An atomic result is appended as one batch, so no reader sees a part of it.  Any other result may
    be split into several batches.
    """

    records: tuple[VersionedRecord, ...]
    response: T
    is_atomic: bool = False

    @classmethod
    def of(cls, records: Iterable[VersionedRecord], response: T) -> ControllerResult[T]:
        """Records that may be split into several batches."""
        return cls(tuple(records), response)

    @classmethod
    def atomic_of(cls, records: Iterable[VersionedRecord], response: T) -> ControllerResult[T]:
        """Records that must be in one batch."""
        return cls(tuple(records), response, is_atomic=True)


class BoundedRecords:
    """Collects the records of one operation; POLICY_VIOLATION if there are too many."""

    __slots__ = ("_capacity", "_records")

    def __init__(self, capacity: int = MAX_RECORDS_PER_USER_OP) -> None:
        self._capacity = capacity
        self._records: list[VersionedRecord] = []

    def append(self, record: VersionedRecord) -> None:
        """Adds one record."""
        self.extend((record,))

    def extend(self, records: Iterable[VersionedRecord]) -> None:
        """Adds all records, or none of them."""
        added = tuple(records)
        if len(self._records) + len(added) > self._capacity:
            raise ApiException(
                ErrorCode.policy_violation,
                f"one operation may write {self._capacity} records and would write more",
            )
        self._records += added

    def __len__(self) -> int:
        return len(self._records)

    def to_tuple(self) -> tuple[VersionedRecord, ...]:
        """The collected records."""
        return tuple(self._records)
