"""What happened, in words: since when, which partitions were affected, and the probable causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .moments import clock, counted, duration, moment
from .rules_hit import quorum_lines, reason_of

Finding = Mapping[str, Any]

CAUSES_MAX: Final = 12
ORDERED_MAX: Final = 200
ORDERED: Final = ("clean_shutdown", "controller_moved")
"""The values of ``how`` that an operator causes on purpose."""
NAMES_MAX: Final = 8
GAPS_MAX: Final = 4
"""Most ZooKeeper gaps, and most failed log directories, that get a sentence of their own."""
_HOW: Final = {
    "killed": "died without an ordered stop",
    "lost": "went away",
    "clean_shutdown": "was stopped in order",
    "paused": "was paused, and lost its ZooKeeper session",
    "log_dir_failed": "lost a log directory",
    "session_expired": "lost its ZooKeeper session while it was running",
}


def verdict(found: Finding) -> dict[str, Any]:
    """Says what happened, as a mapping.

    ``headline``: the most serious sentence.  ``sentences``: the others, by time.  ``since_ms`` and
    ``until_ms``: the time of trouble; None: there was none.  ``hit``: affected ``brokers``,
    ``topics`` and ``partitions``.  ``causes``: the most serious faults, by time, each with
    ``at_ms``, ``says``, ``file`` and ``line``.  ``ordered``: departures that operators caused.
    """
    sentences = _sentences(found)
    causes = _causes(found)
    broken = [cause for cause in causes if cause["how"] not in ORDERED]
    gravest = sorted(broken, key=lambda cause: (-cause["weight"], cause["at_ms"]))[:CAUSES_MAX]
    troubles = [row["from_ms"] for row in found["leaderless"]]
    troubles += [row["at_ms"] for row in found["unclean_elections"]]
    troubles += [row["from_ms"] for row in found["zombies"]]
    troubles += [row["at_ms"] for row in causes if row["is_trouble"]]
    ends = [row["to_ms"] or found["to_ms"] for row in found["leaderless"]]
    topics = sorted({row["topic"] for row in found["leaderless"]})
    brokers = sorted({row["broker"] for row in found["blast_radius"]})
    return {
        "headline": sentences[0].says if sentences else "Nothing went wrong in these logs.",
        "sentences": [each.says for each in sorted(sentences[1:], key=lambda each: each.at_ms)],
        "since_ms": min(troubles, default=None),
        "until_ms": max(ends + troubles, default=None),
        "hit": {
            "brokers": brokers,
            "topics": topics[:NAMES_MAX],
            "topic_count": len(topics),
            "partitions": found["leaderless_summary"]["partitions"],
        },
        "causes": sorted(gravest, key=_by_time),
        "ordered": [cause for cause in causes if cause["how"] in ORDERED][:ORDERED_MAX],
    }


def ordered(found: Finding) -> list[Finding]:
    """All orders of operators by time: topics, elections, reassignments, stops of brokers."""
    return sorted([*found["acts"], *found["verdict"]["ordered"]], key=lambda row: row["at_ms"])


class _Sentence(NamedTuple):
    at_ms: int
    """When the event in the sentence began."""
    says: str


def _sentences(found: Finding) -> list[_Sentence]:
    """All sentences of the verdict, the most serious first."""
    return [*_of_partitions(found), *_of_brokers(found), *_of_the_cluster(found)]


def _of_partitions(found: Finding) -> Iterator[_Sentence]:
    if rows := found["unclean_elections"]:
        lost = sum(row["lost_records"] or 0 for row in rows)
        names = _names([f"{row['topic']}-{row['partition']}" for row in rows])
        tail = f"; at least {counted(lost, 'record')} were lost" if lost else ""
        yield _Sentence(
            rows[0]["at_ms"],
            f"Unclean leader elections in {names}, the first at {moment(rows[0]['at_ms'])}{tail}.",
        )
    if rows := found["zombies"]:
        row = rows[0]
        yield _Sentence(
            row["from_ms"],
            f"Broker {row['broker']} was a zombie controller for {duration(row['overlap_ms'])}: "
            f"broker {row['successor']} had been elected at {clock(row['from_ms'])}.",
        )
    sums = found["leaderless_summary"]
    if sums["windows"]:
        open_ = f"; {counted(sums['open'], 'window')} still open at the end" if sums["open"] else ""
        yield _Sentence(
            min((row["from_ms"] for row in found["leaderless"]), default=found["from_ms"]),
            f"{counted(sums['partitions'], 'partition')} had no leader, "
            f"{sums['partition_seconds']:,.1f} partition-seconds in all, "
            f"{duration(sums['max_ms'])} at the longest{_noticed(sums)}{open_}.",
        )


def _of_brokers(found: Finding) -> Iterator[_Sentence]:
    deaths = [life for life in found["broker_lives"] if life["ended_by"] in {"killed", "lost"}]
    if deaths:
        deaths.sort(key=lambda life: (life["to_ms"], life["broker"]))
        yield _Sentence(
            deaths[0]["to_ms"],
            f"{counted(len(deaths), 'broker process', 'broker processes')} died: "
            + _names([f"broker {life['broker']} at {clock(life['to_ms'])}" for life in deaths])
            + ".",
        )
    if rows := found["pauses"]:
        pauses = [
            f"broker {row['broker']} for about {duration(row['to_ms'] - row['from_ms'])} from "
            f"{clock(row['from_ms'])} on"
            for row in rows
        ]
        yield _Sentence(
            rows[0]["from_ms"],
            f"{counted(len(rows), 'process was', 'processes were')} paused: {_names(pauses)}.",
        )
    if rows := [row for row in found["session_expiries"] if row["paused_ms"] is None]:
        yield _Sentence(
            rows[0]["at_ms"],
            "ZooKeeper sessions were lost by "
            + _names([f"broker {row['broker']} at {clock(row['at_ms'])}" for row in rows])
            + ".",
        )
    for row in found["zookeeper_gaps"][:GAPS_MAX]:
        who = f"brokers {_names(list(map(str, row['brokers'])))}"
        end = (
            "until the logs end"
            if row["to_ms"] is None
            else f"for {duration(row['to_ms'] - row['from_ms'])}"
        )
        what = "ZooKeeper was away" if row["is_all"] else "The connection to ZooKeeper was lost"
        lost = row["sessions_lost"] or "none"
        since = clock(row["from_ms"])
        yield _Sentence(
            row["from_ms"], f"{what} {end} from {since} on ({who}); sessions lost: {lost}."
        )
    for row in found["log_dir_failures"][:GAPS_MAX]:
        offline = counted(len(row["partitions"]), "partition")
        yield _Sentence(
            row["at_ms"],
            f"Log directory {row['dir']} of broker {row['broker']} failed at "
            f"{clock(row['at_ms'])}{reason_of(row)}; {offline} went offline there: "
            f"{_names(row['partitions']) or 'none known'}"
            f"{'; it was the last one: the broker halted' if row['is_last'] else ''}.",
        )


def _of_the_cluster(found: Finding) -> Iterator[_Sentence]:
    if quorum_lines(found):
        yield _Sentence(
            found["from_ms"],
            "Some lines are of a cluster in KRaft mode: what its quorum did is not in this report.",
        )
    if rows := found["under_min_isr"]:
        names = _names([f"{row['topic']}-{row['partition']}" for row in rows])
        refused = sum(row["refused"] for row in rows)
        tail = f"; {counted(refused, 'write')} known to be refused" if refused else ""
        yield _Sentence(
            rows[0]["from_ms"],
            f"{names} had fewer in-sync replicas than min.insync.replicas, the first at "
            f"{clock(rows[0]['from_ms'])}{tail}.",
        )
    changes = len(found["tenures"]) - 1
    if changes > 0:
        first_ms = found["tenures"][1]["from_ms"]
        tail = f", the first time at {clock(first_ms)}" if changes > 1 else f" at {clock(first_ms)}"
        yield _Sentence(first_ms, f"The controller changed {counted(changes, 'time')}{tail}.")
    if rows := found["isr_changes"]["storms"]:
        common = sorted({row["common_follower"] for row in rows} - {None})
        tail = f"; broker {_names(list(map(str, common)))} is in most of it" if common else ""
        first = f"the first at {clock(rows[0]['at_ms'])}"
        yield _Sentence(
            rows[0]["at_ms"],
            f"In-sync replicas shrank in {counted(len(rows), 'storm')}, {first}{tail}.",
        )


def _noticed(sums: Finding) -> str:
    late_ms = sums["noticed_after_ms"]
    return f", noticed by the controller up to {duration(late_ms)} later" if late_ms else ""


def _causes(found: Finding) -> list[dict[str, Any]]:
    causes = []
    for row in found["blast_radius"]:
        effects = [
            text
            for number, text in (
                (row["leader_moves"], counted(row["leader_moves"], "leader") + " moved"),
                (row["leaderless"], counted(row["leaderless"], "partition") + " without a leader"),
                (row["isr_shrinks"], counted(row["isr_shrinks"], "ISR") + " shrank"),
                (row["controller_epoch"], "the controller with it"),
            )
            if number
        ]
        then = f": {', '.join(effects)}" if effects else ""
        causes.append(
            {
                "at_ms": row["at_ms"],
                "broker": row["broker"],
                "how": row["how"],
                "is_trouble": row["how"] != "clean_shutdown" or bool(row["leaderless"]),
                "weight": row["leaderless_ms"] + 100 * row["partitions"],
                "says": f"Broker {row['broker']} {_HOW.get(row['how'], row['how'])}{then}.",
                "file": row["file"],
                "line": row["line"],
            }
        )
    causes += [
        {
            "at_ms": tenure["to_ms"],
            "broker": tenure["broker"],
            "how": "controller_moved",
            "is_trouble": False,
            "weight": 0,
            "says": f"/controller was deleted or taken over: broker {tenure['broker']} "
            "ceased to be controller while it was healthy.",
            "file": tenure["end_file"],
            "line": tenure["end_line"],
        }
        for tenure in found["tenures"]
        if tenure["ended_by"] == "controller_moved"
    ]
    return sorted(causes, key=_by_time)


def _by_time(cause: Finding) -> tuple[int, int]:
    return cause["at_ms"], cause["broker"]


def _names(names: list[str]) -> str:
    """``a, b and c``; more than :data:`NAMES_MAX` names are cut."""
    shown = list(dict.fromkeys(names))
    if len(shown) > NAMES_MAX:
        return f"{', '.join(shown[:NAMES_MAX])} and {len(shown) - NAMES_MAX} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
