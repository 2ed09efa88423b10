"""What the rules of ``zkctl doctor`` find in one reading of the cluster: a pure function for each.

A check yields each place where its rule is broken, with the evidence: a znode with its version, or
a request and the broker that answered it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from kafka_common.model import NO_LEADER
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)
from zkcontroller_cli.deletions.blockers import NOTHING_VISIBLE, blockers_in_znodes
from zkcontroller_cli.diagnosis.findings import Evidence, Place
from zkcontroller_cli.diagnosis.reading import MIGRATION_PATH, BrokerReading, ClusterReading
from zkcontroller_cli.values.throttles import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    LEADER_RATE,
    TOPIC_KEYS,
)
from zkcontroller_cli.wire.metadata_responses import unlike_brokers
from zkcontroller_cli.znodes.partitions import PartitionView

LARGE_ZNODE_BYTES: Final = 512 * 1024
"""Half of the default ``jute.maxbuffer``, above which ZooKeeper refuses a znode."""


# Controllers.


def controller_znode(reading: ClusterReading) -> Iterator[Place]:
    if reading.controller_data is None:
        yield Place(Evidence(reading.at(ControllerZnode.PATH), "there is no such znode"))
    elif reading.controller is None:
        shown = reading.controller_data[:80]
        yield Place(Evidence(reading.at(ControllerZnode.PATH), f"cannot be read: {shown!r}"))
    elif reading.controller.broker_id not in reading.registrations and not reading.is_kraft:
        yield Place(
            Evidence(
                reading.at(ControllerZnode.PATH),
                f"names broker {reading.controller.broker_id}, which is not registered",
            )
        )


def unanswered_probe(reading: ClusterReading) -> Iterator[Place]:
    if reading.probe is not None:
        yield Place(reading.probe)


def migration(reading: ClusterReading) -> Iterator[Place]:
    if MIGRATION_PATH in reading.zk_versions and not reading.is_kraft:
        yield Place(
            Evidence(
                reading.at(MIGRATION_PATH),
                "a migration to KRaft was begun, and no KRaft controller rules",
            )
        )


def epoch_from_the_future(reading: ClusterReading) -> Iterator[Place]:
    epoch = reading.controller_epoch
    if epoch is None:
        where = reading.at(ControllerEpochZnode.PATH)
        yield Place(Evidence(where, "is missing or cannot be read"))
        return
    for view in reading.partitions:
        if view.state is not None and view.state.controller_epoch > epoch:
            later = view.state.controller_epoch
            yield _at_state(reading, view, f"controller_epoch {later}, above {epoch}")


# Partitions.


def _at_state(reading: ClusterReading, view: PartitionView, what: str) -> Place:
    path = PartitionStateZnode.path(view.topic, view.partition)
    version = "" if view.zk_version is None else f" at version {view.zk_version}"
    evidence = Evidence(f"{reading.full(path)}{version}", what)
    dead = [b for b in view.assignment.replicas if b not in reading.registrations]
    broker, file = reading.to_start(dead)
    return Place(evidence, view.topic, view.partition, path, broker, file)


def states(
    broken: Callable[[PartitionView, PartitionStateZnode, ClusterReading], str | None],
) -> Callable[[ClusterReading], Iterator[Place]]:
    """Make a check of every partition that has a state and is not being deleted.

    ``broken`` returns what is wrong with a partition, or None.
    """

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


def without_leader(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        if view.topic in reading.deletions:
            continue
        if view.state is None:
            yield _at_state(reading, view, "there is no readable state")
        elif view.state.leader == NO_LEADER:
            in_sync = _ids(view.state.in_sync_replicas)
            yield _at_state(reading, view, f"leader -1, in sync were {in_sync}")


def dead_leader(
    view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    if state.leader == NO_LEADER or view.leader_is_live:
        return None
    return f"leader {state.leader} is not registered"


def leader_out_of_sync(
    _view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    if state.leader == NO_LEADER or state.leader in state.in_sync_replicas:
        return None
    return f"leader {state.leader}, in sync {_ids(state.in_sync_replicas)}"


def stranger_in_sync(
    view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    strangers = [b for b in state.in_sync_replicas if b not in view.assignment.replicas]
    if not strangers:
        return None
    return f"in sync {_ids(strangers)}, assigned {_ids(view.assignment.replicas)}"


def none_in_sync(
    _view: PartitionView, state: PartitionStateZnode, _reading: ClusterReading
) -> str | None:
    return None if state.in_sync_replicas else "the list of replicas in sync is empty"


def min_in_sync(reading: ClusterReading) -> Iterator[Place]:
    """P06: partitions below min.insync.replicas, where producers are refused; then those at it."""
    yield from states(partial(_below_or_at_min, is_below=True))(reading)
    yield from states(partial(_below_or_at_min, is_below=False))(reading)


def _below_or_at_min(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading, *, is_below: bool
) -> str | None:
    if not view.is_under_replicated:
        return None
    least = reading.min_in_sync(view.topic)
    count = len(state.in_sync_replicas)
    if count > least or (count < least) is not is_below:
        return None
    relation = "fewer than" if is_below else "as few as"
    compared = f"in sync {_ids(state.in_sync_replicas)}: {relation} min.insync.replicas={least}"
    return compared + _not_registered(view, state, reading)


def under_replicated(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str | None:
    least = reading.min_in_sync(view.topic)
    if not view.is_under_replicated or len(state.in_sync_replicas) <= least:
        return None  # rule P06 reports it
    return f"not in sync: {_ids(_not_in_sync(view, state))}" + _not_registered(view, state, reading)


def _not_in_sync(view: PartitionView, state: PartitionStateZnode) -> list[int]:
    return [b for b in view.assignment.origin_replicas if b not in state.in_sync_replicas]


def _not_registered(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str:
    """Which of the replicas that are not in sync have no live broker, as the end of a sentence."""
    dead = [b for b in _not_in_sync(view, state) if b not in reading.registrations]
    return f"; not registered: {_ids(dead)}" if dead else ""


def racks(view: PartitionView, _state: PartitionStateZnode, reading: ClusterReading) -> str | None:
    racks = reading.racks
    if len(set(racks.values())) < 2 or view.assignment.adding_replicas:
        return None
    replicas = view.assignment.replicas
    if any(broker not in racks for broker in replicas):
        return None
    used = len({racks[broker] for broker in replicas})
    possible = min(len(replicas), len(set(racks.values())))
    return f"{used} racks of {possible} possible" if used < possible else None


def not_preferred(
    view: PartitionView, state: PartitionStateZnode, reading: ClusterReading
) -> str | None:
    preferred = view.assignment.replicas[0]
    if state.leader in (preferred, NO_LEADER) or preferred not in state.in_sync_replicas:
        return None
    if preferred not in reading.registrations:
        return None
    return f"leader {state.leader}, preferred {preferred}"


# Reassignments and deletions.


def reassignment_without_progress(reading: ClusterReading) -> Iterator[Place]:
    now, then = reading.copied().of_replicas, reading.before
    for view, missing in reading.slow_moves:
        if not reading.hiding_log_dirs().isdisjoint(missing):
            continue  # read_brokers has noted that R01 is unchecked
        what = f"unchanged for {reading.topic_age_s(view.topic):.0f} s"
        what += f", not in sync yet: {_ids(missing)}"
        shown = [
            each for broker in missing if (each := (broker, view.topic, view.partition)) in now
        ]
        if then is not None and shown:
            if any(now[name] > then.of_replicas.get(name, now[name]) for name in shown):
                continue  # the move makes progress
            seconds = (reading.at_ms - then.at_ms) / 1000
            what += f"; no bytes came to {_ids(broker for broker, *_ in shown)} for {seconds:.0f} s"
        path = reading.at(TopicZnode.path(view.topic))
        yield Place(Evidence(path, what), view.topic, view.partition)


def dead_target(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        if view.topic in reading.deletions:
            continue  # the move of a topic being deleted cannot be cancelled; D01 has the next step
        dead = [b for b in view.assignment.adding_replicas if b not in reading.registrations]
        if dead:
            path = TopicZnode.path(view.topic)
            what = f"adding replicas on brokers that are not alive: {_ids(dead)}"
            broker, file = reading.to_start(dead)
            evidence = Evidence(reading.at(path), what)
            yield Place(evidence, view.topic, view.partition, path, broker, file)


def zombie_order(reading: ClusterReading) -> Iterator[Place]:
    if reading.ordered_moves is None or reading.ordered_moves_age_s <= reading.patience_s:
        return
    path = reading.at(ReassignPartitionsZnode.PATH)
    moving = {
        (view.topic, view.partition)
        for view in reading.partitions
        if view.assignment.adding_replicas or view.assignment.removing_replicas
    }
    for topic, partition in reading.ordered_moves:
        if (topic, partition) not in moving:
            what = f"{topic}-{partition} is ordered there, and is not being moved"
            yield Place(Evidence(path, what), topic, partition)


def throttle_left(reading: ClusterReading) -> Iterator[Place]:
    """R04: replication throttles that a move set, while no move is in progress.

    A throttled replica list of ``*`` was not set by a move, so all throttles are then left alone.
    """
    standing = [
        (ConfigZnode.topic_path(topic), topic, None, key, config[key])
        for topic, config in reading.topic_configs.items()
        for key in TOPIC_KEYS
        if config.get(key)
    ] + [
        (ConfigZnode.broker_path(broker), None, broker, key, config[key])
        for broker, config in reading.broker_configs.items()
        for key in (LEADER_RATE, FOLLOWER_RATE)
        if key in config
    ]
    if any(value.strip() == EVERY_REPLICA for *_, value in standing) or _is_moving(reading):
        return
    for path, topic, broker, key, value in standing:
        if reading.config_ages_s.get(path, 0.0) > reading.patience_s:
            evidence = Evidence(reading.at(path), f"{key}={value}")
            yield Place(evidence, topic, path=path, broker=broker)


def _is_moving(reading: ClusterReading) -> bool:
    return bool(reading.ordered_moves) or any(
        view.assignment.adding_replicas or view.assignment.removing_replicas
        for view in reading.partitions
    )


def stuck_deletion(reading: ClusterReading) -> Iterator[Place]:
    marked: dict[str, list[PartitionView]] = defaultdict(list)
    for view in reading.partitions:
        if view.topic in reading.deletions:
            marked[view.topic].append(view)
    for topic, age_s in reading.deletions.items():
        if age_s <= reading.patience_s:
            continue
        blockers = blockers_in_znodes(topic, marked[topic], reading.registrations.keys())
        causes = "; ".join(blocker.what for blocker in blockers) or NOTHING_VISIBLE
        what = f"waits for {age_s:.0f} s: {causes}"
        path = DeleteTopicZnode.path(topic)
        dead = [each.broker_id for each in blockers if each.broker_id is not None]
        broker, file = reading.to_start(dead)
        yield Place(Evidence(reading.at(path), what), topic, None, path, broker, file)


# Notifications, sizes, settings.


def old_notifications(reading: ClusterReading) -> Iterator[Place]:
    for path, age_s in reading.notifications.items():
        if age_s > reading.patience_s:
            yield Place(Evidence(reading.at(path), f"is {age_s:.0f} s old"))


def large_znodes(reading: ClusterReading) -> Iterator[Place]:
    for path, size in reading.znode_bytes.items():
        if size > LARGE_ZNODE_BYTES:
            what = f"{size:,} bytes; ZooKeeper takes 1,048,575 (jute.maxbuffer)"
            yield Place(Evidence(reading.at(path), what), path=path)


def unclean_allowed(reading: ClusterReading) -> Iterator[Place]:
    key = "unclean.leader.election.enable"
    for topic, config in reading.topic_configs.items():
        if config.get(key) == "true":
            path = reading.at(ConfigZnode.topic_path(topic))
            yield Place(Evidence(path, f"{key}=true"), topic)
    if reading.default_config.get(key) == "true":
        path = reading.at(ConfigZnode.broker_path(None))
        yield Place(Evidence(path, f"{key}=true for all topics without their own"))


# What brokers say.


def per_broker(
    broken: Callable[[BrokerReading, ClusterReading], Iterable[str | Place]], rpc: str
) -> Callable[[ClusterReading], Iterator[Place]]:
    def check(reading: ClusterReading) -> Iterator[Place]:
        for broker in reading.brokers:
            for what in broken(broker, reading):
                if isinstance(what, Place):
                    yield what
                else:
                    where = f"{rpc} of broker {broker.broker_id}"
                    yield Place(Evidence(where, what), broker=broker.broker_id)

    return check


def unreachable(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None and broker.is_asked:
        yield broker.error


def other_cluster(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is None and broker.cluster_id != reading.cluster_id:
        yield f"cluster id {broker.cluster_id}, /cluster/id holds {reading.cluster_id}"


def other_partitions(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    for topic in broker.unknown_topics:
        path = TopicZnode.path(topic)
        what = f"broker {broker.broker_id} does not know the topic"
        yield Place(Evidence(reading.at(path), what), topic, None, path, broker.broker_id)
    for view, cached in broker.differing:
        state = view.state
        assert state is not None, "a partition without state is compared with nothing"
        now = (
            f"leader {state.leader}, epoch {state.leader_epoch}, ISR {_ids(state.in_sync_replicas)}"
        )
        then = f"leader {cached.leader}, epoch {cached.leader_epoch}, ISR {_ids(cached.isr)}"
        place = _at_state(reading, view, f"{now}; broker {broker.broker_id} says {then}")
        yield place


def never_addressed(reading: ClusterReading) -> Iterator[Place]:
    """B04: brokers that have received no UpdateMetadata since they registered.

    The controller has not noticed the registration: it sends nothing, or requests with an older
    broker epoch, which these brokers refuse.
    """
    for broker in reading.brokers:
        age_s = reading.registration_ages_s.get(broker.broker_id, 0.0)
        if broker.error is None and not broker.live_brokers and age_s > reading.patience_s:
            path = BrokerIdZnode.path(broker.broker_id)
            epoch = reading.registrations[broker.broker_id].broker_epoch
            what = f"epoch {epoch}, {age_s:.0f} s old; its Metadata names no broker at all"
            yield Place(Evidence(reading.at(path), what), path=path, broker=broker.broker_id)


def strangers(reading: ClusterReading) -> Iterable[Place]:
    return reading.strangers


def caught_up(reading: ClusterReading) -> Iterator[Place]:
    for view, broker, end in reading.caught_up:
        what = f"broker {broker} is not in sync, and has the log up to {end} as the leader has"
        # With more than two replicas the preferred leader stays first.
        first, *rest = view.assignment.replicas
        order = [first, *rest[1:], rest[0]] if len(rest) > 1 else [*rest, first]
        yield _at_state(reading, view, what)._replace(
            broker=broker, reordered=",".join(map(str, order))
        )


def long_pauses(reading: ClusterReading) -> Iterator[Place]:
    for broker in reading.brokers:
        longest_ms = reading.longest_answers_ms.get(broker.broker_id, 0)
        timeout_ms = broker.session_timeout_ms
        if timeout_ms is not None and longest_ms >= timeout_ms:
            what = f"silent for {longest_ms:,} ms; zookeeper.session.timeout.ms={timeout_ms}"
            where = f"Metadata of broker {broker.broker_id}"
            yield Place(Evidence(where, what), broker=broker.broker_id)


def other_topic_id(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    for topic in reading.topics:
        cached = broker.topic_ids.get(topic.topic)
        if cached is not None and cached != topic.topic_id:
            of_znode = "no topic id" if topic.topic_id is None else f"topic id {topic.topic_id}"
            what = f"{of_znode}; broker {broker.broker_id} says {cached}"
            path = TopicZnode.path(topic.topic)
            evidence = Evidence(reading.at(path), what)
            yield Place(evidence, topic.topic, None, path, broker.broker_id)
    for refused in broker.refused_topics:
        what = f"INCONSISTENT_TOPIC_ID for {refused}, topic id {broker.topic_ids[refused]}"
        evidence = Evidence(f"Fetch of broker {broker.broker_id}", what)
        yield Place(evidence, refused, None, TopicZnode.path(refused), broker.broker_id)


def other_brokers(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None or not broker.live_brokers:
        return  # rules B02 and B04 report it
    missing, extra = unlike_brokers(broker.live_brokers, reading.registrations)
    if missing:
        yield f"does not know the registered brokers {_ids(missing)}"
    if extra:
        yield f"knows brokers that are not registered: {_ids(extra)}"


def stray_logs(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    held = reading.replicas_of(broker.broker_id)
    for log_dir in broker.log_dirs:
        for topic, partition in sorted(log_dir.replicas.keys() - held):
            if topic in reading.deletions:
                continue
            what = f"{log_dir.path} holds {topic}-{partition}, which is not assigned to it"
            where = f"DescribeLogDirs of broker {broker.broker_id}"
            yield Place(Evidence(where, what), topic, partition, broker=broker.broker_id)


def offline_log_dirs(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    for log_dir in broker.log_dirs:
        if log_dir.error is not None:
            yield f"{log_dir.path}: {log_dir.error}"
