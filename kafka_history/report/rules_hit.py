"""Which rules the findings break: pure, from the mapping of :mod:`.assemble`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kafka_history.analyses.rules import RULE_BY_ID, worst_first
from kafka_history.rules.totals import CLUSTER_SIGN

from .moments import counted, duration, moment

Finding = Mapping[str, Any]
Hit = tuple[int, str, Iterable[Finding]]
"""The number of hits, a text about them, and the rows with the evidence."""

EVIDENCE_MAX: Final = 10
MANY_CHANGES_MS: Final = 600_000
NO_CONTROLLER_MS: Final = 10_000
_QUORUM_LOGGERS: Final = ("org.apache.kafka.raft.", "org.apache.kafka.controller.")
"""How loggers of a node in KRaft mode begin; a broker with ZooKeeper has none of them."""


def rules_hit(found: Finding) -> list[dict[str, Any]]:
    """Finds the rules that the findings break, the worst first.

    Each has ``id``, ``severity``, ``title``, ``count``, ``says``, ``meaning``, ``next_step`` and
    ``evidence`` (a list of ``file`` and ``line``; at most :data:`EVIDENCE_MAX`).
    """
    hits: dict[str, Hit] = {}
    for rule_id, check in _CHECKS.items():
        count, says, rows = check(found)
        if count:
            hits[rule_id] = (count, says, rows)
    return [_row(rule_id, *hits[rule_id]) for rule_id in worst_first(list(hits))]


def _row(rule_id: str, count: int, says: str, rows: Iterable[Finding]) -> dict[str, Any]:
    rule = RULE_BY_ID[rule_id]
    evidence: list[dict[str, Any]] = []
    for row in rows:
        proof = {"file": row.get("file"), "line": row.get("line")}
        if proof["file"] is not None and proof not in evidence:
            evidence.append(proof)
        if len(evidence) == EVIDENCE_MAX:
            break
    return {
        "id": rule.id,
        "severity": rule.severity.value,
        "title": rule.title,
        "count": count,
        "says": says,
        "meaning": rule.meaning,
        "next_step": rule.next_step,
        "evidence": evidence,
    }


def _all(rows: Sequence[Finding], says: str) -> Hit:
    return len(rows), says, rows


def _invariant(rule_id: str) -> Callable[[Finding], Hit]:
    def check(found: Finding) -> Hit:
        rows = [row for row in found["invariants"] if row["rule"] == rule_id]
        first = rows[0]["says"] if rows else ""
        of = f"{rows[0]['topic']}-{rows[0]['partition']}: " if rows and rows[0]["topic"] else ""
        return _all(rows, f"first: {of}{first}")

    return check


def _many_changes(found: Finding) -> Hit:
    tenures = found["tenures"]
    near = [
        later
        for earlier, later in zip(tenures, tenures[2:], strict=False)
        if later["from_ms"] - earlier["from_ms"] <= MANY_CHANGES_MS
    ]
    return _all(near, f"{counted(len(tenures), 'tenure')} in these logs")


def _zombies(found: Finding) -> Hit:
    said = "; ".join(
        f"broker {row['broker']} (epoch {row['controller_epoch']}) went on for "
        f"{duration(row['overlap_ms'])} after broker {row['successor']} was elected"
        for row in found["zombies"][:3]
    )
    return _all(found["zombies"], said)


def _refusals(found: Finding) -> Hit:
    rows = found["refusals"]
    total = sum(row["count"] for row in rows)
    return total, f"{counted(total, 'line')} about an old controller epoch", rows


def _no_controller(found: Finding) -> Hit:
    gaps = []
    for earlier, later in zip(found["tenures"], found["tenures"][1:], strict=False):
        gone_ms = _last_sign(found, earlier)
        ready_ms = later["ready_ms"] or later["from_ms"]
        if ready_ms - gone_ms >= NO_CONTROLLER_MS:
            gaps.append((ready_ms - gone_ms, later))
    longest = max((gap for gap, _ in gaps), default=0)
    return len(gaps), f"longest: {duration(longest)}", [row for _, row in gaps]


def _last_sign(found: Finding, tenure: Finding) -> int:
    """When a controller stopped working: at its death or pause, else at the end of its tenure."""
    end_ms: int = tenure["to_ms"] or tenure["from_ms"]
    deaths = [
        life["to_ms"]
        for life in found["broker_lives"]
        if life["broker"] == tenure["broker"]
        and life["to_ms"] is not None
        and tenure["from_ms"] <= life["to_ms"] <= end_ms
    ]
    pauses = [
        pause["from_ms"]
        for pause in found["pauses"]
        if pause["broker"] == tenure["broker"] and tenure["from_ms"] <= pause["from_ms"] <= end_ms
    ]
    return max(deaths + pauses[-1:], default=end_ms)


def _deaths(found: Finding) -> Hit:
    rows = _ended(found, "killed", "lost")
    said = ", ".join(f"broker {row['broker']} at {moment(row['to_ms'])}" for row in rows[:5])
    return len(rows), said, [_end_of(row) for row in rows]


def _stops(found: Finding) -> Hit:
    rows = _ended(found, "clean_shutdown")
    said = ", ".join(f"broker {row['broker']} at {moment(row['to_ms'])}" for row in rows[:5])
    return len(rows), said, [_end_of(row) for row in rows]


def _ended(found: Finding, *how: str) -> list[Finding]:
    """The lives with one of these values of ``ended_by``, in the order of their ends."""
    lives = [life for life in found["broker_lives"] if life["ended_by"] in how]
    return sorted(lives, key=lambda life: (life["to_ms"], life["broker"]))


def _end_of(row: Finding) -> Finding:
    return {"file": row["end_file"] or row["file"], "line": row["end_line"] or row["line"]}


def _pauses(found: Finding) -> Hit:
    rows = found["pauses"]
    said = ", ".join(
        f"broker {row['broker']} for about {duration(row['to_ms'] - row['from_ms'])} from "
        f"{moment(row['from_ms'])} on"
        for row in rows[:5]
    )
    return _all(rows, said)


def _expiries(found: Finding) -> Hit:
    rows = [row for row in found["session_expiries"] if row["paused_ms"] is None]
    said = ", ".join(f"broker {row['broker']} at {moment(row['at_ms'])}" for row in rows[:5])
    return _all(rows, said)


def _leaderless(found: Finding) -> Hit:
    sums = found["leaderless_summary"]
    said = (
        f"{counted(sums['partitions'], 'partition')}, {sums['partition_seconds'] or 0:.1f} "
        f"partition-seconds, longest {duration(sums['max_ms'])}, noticed up to "
        f"{duration(sums['noticed_after_ms'])} after it began, {sums['open']} still open"
    )
    return sums["windows"], said, found["leaderless"]


def _unclean(found: Finding) -> Hit:
    rows = found["unclean_elections"]
    lost = sum(row["lost_records"] or 0 for row in rows)
    known = sum(row["lost_records"] is not None for row in rows)
    said = (
        f"{counted(len(rows), 'election')}; {counted(lost, 'record')} known to be lost in {known}"
    )
    return _all(rows, said)


def _failed(found: Finding) -> Hit:
    rows = found["failed_transitions"]
    total = sum(row["count"] for row in rows)
    first = rows[0] if rows else {}
    return total, f"most often: {first.get('sample') or first.get('kind')}", rows


def _storms(found: Finding) -> Hit:
    rows = found["isr_changes"]["storms"]
    common = sorted({row["common_follower"] for row in rows} - {None})
    who = f"; common follower: {', '.join(map(str, common))}" if common else ""
    return len(rows), f"{sum(row['shrinks'] for row in rows)} shrinks{who}", rows


def _reassignments(found: Finding) -> Hit:
    rows = [row for row in found["reassignments"] if row["to_ms"] is None]
    said = ", ".join(f"{row['topic']}-{row['partition']}" for row in rows[:5])
    return _all(rows, said)


def _deletions(found: Finding) -> Hit:
    rows = [row for row in found["deletions"] if row["to_ms"] is None or row["halts"]]
    said = "; ".join(f"{row['topic']}: {row['blocked_by'] or 'did not end'}" for row in rows[:3])
    return _all(rows, said)


def _slow(found: Finding) -> Hit:
    rows = [row for row in found["requests"] if row["slow"]]
    worst = max((row["max_ms"] for row in rows), default=0)
    return sum(row["slow"] for row in rows), f"slowest: {duration(worst)}", rows


def _sign(name: str) -> Callable[[Finding], Hit]:
    def check(found: Finding) -> Hit:
        rows = [row for row in found["signs"] if row["sign"] == name]
        brokers = ", ".join(str(row["broker"]) for row in rows)
        return sum(row["count"] for row in rows), f"seen by broker {brokers}", rows

    return check


def _unknown(found: Finding) -> Hit:
    rows = found["unknown_lines"]
    said = ""
    if rows:
        share = f"{found['unknown']:,} of {counted(found['records'], 'record')}"
        said = f"{share}; first: {rows[0]['text']}"
    return found["unknown"], said, rows


def quorum_lines(found: Finding) -> list[dict[str, Any]]:
    """The unknown lines of nodes in KRaft mode, by logger and level."""
    rows = found["unknown_lines"]
    return [row for row in rows if (row["logger"] or "").startswith(_QUORUM_LOGGERS)]


def _quorum(found: Finding) -> Hit:
    rows = quorum_lines(found)
    return sum(row["count"] for row in rows), f"first: {rows[0]['text']}" if rows else "", rows


def _skew(found: Finding) -> Hit:
    rows = [row for row in found.get("clock_skew", ()) if row["is_doubtful"]]
    said = ", ".join(
        f"broker {row['broker']}: {row['skew_ms']} ms ahead of broker {row['controller']}"
        for row in rows[:5]
    )
    return len(rows), said, rows


def _clusters(found: Finding) -> Hit:
    rows = [row for row in found["signs"] if row["sign"].startswith(CLUSTER_SIGN)]
    ids = sorted({row["sign"].removeprefix(CLUSTER_SIGN) for row in rows})
    return len(ids) if len(ids) > 1 else 0, ", ".join(ids[:5]), rows


def _directories(found: Finding) -> Hit:
    rows = found["log_dir_failures"]
    said = "; ".join(
        f"{row['dir']} of broker {row['broker']} at {moment(row['at_ms'])}"
        f"{reason_of(row)}: {counted(len(row['partitions']), 'partition')} offline there"
        for row in rows[:3]
    )
    return _all(rows, said)


def reason_of(failure: Finding) -> str:
    """Why a log directory failed, in parentheses; empty if the logs do not contain it."""
    return f" ({failure['reason']})" if failure["reason"] else ""


def _gaps(is_all: bool) -> Callable[[Finding], Hit]:
    def check(found: Finding) -> Hit:
        rows = [row for row in found["zookeeper_gaps"] if row["is_all"] == is_all]
        said = "; ".join(
            f"from {moment(row['from_ms'])} on for {_lasted(row, found)}, brokers "
            f"{', '.join(map(str, row['brokers']))}, "
            f"{counted(row['sessions_lost'], 'session')} lost"
            for row in rows[:3]
        )
        return _all(rows, said)

    return check


def _lasted(row: Finding, found: Finding) -> str:
    if row["to_ms"] is None:
        return f"{duration(found['to_ms'] - row['from_ms'])}, until the logs end"
    return duration(row["to_ms"] - row["from_ms"])


def _under_min_isr(found: Finding) -> Hit:
    rows = found["under_min_isr"]
    refused = sum(row["refused"] for row in rows)
    said = "; ".join(
        f"{row['topic']}-{row['partition']} from {moment(row['from_ms'])} on for "
        f"{_lasted(row, found)}"
        for row in rows[:3]
    )
    return _all(rows, f"{said}; {counted(refused, 'write')} known to be refused")


def _files(found: Finding) -> Hit:
    rows = [{**row, "line": 1} for row in found["files"]]
    return len(rows), "; ".join(f"{row['file']}: {row['problem']}" for row in rows[:3]), rows


def _copies(found: Finding) -> Hit:
    rows = found["copies"]
    said = ", ".join(
        f"{counted(row['records'], 'record')} of {row['file']} in {row['of']}" for row in rows[:3]
    )
    return len(rows), said, rows


_CHECKS: Final[Mapping[str, Callable[[Finding], Hit]]] = {
    "C02": _invariant("C02"),
    "C03": _many_changes,
    "C07": _zombies,
    "C08": _refusals,
    "C09": _no_controller,
    "B05": _deaths,
    "B06": _expiries,
    "B07": _stops,
    "B08": _sign("shutdown-unclean"),
    "B09": _pauses,
    "P01": _leaderless,
    "P03": _invariant("P03"),
    "P07": _invariant("P07"),
    "P11": _unclean,
    "P12": _invariant("P12"),
    "P13": _failed,
    "I01": _storms,
    "I02": _under_min_isr,
    "R01": _reassignments,
    "D01": _deletions,
    "Q01": _slow,
    "S01": _sign("unclean-enabled"),
    "L02": _directories,
    "Z11": _gaps(True),
    "Z12": _gaps(False),
    "K01": _unknown,
    "K02": _skew,
    "K03": _clusters,
    "K04": _copies,
    "K05": _files,
    "K06": _quorum,
}
