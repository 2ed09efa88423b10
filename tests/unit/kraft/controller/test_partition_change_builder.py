"""The record that brings a partition where someone wants it."""

from typing import Any, Final
from uuid import UUID

import pytest

from kafka_common.errors import IllegalState
from kafka_common.model import RECOVERED, RECOVERING
from kraft.controller.directory_ids import MIGRATING, UNASSIGNED
from kraft.controller.partition_change_builder import PartitionChangeBuilder
from kraft.controller.partition_election import PartitionElection
from kraft.controller.partition_registration import PartitionRegistration
from kraft.metadata.metadata_version import MetadataVersion, from_level, from_name
from kraft.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)

TOPIC: Final = UUID(int=77)
DIRECTORIES: Final = tuple(UUID(int=1000 + broker) for broker in range(10))
LATEST: Final = from_name("3.9")
NEEDS_BUMPS: Final = from_name("3.5-IV2")
VERSION_WITH_ELR: Final = from_level(22)


def partition(
    *replicas: int,
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    **fields: Any,
) -> PartitionRegistration:
    isr = replicas if isr is None else isr
    return PartitionRegistration(
        replicas,
        tuple(DIRECTORIES[broker] for broker in replicas),
        isr,
        fields.get("removing", ()),
        fields.get("adding", ()),
        replicas[0] if leader is None else leader,
        fields.get("recovery_state", RECOVERED),
        leader_epoch=10,
        partition_epoch=20,
        elr=fields.get("elr", ()),
        last_known_elr=fields.get("last_known_elr", ()),
    )


def builder(
    before: PartitionRegistration,
    *,
    alive: tuple[int, ...] = tuple(range(10)),
    metadata_version: MetadataVersion = LATEST,
    **targets: Any,
) -> PartitionChangeBuilder:
    return PartitionChangeBuilder(
        before,
        TOPIC,
        3,
        alive.__contains__,
        metadata_version,
        targets.pop("min_isr", 2),
        DIRECTORIES.__getitem__,
        **targets,
    )


def change(before: PartitionRegistration, **wanted: Any) -> PartitionChangeRecord | None:
    return builder(before, **wanted).build()


def record(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(3, TOPIC, **fields)


def test_no_change_makes_no_record() -> None:
    assert change(partition(1, 2, 3)) is None
    assert (
        change(partition(1, 2, 3), target_isr=(1, 2, 3), election=PartitionElection.UNCLEAN) is None
    )


def test_an_isr_that_shrinks_raises_the_leader_epoch_before_3_6() -> None:
    before = partition(1, 2, 3)

    assert change(before, target_isr=(1, 2)) == record(isr=(1, 2))
    assert change(before, target_isr=(1, 2), metadata_version=NEEDS_BUMPS) == record(
        isr=(1, 2), leader=1
    )


@pytest.mark.parametrize("metadata_version", [LATEST, NEEDS_BUMPS])
def test_an_isr_that_grows_never_raises_the_leader_epoch(metadata_version: MetadataVersion) -> None:
    before = partition(1, 2, 3, isr=(1, 2))

    wanted = change(before, target_isr=(1, 2, 3), metadata_version=metadata_version)

    assert wanted == record(isr=(1, 2, 3))


def test_a_dropped_replica_raises_the_leader_epoch_at_every_level() -> None:
    before = partition(1, 2, 3)

    reordered = change(before, target_replicas=(3, 2, 1))
    dropped = change(before, target_replicas=(1, 2), target_isr=(1, 2))

    assert reordered is not None
    assert reordered.leader == NO_LEADER_CHANGE
    assert dropped is not None
    assert dropped.leader == 1


def test_replicas_that_have_nothing_in_common_with_the_old_ones_raise_the_leader_epoch() -> None:
    before = partition(1, 2, 3)

    moved = change(before, target_replicas=(4, 5, 6), target_isr=(1,))

    assert moved is not None
    assert moved.leader == 1


def test_a_partition_epoch_rises_with_each_record_and_the_leader_epoch_with_each_leader() -> None:
    before = partition(1, 2, 3)

    grown = before.merge(record(isr=(1, 2)))
    same_leader = before.merge(record(leader=1))
    leaderless = before.merge(record(leader=NO_LEADER))

    assert (grown.leader_epoch, grown.partition_epoch) == (10, 21)
    assert (same_leader.leader, same_leader.leader_epoch, same_leader.partition_epoch) == (
        1, 11, 21
    )  # fmt: skip
    assert (leaderless.leader, leaderless.leader_epoch) == (NO_LEADER, 11)


@pytest.mark.parametrize(
    ("isr", "alive", "elected"),
    [
        ((1, 2, 3), (1, 2, 3), 1),
        ((2, 3), (1, 2, 3), 2),  # the preferred one is out of sync, the current one may stay
        ((2, 3), (1, 3), 3),
        ((2,), (1, 3), NO_LEADER),  # never unclean
    ],
)
def test_a_preferred_election_tries_the_first_replica_then_the_leader_then_the_rest(
    isr: tuple[int, ...], alive: tuple[int, ...], elected: int
) -> None:
    before = partition(1, 2, 3, isr=isr, leader=2)

    result = change(before, alive=alive, election=PartitionElection.PREFERRED)

    assert (2 if result is None else result.leader) == elected


def test_an_online_election_keeps_the_leader_and_else_takes_the_first_replica_in_sync() -> None:
    before = partition(3, 1, 2, isr=(1, 2, 3), leader=2)

    assert change(before) is None
    assert change(before, target_isr=(1, 3), alive=(1, 3)) == record(isr=(1, 3), leader=3)
    assert change(before, alive=(5,)) == record(leader=NO_LEADER)


def test_an_unclean_leader_is_alone_in_the_isr_and_recovering() -> None:
    before = partition(1, 2, 3, isr=(1,))

    assert change(before, alive=(2, 3), election=PartitionElection.UNCLEAN) == record(
        isr=(2,), leader=2, leader_recovery_state=RECOVERING
    )
    before_3_2 = change(
        before, alive=(2, 3), election=PartitionElection.UNCLEAN, metadata_version=from_name("3.1")
    )
    assert before_3_2 is not None
    assert before_3_2.leader_recovery_state == -1


def test_a_clean_change_leaves_the_recovery_state_alone() -> None:
    before = partition(1, 2, 3, isr=(1,), recovery_state=RECOVERING)

    assert change(before, target_isr=(1, 2)) == record(isr=(1, 2))
    assert change(before, target_isr=(1, 2), target_leader_recovery_state=RECOVERED) == record(
        isr=(1, 2), leader_recovery_state=RECOVERED
    )


def test_without_a_leader_the_isr_stays_as_it_is() -> None:
    before = partition(1, 2, 3, isr=(1,))

    assert change(before, target_isr=(), alive=(2, 3)) == record(leader=NO_LEADER)


def test_a_reassignment_ends_once_the_newcomers_are_in_sync() -> None:
    before = partition(4, 5, 1, 2, isr=(1, 2), leader=1, removing=(1, 2), adding=(4, 5))

    one_missing = change(before, target_isr=(1, 2, 4))
    ended = change(before, target_isr=(1, 2, 4, 5))

    assert one_missing == record(isr=(1, 2, 4))
    assert ended == record(
        replicas=(4, 5),
        isr=(4, 5),
        leader=4,
        removing_replicas=(),
        adding_replicas=(),
        directories=(DIRECTORIES[4], DIRECTORIES[5]),
    )


def test_a_new_replica_is_in_its_brokers_default_directory_and_an_old_one_where_it_was() -> None:
    before = partition(1, 2)._replace(directories=(DIRECTORIES[7], UNASSIGNED))

    grown = change(before, target_replicas=(2, 1, 3), target_adding=(3,))
    moved = builder(before)
    moved.target_directories[2] = DIRECTORIES[9]

    assert grown is not None
    assert grown.directories == (UNASSIGNED, DIRECTORIES[7], DIRECTORIES[3])
    assert moved.build() == record(directories=(DIRECTORIES[7], DIRECTORIES[9]))


def test_before_3_7_iv2_no_directory_is_written() -> None:
    before = partition(1, 2)._replace(directories=(MIGRATING, MIGRATING))

    grown = change(
        before,
        target_replicas=(1, 2, 3),
        target_adding=(3,),
        metadata_version=from_name("3.6"),
    )

    assert grown == record(replicas=(1, 2, 3), adding_replicas=(3,))
    assert grown is not None
    assert before.merge(grown).directories == (MIGRATING,) * 3


# ---------------------------------------------------------------------- ELR


def with_elr(before: PartitionRegistration, **wanted: Any) -> PartitionChangeRecord | None:
    return change(before, metadata_version=VERSION_WITH_ELR, is_elr_enabled=True, **wanted)


def test_who_leaves_an_isr_below_min_isr_becomes_an_eligible_leader() -> None:
    before = partition(1, 2, 3, isr=(1, 2, 3))

    assert with_elr(before, target_isr=(1, 2)) == record(isr=(1, 2))
    assert with_elr(before, target_isr=(1,)) == record(isr=(1,), eligible_leader_replicas=(2, 3))


def test_an_isr_of_min_isr_clears_the_elr() -> None:
    before = partition(1, 2, 3, isr=(1,), elr=(2,), last_known_elr=(3,))

    assert with_elr(before, target_isr=(1, 3)) == record(
        isr=(1, 3), eligible_leader_replicas=(), last_known_elr=()
    )


def test_the_last_leader_is_remembered_when_the_isr_empties_and_an_eligible_one_leads_clean() -> (
    None
):
    before = partition(1, 2, 3, isr=(1,), elr=(2,))

    nobody = with_elr(before, target_isr=(), alive=(3,))
    eligible = with_elr(before, target_isr=(), alive=(2, 3))

    assert nobody == record(
        isr=(), leader=NO_LEADER, eligible_leader_replicas=(1, 2), last_known_elr=(1,)
    )
    assert eligible == record(isr=(2,), leader=2, eligible_leader_replicas=(1,))


def test_after_an_unclean_shutdown_a_broker_is_no_eligible_leader() -> None:
    before = partition(1, 2, 3, isr=(1,), elr=(2,))

    gone = with_elr(before, target_isr=(), alive=(3,), unclean_shutdown_replicas=(1,))

    assert gone == record(
        isr=(), leader=NO_LEADER, eligible_leader_replicas=None, last_known_elr=(1,)
    )


def test_the_last_known_leader_is_elected_when_isr_and_elr_are_empty() -> None:
    before = partition(1, 2, 3, isr=(), leader=NO_LEADER, last_known_elr=(2,))

    assert with_elr(before, alive=(2,)) == record(
        isr=(2,), leader=2, leader_recovery_state=RECOVERING, last_known_elr=()
    )


# ---------------------------------------------------------------------- the partition itself


def test_a_partition_survives_its_own_record() -> None:
    before = partition(1, 2, 3, isr=(2, 3), leader=2, removing=(1,), adding=(3,))

    again = PartitionRegistration.from_record(before.to_record(TOPIC, 3, LATEST))

    assert again == before


def test_a_level_without_elr_or_directories_does_not_write_them() -> None:
    before = partition(1, 2, isr=(1,), elr=(2,), last_known_elr=(1,))

    assert before.to_record(TOPIC, 3, VERSION_WITH_ELR).eligible_leader_replicas == (2,)
    assert before.to_record(TOPIC, 3, LATEST).eligible_leader_replicas is None
    assert before.to_record(TOPIC, 3, LATEST).directories == before.directories
    assert before.to_record(TOPIC, 3, from_name("3.6")).directories == ()


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(IllegalState):
        PartitionRegistration.from_record(
            PartitionRecord(0, TOPIC, replicas=(1, 2), isr=(1,), directories=(DIRECTORIES[1],))
        )
    with pytest.raises(IllegalState):
        partition(1, 2).merge(record(leader_recovery_state=7))
