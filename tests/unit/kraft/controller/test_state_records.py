"""What a controller holds, as records: they make the same state again, and nothing uncommitted.

Source of the behaviours: Kafka ``MetadataImageTest``, ``FeaturesImageTest``, ``ClusterImageTest``,
``ImageWriterOptionsTest``, ``SnapshotGeneratorTest``.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from kafka_common import acls as acl_words
from kafka_common.errors import IllegalState, UnsupportedVersion
from kafka_common.model import ConfigResourceType, OpType
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kraft.controller.acl_control import StandardAcl
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.cluster_requests import ControllerRegistrationRequest
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.features import FeatureLevelUpdate, UpgradeType
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CreateAcls,
    CreateDelegationToken,
    IncrementalAlterConfigs,
    RegisterController,
    UpdateFeatureLevels,
)
from kraft.controller.quorum_controller_state import QuorumControllerConfig
from kraft.controller.quorum_controller_values import (
    CommitHandled,
    CommittedBatch,
    LeaderChanged,
    SnapshotLoaded,
)
from kraft.controller.scram_control import ScramCredentialDeletion, ScramCredentialUpsertion
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.snapshot_trigger import SnapshotConfig, SnapshotTrigger
from kraft.controller.state_records import state_records
from kraft.controller.timeline import TimelineDict
from kraft.metadata.codec import decode_record, encode_record
from kraft.metadata.metadata_batches import ControlBatch, DataBatch, iterate_metadata_batches
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    VersionedRecord,
    ZkMigrationStateRecord,
)
from kraft.metadata.snapshot_batches import SnapshotBatches
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld
from tests.support.state_records import DEFAULTS, USER, everything, stable_records
from tests.unit.kraft.controller.controller_scenario import BROKERS, Scenario, Step

EPOCH = 1
CONFIG = QuorumControllerConfig(
    0, CLUSTER_ID, delegation_tokens=DelegationTokenConfig(secret_key="secret")
)

STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            (
                "elect",
                "commit",
                "hold back",
                "register",
                "heartbeat",
                "fence",
                "shut down",
                "unregister",
                "create",
                "delete",
                "configure",
                "configure broker",
                "quota",
                "credential",
                "rule",
                "token",
                "producer ids",
                "controller",
                "wait",
            )
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


class FullScenario(Scenario):
    """Beside brokers and topics, everything else that a controller holds."""

    def __init__(self) -> None:
        super().__init__()
        self.world = QuorumWorld.led(controllers=3, config=CONFIG)
        for broker in BROKERS:
            self.register(broker, 0)
            self.heartbeat(broker)

    @override
    def take(self, step: Step) -> None:
        world, number = self.world, step.number
        match step.what:
            case "configure broker":
                resource = ConfigResource(ConfigResourceType.BROKER, "")
                operation = (ConfigOperation(OpType.SET, str(number)) if number
                             else ConfigOperation(OpType.DELETE, None))  # fmt: skip
                world.send(IncrementalAlterConfigs({resource: {"log.cleaner.threads": operation}}))
            case "quota":
                entity = (USER, DEFAULTS)[number % 2]
                ops = (("producer_byte_rate", number / 1 or None), ("request_percentage", 2.5))
                world.send(AlterClientQuotas((ClientQuotaAlteration(entity, ops),)))
            case "credential":
                gone = ScramCredentialDeletion("alice", 1)
                new = ScramCredentialUpsertion("alice", 1, 4096 + number, b"s", b"p")
                asked = ((), (new,)) if number else ((gone,), ())
                world.send(AlterUserScramCredentials(*asked))
            case "rule":
                world.send(CreateAcls((rule(f"topic-{number}"),)))
            case "token":
                world.send(CreateDelegationToken("User:a", None, (("User", "b"),), -1))
            case "producer ids":
                broker = world.active.state.cluster.registration(BROKERS[number % 3])
                if broker is not None:
                    world.send(AllocateProducerIdBlock(broker.id, broker.epoch))
            case "controller":
                self.register_controller(3000 + number % 3, number)
            case _:
                super().take(step)

    def register_controller(self, node_id: int, incarnation: int) -> None:
        request = ControllerRegistrationRequest(
            node_id,
            UUID(int=incarnation + 1),
            listeners=(BrokerEndpoint("CONTROLLER", "localhost", 9093, 0),),
            features=(BrokerFeature(FEATURE_NAME, 1, 21), BrokerFeature("kraft.version", 0, 1)),
        )
        self.world.send(RegisterController(request))


def rule(name: str) -> StandardAcl:
    return StandardAcl(
        acl_words.ResourcePattern(
            acl_words.ResourceType.TOPIC, name, acl_words.PatternType.LITERAL
        ),
        acl_words.AccessControlEntry(
            "User:alice", "*", acl_words.AclOperation.READ, acl_words.PermissionType.ALLOW
        ),
    )


def in_any_order(records: list[VersionedRecord]) -> Counter[str]:
    return Counter(f"{version} {record}" for record, version in through_bytes(records))


def through_bytes(records: list[VersionedRecord]) -> tuple[VersionedRecord, ...]:
    return tuple(decode_record(encode_record(*record)) for record in records)


def loaded(world: QuorumWorld, records: list[VersionedRecord], end_offset: int) -> QuorumController:
    """A controller that has read nothing but a snapshot with these records."""
    snapshot_id = OffsetAndEpoch(end_offset, EPOCH)
    controller = world.start(3009)
    world.feed(3009, SnapshotLoaded(snapshot_id, through_bytes(records), 77))
    return controller


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_records_of_a_state_make_the_same_state_without_what_is_not_committed(
    steps: list[Step],
) -> None:
    scenario = FullScenario()
    world = scenario.world
    for step in steps:
        scenario.take(step)
        assert world.faults == []

    newcomer = world.start(3005)  # has nothing but what is committed
    world.log.is_slow = True
    world._deliver(3005)

    for node_id in (3000, 3001, 3002):
        controller = world.controllers[node_id]
        records = stable_records(controller)
        assert in_any_order(records) == in_any_order(stable_records(newcomer)), node_id
        again = loaded(world, records, controller.state.offsets.last_stable_offset + 1)
        assert everything(again) == everything(newcomer), node_id
        assert in_any_order(stable_records(again)) == in_any_order(records)
        del world.controllers[3009]


@settings(max_examples=60, deadline=None)
@given(before=STEPS, reads=st.lists(st.integers(0, 6), min_size=1), after=STEPS)
def test_a_state_that_is_read_slowly_stays_as_it_was_while_it_changes(
    before: list[Step], reads: list[int], after: list[Step]
) -> None:
    scenario = FullScenario()
    world = scenario.world
    for step in before:
        scenario.take(step)
    world.log.is_slow = False
    world.commit()
    controller = world.controllers[3001]
    registry, offset = controller.state.registry, controller.state.offsets.last_stable_offset
    expected = stable_records(controller)
    registry.hold(offset)
    records = state_records(controller.state, offset)

    found: list[VersionedRecord] = []
    for place, step in enumerate(after):
        found += islice(records, reads[place % len(reads)])
        scenario.take(step)
    found += records

    # A broker that is changed meanwhile is read after the others: no reader depends on the order.
    assert in_any_order(found) == in_any_order(expected)
    registry.release(offset)
    world.elect(3001)
    world.log.is_slow = False
    world.commit()
    world.advance(1_000)  # the active controller writes
    assert not registry.has_snapshot(offset)


def test_nothing_that_is_not_committed_is_reported_of_any_kind() -> None:
    scenario = FullScenario()
    world = scenario.world
    life = ("create", "configure", "configure broker", "quota", "credential", "rule", "token",
            "producer ids", "controller")  # fmt: skip
    for what in life:
        scenario.take(Step(what, 2))
    state = world.active.state
    stable = state.offsets.last_stable_offset
    expected = stable_records(world.active)

    world.log.is_slow = True
    for what in (*life, "shut down"):
        scenario.take(Step(what, 4))
    world.send(
        UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(20, UpgradeType.SAFE_DOWNGRADE)})
    )

    assert list(state_records(state, stable)) == expected
    newest = list(state_records(state, state.registry.latest_epoch()))
    told_anew = {type(record) for record, _ in set(newest) - set(expected)}
    # All but the state of a migration, and topics, which do not change.
    kinds = {type(record) for record, _ in expected} - {ZkMigrationStateRecord, TopicRecord}
    assert told_anew - {TopicRecord} == kinds
    assert len(kinds) == 10


def test_a_state_that_is_not_held_cannot_be_read_once_more_is_committed() -> None:
    scenario = FullScenario()
    scenario.take(Step("create", 0))
    state = scenario.world.active.state
    records = state_records(state, state.offsets.last_stable_offset)
    next(records)

    scenario.take(Step("create", 1))

    with pytest.raises(IllegalState, match="no in-memory snapshot"):
        list(records)


# ---------------------------------------------------------------------- holding an epoch


def test_what_is_held_stays_readable_when_all_around_it_goes() -> None:
    registry = SnapshotRegistry()
    values: TimelineDict[str, int] = TimelineDict(registry)
    for epoch in range(6):
        values["last"] = epoch
        values[f"at {epoch}"] = epoch
        registry.get_or_create_snapshot(epoch)
    registry.hold(2)

    registry.delete_snapshots_up_to(5)

    assert registry.epochs() == [2, 5]
    assert values.at(2) == {"last": 2, "at 0": 0, "at 1": 1, "at 2": 2}
    values["last"] = 6
    registry.revert_to_snapshot(5)
    assert values.at(2) == {"last": 2, "at 0": 0, "at 1": 1, "at 2": 2}
    registry.release(2)
    registry.delete_snapshots_up_to(5)
    assert registry.epochs() == [5]
    assert values.get("last") == 5


def test_only_what_exists_can_be_held_and_only_until_everything_is_forgotten() -> None:
    registry = SnapshotRegistry()
    with pytest.raises(IllegalState):
        registry.hold(1)
    registry.get_or_create_snapshot(1)
    registry.hold(1)

    registry.reset()

    assert not registry.is_held(1)
    registry.release(1)


# ---------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("version", "kinds", "broker_version", "partition_version"),
    [
        ("3.3-IV0", ["level"], 0, 0),
        ("3.3-IV3", ["level"], 1, 0),
        ("3.4-IV0", ["level", "migration"], 2, 0),
        ("3.7-IV2", ["level", "migration"], 3, 1),
        ("3.9-IV0", ["level", "migration"], 3, 1),
        ("4.0-IV0", ["level", "migration"], 3, 2),
    ],
)
def test_records_are_of_the_versions_that_the_metadata_version_calls_for(
    version: str, kinds: list[str], broker_version: int, partition_version: int
) -> None:
    world = QuorumWorld.led(version=version, is_unstable_enabled=True)
    world.start_brokers(1)
    world.create_topic("orders", (1,))

    records = stable_records(world.active)

    names = {FeatureLevelRecord: "level", ZkMigrationStateRecord: "migration"}
    found = [names[type(record)] for record, _ in records if type(record) in names]
    assert found == kinds
    first, _ = records[0]
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == FEATURE_NAME
    versions = {type(record): version for record, version in records}
    assert versions[RegisterBrokerRecord] == broker_version
    assert versions[PartitionRecord] == partition_version
    assert everything(loaded(world, records, 100)) == everything(world.active)


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (RegisterBrokerRecord(1, in_controlled_shutdown=True), "3.3-IV2"),
        (RegisterBrokerRecord(1, is_migrating_zk_broker=True), "3.3-IV3"),
        (RegisterBrokerRecord(1, log_dirs=(UUID(int=900),)), "3.6-IV2"),
        (RegisterControllerRecord(3000), "3.6-IV2"),
        (UserScramCredentialRecord("alice", 1), "3.5-IV1"),
        (DelegationTokenRecord(token_id="t"), "3.6-IV1"),
        (ZkMigrationStateRecord(1), "3.3-IV3"),
    ],
)
def test_what_the_metadata_version_has_no_record_for_is_not_left_out_silently(
    record: MetadataRecord, version: str
) -> None:
    world = QuorumWorld(version=version)
    controller = world.elect(3000)
    controller.state.replay(record, 50, 0)
    offset = controller.state.offsets.last_stable_offset
    controller.state.registry.get_or_create_snapshot(offset + 50)

    assert list(state_records(controller.state, offset))  # as it was before
    with pytest.raises(UnsupportedVersion, match="has no record for"):
        list(state_records(controller.state, offset + 50))


def test_a_snapshot_does_not_take_back_the_record_behind_it() -> None:
    world = QuorumWorld()
    standby = world.start(3001)
    known = (
        VersionedRecord(FeatureLevelRecord(FEATURE_NAME, 21), 0),
        VersionedRecord(TopicRecord("old", UUID(int=5)), 0),
    )
    world.feed(3001, SnapshotLoaded(OffsetAndEpoch(100, 9), known, 77))
    new = VersionedRecord(TopicRecord("new", UUID(int=6)), 0)

    world.feed(3001, CommitHandled((CommittedBatch(100, 100, 9, 78, (new,)),)))

    names = [
        record.name for record, _ in stable_records(standby) if isinstance(record, TopicRecord)
    ]
    assert names == ["old", "new"]
    # It leads for a moment, and nothing that it writes is committed.
    world.log.is_slow = True
    world.feed(3001, LeaderChanged(LeaderAndEpoch(3001, 10)))
    world.feed(3001, LeaderChanged(LeaderAndEpoch(None, 11)))
    assert set(standby.state.replication.state.topics_by_name) == {"old", "new"}


# ---------------------------------------------------------------------- batches


def test_a_snapshot_is_a_header_the_records_and_a_footer_with_offsets_of_its_own() -> None:
    batches = SnapshotBatches(7)
    records = [VersionedRecord(TopicRecord(f"t{n}", UUID(int=n + 1)), 0) for n in range(10)]

    data = batches.header(55, 99) + batches.data(records[:6], 99) + batches.data(records[6:], 99)
    data += batches.footer(99)

    found = list(iterate_metadata_batches(data))
    assert [batch.place.base_offset for batch in found] == [0, 1, 7, 11]
    assert {batch.place.epoch for batch in found} == {7}
    assert {batch.place.append_timestamp for batch in found} == {99}
    assert isinstance(found[0], ControlBatch)
    assert isinstance(found[-1], ControlBatch)
    between = [each for batch in found if isinstance(batch, DataBatch) for each in batch.records]
    assert between == records


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(200, 900))
def test_no_batch_of_several_records_is_larger_than_it_may_be(
    lengths: list[int], max_bytes: int
) -> None:
    records = [VersionedRecord(ConfigRecord(2, "t", "k", "v" * each), 0) for each in lengths]

    found = list(iterate_metadata_batches(SnapshotBatches(1).data(records, 0, max_bytes)))

    assert [each for batch in found for each in batch.records] == records
    assert all(batch.place.size_in_bytes <= max_bytes or len(batch.records) == 1 for batch in found)
    offsets = [batch.place.base_offset for batch in found]
    ends = [batch.last_offset + 1 for batch in found]
    assert offsets == [0, *ends[:-1]]


# ---------------------------------------------------------------------- when one is due


def test_a_snapshot_is_due_after_so_many_bytes_or_so_much_time() -> None:
    trigger = SnapshotTrigger(SnapshotConfig(1_000, 120_000), now_ms=0)
    trigger.has_read(999)
    assert trigger.reason(119_999) is None
    assert trigger.reason(120_000) == "we have waited at least 2 minute(s)"
    trigger.has_read(1)
    assert trigger.reason(5) == "we have replayed at least 1000 bytes"

    trigger.reset(50_000)

    assert trigger.reason(169_999) is None
    assert trigger.reason(170_000) is not None


def test_without_an_interval_time_is_no_reason() -> None:
    trigger = SnapshotTrigger(SnapshotConfig(1_000, 0), now_ms=0)

    assert trigger.reason(10**12) is None
