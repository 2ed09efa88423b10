"""Compares the current findings with those reported before.

Findings change while the logs grow: a tenure begins and ends an hour later, or a rule finds one
more case.  A finding is reported when it is new and each time its content has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafka_history.report.moments import duration

Finding = Mapping[str, Any]
KEYS: Final = (
    "at_ms", "cluster", "finding", "id", "change", "severity", "says", "file", "line",
)  # fmt: skip
SETTLING_MS: Final = 2_000
"""An open window without a leader that is younger than this may be an election in progress."""


class Announcements(NamedTuple):
    """What to report, and everything reported afterwards."""

    rows: list[dict[str, Any]]
    """The findings to report, sorted by time, with the keys :data:`KEYS`."""
    announced: dict[str, str]
    is_held: bool
    """Whether a finding is not reported yet because it may change at once."""


def announce(
    cluster: str | None, found: Finding, announced: Mapping[str, str], *, is_settled: bool
) -> Announcements:
    """The findings of a cluster that are new or have changed.

    ``found``: from :func:`.report.assemble.watched`.  ``announced``: the findings reported before,
    of all clusters, as an earlier call returned them.  ``is_settled``: no more records have come,
    so windows that are still open are reported, too.
    """
    rows: list[dict[str, Any]] = []
    own = f"{cluster} "
    # Findings that are no longer in the window of time need not be remembered.
    after = {key: state for key, state in announced.items() if not key.startswith(own)}
    states = [*_tenures(found), *_windows(found), *_rules(found)]
    waiting = [] if is_settled else [s for s in states if s.is_unsure]
    for state in states:
        if state in waiting:
            continue
        key = f"{own}{state.key}"
        before = announced.get(key)
        after[key] = state.says_now(before)
        if after[key] != before:
            change = "new" if before is None else state.change
            row = {"cluster": cluster, "change": change, **state.row}
            rows.append({name: row[name] for name in KEYS})
    rows.sort(key=lambda row: row["at_ms"] or 0)
    return Announcements(rows, after, bool(waiting))


class _State(NamedTuple):
    """The current content of a finding."""

    key: str
    row: dict[str, Any]
    change: str
    """Value of ``change`` in the row if the finding was reported before."""
    state: str
    """The content by which a change is recognised, unless ``hits`` is set."""
    hits: int | None = None
    is_unsure: bool = False

    def says_now(self, before: str | None) -> str:
        """The content to remember; of a number of hits, the highest so far."""
        if self.hits is None:
            return self.state
        return str(max(self.hits, int(before or 0)))


def _tenures(found: Finding) -> Iterator[_State]:
    for tenure in found["tenures"]:
        is_over = tenure["to_ms"] is not None
        says = f"broker {tenure['broker']} is controller"
        if is_over:
            lasted = duration(tenure["to_ms"] - tenure["from_ms"])
            says = f"broker {tenure['broker']} was controller for {lasted}: {tenure['ended_by']}"
        name = f"epoch {tenure['controller_epoch']}"
        yield _State(
            f"tenure {name} {tenure['broker']}",
            _row(tenure, "tenure", name, says, is_over=is_over),
            "ended" if is_over else "changed",
            says,
        )


def _windows(found: Finding) -> Iterator[_State]:
    end_ms = found["to_ms"] or 0
    for window in found["leaderless"]:
        is_over = window["to_ms"] is not None
        says = f"has no leader: {window['cause']}"
        if is_over:
            lasted = duration(window["to_ms"] - window["from_ms"])
            says = f"had no leader for {lasted}: {window['cause']}"
        name = f"{window['topic']}-{window['partition']}"
        yield _State(
            f"leaderless {name} {window['from_ms']}",
            _row(window, "leaderless", name, says, is_over=is_over),
            "ended" if is_over else "changed",
            says,
            is_unsure=not is_over
            and end_ms - (window["noticed_ms"] or window["from_ms"]) < SETTLING_MS,
        )


def _rules(found: Finding) -> Iterator[_State]:
    for rule in found["rules"]:
        proof = rule["evidence"][-1] if rule["evidence"] else {"file": None, "line": None}
        row = {
            "at_ms": found["to_ms"], "finding": "rule", "id": rule["id"],
            "severity": rule["severity"], "says": f"{rule['title']}: {rule['says']}", **proof,
        }  # fmt: skip
        yield _State(f"rule {rule['id']}", row, "grown", "", hits=rule["count"])


def _row(row: Finding, kind: str, name: str, says: str, *, is_over: bool) -> dict[str, Any]:
    return {
        "at_ms": row["from_ms"],
        "finding": kind,
        "id": name,
        "severity": None,
        "says": says,
        "file": (row["end_file"] if is_over else None) or row["file"],
        "line": (row["end_line"] if is_over else None) or row["line"],
    }
