"""What ``zkctl doctor`` looks for: rules over one reading of the cluster, each a pure function.

An id means the same here and in ``zkctl history rules``: what both know, they know by one text
(:data:`~zkcontroller.history.analyses.rules.RULE_BY_ID`), in the present tense here.

A finding names what is wrong, where that stands (a znode with its version, or a request and the
broker that answered it), how many partitions and topics it concerns, and the next safe step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from zkcontroller.history.analyses.rules import RULE_BY_ID, SEVERITIES, Severity
from zkcontroller.model import NO_LEADER
from zkcontroller.zookeeper.znodes import (
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

from .doctor_reading import BrokerReading, ClusterReading
from .partitions import PartitionView

LARGE_ZNODE_BYTES: Final = 512 * 1024
"""Half of ZooKeeper's ``jute.maxbuffer``: a larger znode is soon refused."""
MOST_LOOKS: Final = 4
SHOWN_EVIDENCE: Final = 5
"""So many places of one finding are shown by ``-o table``; the other formats have them all."""


class Evidence(NamedTuple):
    """Where it stands, and what stands there."""

    where: str
    what: str


class Place(NamedTuple):
    """One place where a rule is broken; ``topic`` and ``partition`` where it concerns one."""

    evidence: Evidence
    topic: str | None = None
    partition: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The same place in another reading, whatever stands there then."""
        if self.topic is None:
            return (self.evidence.where.partition(" at version ")[0],)
        return self.topic, str(self.partition)


class Finding(NamedTuple):
    """One rule that the cluster breaks, with all places where it does."""

    rule: str
    severity: Severity
    title: str
    places: tuple[Place, ...]
    partitions: int
    topics: int
    next_step: str

    def row(self) -> dict[str, Any]:
        """As ``doctor`` shows it in every format."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "title": self.title,
            "partition_count": self.partitions,
            "topic_count": self.topics,
            "evidence": [place.evidence._asdict() for place in self.places],
            "next_step": self.next_step,
        }


class DoctorRule(NamedTuple):
    """One rule: what it finds, and what to do then."""

    id: str
    severity: Severity
    title: str
    next_step: str
    check: Callable[[ClusterReading], Iterable[Place]]
    needs_brokers: bool = False


def findings(reading: ClusterReading, ignored: Iterable[str] = ()) -> list[Finding]:
    """Everything that is wrong, the worst first; ``ignored`` as :func:`parse_ignored` takes it."""
    skipped = parse_ignored(ignored)
    found = []
    for rule in RULES:
        if rule.needs_brokers and not reading.brokers:
            continue
        places = [
            place for place in rule.check(reading) if not _is_ignored(skipped, rule.id, place)
        ]
        if places:
            found.append(_finding(rule, places))
    return sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.rule))


def lasting_findings(look: Callable[[], list[Finding]], pause: Callable[[], None]) -> list[Finding]:
    """What two looks in a row have found, without what was a change on its way.

    While a look shows something new there is another one, at most :data:`MOST_LOOKS` in all.
    """
    latest = look()
    lasting = latest
    for _ in range(MOST_LOOKS - 1):
        if not latest:
            break
        pause()
        before, latest = latest, look()
        lasting = _in_both(before, latest)
        if lasting == latest:
            break
    return lasting


def _in_both(before: list[Finding], after: list[Finding]) -> list[Finding]:
    """The later findings, less every place that the earlier ones do not have."""
    known = {(each.rule, place.key) for each in before for place in each.places}
    found = []
    for each in after:
        places = [place for place in each.places if (each.rule, place.key) in known]
        if places:
            found.append(_finding(RULE_OF[each.rule], places))
    return found


def parse_ignored(texts: Iterable[str]) -> list[tuple[str, str]]:
    """``ID`` or ``ID=TOPIC-GLOB`` as pairs; an id without a glob is ignored everywhere."""
    pairs = (text.partition("=") for text in texts)
    return [(rule, glob if equals else "") for rule, equals, glob in pairs]


def _is_ignored(ignored: list[tuple[str, str]], rule: str, place: Place) -> bool:
    return any(
        rule == id_ and (not glob or (place.topic is not None and fnmatchcase(place.topic, glob)))
        for id_, glob in ignored
    )


def _finding(rule: DoctorRule, places: list[Place]) -> Finding:
    partitions = {(p.topic, p.partition) for p in places if p.partition is not None}
    topics = {p.topic for p in places if p.topic is not None}
    return Finding(
        rule.id,
        rule.severity,
        rule.title,
        tuple(places),
        len(partitions),
        len(topics),
        rule.next_step,
    )


# Controllers.


def _controller_znode(reading: ClusterReading) -> Iterator[Place]:
    if reading.controller_data is None:
        yield Place(Evidence(reading.full(ControllerZnode.PATH), "there is no such znode"))
    elif reading.controller is None:
        shown = reading.controller_data[:80]
        yield Place(Evidence(reading.full(ControllerZnode.PATH), f"cannot be read: {shown!r}"))
    elif reading.controller.broker_id not in reading.registrations and not _is_kraft(reading):
        yield Place(
            Evidence(
                reading.full(ControllerZnode.PATH),
                f"names broker {reading.controller.broker_id}, which is not registered",
            )
        )


def _is_kraft(reading: ClusterReading) -> bool:
    return reading.controller is not None and reading.controller.kraft_controller_epoch >= 0


def _unanswered_probe(reading: ClusterReading) -> Iterator[Place]:
    if reading.probe is not None:
        yield Place(reading.probe)


def _migration(reading: ClusterReading) -> Iterator[Place]:
    if reading.migration_version is not None and not _is_kraft(reading):
        yield Place(
            Evidence(
                f"{reading.full('/migration')} at version {reading.migration_version}",
                "a migration to KRaft was begun, and no KRaft controller rules",
            )
        )


def _epoch_from_the_future(reading: ClusterReading) -> Iterator[Place]:
    epoch = reading.controller_epoch
    if epoch is None:
        where = reading.full(ControllerEpochZnode.PATH)
        yield Place(Evidence(where, "is missing or cannot be read"))
        return
    for view in reading.partitions:
        if view.state is not None and view.state.controller_epoch > epoch:
            later = view.state.controller_epoch
            yield _at_state(reading, view, f"controller_epoch {later}, above {epoch}")


# Partitions.


def _at_state(reading: ClusterReading, view: PartitionView, what: str) -> Place:
    path = reading.full(PartitionStateZnode.path(view.topic, view.partition))
    version = "" if view.zk_version is None else f" at version {view.zk_version}"
    return Place(Evidence(f"{path}{version}", what), view.topic, view.partition)


def _states(
    broken: Callable[[PartitionView, PartitionStateZnode, ClusterReading], str | None],
) -> Callable[[ClusterReading], Iterator[Place]]:
    """A rule over every partition that has a state and is not being deleted."""

    def check(reading: ClusterReading) -> Iterator[Place]:
        for view in reading.partitions:
            if view.state is None or view.topic in reading.deletions:
                continue
            what = broken(view, view.state, reading)
            if what is not None:
                yield _at_state(reading, view, what)

    return check


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _without_leader(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        if view.topic in reading.deletions:
            continue
        if view.state is None:
            yield _at_state(reading, view, "there is no readable state")
        elif view.state.leader == NO_LEADER:
            in_sync = _ids(view.state.in_sync_replicas)
            yield _at_state(reading, view, f"leader -1, in sync were {in_sync}")


def _dead_leader(
    view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    if state.leader == NO_LEADER or view.leader_is_live:
        return None
    return f"leader {state.leader} is not registered"


def _leader_out_of_sync(
    _view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    if state.leader == NO_LEADER or state.leader in state.in_sync_replicas:
        return None
    return f"leader {state.leader}, in sync {_ids(state.in_sync_replicas)}"


def _stranger_in_sync(
    view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    strangers = [b for b in state.in_sync_replicas if b not in view.assignment.replicas]
    if not strangers:
        return None
    return f"in sync {_ids(strangers)}, assigned {_ids(view.assignment.replicas)}"


def _none_in_sync(
    _view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    return None if state.in_sync_replicas else "the list of replicas in sync is empty"


def _min_in_sync(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str | None:
    if not view.is_under_replicated:
        return None
    least = reading.min_in_sync(view.topic)
    count = len(state.in_sync_replicas)
    if count > least:
        return None
    relation = "as few as" if count == least else "fewer than"
    return f"in sync {_ids(state.in_sync_replicas)}: {relation} min.insync.replicas={least}"


def _under_replicated(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str | None:
    least = reading.min_in_sync(view.topic)
    if not view.is_under_replicated or len(state.in_sync_replicas) <= least:
        return None  # P06 says it
    missing = [b for b in view.assignment.origin_replicas if b not in state.in_sync_replicas]
    return f"not in sync: {_ids(missing)}"


def _racks(view: PartitionView, _state: PartitionStateZnode, reading: ClusterReading) -> str | None:
    racks = reading.racks
    if len(set(racks.values())) < 2 or view.assignment.adding_replicas:
        return None
    replicas = view.assignment.replicas
    if any(broker not in racks for broker in replicas):
        return None
    used = len({racks[broker] for broker in replicas})
    possible = min(len(replicas), len(set(racks.values())))
    return f"{used} racks of {possible} possible" if used < possible else None


def _not_preferred(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str | None:
    preferred = view.assignment.replicas[0]
    if state.leader in (preferred, NO_LEADER) or preferred not in state.in_sync_replicas:
        return None
    if preferred not in reading.registrations:
        return None
    return f"leader {state.leader}, preferred {preferred}"


# Reassignments and deletions.


def _reassignment_without_progress(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        adding = view.assignment.adding_replicas
        if not adding or view.state is None:
            continue
        missing = [broker for broker in adding if broker not in view.state.in_sync_replicas]
        age_s = reading.topic_age_s(view.topic)
        if missing and age_s > reading.patience_s:
            path = reading.full(TopicZnode.path(view.topic))
            what = f"unchanged for {age_s:.0f} s, not in sync yet: {_ids(missing)}"
            yield Place(Evidence(path, what), view.topic, view.partition)


def _dead_target(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        dead = [b for b in view.assignment.adding_replicas if b not in reading.registrations]
        if dead:
            path = reading.full(TopicZnode.path(view.topic))
            what = f"adding replicas on brokers that are not alive: {_ids(dead)}"
            yield Place(Evidence(path, what), view.topic, view.partition)


def _zombie_order(reading: ClusterReading) -> Iterator[Place]:
    if reading.ordered_moves is None or reading.ordered_moves_age_s <= reading.patience_s:
        return
    path = reading.full(ReassignPartitionsZnode.PATH)
    moving = {
        (view.topic, view.partition)
        for view in reading.partitions
        if view.assignment.adding_replicas or view.assignment.removing_replicas
    }
    for topic, partition in reading.ordered_moves:
        if (topic, partition) not in moving:
            what = f"{topic}-{partition} is ordered there, and is not being moved"
            yield Place(Evidence(path, what), topic, partition)


def _stuck_deletion(reading: ClusterReading) -> Iterator[Place]:
    blocked: dict[str, set[int]] = defaultdict(set)
    moving: set[str] = set()
    for view in reading.partitions:
        if view.topic not in reading.deletions:
            continue
        assignment = view.assignment
        blocked[view.topic] |= {b for b in assignment.replicas if b not in reading.registrations}
        if assignment.adding_replicas or assignment.removing_replicas:
            moving.add(view.topic)
    for topic, age_s in reading.deletions.items():
        if age_s <= reading.patience_s:
            continue
        causes = [f"broker {b} has replicas and is not alive" for b in sorted(blocked[topic])]
        if topic in moving:
            causes.append("a reassignment of it is under way")
        what = f"waits for {age_s:.0f} s: {'; '.join(causes) or 'no blocker is visible'}"
        yield Place(Evidence(reading.full(DeleteTopicZnode.path(topic)), what), topic)


# Notifications, sizes, settings.


def _old_notifications(reading: ClusterReading) -> Iterator[Place]:
    for path, age_s in reading.notifications.items():
        if age_s > reading.patience_s:
            yield Place(Evidence(reading.full(path), f"is {age_s:.0f} s old"))


def _large_znodes(reading: ClusterReading) -> Iterator[Place]:
    for path, size in reading.znode_bytes.items():
        if size > LARGE_ZNODE_BYTES:
            what = f"{size:,} bytes; ZooKeeper takes 1,048,575 (jute.maxbuffer)"
            yield Place(Evidence(reading.full(path), what))


def _unclean_allowed(reading: ClusterReading) -> Iterator[Place]:
    key = "unclean.leader.election.enable"
    for topic, config in reading.topic_configs.items():
        if config.get(key) == "true":
            path = reading.full(ConfigZnode.topic_path(topic))
            yield Place(Evidence(path, f"{key}=true"), topic)
    if reading.default_config.get(key) == "true":
        path = reading.full(ConfigZnode.broker_path(None))
        yield Place(Evidence(path, f"{key}=true for all topics without their own"))


# What brokers say.


def _per_broker(
    broken: Callable[[BrokerReading, ClusterReading], Iterable[str | Place]], rpc: str
) -> Callable[[ClusterReading], Iterator[Place]]:
    def check(reading: ClusterReading) -> Iterator[Place]:
        for broker in reading.brokers:
            for what in broken(broker, reading):
                if isinstance(what, Place):
                    yield what
                else:
                    yield Place(Evidence(f"{rpc} of broker {broker.broker_id}", what))

    return check


def _unreachable(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None:
        yield broker.error


def _other_cluster(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is None and broker.cluster_id != reading.cluster_id:
        yield f"cluster id {broker.cluster_id}, /cluster/id holds {reading.cluster_id}"


def _other_partitions(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    for view, cached in broker.differing:
        state = view.state
        assert state is not None, "a partition without state is compared with nothing"
        now = (
            f"leader {state.leader}, epoch {state.leader_epoch}, ISR {_ids(state.in_sync_replicas)}"
        )
        then = f"leader {cached.leader}, epoch {cached.leader_epoch}, ISR {_ids(cached.isr)}"
        place = _at_state(reading, view, f"{now}; broker {broker.broker_id} says {then}")
        yield place


def _state_text(leader: int, leader_epoch: int, in_sync: Iterable[int]) -> str:
    return f"leader {leader}, epoch {leader_epoch}, in sync {_ids(in_sync)}"


def _other_topic_id(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    for topic in reading.topics:
        cached = broker.topic_ids.get(topic.topic)
        if cached is not None and topic.topic_id is not None and cached != topic.topic_id:
            what = f"topic id {topic.topic_id}; broker {broker.broker_id} says {cached}"
            path = reading.full(TopicZnode.path(topic.topic))
            yield Place(Evidence(path, what), topic.topic)


def _other_brokers(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None:
        return
    registered = set(reading.registrations)
    if missing := sorted(registered - broker.live_brokers):
        yield f"does not know the registered brokers {_ids(missing)}"
    if extra := sorted(broker.live_brokers - registered):
        yield f"knows brokers that are not registered: {_ids(extra)}"


def _stray_logs(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    held = reading.replicas_of(broker.broker_id)
    for log_dir in broker.log_dirs:
        for topic, partition in sorted(log_dir.replicas - held):
            if topic in reading.deletions:
                continue
            what = f"{log_dir.path} holds {topic}-{partition}, which is not assigned to it"
            where = f"DescribeLogDirs of broker {broker.broker_id}"
            yield Place(Evidence(where, what), topic, partition)


def _offline_log_dirs(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    for log_dir in broker.log_dirs:
        if log_dir.error is not None:
            yield f"{log_dir.path}: {log_dir.error}"


def _shared(id_: str, title: str) -> tuple[str, Severity, str]:
    return id_, RULE_BY_ID[id_].severity, title


_CRITICAL, _ERROR, _WARNING, _INFO = Severity

RULES: Final = (
    DoctorRule(
        "C01",
        _CRITICAL,
        "The controller that /controller names does not answer",
        "zkctl controller elect: another broker takes over; then look at that broker's process",
        _unanswered_probe,
        needs_brokers=True,
    ),
    DoctorRule(
        "C04",
        _CRITICAL,
        "There is no controller that can be read",
        "zkctl znode get /controller; brokers elect one as soon as the znode is deleted",
        _controller_znode,
    ),
    DoctorRule(
        "C05",
        _WARNING,
        "Remnants of a migration to KRaft",
        "before the next migration: zkctl znode get /migration, and delete it if none is running",
        _migration,
    ),
    DoctorRule(
        "C06",
        _CRITICAL,
        "A partition's state is of a later controller than /controller_epoch knows",
        "zkctl znode get /controller_epoch: was it deleted, or restored from a backup?",
        _epoch_from_the_future,
    ),
    DoctorRule(
        "B02",
        _ERROR,
        "A registered broker does not answer",
        "look at that broker's process and listener; its session is alive, so its partitions stay",
        _per_broker(_unreachable, "Metadata"),
        needs_brokers=True,
    ),
    DoctorRule(
        "B03",
        _CRITICAL,
        "A broker belongs to another cluster",
        "look at that address: another cluster's broker listens where this one's is registered",
        _per_broker(_other_cluster, "Metadata"),
        needs_brokers=True,
    ),
    DoctorRule(
        *_shared("P01", "Partitions have no leader"),
        "start a broker that was in sync; if none returns: zkctl partition elect --unclean",
        _without_leader,
    ),
    DoctorRule(
        "P02",
        _ERROR,
        "Partitions are led by a broker that is not registered",
        "zkctl doctor again in a minute; if it stays, the controller does not act: see C01",
        _states(_dead_leader),
    ),
    DoctorRule(
        *_shared("P03", "Partitions whose leader is not in sync"),
        "zkctl znode get on the state: was it edited or restored by hand?",
        _states(_leader_out_of_sync),
    ),
    DoctorRule(
        "P04",
        _CRITICAL,
        "Replicas in sync that are not assigned",
        "zkctl znode get on the state and the topic: was one of them edited by hand?",
        _states(_stranger_in_sync),
    ),
    DoctorRule(
        "P05",
        _CRITICAL,
        "Partitions with no replica in sync",
        "zkctl znode get on the state: Kafka never writes an empty list",
        _states(_none_in_sync),
    ),
    DoctorRule(
        "P06",
        _ERROR,
        "Partitions at or below min.insync.replicas",
        "bring the missing replicas back: zkctl broker list shows who is registered",
        _states(_min_in_sync),
    ),
    DoctorRule(
        "P14",
        _WARNING,
        "Under-replicated partitions",
        "bring the missing replicas back: zkctl partition list --under-replicated",
        _states(_under_replicated),
    ),
    DoctorRule(
        "P08",
        _WARNING,
        "Replicas on fewer racks than possible",
        "move replicas: zkctl partition reassign TOPIC-PARTITION:BROKER,BROKER --dry-run",
        _states(_racks),
    ),
    DoctorRule(
        "P09",
        _INFO,
        "Partitions that their preferred leader does not lead",
        "zkctl partition elect --all --dry-run",
        _states(_not_preferred),
    ),
    DoctorRule(
        *_shared("R01", "Reassignments without progress"),
        "zkctl partition reassignments; look at the brokers that are not in sync yet",
        _reassignment_without_progress,
    ),
    DoctorRule(
        "R02",
        _ERROR,
        "Reassignments to brokers that are not alive",
        "start that broker, or zkctl partition reassign --cancel TOPIC-PARTITION",
        _dead_target,
    ),
    DoctorRule(
        "R03",
        _WARNING,
        "Orders in /admin/reassign_partitions that nothing comes of",
        "zkctl controller elect: the next controller reads the orders again",
        _zombie_order,
    ),
    DoctorRule(
        *_shared("D01", "Deletions that do not end"),
        "start the broker that is named as the blocker",
        _stuck_deletion,
    ),
    DoctorRule(
        "N01",
        _WARNING,
        "Notifications that nothing has taken away",
        "no controller reads them: see C01 and C04; zkctl controller elect clears them",
        _old_notifications,
    ),
    DoctorRule(
        "Z01",
        _WARNING,
        "Znodes near the limit of ZooKeeper",
        "split what stands there (fewer partitions in one topic, fewer moves at once)",
        _large_znodes,
    ),
    DoctorRule(
        *_shared("S01", "Unclean leader election is allowed"),
        "zkctl config alter topic NAME --delete unclean.leader.election.enable",
        _unclean_allowed,
    ),
    DoctorRule(
        "M01",
        _ERROR,
        "A broker's metadata differs from ZooKeeper",
        "zkctl doctor again; if it stays: zkctl controller elect sends every broker everything",
        _per_broker(_other_partitions, "Metadata"),
        needs_brokers=True,
    ),
    DoctorRule(
        "M02",
        _CRITICAL,
        "A broker knows another topic under this name",
        "restart that broker: the topic was deleted and created again while it did not hear of it",
        _per_broker(_other_topic_id, "Metadata"),
        needs_brokers=True,
    ),
    DoctorRule(
        "M03",
        _ERROR,
        "A broker knows other brokers than are registered",
        "zkctl doctor again; if it stays: zkctl controller elect sends every broker everything",
        _per_broker(_other_brokers, "Metadata"),
        needs_brokers=True,
    ),
    DoctorRule(
        "L01",
        _WARNING,
        "Log directories with replicas that are not assigned",
        "compare before anything is deleted: zkctl topic describe TOPIC",
        _per_broker(_stray_logs, "DescribeLogDirs"),
        needs_brokers=True,
    ),
    DoctorRule(
        *_shared("L02", "Log directories that failed"),
        "look at the disk; the broker must be restarted to use the directory again",
        _per_broker(_offline_log_dirs, "DescribeLogDirs"),
        needs_brokers=True,
    ),
)

RULE_OF: Final = {rule.id: rule for rule in RULES}
