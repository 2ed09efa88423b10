"""Partitions of ``__transaction_state`` come and go; ids expire; tools look at them.

Behaviours of Kafka's ``TransactionStateManagerTest``.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import (
    Elected,
    Loaded,
    LoadFailed,
    LoadFinished,
    Resigned,
    Shutdown,
)
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.transactions.config import (
    MAX_INSTALLED_AT_ONCE,
    MAX_TOMBSTONE_BATCH_BYTES,
)
from replica_manager.coordinators.transactions.events import Marker
from replica_manager.coordinators.transactions.records import encode_key
from replica_manager.coordinators.transactions.requests import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResult,
    ListTransactions,
    ListTransactionsResult,
)
from replica_manager.coordinators.transactions.states import VALID_PREVIOUS, TransactionState
from tests.scenarios.transaction_world import EPOCH, ID, TIMEOUT_MS, A, B, World

DAY_MS = 24 * 60 * 60 * 1000


def successor(world: World) -> World:
    """A coordinator on another broker that leads the partition next."""
    other = World(is_elected=False)
    other.now_ms = world.now_ms
    other.log = list(world.log)
    other.elect(EPOCH + 1)
    return other


def test_no_state_can_be_entered_from_nowhere_but_two_that_are_never_written() -> None:
    for target, previous in VALID_PREVIOUS.items():
        assert previous, target
        assert TransactionState.DEAD not in previous
    assert set(VALID_PREVIOUS) == set(TransactionState)


def test_a_successor_goes_on_with_an_open_transaction() -> None:
    world = World()
    producer = world.ongoing()
    other = successor(world)
    assert other.state() is TransactionState.ONGOING
    assert other.transaction.start_ms == world.transaction.start_ms
    text = "Completed loading transaction metadata from __transaction_state-0 for coordinator epoch"
    assert other.lines[-1].text.endswith(f"{text} {EPOCH + 1}")
    assert other.end(producer, is_commit=True) is ErrorCode.none
    assert [marker.coordinator_epoch for _, marker in other.markers] == [EPOCH + 1, EPOCH + 1]


def test_a_successor_ends_what_was_decided() -> None:
    for is_commit in (True, False):
        world = World()
        producer = world.ongoing()
        world.end(producer, is_commit=is_commit)
        other = successor(world)
        assert other.markers == [
            (1, Marker(1000, 0, EPOCH + 1, is_commit, (A,))),
            (2, Marker(1000, 0, EPOCH + 1, is_commit, (B,))),
        ]
        other.answer_markers(1)
        other.answer_markers(2)
        assert other.logged[-1] is (
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        )
        assert other.init().error is ErrorCode.none


def test_a_retry_across_a_failover_is_fenced_for_the_last_epoch_is_not_in_the_log() -> None:
    world = World()
    producer = world.producer()
    world.init(producer)
    assert successor(world).init(producer).error is ErrorCode.producer_fenced


def test_while_a_partition_is_loaded_requests_are_refused() -> None:
    world = World(answers_loads=False)
    in_progress = ErrorCode.coordinator_load_in_progress
    assert world.init().error is in_progress
    assert world.add((1, 0), A) is in_progress
    assert world.verify((1, 0), A) == {A: in_progress}
    assert world.end((1, 0), is_commit=True) is in_progress
    listing = ListTransactions(world.new_request_id())
    assert world.answer(listing, ListTransactionsResult) == ListTransactionsResult(in_progress)
    world.step(LoadFinished(world.load_id))
    assert world.init().error is ErrorCode.none


def test_a_load_that_is_not_wanted_any_more_changes_nothing() -> None:
    world = World(answers_loads=False)
    world.step(Resigned(0, EPOCH + 1))
    world.step(Loaded(world.load_id, ()))
    world.step(LoadFinished(world.load_id))
    assert world.init().error is ErrorCode.not_coordinator


def test_a_partition_that_cannot_be_read_is_not_served_until_it_is_led_anew() -> None:
    world = World(answers_loads=False)
    world.step(LoadFailed(world.load_id, "disk"))
    assert world.init().error is ErrorCode.not_coordinator
    world.elect(EPOCH + 1)
    world.load()
    assert world.init().error is ErrorCode.none


def test_outdated_elections_are_ignored() -> None:
    world = World()
    world.producer()
    world.step(Resigned(0, EPOCH - 1))
    world.step(Elected(0, EPOCH - 1))
    world.step(Elected(0, EPOCH))
    assert world.transaction.producer_epoch == 0
    assert len(world.loads_ms) == 1
    world.step(Resigned(0, EPOCH + 1))
    world.step(Elected(0, EPOCH))
    assert world.init().error is ErrorCode.not_coordinator


def test_a_deleted_replica_may_come_back_with_any_epoch() -> None:
    world = World()
    world.step(Resigned(0, None))
    assert world.init().error is ErrorCode.not_coordinator
    world.elect(0)
    assert world.init().error is ErrorCode.none


def test_records_that_cannot_be_read_are_passed_over() -> None:
    world = World()
    world.producer()
    world.log.insert(0, SimpleRecord(b"\0\1\0\0", b""))
    world.log.insert(0, SimpleRecord(b"\0\0\0\3abc", b"\0\x07"))
    world.log.insert(0, SimpleRecord(b"\0", b""))
    other = successor(world)
    assert list(other.coordinator.owned[0].transactions) == [ID]
    told = "\n".join(line.text for line in other.lines)
    assert "Unknown message key with version 1" in told
    assert "the last record of abc is passed over" in told
    assert "the record at offset 0 is passed over" in told


def test_many_ids_are_loaded_in_turns() -> None:
    world = World()
    count = 2 * MAX_INSTALLED_AT_ONCE + 1
    for number in range(count):
        world.init(transactional_id=f"id-{number}")
    assert len(successor(world).coordinator.owned[0].transactions) == count


def test_ids_expire_in_silence_and_not_while_a_transaction_is_open() -> None:
    world = World()
    world.init(transactional_id="idle")
    result = world.init(transactional_id=ID, timeout_ms=900_000)
    world.add((result.producer_id, 0), A)
    world.leaders.clear()
    world.pass_ms(7 * DAY_MS - 1)
    assert "idle" in world.coordinator.owned[0].transactions
    world.pass_ms(1)
    assert "idle" not in world.coordinator.owned[0].transactions
    assert world.log[-1] == SimpleRecord(encode_key("idle"), None)
    # The other one was aborted by its timeout, and so has been used since.
    assert ID in world.coordinator.owned[0].transactions
    assert ID in successor(world).coordinator.owned[0].transactions
    assert "idle" not in successor(world).coordinator.owned[0].transactions


def test_an_id_whose_tombstone_cannot_be_written_stays() -> None:
    world = World()
    world.producer()
    world.append_error = ErrorCode.not_enough_replicas
    world.pass_ms(8 * DAY_MS)
    assert world.transaction.pending_state is None
    assert world.add((1000, 0), A) is ErrorCode.coordinator_not_available
    world.append_error = ErrorCode.none
    world.pass_ms(3_600_000)
    assert ID not in world.coordinator.owned[0].transactions


def test_a_producer_that_comes_while_its_id_expires_must_retry() -> None:
    world = World()
    world.producer()
    world.holds_appends = True
    world.pass_ms(8 * DAY_MS)
    assert world.init().error is ErrorCode.concurrent_transactions
    world.release()
    world.holds_appends = False
    assert world.producer() == (1001, 0)


def test_tombstones_come_in_batches() -> None:
    world = World()
    name = "x" * (MAX_TOMBSTONE_BATCH_BYTES // 4)
    for number in range(7):
        world.init(transactional_id=f"{name}-{number}")
    world.holds_appends = True
    world.pass_ms(8 * DAY_MS)
    assert [len(append.records) for append in world.held] == [3, 3, 1]


def test_a_stopped_coordinator_has_nothing() -> None:
    world = World()
    world.ongoing()
    world.step(Shutdown())
    assert world.coordinator.next_deadline_ms is None
    assert world.init().error is ErrorCode.not_coordinator
    not_available = ErrorCode.coordinator_not_available
    listing = ListTransactions(world.new_request_id())
    assert world.answer(listing, ListTransactionsResult) == ListTransactionsResult(not_available)
    describing = DescribeTransactions(world.new_request_id(), (ID,))
    described = world.answer(describing, DescribeTransactionsResult).transactions
    assert described == (DescribedTransaction(ID, not_available),)


def test_transactions_are_described() -> None:
    world = World()
    world.ongoing()
    request = DescribeTransactions(world.new_request_id(), (ID, "unknown", ""))
    assert world.answer(request, DescribeTransactionsResult).transactions == (
        DescribedTransaction(
            ID, ErrorCode.none, 1000, 0, "Ongoing", TIMEOUT_MS, world.now_ms, (A, B)
        ),
        DescribedTransaction("unknown", ErrorCode.transactional_id_not_found),
        DescribedTransaction("", ErrorCode.invalid_request),
    )
    nobody = World(is_elected=False)
    request = DescribeTransactions(nobody.new_request_id(), (ID,))
    [described] = nobody.answer(request, DescribeTransactionsResult).transactions
    assert described.error is ErrorCode.not_coordinator


def test_transactions_are_listed_through_filters() -> None:
    world = World()
    world.ongoing()
    world.init(transactional_id="other")

    def listed(**filters: object) -> list[str]:
        request = ListTransactions(world.new_request_id(), **filters)  # type: ignore[arg-type]
        return [
            each.transactional_id
            for each in world.answer(request, ListTransactionsResult).transactions
        ]

    assert listed() == [ID, "other"]
    assert listed(states=("Ongoing",)) == [ID]
    assert listed(states=("Ongoing", "Empty")) == [ID, "other"]
    assert listed(states=("Unheard",)) == []
    assert listed(producer_ids=(1001,)) == ["other"]
    assert listed(producer_ids=(1001,), states=("Ongoing",)) == []
    world.pass_ms(1_000)
    assert listed(longer_than_ms=999, states=("Ongoing",)) == [ID]
    assert listed(longer_than_ms=1_000, states=("Ongoing",)) == []
    request = ListTransactions(world.new_request_id(), ("Unheard", "Empty", "Unheard"))
    assert world.answer(request, ListTransactionsResult).unknown_states == ("Unheard",)
