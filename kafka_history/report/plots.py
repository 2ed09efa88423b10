"""The report's figures as SVG text: findings in, ``<svg>…</svg>`` out.

Matplotlib draws them.  An SVG needs no script and no network, prints as sharp as text, and has some
20 KB, where an interactive library embeds megabytes of JavaScript.  The colours are those of Okabe
and Ito, which colour-blind people can tell apart.  Each colour comes with a hatch, a mark or a
word, so that the figures can be read in black and white.

The figures use no global state of matplotlib (no ``pyplot``), so any thread may draw.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Finding = Mapping[str, Any]

BROKERS_MAX: Final = 40
"""Most brokers in a figure; in a larger cluster, those with the most findings are shown."""
TENURES_MAX: Final = 400
TOP_MAX: Final = 20

_BLUE, _ORANGE, _GREEN, _RED, _PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
_LIFE, _INK, _GRID = "#D9DEE4", "#20262D", "#C4CAD1"
_WIDTH_IN: Final = 9.6
_MS_PER_S: Final = 1000
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "hatch.linewidth": 0.7,
}


def timeline(findings: Finding) -> str:
    """Controller tenures over broker lives; empty if no broker is known."""
    brokers = _brokers_shown(findings)
    if not brokers or findings["to_ms"] is None:
        return ""
    row_of = {broker: row for row, broker in enumerate(brokers)}
    end_ms = findings["to_ms"]
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(0.9 + 0.34 * len(brokers))
        for life in findings["broker_lives"]:
            if life["broker"] in row_of:
                _draw_life(axes, row_of[life["broker"]], life, findings)
        for session in findings["session_expiries"]:
            if session["broker"] in row_of:
                at = _day(session["at_ms"])
                axes.plot(at, row_of[session["broker"]], "D", color=_ORANGE, ms=6, mec=_INK)
        for tenure in findings["tenures"][:TENURES_MAX]:
            if tenure["broker"] in row_of:
                _draw_tenure(axes, row_of[tenure["broker"]], tenure, end_ms)
        axes.set_yticks(range(len(brokers)), [f"broker {broker}" for broker in brokers])
        axes.set_ylim(len(brokers) - 0.4, -0.6)
        _time_axis(axes, findings)
        _legend(axes)
        return _svg(figure, "Controller tenures over the lives of the brokers")


def leaderless_over_time(findings: Finding) -> str:
    """How many partitions had no leader, as a step curve; empty if none ever lacked one."""
    steps = findings["leaderless_over_time"]
    if not steps:
        return ""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(2.0)
        days = [_day(step["at_ms"]) for step in steps] + [_day(findings["to_ms"])]
        counts = [step["partitions"] for step in steps]
        counts.append(counts[-1])
        axes.fill_between(days, counts, step="post", color=_RED, alpha=0.35, hatch="//", ec=_RED)
        axes.step(days, counts, where="post", color=_RED, lw=1.5)
        axes.set_ylabel("partitions\nwithout a leader")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        _time_axis(axes, findings)
        return _svg(figure, "Partitions without a leader over time")


def isr_heat_map(findings: Finding) -> str:
    """Which followers fell out of in-sync replicas, and when; empty if none did."""
    cells = findings["isr_changes"]["heat"]
    step_ms = findings["isr_changes"]["heat_step_ms"]
    brokers = sorted({cell["broker"] for cell in cells})[:BROKERS_MAX]
    if not brokers or not step_ms:
        return ""
    start_ms = findings["from_ms"] // step_ms * step_ms
    columns = (findings["to_ms"] - start_ms) // step_ms + 1
    grid = [[0] * columns for _ in brokers]
    for cell in cells:
        if cell["broker"] in brokers:
            column = (cell["at_ms"] - start_ms) // step_ms
            if 0 <= column < columns:
                grid[brokers.index(cell["broker"])][column] += cell["shrinks"]
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(0.9 + 0.3 * len(brokers))
        edges = [_day(start_ms + column * step_ms) for column in range(columns + 1)]
        rows = [row - 0.5 for row in range(len(brokers) + 1)]
        # A sequential map of one hue: darker is more, also on grey paper.
        mesh = axes.pcolormesh(edges, rows, grid, cmap="Blues", vmin=0, edgecolors="none")
        axes.set_yticks(range(len(brokers)), [f"broker {broker}" for broker in brokers])
        axes.invert_yaxis()
        bar = figure.colorbar(mesh, ax=axes, pad=0.01)
        bar.set_label("left the ISR")
        bar.locator = MaxNLocator(integer=True)
        bar.update_ticks()
        _time_axis(axes, findings, grid=False)
        return _svg(figure, "Replicas that left in-sync sets, by broker and time")


def top_partitions(findings: Finding) -> str:
    """The partitions that lacked a leader longest, as bars; empty if none did."""
    top = [row for row in findings["top_partitions"] if row["leaderless_ms"]][:TOP_MAX]
    if not top:
        return ""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas(0.8 + 0.22 * len(top))
        names = [_short(f"{row['topic']}-{row['partition']}") for row in top]
        seconds = [row["leaderless_ms"] / _MS_PER_S for row in top]
        bars = axes.barh(range(len(top)), seconds, color=_RED, height=0.7)
        axes.bar_label(bars, fmt="%.1f s", padding=3, fontsize=8)
        axes.set_yticks(range(len(top)), names)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel("seconds without a leader")
        axes.grid(axis="x", color=_GRID, lw=0.5)
        axes.set_axisbelow(True)
        return _svg(figure, "Partitions that were without a leader longest")


def _draw_life(axes: Axes, row: int, life: Finding, findings: Finding) -> None:
    start = _day(life["from_ms"] if life["from_ms"] is not None else findings["from_ms"])
    end = _day(life["to_ms"] if life["to_ms"] is not None else findings["to_ms"])
    axes.barh(row, end - start, left=start, height=0.62, color=_LIFE, ec="#8A949E", lw=0.6)
    if life["to_ms"] is None:
        return
    if life["ended_by"] in {"clean_shutdown", "failed_start"}:
        axes.plot(end, row, "s", color="white", ms=5, mec=_INK)
    else:
        axes.plot(end, row, "X", color=_RED, ms=8, mec=_INK, mew=0.6)


def _draw_tenure(axes: Axes, row: int, tenure: Finding, end_ms: int) -> None:
    start = _day(tenure["from_ms"])
    end = _day(tenure["to_ms"] if tenure["to_ms"] is not None else end_ms)
    axes.barh(row, end - start, left=start, height=0.34, color=_BLUE, ec=_INK, lw=0.5)
    axes.annotate(
        f"{tenure['controller_epoch']}",
        (start, row - 0.17),
        xytext=(1, 1),
        textcoords="offset points",
        fontsize=7,
        va="bottom",
    )
    if tenure["overlap_ms"]:
        zombie = _day(tenure["to_ms"] + tenure["overlap_ms"])
        axes.barh(
            row, zombie - end, left=end, height=0.34, color="white", ec=_RED, hatch="xxx", lw=0.8
        )


def _legend(axes: Axes) -> None:
    from matplotlib.lines import Line2D

    def mark(shape: str, colour: str, label: str) -> Line2D:
        return Line2D([], [], ls="", marker=shape, color=colour, mec=_INK, label=label)

    axes.legend(
        handles=[
            Patch(fc=_LIFE, ec="#8A949E", label="broker runs"),
            Patch(fc=_BLUE, ec=_INK, label="is controller (number: its epoch)"),
            Patch(fc="white", ec=_RED, hatch="xxx", label="deposed, but went on"),
            mark("X", _RED, "died"),
            mark("s", "white", "stopped in order"),
            mark("D", _ORANGE, "ZooKeeper session expired"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16 - 0.5 / (1 + len(axes.get_yticks()))),
        ncol=3,
        frameon=False,
        fontsize=8,
    )


def _brokers_shown(findings: Finding) -> Sequence[int]:
    known = sorted(findings["brokers"])
    if len(known) <= BROKERS_MAX:
        return known
    counts: dict[int, int] = {}
    for key in ("tenures", "broker_lives", "session_expiries"):
        for row in findings[key]:
            counts[row["broker"]] = counts.get(row["broker"], 0) + 1
    return sorted(sorted(known, key=lambda broker: -counts.get(broker, 0))[:BROKERS_MAX])


def _canvas(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH_IN, height_in + 0.5))
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _time_axis(axes: Axes, findings: Finding, *, grid: bool = True) -> None:
    locator = AutoDateLocator(tz=UTC, minticks=4, maxticks=10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    span = max(findings["to_ms"] - findings["from_ms"], 1)
    axes.set_xlim(_day(findings["from_ms"] - span // 50), _day(findings["to_ms"] + span // 50))
    if grid:
        axes.grid(axis="x", color=_GRID, lw=0.5)
        axes.set_axisbelow(True)


def _day(time_ms: int) -> float:
    number: float = date2num(datetime.fromtimestamp(time_ms / _MS_PER_S, UTC))
    return number


def _short(name: str, length: int = 40) -> str:
    return name if len(name) <= length else f"{name[: length - 14]}…{name[-13:]}"


def _svg(figure: Figure, title: str) -> str:
    buffer = io.StringIO()
    # Each figure has its own salt, so that two figures on one page have no ids in common.
    with mpl.rc_context({"svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # The page sets the size; the description is read aloud instead of the shapes.
    text = re.sub(r'<svg ([^>]*?)width="[^"]*" ?|height="[\d.]+pt" ', r"<svg \1", text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, count=1, flags=re.DOTALL)
    label = escape(title, quote=True)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
