"""The report as Markdown, for tickets and chats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .moments import clock, counted, duration, moment
from .verdict import ordered

Finding = Mapping[str, Any]
ROWS_SHOWN: Final = 40


def markdown(found: Finding, title: str = "What happened?") -> str:
    """The whole text; ``found``: the mapping of ``report.json``."""
    said = found["verdict"]
    lines = [f"# {title}", "", f"**{_plain(said['headline'])}**", ""]
    lines += [line for sentence in said["sentences"] for line in (_plain(sentence), "")]
    if said["since_ms"] is not None:
        lines += [f"Trouble from {moment(said['since_ms'])} to {moment(said['until_ms'])} UTC.", ""]
    lines += _table(
        "Causes",
        said["causes"],
        ("when (UTC)", lambda row: moment(row["at_ms"])),
        ("what", lambda row: row["says"]),
        ("evidence", _evidence),
    )
    lines += _table(
        "What was ordered",
        ordered(found),
        ("when (UTC)", lambda row: moment(row["at_ms"])),
        ("what", lambda row: row["says"]),
        ("ended", lambda row: clock(row.get("to_ms"))),
        ("evidence", _evidence),
    )
    lines += _table(
        "Rules hit",
        found["rules"],
        ("rule", lambda row: row["id"]),
        ("severity", lambda row: row["severity"]),
        ("finding", lambda row: f"{row['title']} ({row['count']:,}): {row['says']}"),
        ("evidence", lambda row: " ".join(_evidence(proof) for proof in row["evidence"][:3])),
    )
    lines += _table(
        "Controllers",
        found["tenures"],
        ("epoch", lambda row: str(row["controller_epoch"])),
        ("broker", lambda row: str(row["broker"])),
        ("from (UTC)", lambda row: moment(row["from_ms"])),
        ("to", lambda row: clock(row["to_ms"])),
        ("ended by", lambda row: row["ended_by"].replace("_", " ")),
    )
    lines += _table(
        "Brokers",
        found["broker_lives"],
        ("broker", lambda row: str(row["broker"])),
        ("from (UTC)", lambda row: moment(row["from_ms"])),
        ("to", lambda row: moment(row["to_ms"])),
        ("ended by", lambda row: row["ended_by"].replace("_", " ")),
    )
    lines += _table(
        "Unclean elections",
        found["unclean_elections"],
        ("partition", _partition),
        ("when (UTC)", lambda row: moment(row["at_ms"])),
        ("leader", lambda row: str(row["leader"])),
        (
            "records lost",
            lambda row: "not known" if row["lost_records"] is None else f"{row['lost_records']:,}",
        ),
        ("evidence", _evidence),
    )
    lines += _table(
        "Partitions without a leader",
        found["leaderless"],
        ("partition", _partition),
        ("without a leader since (UTC)", lambda row: moment(row["from_ms"])),
        ("noticed", lambda row: clock(row["noticed_ms"])),
        (
            "for",
            lambda row: "open" if row["to_ms"] is None else duration(row["to_ms"] - row["from_ms"]),
        ),
        ("cause", lambda row: row["cause"]),
        ("evidence", _evidence),
    )
    lines.append(
        f"{counted(found['records'], 'record')}, {found['unknown']:,} not understood; "
        f"{moment(found['from_ms'])} to {moment(found['to_ms'])} UTC."
    )
    return "\n".join(lines) + "\n"


def _table(
    title: str, rows: Sequence[Finding], *columns: tuple[str, Callable[[Finding], str]]
) -> list[str]:
    if not rows:
        return []
    lines = [f"## {title}", "", "| " + " | ".join(name for name, _ in columns) + " |"]
    lines.append("|" + "---|" * len(columns))
    lines += [
        "| " + " | ".join(_plain(cell(row)) for _, cell in columns) + " |"
        for row in rows[:ROWS_SHOWN]
    ]
    if len(rows) > ROWS_SHOWN:
        lines += ["", f"{len(rows) - ROWS_SHOWN:,} more."]
    return [*lines, ""]


def _plain(text: str) -> str:
    """The text, escaped so that it cannot break a table or become HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _partition(row: Finding) -> str:
    return f"{row['topic']}-{row['partition']}"


def _evidence(row: Finding) -> str:
    if row.get("file") is None:
        return ""
    return f"`{'/'.join(str(row['file']).split('/')[-2:])}:{row['line']}`"
