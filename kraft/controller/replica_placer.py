"""Chooses the brokers of new partitions: spread over racks, unfenced brokers first.

The replicas of a partition go to one rack after the other, and within a rack to one broker after
the other; the first rack and the first broker are random.  Each partition begins one rack and one
broker later than the one before it: with racks A, B, C the first three partitions get A0 B0 C0,
B1 C1 A1, C2 A2 B2.  A fenced broker is used only if its rack has no unfenced one left, and never as
the leader.  After as many partitions as there are unfenced brokers, racks and brokers are shuffled,
so that the pattern does not repeat.

Source: Kafka ``StripedReplicaPlacer`` (KIP-631).
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any, Protocol

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.cluster_view import UsableBroker


class Randomness(Protocol):
    """The methods of ``random.Random`` that the placer needs."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to ``stop`` - 1."""

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Shuffles the sequence in place."""


class ReplicaPlacer(Protocol):
    """Places the replicas of new partitions."""

    def place(
        self, partition_count: int, replication_factor: int, brokers: Iterable[UsableBroker]
    ) -> list[tuple[int, ...]]:
        """The replicas of each partition, the preferred leader first.

        Raises ApiException(INVALID_REPLICATION_FACTOR) if there are not enough brokers.
        """


class StripedReplicaPlacer:
    """The algorithm described in the module's documentation."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    def place(
        self, partition_count: int, replication_factor: int, brokers: Iterable[UsableBroker]
    ) -> list[tuple[int, ...]]:
        """See :class:`ReplicaPlacer`; also refuses if all brokers are fenced."""
        racks = _RackList(self._randomness, brokers)
        if replication_factor <= 0:
            raise _refusal(
                f"Invalid replication factor {replication_factor}: the replication factor must be "
                "positive."
            )
        if racks.unfenced_count == 0:
            raise _refusal("All brokers are currently fenced.")
        if replication_factor > racks.broker_count:
            raise _refusal(
                f"The target replication factor of {replication_factor} cannot be reached because "
                f"only {racks.broker_count} broker(s) are registered."
            )
        return [racks.place(replication_factor) for _ in range(partition_count)]


def _refusal(message: str) -> ApiException:
    return ApiException(ErrorCode.invalid_replication_factor, message)


class _BrokerList:
    """Brokers that are used in turn, each at most once for one partition (an epoch)."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._index = 0
        self._offset = 0
        self._epoch = 0

    def begin_at_random(self, randomness: Randomness) -> None:
        if self.brokers:
            self.brokers.sort()
            self._offset = randomness.randrange(len(self.brokers))

    def next(self, epoch: int) -> int | None:
        """The next broker in this epoch; None after the last one."""
        count = len(self.brokers)
        if count == 0:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return None
        broker = self.brokers[(self._index + self._offset) % count]
        self._index += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.fenced = _BrokerList()
        self.unfenced = _BrokerList()

    def next(self, epoch: int) -> int | None:
        unfenced = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if unfenced is None else unfenced

    def lists(self) -> tuple[_BrokerList, _BrokerList]:
        return self.fenced, self.unfenced


class _RackList:
    """The racks, which are used in turn."""

    def __init__(self, randomness: Randomness, brokers: Iterable[UsableBroker]) -> None:
        racks: dict[str | None, _Rack] = {}
        self.broker_count = self.unfenced_count = 0
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.broker_id)
            self.broker_count += 1
            self.unfenced_count += not broker.fenced
        self._broker_lists = [each for rack in racks.values() for each in rack.lists()]
        for broker_list in self._broker_lists:
            broker_list.begin_at_random(randomness)
        # Brokers without a rack form a rack of their own, which comes first.
        names = sorted(racks, key=lambda name: (name is not None, name or ""))
        self._racks = [racks[name] for name in names]
        self._randomness = randomness
        self._epoch = 0
        self._offset = randomness.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """The replicas of the next partition; the caller has checked the number of brokers."""
        # With one unfenced broker every partition would get epoch 0, in which it is used already.
        if self._epoch == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == len(self._racks):
            self._offset = 0
        leader_rack, leader = self._first_unfenced()
        replicas = [leader]
        turn = self._offset
        skipped_leader_rack = False
        while len(replicas) < replication_factor:
            if turn == leader_rack and not skipped_leader_rack:
                skipped_leader_rack = True  # this rack already has the leader
            else:
                broker = self._racks[turn].next(self._epoch)
                if broker is not None:
                    replicas.append(broker)
            turn = (turn + 1) % len(self._racks)
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _first_unfenced(self) -> tuple[int, int]:
        count = len(self._racks)
        for turn in (*range(self._offset, count), *range(self._offset)):
            leader = self._racks[turn].unfenced.next(self._epoch)
            if leader is not None:
                return turn, leader
        raise AssertionError("the caller made sure of an unfenced broker")

    def _shuffle(self) -> None:
        self._randomness.shuffle(self._racks)
        for broker_list in self._broker_lists:
            self._randomness.shuffle(broker_list.brokers)
