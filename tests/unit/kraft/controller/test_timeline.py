"""State that can be read as it was, and put back to what it was.

Source of the behaviours: Kafka ``SnapshotRegistryTest``, ``TimelineHashMapTest``,
``TimelineObjectTest``, ``SnapshottableHashTableTest``.
"""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafka_common.errors import IllegalState
from kraft.controller.snapshot_registry import NO_EPOCH, SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineSet, TimelineValue

KEYS = st.integers(0, 5)
VALUES = st.integers(0, 3)


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


def test_an_empty_registry_has_no_epochs(registry: SnapshotRegistry) -> None:
    assert registry.epochs() == []
    assert registry.latest_epoch() == NO_EPOCH
    with pytest.raises(IllegalState, match="no in-memory snapshot at 0"):
        registry.get_snapshot(0)


def test_snapshots_are_made_in_ascending_order(registry: SnapshotRegistry) -> None:
    first = registry.get_or_create_snapshot(5)

    assert registry.get_or_create_snapshot(5) is first
    registry.get_or_create_snapshot(7)
    with pytest.raises(IllegalState, match="one is at 7"):
        registry.get_or_create_snapshot(6)
    assert registry.epochs() == [5, 7]


def test_deleting_up_to_an_epoch_keeps_that_epoch(registry: SnapshotRegistry) -> None:
    for epoch in (1, 3, 5):
        registry.get_or_create_snapshot(epoch)

    registry.delete_snapshots_up_to(3)
    assert registry.epochs() == [3, 5]

    registry.delete_snapshots_up_to(6)
    assert registry.latest_epoch() == NO_EPOCH


def test_an_unknown_epoch_cannot_be_read(registry: SnapshotRegistry) -> None:
    brokers: TimelineDict[int, str] = TimelineDict(registry)
    epoch: TimelineValue[int] = TimelineValue(registry, 0)
    registry.get_or_create_snapshot(1)

    with pytest.raises(IllegalState):
        brokers.get(1, epoch=2)
    with pytest.raises(IllegalState):
        brokers.at(0)
    with pytest.raises(IllegalState):
        epoch.get(epoch=0)


def test_a_loop_over_a_snapshot_survives_writes(registry: SnapshotRegistry) -> None:
    brokers: TimelineDict[int, str] = TimelineDict(registry)
    for broker in range(4):
        brokers[broker] = "a"
    registry.get_or_create_snapshot(1)

    seen = []
    for broker, name in brokers.items(epoch=1):
        seen.append((broker, name))
        brokers[broker] = "b"
        brokers[broker + 10] = "new"
        brokers.pop(3)

    assert seen == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]


def test_a_structure_made_after_a_snapshot_is_empty_there(registry: SnapshotRegistry) -> None:
    registry.get_or_create_snapshot(1)
    brokers: TimelineDict[int, str] = TimelineDict(registry)
    brokers[1] = "a"

    assert brokers.at(1) == {}
    registry.revert_to_snapshot(1)
    assert len(brokers) == 0


def test_a_structure_that_is_not_held_is_forgotten_with_its_snapshot(
    registry: SnapshotRegistry,
) -> None:
    partitions: TimelineDict[int, str] = TimelineDict(registry)
    registry.get_or_create_snapshot(1)
    partitions[0] = "a"
    gone = weakref.ref(partitions)
    del partitions

    gc.collect()
    assert gone() is not None  # the snapshot may have to put it back

    registry.delete_snapshots_up_to(2)
    gc.collect()
    assert gone() is None


def test_reset_empties_what_is_registered(registry: SnapshotRegistry) -> None:
    brokers: TimelineDict[int, str] = TimelineDict(registry)
    topics: TimelineSet[str] = TimelineSet(registry)
    epoch: TimelineValue[int] = TimelineValue(registry, -1)
    registry.get_or_create_snapshot(1)
    brokers[1] = "a"
    topics.add("orders")
    epoch.set(7)

    registry.reset()

    assert (len(brokers), len(topics), epoch.get()) == (0, 0, -1)
    assert registry.epochs() == []


def test_a_set_says_whether_it_changed(registry: SnapshotRegistry) -> None:
    topics: TimelineSet[str] = TimelineSet(registry)

    assert topics.add("orders")
    assert not topics.add("orders")
    registry.get_or_create_snapshot(1)
    assert topics.discard("orders")
    assert not topics.discard("orders")
    assert "orders" not in topics
    assert list(topics.members(epoch=1)) == ["orders"]
    assert topics.size(epoch=1) == 1


def test_a_map_reads_and_writes_like_a_dict(registry: SnapshotRegistry) -> None:
    brokers: TimelineDict[int, str] = TimelineDict(registry)

    assert brokers.setdefault(1, "a") == "a"
    assert brokers.setdefault(1, "b") == "a"
    assert brokers.get(2, "none") == "none"
    assert brokers.pop(2, "default") == "default"
    with pytest.raises(KeyError):
        del brokers[2]
    del brokers[1]
    assert 1 not in brokers


class TimelineAgainstCopies(RuleBasedStateMachine):
    """Two maps, a set and a value, against plain copies of them at each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = SnapshotRegistry()
        self.maps: list[TimelineDict[int, int]] = [TimelineDict(self.registry) for _ in range(2)]
        self.set: TimelineSet[int] = TimelineSet(self.registry)
        self.value: TimelineValue[int] = TimelineValue(self.registry, 0)
        self.next_epoch = 0
        self.model: tuple[dict[int, int], dict[int, int], set[int], int] = ({}, {}, set(), 0)
        self.copies: dict[int, tuple[dict[int, int], dict[int, int], set[int], int]] = {}

    def copy(self) -> tuple[dict[int, int], dict[int, int], set[int], int]:
        return dict(self.model[0]), dict(self.model[1]), set(self.model[2]), self.model[3]

    @rule(which=st.integers(0, 1), key=KEYS, value=VALUES)
    def put(self, which: int, key: int, value: int) -> None:
        self.maps[which][key] = value
        (self.model[0], self.model[1])[which][key] = value

    @rule(which=st.integers(0, 1), key=KEYS)
    def remove(self, which: int, key: int) -> None:
        expected = (self.model[0], self.model[1])[which].pop(key, None)
        assert self.maps[which].pop(key) == expected

    @rule(which=st.integers(0, 1))
    def clear(self, which: int) -> None:
        self.maps[which].clear()
        (self.model[0], self.model[1])[which].clear()

    @rule(key=KEYS, is_in=st.booleans())
    def change_set(self, key: int, is_in: bool) -> None:
        if is_in:
            self.set.add(key)
            self.model[2].add(key)
        else:
            self.set.discard(key)
            self.model[2].discard(key)

    @rule(value=VALUES)
    def set_value(self, value: int) -> None:
        self.value.set(value)
        self.model = (*self.model[:3], value)

    @rule(step=st.integers(1, 3))
    def take_snapshot(self, step: int) -> None:
        self.next_epoch = max(self.next_epoch, self.registry.latest_epoch()) + step
        self.registry.get_or_create_snapshot(self.next_epoch)
        self.copies[self.next_epoch] = self.copy()

    @precondition(lambda self: self.copies)
    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        epoch = data.draw(st.sampled_from(sorted(self.copies)))
        self.registry.revert_to_snapshot(epoch)
        self.model = self.copies[epoch]
        self.copies = {at: copy for at, copy in self.copies.items() if at <= epoch}
        self.copies[epoch] = self.copy()

    @rule(below=st.integers(0, 10))
    def delete_up_to(self, below: int) -> None:
        self.registry.delete_snapshots_up_to(below)
        self.copies = {at: copy for at, copy in self.copies.items() if at >= below}

    @invariant()
    def every_epoch_reads_as_it_was(self) -> None:
        assert self.registry.epochs() == sorted(self.copies)
        self.compare(None, self.model)
        for epoch, copy in self.copies.items():
            self.compare(epoch, copy)

    def compare(
        self, epoch: int | None, expected: tuple[dict[int, int], dict[int, int], set[int], int]
    ) -> None:
        for which in (0, 1):
            contents = (expected[0], expected[1])[which]
            assert dict(self.maps[which].items(epoch=epoch)) == contents
            assert self.maps[which].size(epoch=epoch) == len(contents)
            for key in range(6):
                assert self.maps[which].get(key, epoch=epoch) == contents.get(key)
        assert set(self.set.members(epoch=epoch)) == expected[2]
        assert self.value.get(epoch=epoch) == expected[3]


TestTimelineAgainstCopies = TimelineAgainstCopies.TestCase
TestTimelineAgainstCopies.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
