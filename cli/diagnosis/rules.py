"""What ``zkctl doctor`` looks for: rules over one reading of the cluster, each a pure function.

An id means the same here and in ``zkctl history rules``.  A rule of both takes its title from
:data:`~kafka_history.analyses.rules.RULE_BY_ID`, here in the present tense.

A finding names what is wrong, the evidence (a znode with its version, or a request and the broker
that answered it), how many partitions and topics it concerns, and the next safe step.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from kafka_history.analyses.rules import RULE_BY_ID, SEVERITIES, Severity
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.deletions.blockers import START_BROKER
from zkcontroller_cli.diagnosis import checks
from zkcontroller_cli.diagnosis.ensemble import sick_servers, strained_servers
from zkcontroller_cli.diagnosis.findings import UNCHECKED, Finding, Place, row_of
from zkcontroller_cli.diagnosis.looks import (
    changed_too_often,
    epoch_went_back,
    leader_epoch_went_back,
)
from zkcontroller_cli.diagnosis.reading import ClusterReading
from zkcontroller_cli.values.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)

MOST_LOOKS: Final = 4
SHOWN_EVIDENCE: Final = 5
"""The most places of one finding that ``-o table`` shows; the other formats show all."""


class Needs(StrEnum):
    """What must have been read before a rule can be checked."""

    ZOOKEEPER = "ZooKeeper"
    BROKERS = "brokers"
    EARLIER = "an earlier look"
    SERVERS = "ZooKeeper's servers"


class DoctorRule(NamedTuple):
    """One rule: what it finds, and what to do then.

    ``commands`` are ``next_step`` as command lines with fields: ``{topic}``, ``{partition}``,
    ``{path}``, ``{broker}``, ``{reordered}`` and ``{file}``, the server.properties of a dead broker
    of the local cluster.  The first command whose fields a place can fill is shown.  Each command
    asks before it changes anything, except the start of a broker.
    """

    id: str
    severity: Severity
    title: str
    next_step: str
    commands: tuple[str, ...]
    check: Callable[[ClusterReading], Iterable[Place]]
    needs: Needs


def findings(reading: ClusterReading, ignored: Iterable[str] = ()) -> list[Finding]:
    """All findings, the most severe first, without ``ignored`` (see :func:`parse_ignored`)."""
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
    """One row for each rule that is not checked because a request failed."""
    skipped = {rule for rule, glob in parse_ignored(ignored) if not glob}
    return [
        row_of(
            rule,
            UNCHECKED,
            RULE_OF[rule].title,
            evidence,
            "let zkctl ask this, or leave the rule out",
            command_line("doctor", options=("--ignore", rule)),
        )
        for rule, evidence in sorted(reading.unchecked.items())
        if evidence and rule not in skipped
    ]


def notes(reading: ClusterReading, ignored: Iterable[str] = ()) -> dict[str, str]:
    """By reason, the rules that are not or only partly checked for another cause than an error."""
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
    """The findings without the places whose rule and key are in ``known``."""
    return _having(found, lambda place: place not in known)


def lasting_findings(look: Callable[[], list[Finding]], pause: Callable[[], None]) -> list[Finding]:
    """The findings that the last two looks have in common, without changes in progress.

    Looks again while the last look found something new, at most :data:`MOST_LOOKS` times in all.
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
    """The later findings, with only the places that the earlier ones have too."""
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
    """The first command line whose fields one of the places can fill."""
    for template in templates:
        for place in places:
            values = {
                name: value
                for name in ("topic", "partition", "path", "broker", "file", "reordered")
                if (value := getattr(place, name)) is not None
            }
            with contextlib.suppress(KeyError):
                return _filled(template, values)
    raise AssertionError("the last command names nothing that a place may lack")


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """The command line with its one word that has fields filled; KeyError if a value is missing."""
    for word in template.split():
        if "{" in word:
            verb, _, options = template.removeprefix("zkctl ").partition(word)
            return command_line(verb, word.format_map(values), options=options.split())
    return template


def _shared(id_: str, title: str | None = None) -> tuple[str, Severity, str]:
    """Id, severity and title of a rule that ``zkctl history rules`` has too.

    ``title`` replaces the title of the history by one in the present tense.
    """
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

Then no broker can be elected controller, so these replace the steps of rules that would elect one.
Only a broker as controller reads ``/admin`` and notifications in ZooKeeper (``KafkaController``).
"""

_START: Final = "zkctl broker start {file} --detach"

RULES: Final = (
    DoctorRule(
        "C01",
        _CRITICAL,
        "The controller that /controller names does not answer",
        "let another broker take over; then look at that broker's process",
        ("zkctl controller elect",),
        checks.unanswered_probe,
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
        checks.controller_znode,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "C05",
        _WARNING,
        "Remnants of a migration to KRaft",
        "look whether a migration is running; delete /migration if none is",
        ("zkctl znode get /migration",),
        checks.migration,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "C06",
        _CRITICAL,
        "A partition's state is of a later controller than /controller_epoch knows",
        "look at /controller_epoch: was it deleted, or restored from a backup?",
        ("zkctl znode get /controller_epoch",),
        checks.epoch_from_the_future,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "B01",
        _ERROR,
        "A broker answers, and is not registered",
        "restart that broker's process: then it registers; its clients see what is no longer true",
        ("zkctl broker list",),
        checks.strangers,
        Needs.BROKERS,
    ),
    DoctorRule(
        "B02",
        _ERROR,
        "A registered broker does not answer",
        "look at that broker's process and listener; its session is alive, so its partitions stay",
        ("zkctl broker describe {broker}",),
        checks.per_broker(checks.unreachable, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "B03",
        _CRITICAL,
        "A broker belongs to another cluster",
        "look at that address: another cluster's broker listens where this one's is registered",
        ("zkctl broker describe {broker}",),
        checks.per_broker(checks.other_cluster, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "B04",
        _ERROR,
        "A broker has taken nothing from the controller since it registered",
        "let another broker take over: the next controller sends every broker everything",
        ("zkctl controller elect",),
        checks.never_addressed,
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("P01", "Partitions have no leader"),
        "start a broker that was in sync; only if none returns, elect uncleanly and lose records",
        (_START, "zkctl partition elect {topic}-{partition} --unclean --dry-run"),
        checks.without_leader,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P02",
        _ERROR,
        "Partitions are led by a broker that is not registered",
        "look again in a minute; if it stays, the controller does not act: see C01",
        ("zkctl controller show",),
        checks.states(checks.dead_leader),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        *_shared("P03"),
        "look at the state: was it edited or restored by hand?",
        ("zkctl znode get {path}",),
        checks.states(checks.leader_out_of_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P04",
        _CRITICAL,
        "Replicas in sync that are not assigned",
        "look at the state and at the topic's znode: was one of them edited by hand?",
        ("zkctl znode get {path}",),
        checks.states(checks.stranger_in_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P05",
        _CRITICAL,
        "Partitions with no replica in sync",
        "look at the state: Kafka never writes an empty list",
        ("zkctl znode get {path}",),
        checks.states(checks.none_in_sync),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P06",
        _ERROR,
        "Partitions at or below min.insync.replicas",
        "bring the missing replicas back",
        (_START, "zkctl partition list --under-replicated"),
        checks.min_in_sync,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P14",
        _WARNING,
        "Under-replicated partitions",
        "bring the missing replicas back",
        (_START, "zkctl partition list --under-replicated"),
        checks.states(checks.under_replicated),
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
        checks.states(checks.racks),
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "P09",
        _INFO,
        "Partitions that their preferred leader does not lead",
        "give the leaderships back; the command shows which",
        ("zkctl partition elect --all --dry-run",),
        checks.states(checks.not_preferred),
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
        checks.caught_up,
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("R01", "Reassignments without progress"),
        "look at the brokers that are not in sync yet",
        ("zkctl reassign status",),
        checks.reassignment_without_progress,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "R02",
        _ERROR,
        "Reassignments to brokers that are not alive",
        "start that broker, or call the move off",
        (_START, "zkctl reassign cancel {topic}-{partition}"),
        checks.dead_target,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "R03",
        _WARNING,
        "Orders in /admin/reassign_partitions that nothing comes of",
        "the next controller reads the orders again",
        ("zkctl controller elect",),
        checks.zombie_order,
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
        checks.throttle_left,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        *_shared("D01", "Deletions that do not end"),
        f"{START_BROKER}; zkctl deletion status names all that holds the deletion up",
        (_START, "zkctl deletion status {topic}"),
        checks.stuck_deletion,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "N01",
        _WARNING,
        "Notifications that nothing has taken away",
        "where C01 or C04 is found no controller works, else it has missed them; the next one "
        "clears them",
        ("zkctl controller elect",),
        checks.old_notifications,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "Z01",
        _WARNING,
        "Znodes near the limit of ZooKeeper",
        "split what stands there (fewer partitions in one topic, fewer moves at once)",
        ("zkctl znode get {path}",),
        checks.large_znodes,
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
        checks.unclean_allowed,
        Needs.ZOOKEEPER,
    ),
    DoctorRule(
        "S02",
        _WARNING,
        "A broker was silent for longer than its ZooKeeper session may last",
        "find the pause (GC log, a frozen machine), or raise the session timeout",
        ("zkctl config get broker {broker} --key zookeeper.session.timeout.ms",),
        checks.long_pauses,
        Needs.BROKERS,
    ),
    DoctorRule(
        "M01",
        _ERROR,
        "A broker's metadata differs from ZooKeeper",
        "look again; if it stays, the next controller sends every broker everything",
        ("zkctl controller elect",),
        checks.per_broker(checks.other_partitions, "Metadata"),
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
        checks.per_broker(checks.other_topic_id, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "M03",
        _ERROR,
        "A broker knows other brokers than are registered",
        "look again; if it stays, the next controller sends every broker everything",
        ("zkctl controller elect",),
        checks.per_broker(checks.other_brokers, "Metadata"),
        Needs.BROKERS,
    ),
    DoctorRule(
        "L01",
        _WARNING,
        "Log directories with replicas that are not assigned",
        "compare with the assignments before anything is deleted",
        ("zkctl log-dirs strays {broker}",),
        checks.per_broker(checks.stray_logs, "DescribeLogDirs"),
        Needs.BROKERS,
    ),
    DoctorRule(
        *_shared("L02", "Log directories that failed"),
        "look at the disk; the broker must be restarted to use the directory again",
        ("zkctl log-dirs sizes {broker}",),
        checks.per_broker(checks.offline_log_dirs, "DescribeLogDirs"),
        Needs.BROKERS,
    ),
)

RULE_OF: Final = {rule.id: rule for rule in RULES}
