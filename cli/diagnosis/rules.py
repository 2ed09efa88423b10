"""What ``zkctl doctor`` looks for: rules over one reading of the cluster, each a pure function.

An id means the same here and in ``zkctl history rules``: what both know, they know by one text
(:data:`~kafka_history.analyses.rules.RULE_BY_ID`), in the present tense here.

A finding names what is wrong, where that stands (a znode with its version, or a request and the
broker that answered it), how many partitions and topics it concerns, and the next safe step.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from kafka_common.model import NO_LEADER
from kafka_history.analyses.rules import RULE_BY_ID, SEVERITIES, Severity
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
from zkcontroller_cli.deletions.blockers import NOTHING_VISIBLE, START_BROKER, blockers_in_znodes
from zkcontroller_cli.diagnosis.ensemble import sick_servers, strained_servers
from zkcontroller_cli.diagnosis.findings import UNCHECKED, Evidence, Finding, Place, row_of
from zkcontroller_cli.diagnosis.looks import (
    changed_too_often,
    epoch_went_back,
    leader_epoch_went_back,
)
from zkcontroller_cli.diagnosis.reading import MIGRATION_PATH, BrokerReading, ClusterReading
from zkcontroller_cli.values.throttles import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    TOPIC_KEYS,
)
from zkcontroller_cli.wire.metadata_answers import unlike_brokers
from zkcontroller_cli.znodes.partitions import PartitionView

LARGE_ZNODE_BYTES: Final = 512 * 1024
"""Half of ZooKeeper's ``jute.maxbuffer``: a larger znode is soon refused."""
MOST_LOOKS: Final = 4
SHOWN_EVIDENCE: Final = 5
"""So many places of one finding are shown by ``-o table``; the other formats have them all."""


class Needs(StrEnum):
    """What a rule is checked by."""

    ZOOKEEPER = "ZooKeeper"
    BROKERS = "brokers"
    EARLIER = "an earlier look"
    SERVERS = "ZooKeeper's servers"


class DoctorRule(NamedTuple):
    """One rule: what it finds, and what to do then.

    ``commands`` are ``next_step`` as a command line: of several, the first for which a place has
    what it names (``{topic}``, ``{partition}``, ``{path}``, ``{broker}``, ``{reordered}``, and
    ``{file}``, the server.properties of a dead broker of the local cluster).  It asks before it
    changes anything; the start of a broker needs no question.
    """

    id: str
    severity: Severity
    title: str
    next_step: str
    commands: tuple[str, ...]
    check: Callable[[ClusterReading], Iterable[Place]]
    needs: Needs


def findings(reading: ClusterReading, ignored: Iterable[str] = ()) -> list[Finding]:
    """Everything that is wrong, the worst first; ``ignored`` as :func:`parse_ignored` takes it."""
    skipped = parse_ignored(ignored)
    found = []
    for rule in RULES:
        places = [
            place._replace(is_kraft=reading.is_kraft)
            for place in rule.check(reading)
            if not _is_ignored(skipped, rule.id, place)
        ]
        if places:
            found.append(_finding(rule, places))
    return sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.rule))


def unchecked_rows(reading: ClusterReading, ignored: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows of the rules that are not checked because a question was refused."""
    skipped = {rule for rule, glob in parse_ignored(ignored) if not glob}
    return [
        row_of(
            rule,
            UNCHECKED,
            RULE_OF[rule].title,
            evidence,
            "let zkctl ask this, or leave the rule out",
            f"zkctl doctor --ignore {rule}",
        )
        for rule, evidence in sorted(reading.unchecked.items())
        if evidence and rule not in skipped
    ]


def notes(reading: ClusterReading, ignored: Iterable[str] = ()) -> dict[str, str]:
    """By reason, the rules that are not looked for, or not in full; no question was refused."""
    skipped = {rule for rule, glob in parse_ignored(ignored) if not glob}
    by_rule = dict(reading.notes)
    if reading.earlier is None:
        for rule in RULES:
            if rule.needs is Needs.EARLIER:
                by_rule[rule.id] = "they need --since FILE or --watch"
        by_rule.setdefault("S02", "it sees what is silent in this look; --watch remembers longer")
    if not reading.brokers:
        for rule in RULES:
            if rule.needs is Needs.BROKERS:
                by_rule[rule.id] = "no broker is registered, so none was asked"
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for rule_id, reason in sorted(by_rule.items()):
        if rule_id not in skipped and not reading.unchecked.get(rule_id):
            grouped[reason].append(rule_id)
    return {reason: ", ".join(rules) for reason, rules in grouped.items()}


def without(found: list[Finding], known: Set[tuple[str, ...]]) -> list[Finding]:
    """The findings less every place whose rule and key are in ``known``."""
    return _having(found, lambda place: place not in known)


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
    known = {(each.rule, *place.key) for each in before for place in each.places}
    return _having(after, lambda place: place in known)


def _having(found: list[Finding], keeps: Callable[[tuple[str, ...]], bool]) -> list[Finding]:
    kept = []
    for each in found:
        places = [place for place in each.places if keeps((each.rule, *place.key))]
        if places:
            kept.append(_finding(RULE_OF[each.rule], places))
    return kept


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
    next_step, commands = rule.next_step, rule.commands
    if places[0].is_kraft and rule.id in STEPS_BESIDE_KRAFT:
        next_step, command = STEPS_BESIDE_KRAFT[rule.id]
        commands = (command,)
    return Finding(
        rule.id,
        rule.severity,
        rule.title,
        tuple(places),
        len(partitions),
        len(topics),
        next_step,
        _command(commands, places),
    )


def _command(templates: tuple[str, ...], places: list[Place]) -> str:
    """The first command line for which one of the places has all that it names."""
    for template in templates:
        for place in places:
            values = {
                name: shlex.quote(str(value))
                for name in ("topic", "partition", "path", "broker", "file", "reordered")
                if (value := getattr(place, name)) is not None
            }
            with contextlib.suppress(KeyError):
                return template.format(**values)
    raise AssertionError("the last command names nothing that a place may lack")


# Controllers.


def _controller_znode(reading: ClusterReading) -> Iterator[Place]:
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


def _unanswered_probe(reading: ClusterReading) -> Iterator[Place]:
    if reading.probe is not None:
        yield Place(reading.probe)


def _migration(reading: ClusterReading) -> Iterator[Place]:
    if MIGRATION_PATH in reading.zk_versions and not reading.is_kraft:
        yield Place(
            Evidence(
                reading.at(MIGRATION_PATH),
                "a migration to KRaft was begun, and no KRaft controller rules",
            )
        )


def _epoch_from_the_future(reading: ClusterReading) -> Iterator[Place]:
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
    now, then = reading.copied().of_replicas, reading.before
    for view, missing in reading.slow_moves:
        if not reading.hiding_log_dirs().isdisjoint(missing):
            continue  # unchecked
        what = f"unchanged for {reading.topic_age_s(view.topic):.0f} s"
        what += f", not in sync yet: {_ids(missing)}"
        shown = [
            each for broker in missing if (each := (broker, view.topic, view.partition)) in now
        ]
        if then is not None and shown:
            if any(now[name] > then.of_replicas.get(name, now[name]) for name in shown):
                continue  # it goes on
            seconds = (reading.at_ms - then.at_ms) / 1000
            what += f"; no bytes came to {_ids(broker for broker, *_ in shown)} for {seconds:.0f} s"
        path = reading.at(TopicZnode.path(view.topic))
        yield Place(Evidence(path, what), view.topic, view.partition)


def _dead_target(reading: ClusterReading) -> Iterator[Place]:
    for view in reading.partitions:
        if view.topic in reading.deletions:
            continue  # its move cannot be cancelled: D01 says what helps
        dead = [b for b in view.assignment.adding_replicas if b not in reading.registrations]
        if dead:
            path = TopicZnode.path(view.topic)
            what = f"adding replicas on brokers that are not alive: {_ids(dead)}"
            broker, file = reading.to_start(dead)
            evidence = Evidence(reading.at(path), what)
            yield Place(evidence, view.topic, view.partition, path, broker, file)


def _zombie_order(reading: ClusterReading) -> Iterator[Place]:
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


def _throttle_left(reading: ClusterReading) -> Iterator[Place]:
    """What Kafka's tool and ours set for a move, where no move goes on that could need it.

    A list with ``*`` is no move's own: the rates are then meant to stay.
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


def _stuck_deletion(reading: ClusterReading) -> Iterator[Place]:
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


def _old_notifications(reading: ClusterReading) -> Iterator[Place]:
    for path, age_s in reading.notifications.items():
        if age_s > reading.patience_s:
            yield Place(Evidence(reading.at(path), f"is {age_s:.0f} s old"))


def _large_znodes(reading: ClusterReading) -> Iterator[Place]:
    for path, size in reading.znode_bytes.items():
        if size > LARGE_ZNODE_BYTES:
            what = f"{size:,} bytes; ZooKeeper takes 1,048,575 (jute.maxbuffer)"
            yield Place(Evidence(reading.at(path), what), path=path)


def _unclean_allowed(reading: ClusterReading) -> Iterator[Place]:
    key = "unclean.leader.election.enable"
    for topic, config in reading.topic_configs.items():
        if config.get(key) == "true":
            path = reading.at(ConfigZnode.topic_path(topic))
            yield Place(Evidence(path, f"{key}=true"), topic)
    if reading.default_config.get(key) == "true":
        path = reading.at(ConfigZnode.broker_path(None))
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
                    where = f"{rpc} of broker {broker.broker_id}"
                    yield Place(Evidence(where, what), broker=broker.broker_id)

    return check


def _unreachable(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None and broker.is_asked:
        yield broker.error


def _other_cluster(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is None and broker.cluster_id != reading.cluster_id:
        yield f"cluster id {broker.cluster_id}, /cluster/id holds {reading.cluster_id}"


def _other_partitions(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
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


def _never_addressed(reading: ClusterReading) -> Iterator[Place]:
    """Brokers that have taken no metadata since they registered: the controller does not know.

    Their epoch, the czxid of the znode, is younger than every request of the controller.
    """
    for broker in reading.brokers:
        age_s = reading.registration_ages_s.get(broker.broker_id, 0.0)
        if broker.error is None and not broker.live_brokers and age_s > reading.patience_s:
            path = BrokerIdZnode.path(broker.broker_id)
            epoch = reading.registrations[broker.broker_id].broker_epoch
            what = f"epoch {epoch}, {age_s:.0f} s old; its Metadata names no broker at all"
            yield Place(Evidence(reading.at(path), what), path=path, broker=broker.broker_id)


def _strangers(reading: ClusterReading) -> Iterable[Place]:
    return reading.strangers


def _caught_up(reading: ClusterReading) -> Iterator[Place]:
    for view, broker, end in reading.caught_up:
        what = f"broker {broker} is not in sync, and has the log up to {end} as the leader has"
        # The preferred leader stays, where the partition has more than two replicas.
        first, *rest = view.assignment.replicas
        order = [first, *rest[1:], rest[0]] if len(rest) > 1 else [*rest, first]
        yield _at_state(reading, view, what)._replace(
            broker=broker, reordered=",".join(map(str, order))
        )


def _long_pauses(reading: ClusterReading) -> Iterator[Place]:
    for broker in reading.brokers:
        longest_ms = reading.longest_answers_ms.get(broker.broker_id, 0)
        timeout_ms = broker.session_timeout_ms
        if timeout_ms is not None and longest_ms >= timeout_ms:
            what = f"silent for {longest_ms:,} ms; zookeeper.session.timeout.ms={timeout_ms}"
            where = f"Metadata of broker {broker.broker_id}"
            yield Place(Evidence(where, what), broker=broker.broker_id)


def _other_topic_id(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
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


def _other_brokers(broker: BrokerReading, reading: ClusterReading) -> Iterator[str]:
    if broker.error is not None or not broker.live_brokers:
        return  # B02 and B04 say it
    missing, extra = unlike_brokers(broker.live_brokers, reading.registrations)
    if missing:
        yield f"does not know the registered brokers {_ids(missing)}"
    if extra:
        yield f"knows brokers that are not registered: {_ids(extra)}"


def _stray_logs(broker: BrokerReading, reading: ClusterReading) -> Iterator[Place]:
    held = reading.replicas_of(broker.broker_id)
    for log_dir in broker.log_dirs:
        for topic, partition in sorted(log_dir.replicas.keys() - held):
            if topic in reading.deletions:
                continue
            what = f"{log_dir.path} holds {topic}-{partition}, which is not assigned to it"
            where = f"DescribeLogDirs of broker {broker.broker_id}"
            yield Place(Evidence(where, what), topic, partition, broker=broker.broker_id)


def _offline_log_dirs(broker: BrokerReading, _reading: ClusterReading) -> Iterator[str]:
    for log_dir in broker.log_dirs:
        if log_dir.error is not None:
            yield f"{log_dir.path}: {log_dir.error}"


def _shared(id_: str, title: str | None = None) -> tuple[str, Severity, str]:
    """A rule of the history; ``title`` is its own in the present tense where that differs."""
    rule = RULE_BY_ID[id_]
    return id_, rule.severity, title or rule.title


_CRITICAL, _ERROR, _WARNING, _INFO = Severity

_NEXT_ACTIVE: Final = (
    "a KRaft controller holds /controller, and sends every broker everything when it becomes the "
    "active one: stop the active one, and the quorum elects another"
)

STEPS_BESIDE_KRAFT: Final = {
    **dict.fromkeys(("C01", "B04", "M01", "M03"), (_NEXT_ACTIVE, "zkctl controller show")),
    "P10": (
        "the leader's change of the ISR does not get through: give the replicas another order, "
        "which raises the leader epoch",
        "zkctl reassign start {topic}-{partition}:{reordered}",
    ),
    "R03": (
        "a KRaft controller holds /controller, and reads no orders there: order them by "
        "zkctl reassign start",
        "zkctl reassign status",
    ),
    "N01": (
        "a KRaft controller holds /controller, and reads no notifications there; L02 names the log "
        "directories that failed",
        "zkctl controller show",
    ),
}
"""The next step and its command where a KRaft controller holds ``/controller``.

No broker can be elected then, so this stands for the steps of rules that would elect one.  Only a
controller among brokers reads orders and notifications in ZooKeeper (``KafkaController``).
"""

_START: Final = "zkctl broker start {file} --detach"

RULES: Final = (
    DoctorRule(
        "C01",
        _CRITICAL,
        "The controller that /controller names does not answer",
        "let another broker take over; then look at that broker's process",
        ("zkctl controller elect",),
        _unanswered_probe,
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("C02"),
        "look whether /controller_epoch was deleted or restored from a backup",
        ("zkctl znode get /controller_epoch",),
        epoch_went_back,
        Needs.EARLIER,
    ),
    DoctorRule(
        *_shared("C03"),
        "find why: zkctl history tenures shows it from the brokers' logs",
        ("zkctl controller show",),
        changed_too_often,
        Needs.EARLIER,
    ),
    DoctorRule(
        "C04",
        _CRITICAL,
        "There is no controller that can be read",
        "if the znode is corrupt or its broker is gone, delete it: the brokers elect a controller",
        ("zkctl controller show",),
        _controller_znode,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "C05",
        _WARNING,
        "Remnants of a migration to KRaft",
        "look whether a migration is running; delete /migration if none is",
        ("zkctl znode get /migration",),
        _migration,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "C06",
        _CRITICAL,
        "A partition's state is of a later controller than /controller_epoch knows",
        "look at /controller_epoch: was it deleted, or restored from a backup?",
        ("zkctl znode get /controller_epoch",),
        _epoch_from_the_future,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "B01",
        _ERROR,
        "A broker answers, and is not registered",
        "restart that broker's process: then it registers; its clients see what is no longer true",
        ("zkctl broker list",),
        _strangers,
        Needs.BROKERS,
    ),
    DoctorRule(
        "B02",
        _ERROR,
        "A registered broker does not answer",
        "look at that broker's process and listener; its session is alive, so its partitions stay",
        ("zkctl broker describe {broker}",),
        _per_broker(_unreachable, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "B03",
        _CRITICAL,
        "A broker belongs to another cluster",
        "look at that address: another cluster's broker listens where this one's is registered",
        ("zkctl broker describe {broker}",),
        _per_broker(_other_cluster, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "B04",
        _ERROR,
        "A broker has taken nothing from the controller since it registered",
        "let another broker take over: the next controller sends every broker everything",
        ("zkctl controller elect",),
        _never_addressed,
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("P01", "Partitions have no leader"),
        "start a broker that was in sync; only if none returns, elect uncleanly and lose records",
        (_START, "zkctl partition elect {topic}-{partition} --unclean --dry-run"),
        _without_leader,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P02",
        _ERROR,
        "Partitions are led by a broker that is not registered",
        "look again in a minute; if it stays, the controller does not act: see C01",
        ("zkctl controller show",),
        _states(_dead_leader),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        *_shared("P03"),
        "look at the state: was it edited or restored by hand?",
        ("zkctl znode get {path}",),
        _states(_leader_out_of_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P04",
        _CRITICAL,
        "Replicas in sync that are not assigned",
        "look at the state and at the topic's znode: was one of them edited by hand?",
        ("zkctl znode get {path}",),
        _states(_stranger_in_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P05",
        _CRITICAL,
        "Partitions with no replica in sync",
        "look at the state: Kafka never writes an empty list",
        ("zkctl znode get {path}",),
        _states(_none_in_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P06",
        _ERROR,
        "Partitions at or below min.insync.replicas",
        "bring the missing replicas back",
        (_START, "zkctl partition list --under-replicated"),
        _states(_min_in_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P14",
        _WARNING,
        "Under-replicated partitions",
        "bring the missing replicas back",
        (_START, "zkctl partition list --under-replicated"),
        _states(_under_replicated),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        *_shared("P07"),
        "look at the state: was it edited or restored by hand?",
        ("zkctl znode get {path}",),
        leader_epoch_went_back,
        Needs.EARLIER,
    ),
    DoctorRule(
        "P08",
        _WARNING,
        "Replicas on fewer racks than possible",
        "move replicas with zkctl reassign start, which checks and asks first",
        ("zkctl topic describe {topic}",),
        _states(_racks),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P09",
        _INFO,
        "Partitions that their preferred leader does not lead",
        "give the leaderships back; the command shows which",
        ("zkctl partition elect --all --dry-run",),
        _states(_not_preferred),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P10",
        _WARNING,
        "Replicas that have the whole log, and are not taken in sync",
        "the leader's change of the ISR does not get through: give the replicas another order, "
        "which raises the leader epoch; where the controller does not answer, elect another one "
        "first",
        ("zkctl reassign start {topic}-{partition}:{reordered}",),
        _caught_up,
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("R01", "Reassignments without progress"),
        "look at the brokers that are not in sync yet",
        ("zkctl reassign status",),
        _reassignment_without_progress,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "R02",
        _ERROR,
        "Reassignments to brokers that are not alive",
        "start that broker, or call the move off",
        (_START, "zkctl reassign cancel {topic}-{partition}"),
        _dead_target,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "R03",
        _WARNING,
        "Orders in /admin/reassign_partitions that nothing comes of",
        "the next controller reads the orders again",
        ("zkctl controller elect",),
        _zombie_order,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "R04",
        _WARNING,
        "Throttles of moves that have ended",
        "take them away, so that replicas that fall behind can catch up",
        (
            f"zkctl config unset topic {{topic}} --key {LEADER_REPLICAS} --key {FOLLOWER_REPLICAS}",
            f"zkctl config unset broker {{broker}} --key {LEADER_RATE} --key {FOLLOWER_RATE}",
        ),
        _throttle_left,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        *_shared("D01", "Deletions that do not end"),
        f"{START_BROKER}; zkctl deletion status names all that holds the deletion up",
        (_START, "zkctl deletion status {topic}"),
        _stuck_deletion,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "N01",
        _WARNING,
        "Notifications that nothing has taken away",
        "where C01 or C04 is found no controller works, else it has missed them; the next one "
        "clears them",
        ("zkctl controller elect",),
        _old_notifications,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "Z01",
        _WARNING,
        "Znodes near the limit of ZooKeeper",
        "split what stands there (fewer partitions in one topic, fewer moves at once)",
        ("zkctl znode get {path}",),
        _large_znodes,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "Z02",
        _ERROR,
        "A ZooKeeper server is down, without a quorum, or behind",
        "look at that server's process and its log; two servers of three must stay up",
        ("zkctl doctor --watch 10",),
        sick_servers,
        Needs.SERVERS,
    ),
    DoctorRule(
        "Z03",
        _WARNING,
        "A ZooKeeper server is slow or nearly full, or a session has no connection",
        "look at the load and the disk of that server; or at the broker whose session it is",
        ("zkctl doctor --watch 10",),
        strained_servers,
        Needs.SERVERS,
    ),
    DoctorRule(
        *_shared("S01"),
        "forbid it, unless the topic shall lose records rather than wait; --dry-run only shows it",
        (
            "zkctl config unset topic {topic} --key unclean.leader.election.enable --dry-run",
            "zkctl config unset broker --default --key unclean.leader.election.enable --dry-run",
        ),
        _unclean_allowed,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "S02",
        _WARNING,
        "A broker was silent for longer than its ZooKeeper session may last",
        "find the pause (GC log, a frozen machine), or raise the session timeout",
        ("zkctl config get broker {broker} --key zookeeper.session.timeout.ms",),
        _long_pauses,
        Needs.BROKERS,
    ),
    DoctorRule(
        "M01",
        _ERROR,
        "A broker's metadata differs from ZooKeeper",
        "look again; if it stays, the next controller sends every broker everything",
        ("zkctl controller elect",),
        _per_broker(_other_partitions, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "M02",
        _CRITICAL,
        "A broker knows another topic under this name",
        "restart that broker: it missed that the topic was deleted and created again; but where "
        "the znode has no id, or brokers refuse its id, write theirs into it (it stands in their "
        "partition.metadata), and elect a controller if one was elected since",
        ("zkctl broker describe {broker}",),
        _per_broker(_other_topic_id, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "M03",
        _ERROR,
        "A broker knows other brokers than are registered",
        "look again; if it stays, the next controller sends every broker everything",
        ("zkctl controller elect",),
        _per_broker(_other_brokers, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "L01",
        _WARNING,
        "Log directories with replicas that are not assigned",
        "compare with the assignments before anything is deleted",
        ("zkctl log-dirs strays {broker}",),
        _per_broker(_stray_logs, "DescribeLogDirs"),
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("L02", "Log directories that failed"),
        "look at the disk; the broker must be restarted to use the directory again",
        ("zkctl log-dirs sizes {broker}",),
        _per_broker(_offline_log_dirs, "DescribeLogDirs"),
        Needs.BROKERS,
    ),
)

RULE_OF: Final = {rule.id: rule for rule in RULES}
