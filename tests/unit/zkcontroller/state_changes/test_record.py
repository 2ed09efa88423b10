"""Many state changes in columns are what the same changes are one by one."""

from __future__ import annotations

from kafka_common.model import LeaderAndIsr
from zkcontroller.core.effects import Outbox, StateChanges
from zkcontroller.core.journal import Journal
from zkcontroller.state_changes.record import AlikeStateChanges, Kind, StateChange

ALIKE = StateChange(Kind.REPLICA_REMOVED_FROM_ISR, "controller", 1, 7, replica=3, cause="why")
STATES = [LeaderAndIsr(1, 4, (1, 2), 9, 7, 0), LeaderAndIsr(-1, 5, (2,), 10, 6, 1)]


def one_by_one() -> list[StateChange]:
    return [
        ALIKE._replace(
            topic=topic,
            partition=partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.in_sync_replicas,
            zk_version=state.zk_version,
            leader_recovery_state=state.leader_recovery_state,
            state_controller_epoch=state.controller_epoch,
        )
        for topic, partition, state in zip(("a", "b"), (0, 5), STATES, strict=True)
    ]


def test_columns_are_the_records_one_by_one() -> None:
    alike = AlikeStateChanges(ALIKE, ["a", "b"], [0, 5], STATES)

    assert len(alike) == 2
    assert list(alike) == one_by_one()
    assert alike[-1] == one_by_one()[-1]
    assert alike[1:] == one_by_one()[1:]


def test_without_states_the_leadership_is_what_all_have() -> None:
    led = ALIKE._replace(leader=4, isr=(4,))

    [change] = AlikeStateChanges(led, ["a"], [0])

    assert change == led._replace(topic="a", partition=0)


def test_records_before_and_after_many_keep_their_order() -> None:
    outbox: Outbox = []
    journal = Journal(outbox, 1, is_tracing=False)
    journal.record(ALIKE)
    journal.record_all(AlikeStateChanges(ALIKE, ["a", "b"], [0, 5], STATES))
    journal.record(ALIKE)
    journal.record_all(AlikeStateChanges(ALIKE, [], []))

    records = [
        each for effect in outbox if isinstance(effect, StateChanges) for each in effect.records
    ]
    assert records == [ALIKE, *one_by_one(), ALIKE]
