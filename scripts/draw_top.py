"""Draws docs/top-80x24.svg and docs/top-160x50.svg: ``zkctl top`` while a broker is lost.

    .venv/bin/python scripts/draw_top.py

It starts three brokers and a ZooKeeper in a temporary directory (Java on the path), kills one of
them with the screen before it, and takes both pictures when its leaders have moved.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).parent.parent / "docs"
PICTURES: Final = {
    DOCS / "top-80x24.svg": ((80, 24), "1"),
    DOCS / "top-160x50.svg": ((160, 50), "3"),
}
"""Of each picture: columns and lines, and the key of its view."""
TOPICS: Final = {"clicks": 12, "invoices": 6, "orders": 24}
RECORDS: Final = 5_000
"""In each topic, of a kibibyte."""
_RECORD: Final = bytes(1024)
_VICTIM: Final = "2"
_PATIENCE_S: Final = 60.0
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    """Draw the pictures."""
    with tempfile.TemporaryDirectory() as directory:
        zkctl = [sys.executable, "-m", "zkcontroller_cli", "--dir", directory]

        def run(*arguments: str) -> None:
            subprocess.run([*zkctl, *arguments], check=True, capture_output=True)

        run("cluster", "start", "--brokers", "3", "--detach", "--metrics-port", "0")
        try:
            for topic, count in TOPICS.items():
                shape = ("--partitions", str(count), "--replication-factor", "3")
                run("topic", "create", topic, *shape)
            _produce(Path(directory))
            for path, (size, view) in PICTURES.items():
                drawn = asyncio.run(_drawn(Path(directory), size, view, run))
                # The fonts would be fetched from a server; the reader's own are as good.
                path.write_text(_FONT.sub("", drawn), encoding="utf-8")
                run(
                    "broker", "start", f"{directory}/broker-{_VICTIM}/server.properties", "--detach"
                )
        finally:
            run("cluster", "stop", "--force")


def _produce(directory: Path) -> None:
    """Records in every topic, so that there are sizes to see."""
    options = import_module("zkcontroller_cli.console.options")
    brokers = options.Settings(directory_flag=directory).find_bootstrap()
    producer = import_module("confluent_kafka").Producer({"bootstrap.servers": brokers.text})
    for topic, count in TOPICS.items():
        for number in range(RECORDS):
            producer.produce(topic, _RECORD, partition=number % count)
        assert producer.flush(_PATIENCE_S) == 0, "the brokers took every record"


async def _drawn(
    directory: Path, size: tuple[int, int], view: str, run: Callable[..., None]
) -> str:
    """The screen as SVG, once the broker's leaders have moved."""
    package = "zkcontroller_cli"
    top = import_module(f"{package}.top")
    settings = import_module(f"{package}.console.options").Settings(directory_flag=directory)
    reader = import_module(f"{package}.screen.reader").Reader(
        settings, top.metrics_urls_of(settings)
    )
    screen = import_module(f"{package}.screen.screen").TopScreen(reader, 0.5)
    async with screen.run_test(size=size) as pilot:
        await _until(lambda: _brokers(screen) == 3)
        await asyncio.to_thread(run, "broker", "stop", _VICTIM, "--kill")
        await _until(lambda: _brokers(screen) == 2 and _led_by_victim(screen) == 0)
        await pilot.press(view)
        await pilot.pause()
        drawn: str = screen.export_screenshot(title="zkctl top")
    screen.close()
    return drawn


def _brokers(screen: Any) -> int:
    return 0 if screen.snapshot is None else len(screen.snapshot.reading.brokers or ())


def _led_by_victim(screen: Any) -> int:
    rows = screen.snapshot.rows["brokers"]
    return next(int(row["leader_count"]) for row in rows if str(row["broker_id"]) == _VICTIM)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
