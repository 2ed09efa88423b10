"""Brokers and controllers register, change and are forgotten.

Source of the behaviours: Kafka ``ClusterControlManagerTest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState
from kraft.controller import directory_ids
from kraft.controller.cluster_control import ClusterControlManager, ClusterRecord
from kraft.controller.cluster_requests import (
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from kraft.controller.features import FeatureControlManager
from kraft.controller.heartbeat_control import HeartbeatControl
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.quorum_features import QuorumFeatures, default_feature_map
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.metadata_version import FEATURE_NAME, from_name
from kraft.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)

SESSION_TIMEOUT_MS = 9000
DIR_A, DIR_B, DIR_C = UUID(int=0xA00), UUID(int=0xB00), UUID(int=0xC00)
FIRST_LIFE, SECOND_LIFE = UUID(int=0x100), UUID(int=0x200)
PLAINTEXT = BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0)


class Partitions:
    """The answers of a cluster with few partitions: what brokers' changes look like alone."""

    def __init__(self) -> None:
        self.leaders: list[int] = []

    def has_leaderships(self, broker_id: int) -> bool:
        return broker_id in self.leaders

    def handle_broker_fenced(self, broker_id: int) -> list[VersionedRecord]:
        return [VersionedRecord(BrokerRegistrationChangeRecord(broker_id, 100, fenced=1), 0)]

    def handle_broker_unfenced(self, broker_id: int, broker_epoch: int) -> list[VersionedRecord]:
        change = BrokerRegistrationChangeRecord(broker_id, broker_epoch, fenced=-1)
        return [VersionedRecord(change, 0)]

    def handle_broker_in_controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        change = BrokerRegistrationChangeRecord(broker_id, broker_epoch, in_controlled_shutdown=1)
        return [VersionedRecord(change, 1)]

    def handle_broker_unregistered(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        return [VersionedRecord(UnregisterBrokerRecord(broker_id, broker_epoch), 0)]

    def handle_broker_unclean_shutdown(self, broker_id: int) -> list[VersionedRecord]:
        assert broker_id > 0
        return [VersionedRecord(NoOpRecord(), 0)]

    def handle_directories_offline(
        self, broker_id: int, broker_epoch: int, offline_dirs: Sequence[UUID]
    ) -> list[VersionedRecord]:
        if not offline_dirs:
            return []
        change = BrokerRegistrationChangeRecord(broker_id, broker_epoch, log_dirs=(DIR_B,))
        return [VersionedRecord(change, 2)]


class World:
    """A cluster manager as the active controller has it, with a clock and a log of records."""

    def __init__(self, version: str = "3.9") -> None:
        self.registry = SnapshotRegistry()
        quorum = QuorumFeatures(0, default_feature_map(is_unstable_enabled=True), (0,))
        self.features = FeatureControlManager(self.registry, quorum, version=from_name(version))
        self.cluster = ClusterControlManager(
            self.registry,
            "cluster",
            self.features,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        self.partitions = Partitions()
        self.control = HeartbeatControl(
            self.cluster,
            self.features,
            self.partitions,
            SnapshotRegistry().logger("ReplicationControlManager"),
        )
        self.now_ms = 0
        self.next_offset = 100
        self.cluster.activate(0)

    def replay(self, *records: ClusterRecord) -> None:
        for record in records:
            self.cluster.replay(record, self.next_offset, self.now_ms)
            self.next_offset += 1

    def apply(self, records: Iterable[VersionedRecord]) -> None:
        for versioned in records:
            if isinstance(versioned.record, NoOpRecord):
                self.next_offset += 1
            else:
                assert isinstance(versioned.record, ClusterRecord)
                self.replay(versioned.record)

    def generate(self, request: BrokerRegistrationRequest) -> tuple[VersionedRecord, ...]:
        levels = self.features.finalized_features().levels
        result = self.cluster.register_broker(
            request, self.next_offset, levels, self.partitions, self.now_ms
        )
        assert result.is_atomic
        return result.records

    def register(self, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
        """Registers and replays; the record of the broker is handed back."""
        record = self.generate(request)[-1].record
        assert isinstance(record, RegisterBrokerRecord)
        self.replay(record)
        return record

    def refusal(self, request: BrokerRegistrationRequest) -> tuple[ErrorCode, str]:
        with pytest.raises(ApiException) as refused:
            self.generate(request)
        return refused.value.error, str(refused.value)

    def unfence(self, broker_id: int) -> None:
        epoch = self.epoch(broker_id)
        self.replay(BrokerRegistrationChangeRecord(broker_id, epoch, fenced=-1))

    def epoch(self, broker_id: int) -> int:
        broker = self.cluster.registration(broker_id)
        assert broker is not None
        return broker.epoch


@pytest.fixture
def world() -> World:
    return World()


def request(broker_id: int = 1, **changes: object) -> BrokerRegistrationRequest:
    version = BrokerFeature(FEATURE_NAME, 1, 21)
    plain = BrokerRegistrationRequest(
        broker_id, "cluster", FIRST_LIFE, (PLAINTEXT,), (version,), "rack-a", log_dirs=(DIR_A,)
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # fields are named by the caller


# ---------------------------------------------------------------------- registering


def test_a_new_broker_is_fenced_and_its_epoch_is_the_next_offset(world: World) -> None:
    records = world.generate(request())

    assert records[0].record == NoOpRecord()  # what an unclean shutdown means comes first
    assert records[1] == (
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=FIRST_LIFE,
            broker_epoch=100,
            end_points=(PLAINTEXT,),
            features=(BrokerFeature(FEATURE_NAME, 1, 21),),
            rack="rack-a",
            fenced=True,
            log_dirs=(DIR_A,),
        ),
        3,
    )


def test_a_wrong_cluster_id_is_refused_first(world: World) -> None:
    world.register(request())
    world.unfence(1)

    error, message = world.refusal(request(cluster_id="other", incarnation_id=SECOND_LIFE))

    assert error is ErrorCode.inconsistent_cluster_id
    assert "other" in message


def test_a_duplicate_of_a_live_incarnation_is_refused(world: World) -> None:
    world.register(request())
    world.unfence(1)
    world.now_ms = SESSION_TIMEOUT_MS

    error, _ = world.refusal(request(incarnation_id=SECOND_LIFE))
    assert error is ErrorCode.duplicate_broker_registration

    world.now_ms += 1
    assert world.register(request(incarnation_id=SECOND_LIFE)).broker_epoch == world.epoch(1)


def test_the_same_incarnation_keeps_its_epoch_and_its_state(world: World) -> None:
    first = world.register(request())
    world.unfence(1)
    world.replay(BrokerRegistrationChangeRecord(1, 100, in_controlled_shutdown=1))

    (again,) = world.generate(request(rack="rack-b"))

    assert again.record == replace(first, rack="rack-b", fenced=False, in_controlled_shutdown=True)


def test_a_new_incarnation_gets_a_larger_epoch_and_is_fenced(world: World) -> None:
    world.register(request())
    world.unfence(1)
    world.now_ms = SESSION_TIMEOUT_MS + 1

    record = world.register(request(incarnation_id=SECOND_LIFE))

    assert record.broker_epoch == 102
    assert record.fenced
    assert not world.cluster.is_unfenced(1)
    assert world.cluster.register_broker_record_offset(1) == 102


@pytest.mark.parametrize(
    ("version", "record_version"),
    [("3.3-IV2", 0), ("3.3-IV3", 1), ("3.4", 2), ("3.7-IV1", 2), ("3.7-IV2", 3)],
)
def test_the_record_version_follows_the_metadata_version(version: str, record_version: int) -> None:
    records = World(version).generate(request())

    assert records[-1].version == record_version
    assert isinstance(records[-1].record, RegisterBrokerRecord)
    assert records[-1].record.log_dirs == ((DIR_A,) if record_version == 3 else ())


def test_a_standby_registers_no_broker(world: World) -> None:
    world.cluster.deactivate()

    with pytest.raises(IllegalState, match="only the active controller"):
        world.generate(request())
    with pytest.raises(IllegalState):
        world.cluster.usable_brokers()


def test_a_listener_with_an_unknown_security_protocol_is_refused(world: World) -> None:
    strange = replace(PLAINTEXT, security_protocol=9)

    error, _ = world.refusal(request(listeners=(strange,)))

    assert error is ErrorCode.invalid_registration
    with pytest.raises(IllegalState, match="security protocol 9"):
        world.replay(RegisterBrokerRecord(1, end_points=(strange,)))


# ---------------------------------------------------------------------- directories


@pytest.mark.parametrize(
    ("log_dirs", "reason"),
    [
        ((), "no log directory"),
        ((DIR_A, directory_ids.LOST), "reserved"),
        ((DIR_A, UUID(int=99)), "reserved"),
        ((DIR_A, DIR_A), "twice"),
        ((DIR_B,), "belongs to broker 2"),
    ],
)
def test_directories_are_checked(world: World, log_dirs: tuple[UUID, ...], reason: str) -> None:
    world.register(request(2, log_dirs=(DIR_B,)))

    error, message = world.refusal(request(log_dirs=log_dirs))

    assert error is ErrorCode.invalid_registration
    assert reason in message


def test_directories_are_nobodys_business_before_3_7() -> None:
    world = World("3.7-IV1")

    assert world.register(request(log_dirs=())).log_dirs == ()


def test_a_broker_may_give_up_a_directory_to_another(world: World) -> None:
    world.register(request(log_dirs=(DIR_A, DIR_B)))
    world.register(request(log_dirs=(DIR_A,)))

    assert world.register(request(2, log_dirs=(DIR_B,))).broker_id == 2


def test_the_default_directory_goes_by_their_number(world: World) -> None:
    world.register(request(1, log_dirs=(DIR_A,)))
    world.register(request(2, log_dirs=(DIR_B, DIR_C)))
    world.replay(RegisterBrokerRecord(3))

    assert world.cluster.default_dir(1) == DIR_A
    assert world.cluster.default_dir(2) == directory_ids.UNASSIGNED
    assert world.cluster.default_dir(3) == directory_ids.MIGRATING
    assert world.cluster.default_dir(9) == directory_ids.UNASSIGNED


def test_whether_a_directory_is_online(world: World) -> None:
    world.register(request(log_dirs=(DIR_A,)))

    assert world.cluster.has_online_dir(1, DIR_A)
    assert not world.cluster.has_online_dir(1, DIR_B)
    assert world.cluster.has_online_dir(1, directory_ids.UNASSIGNED)
    assert not world.cluster.has_online_dir(9, directory_ids.UNASSIGNED)


def test_a_directory_of_another_broker_in_the_log_is_fatal(world: World) -> None:
    world.register(request(log_dirs=(DIR_A,)))

    with pytest.raises(IllegalState, match="is 1's"):
        world.replay(RegisterBrokerRecord(2, log_dirs=(DIR_A,)))


# ---------------------------------------------------------------------- features


def test_every_range_must_contain_the_finalized_level(world: World) -> None:
    narrow = BrokerFeature(FEATURE_NAME, 1, 20)

    error, message = world.refusal(request(features=(narrow,)))

    assert error is ErrorCode.unsupported_version
    assert "level 21" in message


def test_a_broker_without_metadata_version_is_of_the_first_one() -> None:
    assert World("3.9").refusal(request(features=()))[0] is ErrorCode.unsupported_version

    (*_, registered) = World("3.0-IV1").generate(request(features=()))
    assert isinstance(registered.record, RegisterBrokerRecord)
    assert registered.record.features == (BrokerFeature(FEATURE_NAME, 1, 1),)


@pytest.mark.parametrize(("level", "is_allowed"), [(0, True), (1, False)])
def test_registration_is_refused_when_kraft_version_is_outside_of_the_range(
    world: World, level: int, is_allowed: bool
) -> None:
    levels = {FEATURE_NAME: 21, "kraft.version": level}

    def register() -> ControllerResult[BrokerRegistrationReply]:
        return world.cluster.register_broker(request(), 100, levels, world.partitions, 0)

    if is_allowed:
        assert register().records
    else:
        with pytest.raises(ApiException, match=r"kraft\.version is at level 1"):
            register()


# ---------------------------------------------------------------------- migration


def test_brokers_of_zookeeper_cannot_register(world: World) -> None:
    migrating = request(is_migrating_zk_broker=True)

    assert world.refusal(migrating)[0] is ErrorCode.broker_id_not_registered


def test_brokers_of_kraft_wait_until_the_migration_is_done(world: World) -> None:
    world.features.replay(ZkMigrationStateRecord(ZkMigrationState.PRE_MIGRATION), 0)

    assert world.refusal(request())[0] is ErrorCode.broker_id_not_registered

    world.features.replay(ZkMigrationStateRecord(ZkMigrationState.MIGRATION), 0)
    assert world.register(request()).broker_id == 1


# ---------------------------------------------------------------------- changes in the log


def test_fencing_before_registration_changes_existed(world: World) -> None:
    world.register(request())

    world.replay(UnfenceBrokerRecord(1, 100))
    assert world.cluster.is_unfenced(1)
    assert world.cluster.heartbeats.has_valid_session(1, 0)

    world.replay(FenceBrokerRecord(1, 100))
    assert not world.cluster.is_unfenced(1)
    assert not world.cluster.heartbeats.has_valid_session(1, 0)


def test_a_change_touches_only_what_it_names(world: World) -> None:
    world.register(request(log_dirs=(DIR_A, DIR_B)))
    world.unfence(1)

    world.replay(BrokerRegistrationChangeRecord(1, 100, in_controlled_shutdown=1))
    assert world.cluster.is_unfenced(1)
    assert world.cluster.in_controlled_shutdown(1)
    assert not world.cluster.is_active(1)

    world.replay(BrokerRegistrationChangeRecord(1, 100, log_dirs=(DIR_B,)))
    broker = world.cluster.registration(1)
    assert broker is not None
    assert broker.directories == (DIR_B,)
    assert broker.in_controlled_shutdown


@pytest.mark.parametrize(
    "record",
    [
        UnregisterBrokerRecord(1, 99),
        FenceBrokerRecord(1, 99),
        UnfenceBrokerRecord(2, 100),
        BrokerRegistrationChangeRecord(1, 99),
        BrokerRegistrationChangeRecord(2, 100),
        BrokerRegistrationChangeRecord(1, 100, fenced=2),
        BrokerRegistrationChangeRecord(1, 100, in_controlled_shutdown=-1),
    ],
    ids=str,
)
def test_a_change_of_another_life_or_of_no_broker_is_fatal(
    world: World, record: ClusterRecord
) -> None:
    world.register(request())

    with pytest.raises(IllegalState):
        world.replay(record)


def test_an_unregistered_broker_leaves_no_trace(world: World) -> None:
    world.register(request())
    world.registry.get_or_create_snapshot(100)

    world.replay(UnregisterBrokerRecord(1, 100))

    assert world.cluster.registration(1) is None
    assert world.cluster.register_broker_record_offset(1) is None
    assert world.cluster.usable_brokers() == []
    assert world.register(request(2)).log_dirs == (DIR_A,)  # the directory is free again

    world.registry.revert_to_snapshot(100)
    assert world.cluster.registration(1) is not None
    assert world.cluster.registration(2) is None


def test_the_broker_epoch_must_be_the_registered_one(world: World) -> None:
    world.register(request())

    world.cluster.check_broker_epoch(1, 100)
    for broker_id, epoch in ((1, 99), (1, 101), (2, 100)):
        with pytest.raises(ApiException) as refused:
            world.cluster.check_broker_epoch(broker_id, epoch)
        assert refused.value.error is ErrorCode.stale_broker_epoch


def test_usable_brokers_come_with_rack_and_fencing(world: World) -> None:
    world.register(request(2, log_dirs=(DIR_B,), rack=None))
    world.register(request(1))
    world.unfence(1)

    assert world.cluster.usable_brokers() == [(1, "rack-a", False), (2, None, True)]
    assert [broker.id for broker in world.cluster.registrations()] == [1, 2]


def test_a_new_active_controller_believes_every_broker_was_in_contact_just_now(
    world: World,
) -> None:
    world.register(request())
    world.unfence(1)
    world.cluster.deactivate()

    world.cluster.activate(1_000_000)

    assert world.cluster.heartbeats.has_valid_session(1, 1_000_000 + SESSION_TIMEOUT_MS)


# ---------------------------------------------------------------------- controllers


def test_an_older_version_refuses_the_registration_of_controllers() -> None:
    world = World("3.6")

    with pytest.raises(ApiException) as refused:
        world.cluster.register_controller(ControllerRegistrationRequest(0, FIRST_LIFE))
    assert refused.value.error is ErrorCode.unsupported_version
    with pytest.raises(ApiException):
        world.cluster.controller_supported_features()


def test_a_controller_registers(world: World) -> None:
    feature = BrokerFeature(FEATURE_NAME, 1, 21)
    asked = ControllerRegistrationRequest(3000, FIRST_LIFE, True, (PLAINTEXT,), (feature,))

    result = world.cluster.register_controller(asked)
    record = RegisterControllerRecord(3000, FIRST_LIFE, True, (PLAINTEXT,), (feature,))
    assert result.records == ((record, 0),)

    world.apply(result.records)
    assert world.cluster.controllers()[3000].zk_migration_ready
    supported = dict(world.cluster.controller_supported_features())
    assert supported == {3000: {FEATURE_NAME: (1, 21)}}


# ---------------------------------------------------------------------- heartbeats


def heartbeat(**changes: object) -> BrokerHeartbeat:
    return replace(BrokerHeartbeat(1, 100, 100), **changes)  # type: ignore[arg-type] # as above


def test_a_heartbeat_before_the_registration_is_stale(world: World) -> None:
    for stale in (heartbeat(broker_id=2), heartbeat(broker_epoch=99)):
        if stale.broker_epoch == 99:
            world.register(request())
        with pytest.raises(ApiException) as refused:
            world.control.process_broker_heartbeat(stale, 0)
        assert refused.value.error is ErrorCode.stale_broker_epoch


def test_a_broker_is_unfenced_once_it_has_read_its_own_registration(world: World) -> None:
    world.register(request())

    early = world.control.process_broker_heartbeat(heartbeat(current_metadata_offset=99), 0)
    assert early.records == ()
    assert (early.response.is_caught_up, early.response.is_fenced) == (False, True)

    late = world.control.process_broker_heartbeat(heartbeat(), 0)
    assert [versioned.record for versioned in late.records] == [
        BrokerRegistrationChangeRecord(1, 100, fenced=-1)
    ]
    assert (late.response.is_caught_up, late.response.is_fenced) == (True, False)

    world.apply(late.records)
    assert world.control.process_broker_heartbeat(heartbeat(), 0).records == ()


def test_a_broker_that_leads_shuts_down_in_an_orderly_way(world: World) -> None:
    world.register(request())
    world.apply(world.control.process_broker_heartbeat(heartbeat(), 0).records)
    world.partitions.leaders = [1]

    wish = heartbeat(want_shut_down=True)
    first = world.control.process_broker_heartbeat(wish, 0)
    assert first.response.in_controlled_shutdown
    assert not first.response.should_shut_down
    world.apply(first.records)
    world.cluster.heartbeats.maybe_update_controlled_shutdown_offset(1, 102)

    world.partitions.leaders = []
    last = world.control.process_broker_heartbeat(wish, 0)
    assert last.response.should_shut_down
    assert last.response.is_fenced
    assert [versioned.record for versioned in last.records] == [
        BrokerRegistrationChangeRecord(1, 100, fenced=1)
    ]


def test_a_directory_that_failed_is_reported_by_heartbeat(world: World) -> None:
    world.register(request(log_dirs=(DIR_A, DIR_B)))

    told = world.control.process_broker_heartbeat(
        heartbeat(current_metadata_offset=0, offline_log_dirs=(DIR_A,)), 0
    )

    assert told.records == ((BrokerRegistrationChangeRecord(1, 100, log_dirs=(DIR_B,)), 2),)


def test_an_expired_heartbeat_still_refreshes_the_session(world: World) -> None:
    world.register(request())
    world.unfence(1)

    world.control.process_expired_broker_heartbeat(heartbeat(), 5000)

    assert world.cluster.heartbeats.has_valid_session(1, 5000 + SESSION_TIMEOUT_MS)
    with pytest.raises(ApiException):
        world.control.process_expired_broker_heartbeat(heartbeat(broker_epoch=9), 5000)


def test_stale_brokers_are_fenced_one_at_a_time(world: World) -> None:
    for broker_id, directory in ((1, DIR_A), (2, DIR_B)):
        world.register(request(broker_id, log_dirs=(directory,)))
        world.unfence(broker_id)
    assert world.control.maybe_fence_one_stale_broker(SESSION_TIMEOUT_MS).records == ()

    late = SESSION_TIMEOUT_MS + 1
    fenced = [world.control.maybe_fence_one_stale_broker(late).records for _ in range(3)]

    assert [
        [versioned.record.broker_id for versioned in records
         if isinstance(versioned.record, BrokerRegistrationChangeRecord)]
        for records in fenced
    ] == [[1], [2], []]  # fmt: skip


def test_only_a_registered_broker_can_be_unregistered(world: World) -> None:
    world.register(request())

    assert world.control.unregister_broker(1).records == ((UnregisterBrokerRecord(1, 100), 0),)
    with pytest.raises(ApiException) as refused:
        world.control.unregister_broker(2)
    assert refused.value.error is ErrorCode.broker_id_not_registered
