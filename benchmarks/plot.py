"""Draws what :mod:`benchmarks.operations` printed: our time over Kafka's, against partitions.

``python -m benchmarks.plot docs/benchmarks.svg docs/benchmarks/*.txt`` in the repository;
matplotlib comes with the extra ``bench``.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SIZE: Final = re.compile(r"(\d+) partitions x 3, ")
# The operation's name, figures of both sides, the ratio.
_ROW: Final = re.compile(r"(\w[\w' ]*?)\s{2,}[\d./ ]+\s(\d+\.\d{3})")


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


def draw(ratios: dict[str, dict[int, float]], target: Path) -> None:
    """One line per operation, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    # Text stays text, and the same figures give the same file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "benchmarks"}
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
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
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """First argument: the picture to write; the others: files with printed tables."""
    target, *files = map(Path, sys.argv[1:])
    draw(read_ratios(file.read_text() for file in files), target)


if __name__ == "__main__":
    main()
