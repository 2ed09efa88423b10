"""The rules of the history: possible findings, their severity, and what to do about them.

An id never changes its meaning, because scripts, reports and ``zkctl doctor`` use it.
The letter is the subject: C controllers, B brokers, P partitions, I in-sync replicas,
R reassignments, D deletions, Q requests, S settings, L log directories, Z ZooKeeper, K the logs
themselves.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    CRITICAL = "critical"
    """Records may be lost, or two brokers acted as controller or as leader."""
    ERROR = "error"
    """Requests of clients failed."""
    WARNING = "warning"
    """The cluster was in danger, or worked harder than it should."""
    INFO = "info"
    """No fault; the finding helps to explain the incident."""


class Rule(NamedTuple):
    """One rule: what it finds, what that means, and the next safe step."""

    id: str
    severity: Severity
    title: str
    meaning: str
    next_step: str


RULES: Final = (
    Rule(
        "C02",
        Severity.CRITICAL,
        "Two controllers in one controller epoch, or an epoch that went back",
        "/controller_epoch is the fence that keeps a deposed controller from writing; it must only "
        "ever grow, and each value belongs to one broker.",
        "Look whether /controller_epoch was deleted or restored from a backup, and whether the "
        "logs are of one cluster.",
    ),
    Rule(
        "C03",
        Severity.WARNING,
        "The controller changed more than once within ten minutes",
        "Every change is a failover: all states are read and sent to every broker again.",
        "Find why the tenures ended (zkctl history tenures).",
    ),
    Rule(
        "C07",
        Severity.CRITICAL,
        "A deposed controller went on (zombie controller)",
        "It was paused or cut off, lost its ZooKeeper session, and learnt only afterwards that "
        "another broker had been elected. Since Kafka 2.1 it can no longer write to ZooKeeper.",
        "Look for long pauses of its process (GC, a frozen virtual machine) around the end of its "
        "tenure.",
    ),
    Rule(
        "C08",
        Severity.WARNING,
        "Work of a deposed controller was refused",
        "A broker or ZooKeeper saw a request with an old controller epoch and turned it away: the "
        "fence held.",
        "Compare with C07: the broker that was refused is the one to look at.",
    ),
    Rule(
        "C09",
        Severity.WARNING,
        "The cluster was without a working controller for more than ten seconds",
        "Nobody elected leaders, created topics or noticed dead brokers in that time.",
        "See the phases of the failover, and zookeeper.session.timeout.ms.",
    ),
    Rule(
        "B05",
        Severity.ERROR,
        "A broker died without an ordered stop",
        "Its process ended without a word in its log: kill -9, out of memory, power, or a crash. "
        "Its leaderships moved only when its ZooKeeper session had run out.",
        "Ask the machine: dmesg, the container's exit code, the JVM's hs_err file.",
    ),
    Rule(
        "B06",
        Severity.ERROR,
        "A broker lost its ZooKeeper session while it was running",
        "For the cluster it was dead, although its process lived: paused, cut off, or ZooKeeper "
        "was too slow.",
        "Look for pauses of the process and for the network to ZooKeeper at that time.",
    ),
    Rule(
        "B07",
        Severity.INFO,
        "A broker was stopped in order",
        "Its process ended with a controlled shutdown; B08 tells whether leaderships were left.",
        "Nothing.",
    ),
    Rule(
        "B08",
        Severity.WARNING,
        "An ordered stop could not hand over all leaderships",
        "Every attempt of the controlled shutdown failed; what was still led by the broker was "
        "without a leader afterwards.",
        "Stop brokers one after the other, and wait for full in-sync replicas between them.",
    ),
    Rule(
        "B09",
        Severity.ERROR,
        "A broker's process was paused",
        "It stood still for longer than its ZooKeeper session lasts and then went on: a garbage "
        "collection, a frozen virtual machine, a suspended container. Its session was lost with "
        "it, and what it led had no leader from the beginning of the pause.",
        "Look at the JVM's gc log and at the host around that time; the beginning is known to some "
        "seconds only.",
    ),
    Rule(
        "P01",
        Severity.ERROR,
        "Partitions had no leader",
        "Nobody could write to them or read from them in that time.",
        "See zkctl history outages: each window names its cause, its beginning and when the "
        "controller noticed it.",
    ),
    Rule(
        "P03",
        Severity.CRITICAL,
        "A leader that is not in its own in-sync replicas",
        "The state of the partition contradicts itself.",
        "Compare with ZooKeeper (zkctl history audit).",
    ),
    Rule(
        "P07",
        Severity.CRITICAL,
        "A leader epoch went back",
        "Leader epochs only grow while a topic lives; after a smaller one logs are cut wrongly.",
        "Look whether state znodes were edited or restored by hand.",
    ),
    Rule(
        "P11",
        Severity.CRITICAL,
        "Unclean leader election",
        "The new leader was not in sync: records that only the old leader had are lost, and it "
        "truncates its log when it returns.",
        "Find the producers of these partitions; see unclean.leader.election.enable.",
    ),
    Rule(
        "P12",
        Severity.CRITICAL,
        "Two leaders in one leader epoch",
        "Two brokers led the same partition in the same epoch: their logs may differ without "
        "anybody noticing.",
        "Compare the logs of both replicas before anything is deleted.",
    ),
    Rule(
        "P13",
        Severity.WARNING,
        "State transitions failed",
        "The controller tried to elect a leader or to change a replica and could not.",
        "The fingerprint names the exception; the same partitions usually stand under P01.",
    ),
    Rule(
        "I01",
        Severity.WARNING,
        "Storm of in-sync replica changes",
        "Many in-sync replica sets shrank or grew within a minute.",
        "If one follower is common to them, look at its disk, its network and its pauses.",
    ),
    Rule(
        "I02",
        Severity.ERROR,
        "Partitions had fewer in-sync replicas than min.insync.replicas",
        "They had a leader, and writes with acks=all were refused.",
        "See which brokers were gone in that time (zkctl history isr --changes).",
    ),
    Rule(
        "R01",
        Severity.WARNING,
        "A reassignment did not end",
        "Replicas were still to be copied when the logs ended.",
        "See whether the target brokers live (zkctl reassign status).",
    ),
    Rule(
        "D01",
        Severity.WARNING,
        "The deletion of a topic was blocked or did not end",
        "A replica on a dead broker, or a reassignment, holds a deletion up.",
        "Bring the broker back that is named as the blocker.",
    ),
    Rule(
        "Q01",
        Severity.WARNING,
        "Slow requests of the controller",
        "A broker needed more than a second for a LeaderAndIsr request: leaders take office late.",
        "Look at the disks of that broker and at the number of partitions on it.",
    ),
    Rule(
        "S01",
        Severity.INFO,
        "Unclean leader election is allowed",
        "The controller tried an election that would have taken a replica out of sync.",
        "Switch it off for topics whose records matter.",
    ),
    Rule(
        "L02",
        Severity.ERROR,
        "A log directory failed",
        "A disk was full or broken. All replicas in it went offline; the broker serves the rest, "
        "and halts if there is none.",
        "Look at the disk; a broker reads a directory again when it is restarted.",
    ),
    Rule(
        "Z11",
        Severity.WARNING,
        "ZooKeeper was away",
        "Several brokers lost their connections to it at the same time: it was restarted, or could "
        "not be reached. Without it nothing is elected, created or noticed, and a broker that "
        "finds it again too late has lost its session.",
        "Look at ZooKeeper's own logs for that time.",
    ),
    Rule(
        "Z12",
        Severity.WARNING,
        "A broker lost its connection to ZooKeeper",
        "Only this one: its network, or the server of the ensemble that it was connected to.",
        "Compare with B06: a session that was lost with it is what hurts.",
    ),
    Rule(
        "K01",
        Severity.INFO,
        "Lines that no shape explains",
        "They were kept and counted, but no analysis has used them.",
        "See them with zkctl history rules; a new shape is one line of data.",
    ),
    Rule(
        "K02",
        Severity.WARNING,
        "Clocks of the brokers disagree",
        "Times of different brokers cannot be compared to better than this.",
        "Look at NTP on the brokers named.",
    ),
    Rule(
        "K03",
        Severity.ERROR,
        "The logs are of several clusters",
        "Brokers named different cluster ids, yet their lines were read as one history: tenures, "
        "states and brokers of the same number are mixed up.",
        "Put the logs of each cluster into a folder of its own, or read them apart with --cluster.",
    ),
    Rule(
        "K04",
        Severity.INFO,
        "Files repeat what other files say",
        "A broker prints the lines of server.log on its console as well, or writes "
        "state-changes.jsonl beside state-change.log, and both were read. Each line was counted "
        "once.",
        "Nothing.",
    ),
    Rule(
        "K05",
        Severity.WARNING,
        "Files that were not read, not whole, or not understood",
        "What stands in them is missing in everything that is said here.",
        "Read the problem that is named for each of them; zkctl history ingest lists all files.",
    ),
    Rule(
        "K06",
        Severity.WARNING,
        "Logs of a cluster in KRaft mode",
        "Its controllers are a quorum, whose lines no shape explains: of elections, deaths and "
        "partitions nothing is said here.",
        "Ask the quorum itself: zkctl quorum describe. This history is of clusters with ZooKeeper.",
    ),
)

RULE_BY_ID: Final = {rule.id: rule for rule in RULES}
SEVERITIES: Final = tuple(Severity)


def worst_first(rule_ids: list[str]) -> list[str]:
    """Rule ids sorted by severity, then by id."""
    return sorted(rule_ids, key=lambda id_: (SEVERITIES.index(RULE_BY_ID[id_].severity), id_))
