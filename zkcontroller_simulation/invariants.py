"""The invariants that hold after every action, and those of a cluster at rest.

The first kind checks every commit of the simulated ZooKeeper, so that it also sees a value that is
overwritten before the action ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kafka_common.model import NO_LEADER, TopicPartition
from kafka_common.topic_names import invalid_name_reason
from zkcontroller.zookeeper.requests import Znode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
)
from zkcontroller_simulation.registration import PERSISTENT_PATHS
from zkcontroller_simulation.zookeeper_server import Commit, ZnodeChange

if TYPE_CHECKING:
    from zkcontroller_simulation.process import BrokerProcess
    from zkcontroller_simulation.world import World

_STATE_PATH: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")
_TOPIC_PATH: Final = re.compile(r"/brokers/topics/([^/]+)")
REGISTERED: Final = 1
"""The zk_version of a registration: brokers create the znode and then write its data."""
_DELETE_TOPICS: Final = "/admin/delete_topics/"
_OF_BROKERS: Final = re.compile(
    r"/brokers/(ids|seqid)(/.*)?|/controller|/controller_epoch|/cluster(/.*)?"
)
"""Znodes that brokers write whether or not one of them is the controller."""


class Invariants:
    """Checks one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._epoch = 0
        self._winner_session_id = 0
        self._epoch_zxid = 0
        self.excused: set[int] = set()
        """Brokers that were ever shut down cleanly or lost a log directory."""
        self._acted: dict[int, int] = {}  # controller epoch → broker that acted in it
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        world.zookeeper.on_commit.append(self._committed)
        self.is_deletion_sure = True
        """Whether at rest every topic deletion that can end must have ended."""
        self.moved: set[str] = set()
        """Topics that had a reassignment, which ends before dropped replicas are deleted."""
        self.unclean: set[str] | None = None
        """Topics with unclean elections allowed; None if the test does not track them."""
        self.is_isr_sent = True
        """Whether the last LeaderAndIsr holds the current ISR.

        AlterPartition changes the ISR, and only the leader learns of it.
        """
        self.is_refused = False
        """Whether ZooKeeper refused writes.  Then a replica that a reassignment dropped may stay in
        the ISR, as in Kafka, until its leader notices that it does not fetch."""
        self.is_forgetting_sure = True
        """Whether brokers must have removed every deleted topic from their metadata."""

    # ------------------------------------------------------------------ always

    def check(self) -> None:
        """Checks after every action that at most one broker has acted in each controller epoch."""
        for process in self._world.living.values():
            controller = process.controller
            if controller.is_active:
                epoch = controller.context.epoch
                acting = self._acted.setdefault(epoch, process.broker_id)
                assert acting == process.broker_id, (
                    f"brokers {acting} and {process.broker_id} both act in epoch {epoch}"
                )

    def _committed(self, commit: Commit) -> None:
        for change in commit.changes:
            written = _TOPIC_PATH.fullmatch(change.path)
            if written is not None and change.after is not None and _is_moving(change.after):
                self.moved.add(written[1])
        if self._is_by_operator(commit):
            return  # the rules are for brokers; an operator may write anything
        paths = [change.path for change in commit.changes]
        for change in commit.changes:
            if change.path == ControllerEpochZnode.PATH and change.after is not None:
                self._controller_epoch_written(commit, change.after, paths)
            elif self._is_controllers(change):
                assert commit.session_id == self._winner_session_id, (
                    f"{change.path} was written by session 0x{commit.session_id:x}, which did not "
                    f"win controller epoch {self._epoch}"
                )
            may_delete = self._world.settings.get("delete_topic_enable", True)
            if change.after is None and change.path.startswith(_DELETE_TOPICS) and may_delete:
                topic = change.path.removeprefix(_DELETE_TOPICS)
                is_there = self._world.zookeeper.peek(TopicZnode.path(topic)) is not None
                assert not is_there or invalid_name_reason(topic), (
                    f"{change.path} was removed although the topic is there"
                )
            state = _STATE_PATH.fullmatch(change.path)
            if state is not None:
                self._state_written(TopicPartition(state[1], int(state[2])), change)

    def _is_controllers(self, change: ZnodeChange) -> bool:
        """Whether only the controller may make this change.

        Every broker may create persistent parents and write its own znodes.
        """
        if _OF_BROKERS.fullmatch(change.path):
            return False
        return change.before is not None or change.path not in PERSISTENT_PATHS

    def _is_by_operator(self, commit: Commit) -> bool:
        return commit.session_id == self._world.operator.session_id

    def _controller_epoch_written(self, commit: Commit, after: Znode, paths: list[str]) -> None:
        epoch = ControllerEpochZnode.decode(after.data)
        assert epoch >= self._epoch, f"controller epoch fell from {self._epoch} to {epoch}"
        if epoch == 0:
            return
        assert epoch == self._epoch + 1, f"controller epoch went from {self._epoch} to {epoch}"
        assert ControllerZnode.PATH in paths, "an epoch begins with an election"
        self._epoch = epoch
        self._winner_session_id = commit.session_id
        self._epoch_zxid = commit.zxid

    def _state_written(self, tp: TopicPartition, change: ZnodeChange) -> None:
        if change.before is None or change.after is None:
            self._forget(tp)
        if change.after is None:
            return
        state = PartitionStateZnode.decode(change.path, change.after.data)
        before = self._leader_epochs.get(tp, -1)
        assert state.leader_epoch >= before, f"leader epoch of {tp} fell below {before}: {state}"
        self._leader_epochs[tp] = state.leader_epoch
        if change.before is not None:
            previous = PartitionStateZnode.decode(change.path, change.before.data)
            self._check_successor(tp, previous, state)
            self._check_no_living_broker_is_taken_for_dead(tp, previous, state)
        leader = self._leaders.setdefault((tp, state.leader_epoch), state.leader)
        assert leader == state.leader, (
            f"{tp} has leaders {leader} and {state.leader} in leader epoch {state.leader_epoch}"
        )
        assert state.in_sync_replicas, f"ISR of {tp} is empty"
        assert len(set(state.in_sync_replicas)) == len(state.in_sync_replicas), f"{tp}: {state}"
        replicas = self._replicas(tp)
        beyond = set(state.in_sync_replicas) - set(replicas)
        # Replicas that a reassignment drops leave the assignment first, then the ISR one by one.
        is_leaving = change.before is not None and beyond <= set(
            PartitionStateZnode.decode(change.path, change.before.data).in_sync_replicas
        )
        assert is_leaving or not beyond, f"{tp}: ISR beyond {replicas}: {state}"
        assert state.leader == NO_LEADER or state.leader in state.in_sync_replicas, f"{tp}: {state}"
        assert state.controller_epoch == self._epoch, (
            f"{tp} was written under epoch {state.controller_epoch} in epoch {self._epoch}"
        )

    def _check_successor(
        self, tp: TopicPartition, before: PartitionStateZnode, after: PartitionStateZnode
    ) -> None:
        """Only a replica that was in the ISR may become leader, unless unclean is allowed."""
        if after.leader_epoch == before.leader_epoch:
            return  # the leader changed its ISR
        if self.unclean is None:
            return
        if tp.topic in self.unclean and after.in_sync_replicas == (after.leader,):
            return
        joined = set(after.in_sync_replicas) - set(before.in_sync_replicas)
        assert not joined, f"{tp}: brokers {joined} came in sync by an election: {before}, {after}"

    def _check_no_living_broker_is_taken_for_dead(
        self, tp: TopicPartition, before: PartitionStateZnode, after: PartitionStateZnode
    ) -> None:
        """A broker that was registered during the whole controller epoch stays in the ISR."""
        if after.leader_epoch == before.leader_epoch or self._is_doomed(tp.topic):
            return
        assignment = self._world.topic_znode(tp.topic).partitions[tp.partition]
        staying = set(assignment.replicas) - set(assignment.removing_replicas)
        alive = [b for b in before.in_sync_replicas if b in staying and self._has_been_alive(b)]
        lost = [broker for broker in alive if broker not in after.in_sync_replicas]
        assert not lost, f"{tp}: brokers {lost} are alive and left the ISR: {before}, {after}"
        is_deposed = before.leader in alive and after.leader == NO_LEADER
        assert not is_deposed, f"{tp}: its leader {before.leader} is alive: {before}, {after}"

    def _has_been_alive(self, broker_id: int) -> bool:
        znode = self._world.zookeeper.peek(BrokerIdZnode.path(broker_id))
        if znode is None or znode.czxid > self._epoch_zxid or znode.zk_version != REGISTERED:
            return False  # dead, restarted, or its registration was overwritten by hand
        process = self._world.living.get(broker_id)
        has_failed = process is not None and process.broker.failed
        return not has_failed and broker_id not in self.excused

    def _is_doomed(self, topic: str) -> bool:
        return self._world.zookeeper.peek(_DELETE_TOPICS + topic) is not None

    def _forget(self, tp: TopicPartition) -> None:
        self._leader_epochs.pop(tp, None)
        for led in [led for led in self._leaders if led[0] == tp]:
            del self._leaders[led]

    def _replicas(self, tp: TopicPartition) -> tuple[int, ...]:
        return self._world.topic_znode(tp.topic).partitions[tp.partition].replicas

    # ------------------------------------------------------------------ at rest

    def check_at_rest(self) -> None:
        """Checks what must hold once every process is idle."""
        world = self._world
        running = [process for process in world.living.values() if process.is_running]
        if not running:
            return
        acting = [process for process in running if process.controller.is_active]
        assert len(acting) == 1, f"{len(acting)} brokers act as controller"
        controller = acting[0]
        assert world.controller_znode == controller.broker_id, "/controller names another one"
        assert controller.controller.context.epoch == world.controller_epoch
        self._check_registrations(controller, running)
        self.check_leaders()
        self._check_deletions(running)
        for process in running:
            self._check_sent(process, controller)

    def _check_registrations(self, controller: BrokerProcess, running: list[BrokerProcess]) -> None:
        epochs = controller.controller.context.live_broker_epochs
        expected = {process.broker_id: process.broker.broker_epoch for process in running}
        assert dict(epochs) == expected, f"controller knows {dict(epochs)}, alive are {expected}"

    def _assigned(self) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
        for topic, znode in self._world.topics().items():
            for partition, assignment in znode.partitions.items():
                yield TopicPartition(topic, partition), assignment.replicas

    def check_leaders(self) -> None:
        """Every partition that can have a leader has one that is alive."""
        running = {p.broker_id: p for p in self._world.living.values() if p.is_running}
        doomed = self._world.zookeeper.peek_children("/admin/delete_topics")
        for tp, replicas in self._assigned():
            if tp.topic in doomed:
                continue
            live = [b for b, process in running.items() if tp not in process.broker.failed]
            if not self._world.has_state_znode(*tp):
                assert not any(broker in live for broker in replicas), f"{tp} never had a leader"
                continue
            state = self._world.state_znode(*tp)
            beyond = set(state.in_sync_replicas) - set(replicas)
            may_linger = self.is_refused and tp.topic in self.moved
            assert not beyond or may_linger, f"{tp}: {state}, not {replicas}"
            if any(broker in live for broker in state.in_sync_replicas):
                assert state.leader in live, f"{tp} has no live leader: {state}, alive are {live}"

    def _check_deletions(self, running: list[BrokerProcess]) -> None:
        live = [process.broker_id for process in running]
        for topic in self._world.zookeeper.peek_children("/admin/delete_topics"):
            if not self._world.zookeeper.peek(TopicZnode.path(topic)):
                # If ZooKeeper refused to remove the request, the next controller removes it.
                may_stay = self.is_refused and not self.is_deletion_sure
                assert may_stay, f"{topic}: left-over request"
                continue
            assignments = self._world.topic_znode(topic).partitions.values()
            replicas = {broker for assignment in assignments for broker in assignment.replicas}
            is_possible = replicas <= set(live)
            assert not (is_possible and self.is_deletion_sure), f"deletion of {topic} did not end"

    def _check_sent(self, process: BrokerProcess, controller: BrokerProcess) -> None:
        world, broker = self._world, process.broker
        assert broker.controller_id == controller.broker_id, (
            f"{process.name} takes broker {broker.controller_id} for the controller"
        )
        assert sorted(broker.live_brokers) == sorted(
            p.broker_id for p in world.living.values() if p.is_running
        ), f"{process.name} was told of brokers {sorted(broker.live_brokers)}"
        doomed = world.zookeeper.peek_children("/admin/delete_topics")
        assigned = {tp: replicas for tp, replicas in self._assigned() if tp.topic not in doomed}
        for tp, replicas in assigned.items():
            if not world.has_state_znode(*tp):
                continue
            state = world.state_znode(*tp)
            znode = world.zookeeper.peek(PartitionStateZnode.path(*tp))
            assert znode is not None
            wanted = (state.leader, state.leader_epoch, state.in_sync_replicas, znode.zk_version)
            cached = broker.metadata.get(tp)
            assert cached is not None, f"{process.name} was never told of {tp}"
            assert cached[:4] == wanted, (
                f"{process.name}: {tp} is {cached} in metadata, not {wanted}"
            )
            assert cached.replicas == replicas, f"{process.name}: {tp} {cached}, not {replicas}"
            if process.broker_id in replicas:
                told = broker.told.get(tp)
                assert told is not None, f"{process.name} was never told to host {tp}"
                known = 4 if self.is_isr_sent else 2
                assert told[:known] == wanted[:known], (
                    f"{process.name} was told {told} of {tp}, not {wanted}"
                )
        for tp in broker.metadata if self.is_forgetting_sure else ():
            assert tp in assigned, f"{process.name} still has {tp} in its metadata"

    def check_memory(self) -> None:
        """One broker is the controller and its memory equals ZooKeeper; the others' is empty."""
        world = self._world
        running = [process for process in world.living.values() if process.is_running]
        acting = [process for process in running if process.controller.is_active]
        assert len(acting) == 1, f"{len(acting)} brokers act as controller"
        (controller,) = acting
        assert world.controller_znode == controller.broker_id, "/controller names another one"
        for process in running:
            if process is not controller:
                assert not process.controller.context.epoch, f"{process.name} keeps its context"
        self._check_registrations(controller, running)
        table = controller.controller.context.table
        topics = world.topics()
        assert sorted(table.topics) == sorted(topics), "the controller knows other topics"
        doomed = set(world.zookeeper.peek_children("/admin/delete_topics"))
        assert table.deleting <= doomed, f"nobody asked to delete {table.deleting - doomed}"
        overlooked = (doomed & set(topics)) - table.deleting
        assert not overlooked, f"the deletion of {overlooked} was overlooked"
        for topic in set(topics) - doomed:
            known = {table.partition_of[row]: table.assignment(row) for row in table.rows_of(topic)}
            assert known == dict(topics[topic].partitions), f"{topic} is assigned otherwise"
            for partition, row in zip(known, table.rows_of(topic), strict=True):
                self._check_known_state(controller, TopicPartition(topic, partition), row)

    def _check_known_state(self, controller: BrokerProcess, tp: TopicPartition, row: int) -> None:
        table = controller.controller.context.table
        if not table.has_leader_and_isr(row):
            return  # the next controller writes a state that ZooKeeper refused
        state = self._world.state_znode(*tp)
        znode = self._world.zookeeper.peek(PartitionStateZnode.path(*tp))
        assert znode is not None
        known = table.leader_and_isr(row)
        found = (state.leader, state.leader_epoch, state.in_sync_replicas, znode.zk_version)
        assert known[:4] == found, f"the controller takes {known} for the state of {tp}: {found}"

    def check_nothing_is_left(self) -> None:
        """No broker keeps a replica of a deleted topic."""
        topics = self._world.topics()
        for process in self._world.living.values():
            for tp in process.broker.hosted:
                assert tp.topic in topics or tp.topic in self.moved, f"{process.name} keeps {tp}"


def _is_moving(znode: Znode) -> bool:
    return b'"adding_replicas":{},"removing_replicas":{}' not in znode.data
