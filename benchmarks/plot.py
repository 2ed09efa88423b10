"""Draws what :mod:`benchmarks.operations` and :mod:`benchmarks.growth` printed.

``python -m benchmarks.plot operations docs/benchmarks.svg docs/benchmarks/*.txt`` draws our time
over Kafka's, against partitions; ``python -m benchmarks.plot growth docs/growth.svg
docs/benchmarks.md`` what a broker of each kind costs as it grows, out of the tables in that page.
matplotlib comes with the extra ``bench``.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE: Final = re.compile(r"(\d+) partitions x 3, ")
# The operation's name, figures of both sides, the ratio.
_ROW: Final = re.compile(r"(\w[\w' ]*?)\s{2,}[\d./ ]+\s(\d+\.\d{3})")
_GROWS: Final = re.compile(r"(\w+), (\w+) / (\w+ [\d.]+)\s{2,}([\d, ]+)")
_PAIR: Final = re.compile(r"([\d.]+) / ([\d.]+)")
_GROWTH: Final = (
    ("connections", "memory, MB"),
    ("partitions", "memory, MB"),
    ("groups", "memory, MB"),
    ("partitions", "record p50, ms"),
    ("partitions", "Metadata of all, ms"),
    ("log", "killed until served, s"),
)
"""What grows, and the row of its table, for each of the small pictures."""


def read_ratios(tables: Iterable[str]) -> dict[str, dict[int, float]]:
    """Ratios by operation and number of partitions, out of printed tables."""
    ratios: dict[str, dict[int, float]] = defaultdict(dict)
    for table in tables:
        partitions = 0
        for line in table.splitlines():
            if size := _SIZE.match(line):
                partitions = int(size[1])
            elif partitions and (row := _ROW.fullmatch(line.rstrip())):
                ratios[row[1]][partitions] = float(row[2])
    return dict(ratios)


class Curve(NamedTuple):
    """One row of a table of :mod:`benchmarks.growth`: both sides' figures at each size."""

    sizes: list[int]
    ours: list[float]
    peers: list[float]


def read_growth(text: str) -> dict[tuple[str, str], Curve]:
    """Rows by what grows and the row's name, out of a text with printed tables.

    Raises:
        ValueError: a row has another number of figures than its table has sizes.
    """
    found: dict[tuple[str, str], Curve] = {}
    grows, sizes = "", list[int]()
    for line in text.splitlines():
        if header := _GROWS.fullmatch(line.rstrip()):
            grows = header[1]
            sizes = [int(each.replace(",", "")) for each in header[4].split()]
        elif not line.strip():
            grows = ""
        elif grows and (pairs := _PAIR.findall(line)):
            if len(pairs) != len(sizes):
                raise ValueError(f"{len(pairs)} figures for {len(sizes)} sizes: {line}")
            ours, peers = ([float(pair[side]) for pair in pairs] for side in (0, 1))
            found[grows, re.split(r"\s{2,}", line)[0]] = Curve(sizes, ours, peers)
    return found


def _figure(columns: int, rows: int, size: tuple[float, float]) -> Figure:
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and the same figures give the same file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "benchmarks"}
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=size)[0]


def _save(figure: Figure, target: Path) -> None:
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None})


def draw_growth(curves: dict[tuple[str, str], Curve], target: Path) -> None:
    """A small picture for each of :data:`_GROWTH`, both axes from zero.

    Raises:
        KeyError: a row is not there.
    """
    figure = _figure(3, 2, (11, 6))
    for axes, key in zip(figure.axes, _GROWTH, strict=True):
        grows, row = key
        sizes, ours, peers = curves[key]
        axes.plot(sizes, ours, marker="o", label="zkcontroller")
        axes.plot(sizes, peers, marker="s", label="Kafka 3.9.1")
        axes.set(title=row, xlabel="MB of log" if grows == "log" else grows)
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(visible=True, which="major", alpha=0.3)
    figure.axes[0].legend(frameon=False)
    figure.tight_layout()
    _save(figure, target)


def draw(ratios: dict[str, dict[int, float]], target: Path) -> None:
    """One line per operation, both axes logarithmic."""
    figure = _figure(1, 1, (8, 5))
    [axes] = figure.axes
    for operation, by_partitions in ratios.items():
        points = sorted(by_partitions.items())
        axes.plot(*zip(*points, strict=True), marker="o", label=operation)
    axes.axhline(1.0, color="grey", linestyle="--", linewidth=1)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="partitions (x 3 replicas, 10 brokers)",
        ylabel="our time / Kafka 3.9.1's",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.grid(visible=True, which="major", alpha=0.3)
    _save(figure, target)


def main() -> None:
    """Draws one picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmark", choices=("operations", "growth"))
    parser.add_argument("target", type=Path, help="the picture to write")
    parser.add_argument("tables", type=Path, nargs="+", help="files with printed tables")
    options = parser.parse_args()
    tables = [file.read_text() for file in options.tables]
    if options.benchmark == "growth":
        draw_growth(read_growth("\n\n".join(tables)), options.target)
    else:
        draw(read_ratios(tables), options.target)


if __name__ == "__main__":
    main()
