"""``zkctl history follow`` as a process that is killed and started again."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from pyspark.sql import SparkSession

from kafka_history.following import batches
from kafka_history.following.spool import Spool
from kafka_history.following.tailer import Tailer
from kafka_history.readers.found_tables import read_sources
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.manifest import read_manifest
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.sources import look_at
from kafka_history.readers.store import read_events

from .conftest import DATA
from .rows import assert_same_rows

pytestmark = [pytest.mark.history, pytest.mark.timeout(1800)]

WAIT_S: Final = 600.0
HEAD: Final = "[2026-11-20 18:08:31,404] INFO "


class Follower:
    """A process that follows, and what it said."""

    def __init__(self, logs: Path, out: Path, folder: Path, *arguments: str) -> None:
        self.out = out
        self._stdout = folder / f"stdout-{time.monotonic_ns()}"
        self._stderr = self._stdout.with_suffix(".err")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ZKCTL_")}
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "zkcontroller_cli", "history", "follow", str(logs),
                    "--out", str(out), "--every", "0.3",
                    "-o", "jsonl", *arguments,
                ],
                stdout=stdout, stderr=stderr, env=environment,
            )  # fmt: skip

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What it printed so far; of a line that is being written nothing."""
        return [orjson.loads(line) for line in self._stdout.read_bytes().split(b"\n")[:-1]]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)

    def said(self) -> str:
        """What it said to its user."""
        return self._stderr.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)

    def known(self) -> dict[str, Any]:
        """What the writer of batches remembers."""
        try:
            known: dict[str, Any] = json.loads((self.out / "following" / "batch.json").read_text())
        except FileNotFoundError:
            return {"look": -1, "is_done": True}
        return known

    def stored_bytes(self) -> int:
        """How many bytes of the logs the notes say were taken, once all of them are stored."""
        notes = sorted(p for p in (self.out / "following" / "notes").glob("0*.json"))
        segments = self.out / "following" / "segments"
        if not notes or any(segments.iterdir()) or not self.known()["is_done"]:
            return -1
        first = json.loads(notes[-1].read_text().split("\n")[0])
        return sum(p["offset"] for p in first["positions"] if not p["is_gone"])


@pytest.fixture
def started() -> Iterator[list[Follower]]:
    followers: list[Follower] = []
    yield followers
    for follower in followers:
        if follower.process.poll() is None:
            follower.kill()


def test_every_record_is_stored_once_whenever_the_process_is_killed(
    spark: SparkSession, tmp_path: Path, started: list[Follower]
) -> None:
    logs, out = tmp_path / "incident" / "logs", tmp_path / "out"
    contents = {
        logs / path.parent.name / path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes())
        for path in sorted((DATA / "incidents-a").glob("broker-*/*.gz"))
    }
    logs.mkdir(parents=True)

    def cut(content: bytes, share: float) -> int:
        """In the middle of a record's first line."""
        if share in (0, 1):
            return int(share) * len(content)
        return content.find(b"\n[20", int(len(content) * share)) + 30

    def grow(share_from: float, share_to: float) -> int:
        for path, content in contents.items():
            path.parent.mkdir(exist_ok=True)
            with path.open("ab") as file:
                file.write(content[cut(content, share_from) : cut(content, share_to)])
        return sum(path.stat().st_size for path in logs.rglob("*log*") if path.is_file())

    # Killed in the middle of a batch, then right behind one; between them a broker appears, files
    # grow to the middle of a line, and one is rotated.
    grow(0, 0.3)
    first = Follower(logs, out, tmp_path, "--store-only")
    started.append(first)
    first.wait_for(lambda: not first.known()["is_done"])
    first.kill()
    grow(0.3, 0.55)
    second = Follower(logs, out, tmp_path, "--store-only")
    started.append(second)
    second.wait_for(lambda: second.known()["look"] >= 1 and second.known()["is_done"])
    second.kill()
    rolled = logs / "broker-2" / "controller.log"
    rolled.rename(rolled.with_name("controller.log.2026-11-20-17"))
    total = grow(0.55, 1)
    third = Follower(logs, out, tmp_path, "--store-only")
    started.append(third)
    third.wait_for(lambda: third.stored_bytes() == total)
    assert third.interrupt() == 130

    followed = read_events(spark, out)
    at_once = ingest(spark, [str(logs)], IngestOptions(out=str(tmp_path / "at-once")))
    assert_same_rows(followed, at_once)
    sources = {row["file"]: row for row in read_sources(out)}
    for row in read_sources(tmp_path / "at-once"):
        assert sources[row["file"]]["records"] == row["records"]
        assert sources[row["file"]]["read_bytes"] == row["read_bytes"]


def test_once_takes_and_tells_what_came_since_the_last_time(
    spark: SparkSession, tmp_path: Path, started: list[Follower]
) -> None:
    logs, out = tmp_path / "incident", tmp_path / "out"
    for path in sorted((DATA / "incidents-a").glob("broker-*/controller.log.gz")):
        (logs / path.parent.name).mkdir(parents=True)
        content = gzip.decompress(path.read_bytes())
        (logs / path.parent.name / "controller.log").write_bytes(content)
    (logs / "broker-1" / "server.log").write_bytes(b"\0\1" * 500)

    def once(*arguments: str) -> Follower:
        follower = Follower(logs, out, tmp_path, "--once", *arguments)
        started.append(follower)
        assert follower.process.wait(WAIT_S) == 0, follower.said()
        return follower

    first = once("--store-only")
    stored = read_events(spark, out).count()
    extra = f"{HEAD}[Controller id=1] One more line (kafka.unheard.Of)\n"
    with (logs / "broker-1" / "controller.log").open("a") as file:
        file.write(extra)
    second = once()
    third = once()

    assert first.rows == []
    assert "server.log: it is binary, not a log" in first.said()
    assert read_events(spark, out).count() == stored + 1 > 500
    tenures = {row["id"]: row["says"] for row in second.rows if row["finding"] == "tenure"}
    assert list(tenures) == [f"epoch {epoch}" for epoch in range(1, 10)]
    assert tenures["epoch 3"] == "broker 3 was controller for 39.7 s: session_expired"
    rules = {row["id"]: row for row in second.rows if row["finding"] == "rule"}
    assert rules["C07"]["severity"] == "critical"
    assert rules["K01"]["says"].endswith("One more line (kafka.unheard.Of)")
    assert third.rows == []
    with pytest.raises(HistoryInvalid, match=r"is followed: "):
        ingest(spark, [str(logs)], IngestOptions(out=str(out)))


def test_small_ingests_are_merged_and_a_batch_that_comes_again_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MERGED_AT", 2)
    logs, out = tmp_path / "cluster" / "broker-1", tmp_path / "out"
    logs.mkdir(parents=True)
    folder = out / "following"
    spool = Spool(folder)
    tailer = Tailer(spool, [str(logs.parent)], look_at)
    writer = batches.BatchWriter(folder, IngestOptions(out=str(out)))
    seen, stored = [], []
    for number in range(5):
        with (logs / "controller.log").open("a") as file:
            file.write(f"{HEAD}[Controller id=1] Line {number} (kafka.unheard.Of)\n")
        if number == 3:
            (logs / "controller.log").rename(logs / "controller.log.2026-11-20-18")
        # A file has come to its end when two looks found the same.
        looks = [tailer.look(is_last=True) for _ in range(2)]
        assert looks[1]
        batch = spool.batch(spool.looks()[-1])
        assert not writer.is_done(batch.look)
        writer.write(batch)
        assert writer.is_done(batch.look)
        spool.clean_up(batch.look)
        seen.append(len(read_manifest(out).ingests))
        stored.append({p.name.removeprefix("ingest=") for p in (out / "events").iterdir()})

    assert seen == [1, 1, 2, 1, 2]
    assert_same_rows(
        read_events(spark, out),
        ingest(spark, [str(logs)], IngestOptions(out=str(tmp_path / "at-once"))),
    )
    sources = {Path(row["file"]).name: row["records"] for row in read_sources(out)}
    assert sources == {"controller.log": 1, "controller.log.2026-11-20-18": 4}
    # What was merged is deleted a batch later: who reads the tables may still need it.
    assert stored[-2:] == [
        {"000003", "000004", "000005", "000006", "000007"},
        {"000007", "000008"},
    ]
    assert read_manifest(out).ingests == ("000007", "000008")
