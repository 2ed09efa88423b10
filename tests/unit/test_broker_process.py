"""Brokers in processes of their own, as benchmarks and tests start them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.broker_process import OurBroker


def test_the_lines_of_a_log_begin_with_those_of_earlier_hours(tmp_path: Path) -> None:
    broker = OurBroker(1, "127.0.0.1:1", tmp_path)
    assert broker.log_lines("server.log") == []

    broker.logs.mkdir()
    for name, text in (
        ("server.log", "now\n"),
        ("server.log.2026-11-20-19", "last hour\n"),
        ("server.log.2026-11-20-18", "the hour before\nand its end\n"),
        ("controller.log", "another\n"),
    ):
        (broker.logs / name).write_text(text)

    assert broker.log_lines("server.log") == ["the hour before", "and its end", "last hour", "now"]
