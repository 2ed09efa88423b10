"""The report as one HTML page: no script, no network, legible on paper and to a screen reader.

Logs may contain hostile text.  So each text that is put into the page is escaped, unless it is
:class:`_Html`, which :func:`_html` and :func:`_joined` return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from .moments import clock, counted, duration, moment
from .verdict import ordered

Finding = Mapping[str, Any]
Cell = Callable[[Finding], object]


class _Html(str):
    """Text that is safe HTML and must not be escaped again."""

    __slots__ = ()


_NOTHING: Final = _Html()
ROWS_SHOWN: Final = 100
"""Most rows of a table on the page; ``report.json`` has more."""
_CSS: Final = _Html("""
:root{color-scheme:light}
body{font:15px/1.5 system-ui,"DejaVu Sans",Arial,sans-serif;color:#20262d;background:#fff;
 max-width:70rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.5rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;
 border-bottom:1px solid #c4cad1;padding-bottom:.2rem}
.small,figcaption{color:#4b5661;font-size:.87rem}
.verdict{border-left:.5rem solid #D55E00;background:#fff6ef;padding:.8rem 1.1rem;margin:1rem 0}
.verdict.calm{border-color:#009E73;background:#effaf6}
.verdict p:first-child{font-size:1.15rem;font-weight:600;margin-top:0}
table{border-collapse:collapse;width:100%;font-size:.87rem;margin:.4rem 0}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid #e3e7eb;
 vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;border-bottom:2px solid #8a949e}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:.85em "DejaVu Sans Mono",Menlo,Consolas,monospace}
figure{margin:.8rem 0 1.4rem}figure svg{width:100%;height:auto}
.tag{display:inline-block;min-width:4.8rem;padding:0 .4rem;border:1px solid #20262d;
 border-radius:.2rem;font-size:.78rem;text-align:center;font-weight:600}
.critical{background:#D55E00;color:#fff}.error{background:#E69F00}.warning{background:#f6e08a}
.info{background:#e3eef7}
details{margin:.3rem 0}summary{cursor:pointer;font-weight:600}
@media print{body{max-width:none;padding:0;font-size:10pt}h2{break-after:avoid}
 figure,tr,.verdict{break-inside:avoid}details{display:block}details>*{display:block}
 .tag{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
""")


def _html(pattern: str, *values: object) -> _Html:
    """The HTML pattern with each ``{}`` replaced by a value, which is escaped if it is not HTML."""
    return _Html(pattern.format(*map(_escaped, values)))


def _joined(values: Iterable[object], between: str = "") -> _Html:
    """The values one after the other; ``between`` is HTML."""
    return _Html(between.join(map(_escaped, values)))


def _escaped(value: object) -> str:
    return value if isinstance(value, _Html) else escape(str(value))


def html(found: Finding, title: str = "What happened?") -> str:
    """The whole page; ``found``: the mapping of ``report.json``."""
    parts = (
        _head(found, title),
        _verdict(found),
        _figures(found),
        _ordered(found),
        _rules(found),
        _controllers(found),
        _brokers(found),
        _partitions(found),
        _topics(found),
        _failures(found),
        _biographies(found),
        _foot(found),
    )
    return _html(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>{}</title><style>{}</style></head>\n<body>\n{}\n"
        "</body></html>\n",
        title, _CSS, _joined((part for part in parts if part), "\n"),
    )  # fmt: skip


def _head(found: Finding, title: str) -> _Html:
    typed = 100 * found["typed"] / found["records"] if found["records"] else 100.0
    facts = [
        f"{counted(found['records'], 'record')} ({typed:.2f} % of them understood)",
        counted(len(found["brokers"]), "broker"),
        f"{moment(found['from_ms'])} to {moment(found['to_ms'])} UTC",
    ]
    if found["kafka_versions"]:
        facts.append("Kafka " + ", ".join(found["kafka_versions"]))
    if found["cluster_ids"]:
        facts.append("cluster " + ", ".join(found["cluster_ids"]))
    return _html('<h1>{}</h1><p class="small">{}</p>', title, " · ".join(facts))


def _verdict(found: Finding) -> _Html:
    said = found["verdict"]
    calm = "" if said["since_ms"] is not None else " calm"
    parts = [_html('<section class="verdict{}" id="verdict"><p>{}</p>', calm, said["headline"])]
    parts += [_html("<p>{}</p>", sentence) for sentence in said["sentences"]]
    if said["since_ms"] is not None:
        hit = said["hit"]
        more = hit["topic_count"] - len(hit["topics"])
        names = ", ".join(hit["topics"]) + (f" and {more} more" if more else "")
        parts.append(
            _html(
                "<p>Trouble from <b>{}</b> to <b>{}</b> UTC; hit: {}{}.</p>",
                moment(said["since_ms"]), moment(said["until_ms"]),
                counted(hit["partitions"], "partition"), f" of {names}" if names else "",
            )
        )  # fmt: skip
    parts.append(_html("</section>"))
    if said["causes"]:
        rows = _table(
            said["causes"],
            ("when (UTC)", lambda row: moment(row["at_ms"])),
            ("probable cause, and what followed", lambda row: row["says"]),
            ("evidence", _evidence),
        )
        parts.append(_html("<h2>Causes</h2>{}", rows))
    return _joined(parts)


def _ordered(found: Finding) -> _Html:
    if not (rows := ordered(found)):
        return _NOTHING
    table = _table(
        rows,
        ("when (UTC)", lambda row: moment(row["at_ms"])),
        ("what", lambda row: row["says"]),
        ("ended", lambda row: clock(row.get("to_ms"))),
        ("evidence", _evidence),
    )
    return _html('<h2 id="acts">What was ordered</h2>{}', table)


def _figures(found: Finding) -> _Html:
    from . import plots  # Matplotlib takes a second to import

    figures = (
        (plots.timeline, "Controllers over the lives of brokers (UTC)."),
        (plots.leaderless_over_time, "Partitions without a leader (UTC)."),
        (plots.isr_heat_map, "Replicas that left in-sync sets, by broker and time (UTC)."),
        (plots.top_partitions, "Partitions that were without a leader longest."),
    )
    drawn = [(draw(found), caption) for draw, caption in figures]
    shown = _joined(
        # Matplotlib escapes the texts in what it draws.
        _html("<figure>{}<figcaption>{}</figcaption></figure>", _Html(svg), caption)
        for svg, caption in drawn
        if svg
    )
    return _html("<h2>Time line</h2>{}", shown) if shown else _NOTHING


def _rules(found: Finding) -> _Html:
    table = _table(
        found["rules"],
        ("rule", lambda row: _html("<code>{}</code>", row["id"])),
        ("", lambda row: _html('<span class="tag {}">{}</span>', *[row["severity"]] * 2)),
        (
            "finding",
            lambda row: _html(
                '<b>{}</b> ({})<br>{}<br><span class="small">{} {}</span>',
                row["title"], f"{row['count']:,}", row["says"], row["meaning"], row["next_step"],
            ),
        ),
        ("evidence", lambda row: _joined(map(_evidence, row["evidence"][:4]), "<br>")),
    )  # fmt: skip
    return _html('<h2 id="rules">Rules hit</h2>{}', table) if found["rules"] else _NOTHING


def _controllers(found: Finding) -> _Html:
    if not found["tenures"]:
        return _NOTHING
    table = _table(
        found["tenures"],
        ("epoch", lambda row: row["controller_epoch"]),
        ("broker", lambda row: row["broker"]),
        ("from (UTC)", lambda row: moment(row["from_ms"])),
        ("to", lambda row: clock(row["to_ms"])),
        ("ended by", lambda row: row["ended_by"].replace("_", " ")),
        ("failover took", _failover),
        ("went on", lambda row: duration(row["overlap_ms"])),
        ("evidence", _evidence),
    )
    steps = _joined(_steps(row) for row in found["tenures"][:ROWS_SHOWN] if row["phases"])
    return _html('<h2 id="tenures">Controllers</h2>{}{}', table, steps)


def _steps(row: Finding) -> _Html:
    table = _table(
        row["phases"],
        ("step", lambda step: step["phase"]),
        ("at", lambda step: clock(step["at_ms"])),
        ("took", lambda step: duration(step["took_ms"])),
    )
    name = f"Failover to broker {row['broker']}, epoch {row['controller_epoch']}"
    return _html("<details><summary>{}</summary>{}</details>", name, table)


def _failover(row: Finding) -> str:
    return duration(row["ready_ms"] - row["from_ms"]) if row["ready_ms"] else "-"


def _brokers(found: Finding) -> _Html:
    if not found["broker_lives"]:
        return _NOTHING
    lives = _table(
        found["broker_lives"],
        ("broker", lambda row: row["broker"]),
        ("from (UTC)", lambda row: moment(row["from_ms"])),
        ("to", lambda row: moment(row["to_ms"])),
        ("ended by", lambda row: row["ended_by"].replace("_", " ")),
        ("broker epoch", lambda row: row["broker_epoch"] or "-"),
        (
            "evidence",
            lambda row: _evidence(
                {"file": row["end_file"] or row["file"], "line": row["end_line"] or row["line"]}
            ),
        ),
    )
    changes = _table(
        found["isr_changes"]["by_broker"],
        ("broker", lambda row: row["broker"]),
        ("left an ISR", lambda row: f"{row['shrinks']:,}"),
        ("came back", lambda row: f"{row['expands']:,}"),
        ("partitions", lambda row: f"{row['partitions']:,}"),
        ("left more than once", lambda row: f"{row['flaps']:,}"),
    )
    requests = _table(
        found["requests"],
        ("broker", lambda row: row["broker"]),
        ("LeaderAndIsr requests", lambda row: f"{row['requests']:,}"),
        ("p50", lambda row: duration(row["p50_ms"])),
        ("p99", lambda row: duration(row["p99_ms"])),
        ("longest", lambda row: duration(row["max_ms"])),
        ("evidence", _evidence),
    )
    parts = [_html('<h2 id="brokers">Brokers</h2>{}', lives)]
    if found["isr_changes"]["by_broker"]:
        parts.append(_html("<h2>In-sync replicas</h2>{}", changes))
    if found["requests"]:
        parts.append(_html("<h2>Requests of the controller</h2>{}", requests))
    return _joined(parts)


def _partitions(found: Finding) -> _Html:
    parts: list[_Html] = []
    if found["unclean_elections"]:
        parts += (
            _html('<h2 id="unclean">Unclean elections</h2>'),
            _table(
                found["unclean_elections"],
                ("partition", _partition),
                ("when (UTC)", lambda row: moment(row["at_ms"])),
                ("new leader", lambda row: row["leader"]),
                ("was in sync", lambda row: _ids(row["last_isr"])),
                ("records lost", _lost),
                ("proof", lambda row: row["proof"]),
                ("evidence", _evidence),
            ),
        )
    if found["leaderless"]:
        parts += (
            _html('<h2 id="leaderless">Partitions without a leader</h2>'),
            _table(
                found["leaderless"],
                ("partition", _partition),
                ("since (UTC)", lambda row: moment(row["from_ms"])),
                ("noticed", lambda row: clock(row["noticed_ms"])),
                ("to", lambda row: clock(row["to_ms"])),
                ("for", lambda row: _span(row, found)),
                ("cause", lambda row: row["cause"]),
                ("evidence", _evidence),
                all_of=found["leaderless_summary"]["windows"],
            ),
        )
    return _joined(parts)


def _span(row: Finding, found: Finding) -> str:
    if row["to_ms"] is None:
        return f"{duration(found['to_ms'] - row['from_ms'])}, open"
    return duration(row["to_ms"] - row["from_ms"])


def _lost(row: Finding) -> str:
    if row["lost_records"] is None:
        return "not known"
    if not row["lost_records"]:
        return "0"
    return f"{row['lost_records']:,} ({row['lost_from']}-{row['lost_to'] - 1})"


def _topics(found: Finding) -> _Html:
    parts: list[_Html] = []
    if found["deletions"]:
        parts += (
            _html("<h2>Deletions of topics</h2>"),
            _table(
                found["deletions"],
                ("topic", lambda row: row["topic"]),
                ("from (UTC)", lambda row: moment(row["from_ms"])),
                ("took", lambda row: duration(row["took_ms"])),
                ("held up by", lambda row: row["blocked_by"] or "nothing"),
                ("evidence", _evidence),
            ),
        )
    if found["reassignments"]:
        parts += (
            _html("<h2>Reassignments</h2>"),
            _table(
                found["reassignments"],
                ("partition", _partition),
                ("from (UTC)", lambda row: moment(row["from_ms"])),
                ("took", lambda row: duration(row["took_ms"])),
                ("outcome", lambda row: row["outcome"] or "not ended"),
                (
                    "replicas",
                    lambda row: f"{_ids(row['old_replicas'])} → {_ids(row['new_replicas'])}",
                ),
                ("evidence", _evidence),
            ),
        )
    return _joined(parts)


def _failures(found: Finding) -> _Html:
    if not found["failed_transitions"]:
        return _NOTHING
    table = _table(
        found["failed_transitions"],
        ("count", lambda row: f"{row['count']:,}"),
        ("partitions", lambda row: f"{row['partitions']:,}"),
        (
            "what",
            lambda row: (
                " → ".join(state for state in (row["from_state"], row["to_state"]) if state)
                or row["kind"]
            ),
        ),
        ("first", lambda row: clock(row["first_ms"])),
        ("last", lambda row: clock(row["last_ms"])),
        ("sample", lambda row: row["sample"] or ""),
        ("evidence", _evidence),
    )
    return _html("<h2>Failed transitions</h2>{}", table)


def _biographies(found: Finding) -> _Html:
    parts: list[_Html] = []
    for life in found["biographies"]:
        table = _table(
            life["states"],
            ("when (UTC)", lambda row: moment(row["time_ms"])),
            ("leader", lambda row: "deleted" if row["is_deleted"] else _leader(row["leader"])),
            ("ISR", lambda row: _ids(row["isr"])),
            ("leader epoch", lambda row: _number(row["leader_epoch"])),
            ("version", lambda row: _number(row["zk_version"])),
            ("controller epoch", lambda row: _number(row["controller_epoch"])),
            ("evidence", _evidence),
        )
        name = _partition(life)
        parts.append(_html("<details><summary>{}</summary>{}</details>", name, table))
    if not parts:
        return _NOTHING
    return _html('<h2 id="biographies">Biographies</h2>{}', _joined(parts))


def _foot(found: Finding) -> _Html:
    cut = "".join(f" {number:,} more of {key}." for key, number in found["left_out"].items())
    return _html(
        '<p class="small">Times are UTC by the clocks of the brokers. Evidence names file and '
        "line. Made by <code>zkctl history report</code>.{}</p>",
        cut,
    )


def _leader(leader: int | None) -> str:
    return "none" if leader == -1 else _number(leader)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _ids(ids: Iterable[int] | None) -> str:
    return ", ".join(map(str, ids or ())) or "-"


def _partition(row: Finding) -> _Html:
    return _html("<code>{}-{}</code>", row["topic"], row["partition"])


def _evidence(row: Finding) -> _Html:
    if row.get("file") is None:
        return _NOTHING
    # The end of a path tells more than its beginning.
    name = "/".join(str(row["file"]).split("/")[-2:])
    return _html('<code title="{}">{}:{}</code>', row["file"], name, row["line"])


def _table(rows: Sequence[Finding], *columns: tuple[str, Cell], all_of: int | None = None) -> _Html:
    head = _joined(_html("<th>{}</th>", name) for name, _ in columns)
    body = _joined(
        _html("<tr>{}</tr>", _joined(_html("<td>{}</td>", cell(row)) for _, cell in columns))
        for row in rows[:ROWS_SHOWN]
    )
    total = len(rows) if all_of is None else all_of
    shown = min(len(rows), ROWS_SHOWN)
    note = f"{shown:,} of {total:,} rows."
    more = _html('<p class="small">{}</p>', note) if total > shown else _NOTHING
    return _html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}", head, body, more)
