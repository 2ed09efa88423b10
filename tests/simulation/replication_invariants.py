"""What must be true of replicas at every moment, whatever happened to their brokers.

The names are those of the TLA+ specification of Kafka's replication (``KafkaReplication.tla``,
``Kip320.tla``), which proves them for the protocol; here they are checked for the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_common.model import NO_LEADER, TopicPartition
from tests.simulation.replication_log import Record, SimulatedLog

if TYPE_CHECKING:
    from tests.simulation.replication_world import ReplicationWorld


class ReplicationInvariants:
    """Remembers what was seen, and compares the world with it."""

    def __init__(self, world: ReplicationWorld) -> None:
        self._world = world
        self._exposed: dict[TopicPartition, list[Record]] = {tp: [] for tp in world.partitions}
        """Every record that was below a leader's high watermark, by offset."""
        self._high_watermarks: dict[tuple[TopicPartition, int, int, int], int] = {}
        """Of leaders: by partition, broker, its incarnation and leader epoch."""
        self._seen: dict[TopicPartition, object] = {}

    def check(self) -> str | None:
        """The first broken invariant in words; None if all hold."""
        for tp in self._world.partitions:
            seen = self._sight(tp)
            if self._seen.get(tp) == seen:
                continue
            self._seen[tp] = seen
            for rule in (
                self._leader_in_isr,
                self._valid_high_watermark,
                self._weak_and_strong_isr,
                self._leader_knows,
                self._log_matching,
                self._committed_for_ever,
                self._no_acknowledged_record_lost,
            ):
                broken = rule(tp)
                if broken is not None:
                    return f"{rule.__name__.strip('_')}: {tp}: {broken}"
        return None

    def _sight(self, tp: TopicPartition) -> object:
        """Everything that the rules look at; as long as it stays the same they need not look."""
        decided = self._world.controller.partitions[tp]
        believed = [
            (
                broker.incarnation,
                partition.leader,
                partition.leader_epoch,
                partition.isr_state,
                [state.log_end_offset for state in partition.remote_replicas.values()],
            )
            for broker in self._world.brokers.values()
            if (partition := broker.partitions.get(tp)) is not None
        ]
        changes = [(broker_id, log.changes) for broker_id, log in self._logs(tp)]
        acknowledged = len(self._world.acknowledged_records[tp])
        return decided.leader_epoch, decided.isr, believed, changes, acknowledged

    def _leader_in_isr(self, tp: TopicPartition) -> str | None:
        decided = self._world.controller.partitions[tp]
        if decided.leader not in (NO_LEADER, *decided.isr):
            return f"leader {decided.leader} is not in {decided.isr}"
        return None

    def _valid_high_watermark(self, tp: TopicPartition) -> str | None:
        """A leader's is never above the end of a member of its ISR, and never falls in an epoch."""
        for broker_id, log in self._logs(tp):
            if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
                return f"broker {broker_id} has {log.high_watermark} outside of its log"
        for broker in self._world.brokers.values():
            partition = broker.partitions.get(tp)
            if partition is None or not partition.is_leader:
                continue
            seen = (tp, broker.broker_id, broker.incarnation, partition.leader_epoch)
            high_watermark = partition.high_watermark
            if high_watermark < self._high_watermarks.get(seen, 0):
                return f"broker {broker.broker_id} lowered its own to {high_watermark}"
            self._high_watermarks[seen] = high_watermark
        return None

    def _weak_and_strong_isr(self, tp: TopicPartition) -> str | None:
        """Who believes to lead has its committed records in common with the ISR.

        Weak: the ISR that it knows.  Strong: the ISR that the controller knows.
        """
        decided = self._world.controller.partitions[tp]
        for broker in self._world.brokers.values():
            partition = broker.partitions.get(tp)
            if partition is None or not partition.is_leader:
                continue
            committed = broker.logs[tp].records[: partition.high_watermark]
            for name, isr in (("weak", partition.in_sync_replicas), ("strong", decided.isr)):
                for member in isr:
                    if self._records(tp, member)[: len(committed)] != committed:
                        return (
                            f"{name}: leader {broker.broker_id} (epoch {partition.leader_epoch}) "
                            f"has {len(committed)} committed records that {member} of {isr} lacks"
                        )
        return None

    def _leader_knows(self, tp: TopicPartition) -> str | None:
        """A leader has its epoch in its cache; who counts has no less than the leader believes.

        The second of the leader that the controller wants; a deposed one may be deceived.  So may
        one that was deposed and chosen again without noticing, about a follower outside its ISR
        that has truncated meanwhile: that one counts only after another fetch.
        """
        decided = self._world.controller.partitions[tp]
        for broker in self._world.brokers.values():
            partition = broker.partitions.get(tp)
            if partition is None or not partition.is_leader:
                continue
            log = broker.logs[tp]
            if log.latest_epoch != partition.leader_epoch:
                return f"leader {broker.broker_id} has epoch {log.latest_epoch} in its cache"
            if partition.leader_epoch != decided.leader_epoch:
                continue
            for follower, state in partition.remote_replicas.items():
                if follower not in partition.isr_state.maximal_isr:
                    continue
                end = max(0, state.log_end_offset)
                if self._records(tp, follower)[:end] != log.records[:end]:
                    return f"leader {broker.broker_id} believes that {follower} has {end} records"
        return None

    def _records(self, tp: TopicPartition, broker_id: int) -> list[Record]:
        log = self._world.brokers[broker_id].logs.get(tp)
        return [] if log is None else log.records

    def _log_matching(self, tp: TopicPartition) -> str | None:
        """Two logs agree below both their high watermarks, if these were learnt from a leader."""
        logs = self._logs(tp)
        for index, (one, log) in enumerate(logs):
            for other, another in logs[index + 1 :]:
                end = min(log.high_watermark, another.high_watermark)
                if log.records[:end] != another.records[:end]:
                    return f"brokers {one} and {other} differ below {end}"
        return None

    def _committed_for_ever(self, tp: TopicPartition) -> str | None:
        """What a reader could see at an offset, every reader sees there from then on."""
        exposed = self._exposed[tp]
        for broker in self._world.brokers.values():
            partition = broker.partitions.get(tp)
            if partition is None or not partition.is_leader:
                continue
            visible = broker.logs[tp].records[: partition.high_watermark]
            common = min(len(visible), len(exposed))
            if visible[:common] != exposed[:common]:
                return f"broker {broker.broker_id} shows other records than were seen before"
            exposed += visible[common:]
        return None

    def _no_acknowledged_record_lost(self, tp: TopicPartition) -> str | None:
        """Every member of the ISR, dead or alive, has every record that was acknowledged."""
        isr = self._world.controller.partitions[tp].isr
        for record in self._world.acknowledged_records[tp]:
            for member in isr:
                log = self._world.brokers[member].logs.get(tp)
                if log is None or log.record_at(record.offset) != record:
                    return f"{record} is not on {member} of {isr}"
        return None

    def _logs(self, tp: TopicPartition) -> list[tuple[int, SimulatedLog]]:
        return [
            (broker.broker_id, broker.logs[tp])
            for broker in self._world.brokers.values()
            if tp in broker.logs
        ]

    def at_rest(self) -> str | None:
        """The first rule that the brokers break at rest, after all faults; None without one."""
        for tp, decided in self._world.controller.partitions.items():
            if sorted(decided.isr) != sorted(decided.replicas):
                return f"{tp}: only {decided.isr} are in sync"
            leader = self._world.brokers[decided.leader].logs[tp]
            for broker_id, log in self._logs(tp):
                if log.records != leader.records:
                    return f"{tp}: broker {broker_id} and leader {decided.leader} differ"
                if log.high_watermark != leader.log_end_offset:
                    return f"{tp}: broker {broker_id} has not committed its whole log"
        return None
