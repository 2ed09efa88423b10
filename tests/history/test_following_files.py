"""Growing, rotated, copied and packed logs: what the tailer takes of them, without Spark."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pytest

from kafka_history.following import tailer
from kafka_history.following.announcements import KEYS, announce
from kafka_history.following.cutting import whole_bytes
from kafka_history.following.spool import Spool
from kafka_history.following.tailer import Tailer
from kafka_history.readers.content import Content
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.sources import Source, look_at


def record(number: int, broker: int = 1) -> str:
    """A record that tells whose it is."""
    return (
        f"[2026-11-20 18:08:{number // 1000 % 60:02d},{number % 1000:03d}] INFO "
        f"[Controller id={broker}] New leader election number {number} (kafka.controller.Any)\n"
    )


def records(first: int, last: int, broker: int = 1) -> str:
    return "".join(record(number, broker) for number in range(first, last))


TRACE = (
    "[2026-11-20 18:08:31,404] ERROR [Controller id=1 epoch=7] It failed (state.change.logger)\n"
    "kafka.common.StateChangeFailedException: nobody\n"
    "\tat kafka.controller.Any.thing(Any.scala:5)\n"
)


class Folder:
    """A folder of logs with a tailer over it; ``taken`` is what the notes hand to Spark."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "cluster" / "broker-1"
        self.logs.mkdir(parents=True)
        self.spool = Spool(folder / "out")
        self.start_again()

    def start_again(self) -> None:
        self.tailer = Tailer(self.spool, [str(self.logs.parent)], looked_at)

    def write(self, name: str, text: str) -> None:
        with (self.logs / name).open("a") as file:
            file.write(text)

    def taken(self, looks: int = 3) -> dict[str, str]:
        """What came in some looks, by the name the file has now; stored, and cleaned up."""
        found: dict[str, str] = {}
        for _ in range(looks):
            if not self.tailer.look():
                continue
            lines = [json.loads(line) for line in self._newest().read_text().splitlines()]
            names = {line["file"]["id"]: line["file"] for line in lines if "file" in line}
            for line in lines:
                if "segment" in line:
                    segment = line["segment"]
                    name = Path(names[segment["id"]]["path"]).name
                    content = b"".join(Content(Path(segment["path"])))
                    found[name] = found.get(name, "") + content.decode()
            self.spool.clean_up(lines[0]["last_look"])
        return found

    def _newest(self) -> Path:
        return max(self.spool.notes.iterdir())


def looked_at(paths: Sequence[str]) -> list[Source]:
    return look_at(paths)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_file_that_grows_gives_each_record_once(folder: Folder) -> None:
    folder.write("controller.log", records(0, 10))
    first = folder.taken()
    folder.write("controller.log", records(10, 15))
    folder.write("server.log", records(0, 3))

    assert first == {"controller.log": records(0, 10)}
    assert folder.taken() == {"controller.log": records(10, 15), "server.log": records(0, 3)}
    assert folder.taken() == {}


def test_the_middle_of_a_line_waits_for_its_rest(folder: Folder) -> None:
    folder.write("controller.log", records(0, 10) + record(10)[:40])
    first = folder.taken(looks=5)
    folder.write("controller.log", record(10)[40:])

    assert first == {"controller.log": records(0, 10)}
    assert folder.taken() == {"controller.log": record(10)}


def test_an_exception_stays_with_its_record_if_it_comes_a_moment_later(folder: Folder) -> None:
    head, rest = TRACE.split("\n", 1)
    folder.write("state-change.log", records(0, 2))
    folder.taken()
    folder.write("state-change.log", records(2, 5) + head + "\n")
    first = folder.taken(looks=1)
    folder.write("state-change.log", rest)

    assert first == {"state-change.log": records(2, 5)}
    assert folder.taken() == {"state-change.log": TRACE}


def test_a_rotated_file_is_read_to_its_end_and_not_again(folder: Folder) -> None:
    folder.write("controller.log", records(0, 20))
    folder.taken()
    folder.write("controller.log", records(20, 22))
    (folder.logs / "controller.log").rename(folder.logs / "controller.log.2026-11-20-18")
    folder.write("controller.log", records(22, 30))

    assert folder.taken() == {
        "controller.log.2026-11-20-18": records(20, 22),
        "controller.log": records(22, 30),
    }
    folder.start_again()
    assert folder.taken() == {}


def test_a_line_torn_by_a_kill_is_taken_once_it_cannot_be_completed(folder: Folder) -> None:
    folder.write("controller.log", records(0, 10) + record(10)[:40])
    folder.taken()
    (folder.logs / "controller.log").rename(folder.logs / "controller.log.2026-11-20-18")

    assert folder.taken() == {"controller.log.2026-11-20-18": record(10)[:40]}


def test_a_log_that_is_copied_and_emptied_loses_nothing_and_repeats_nothing(
    folder: Folder,
) -> None:
    folder.write("controller.log", records(0, 20))
    folder.taken()
    folder.write("controller.log", records(20, 22))
    shutil.copy(folder.logs / "controller.log", folder.logs / "controller.log.1")
    both = folder.taken(looks=1)
    os.truncate(folder.logs / "controller.log", 0)
    emptied = folder.taken()
    folder.write("controller.log", records(22, 30))

    assert both == {"controller.log": record(20)}
    assert emptied == {"controller.log.1": record(21)}
    assert folder.taken() == {"controller.log": records(22, 30)}


def zst(content: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(content))


PACKERS = pytest.mark.parametrize(
    ("suffix", "packed"), [(".gz", gzip.compress), (".zst", zst)], ids=["gzip", "zst"]
)
Packed = Callable[[bytes], bytes]


@PACKERS
def test_a_file_that_is_packed_after_its_hour_adds_only_what_had_not_been_read(
    folder: Folder, suffix: str, packed: Packed
) -> None:
    folder.write("controller.log.2026-11-20-18", records(0, 20))
    folder.taken()
    folder.write("controller.log.2026-11-20-18", records(20, 25))
    content = (folder.logs / "controller.log.2026-11-20-18").read_bytes()
    (folder.logs / f"controller.log.2026-11-20-18{suffix}").write_bytes(packed(content))
    (folder.logs / "controller.log.2026-11-20-18").unlink()

    assert folder.taken() == {f"controller.log.2026-11-20-18{suffix}": records(20, 25)}
    assert folder.taken() == {}


@PACKERS
def test_a_packed_file_not_read_before_is_read_in_place(
    folder: Folder, suffix: str, packed: Packed
) -> None:
    path = folder.logs / f"controller.log.2026-11-20-17{suffix}"
    path.write_bytes(packed(records(0, 20).encode()))

    assert folder.taken() == {path.name: records(0, 20)}
    assert folder.taken() == {}
    assert path.exists()


@PACKERS
def test_of_a_file_that_was_packed_and_damaged_the_rest_is_taken_up_to_the_damage(
    folder: Folder, suffix: str, packed: Packed
) -> None:
    name = "controller.log.2026-11-20-18"
    folder.write(name, records(0, 20))
    folder.taken()
    content = packed(records(0, 20_000).encode())
    (folder.logs / f"{name}{suffix}").write_bytes(content[: len(content) * 3 // 4])
    (folder.logs / name).unlink()

    taken = folder.taken(looks=1)[f"{name}{suffix}"]

    assert records(20, 20_000).startswith(taken)
    assert len(taken) > 100_000
    (problem,) = folder.tailer.problems
    assert f"damaged {suffix.removeprefix('.')}" in problem.problem.replace("gzip", "gz")
    assert "bytes came out of it: " in problem.problem


@PACKERS
def test_a_file_in_many_chunks_is_taken_whole(
    folder: Folder, suffix: str, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer, "CHUNK_BYTES", 5_000)
    name = "controller.log.2026-11-20-18"
    folder.write(name, records(0, 500))
    before = folder.taken()
    content = records(0, 2_000).encode()
    (folder.logs / f"{name}{suffix}").write_bytes(packed(content))
    (folder.logs / name).unlink()

    assert before == {name: records(0, 500)}
    assert folder.taken() == {f"{name}{suffix}": records(500, 2_000)}


def test_an_inode_that_is_used_again_is_another_file(folder: Folder) -> None:
    folder.write("controller.log", records(0, 20))
    folder.taken()
    # The same inode with other lines, and more of them than were read.
    (folder.logs / "controller.log").write_text(records(100, 140))

    assert folder.taken() == {"controller.log": records(100, 140)}


def test_a_folder_that_is_away_for_a_moment_is_not_read_again(
    folder: Folder, tmp_path: Path
) -> None:
    folder.write("controller.log", records(0, 20))
    folder.taken()
    folder.logs.rename(tmp_path / "unmounted")
    away = folder.taken()
    (tmp_path / "unmounted").rename(folder.logs)
    folder.write("controller.log", record(20))

    assert away == {}
    assert folder.taken() == {"controller.log": record(20)}


def test_what_was_not_noted_before_a_kill_is_taken_again(folder: Folder) -> None:
    folder.write("controller.log", records(0, 10))
    folder.taken()
    folder.write("controller.log", records(10, 20))
    # The kill comes between the segments and their note.
    folder.spool.write(folder.spool.path_of_segment(9, 1), b"half of a seg")
    (folder.spool.notes / ".0000000009.json").write_text('{"last_look": 9, "posi')
    folder.start_again()

    assert folder.taken() == {"controller.log": records(10, 20)}


def test_a_new_file_waits_until_its_lines_tell_whose_it_is(folder: Folder, tmp_path: Path) -> None:
    host = tmp_path / "cluster" / "host-a"
    host.mkdir()
    anonymous = "[2026-11-20 18:08:31,404] INFO starting (kafka.server.KafkaServer)\n"
    (host / "server.log").write_text(anonymous)
    first = folder.taken(looks=1)
    with (host / "server.log").open("a") as file:
        file.write(record(1, broker=7))
    folder.taken()

    assert first == {}
    _, positions = folder.spool.remembered()
    assert [(p.broker_id, p.lines) for p in positions] == [(7, 2)]


def test_a_folder_that_comes_later_belongs_to_the_cluster_beside_it(
    folder: Folder, tmp_path: Path
) -> None:
    cluster_id = "[2026-11-20 18:08:31,404] INFO Cluster ID = AbCdEfGhIjKlMnOpQrStUv (kafka.A)\n"
    folder.write("server.log", cluster_id + records(0, 3))
    folder.taken()
    (tmp_path / "cluster" / "broker-2").mkdir()
    (tmp_path / "cluster" / "broker-2" / "server.log").write_text(records(0, 3, broker=2))
    folder.taken()

    _, positions = folder.spool.remembered()
    assert {p.cluster for p in positions} == {"AbCdEfGhIjKlMnOpQrStUv"}


def test_logs_of_two_clusters_in_one_folder_stay_apart(folder: Folder) -> None:
    told = "[2026-11-20 18:08:31,404] INFO Cluster ID = {} (kafka.A)\n"
    folder.write("a-server.log", told.format("AbCdEfGhIjKlMnOpQrStUv") + records(0, 3))
    folder.taken()
    folder.write("b-server.log", told.format("ZyXwVuTsRqPoNmLkJiHgFe") + records(0, 3))
    folder.taken()

    _, positions = folder.spool.remembered()
    assert {Path(p.path).name: p.cluster for p in positions} == {
        "a-server.log": "AbCdEfGhIjKlMnOpQrStUv",
        "b-server.log": "ZyXwVuTsRqPoNmLkJiHgFe",
    }


def test_a_file_that_is_no_log_is_named_once_and_looked_at_again_when_it_changes(
    folder: Folder,
) -> None:
    folder.write("controller.log", "\0\1\2" * 300)
    os.utime(folder.logs / "controller.log", (1, 1))
    folder.tailer.look()
    problems = [problem.problem for problem in folder.tailer.problems]
    folder.tailer.look()
    again = folder.tailer.problems
    folder.write("controller.log", "\n" + records(0, 5))

    assert problems == ["it is binary, not a log"]
    assert again == []
    assert folder.taken()["controller.log"].endswith(records(0, 5))


def test_a_damaged_note_is_one_sentence(folder: Folder) -> None:
    (folder.spool.notes / "0000000001.json").write_text("{")

    with pytest.raises(HistoryInvalid, match=r"0000000001\.json is damaged: "):
        folder.start_again()


def test_records_end_where_the_next_one_begins_or_the_file_is_quiet() -> None:
    def cut(text: str, kind: str = "log4j", **state: bool) -> str:
        flags = {"is_quiet": False, "is_over": False, "is_full": False, **state}
        return text[: whole_bytes(text.encode(), kind, **flags)]

    half = record(2)[:30]
    pods = f"[pod/kafka-0/kafka] {record(0)}[pod/kafka-1/kafka] {record(1)}[pod/kafka-1/kafka] \tat"
    assert cut(record(0)) == ""
    assert cut(record(0), is_quiet=True) == record(0)
    assert cut(record(0) + TRACE + half) == record(0)
    assert cut(record(0) + TRACE + half, is_quiet=True) == record(0) + TRACE
    assert cut(record(0) + half, is_quiet=True, is_over=True) == record(0) + half
    assert cut('{"a":1}\n{"b', "jsonl") == '{"a":1}\n'
    assert cut(pods, "prefixed") == f"[pod/kafka-0/kafka] {record(0)}"
    # One record that is larger than all that may be kept in memory.
    assert cut("x" * 100, is_full=True) == "x" * 100


def test_each_finding_is_reported_when_it_is_new_and_when_it_changes() -> None:
    tenure = {
        "broker": 1, "controller_epoch": 4, "from_ms": 1_000, "to_ms": None, "ended_by": "open",
        "file": "a", "line": 1, "end_file": None, "end_line": None,
    }  # fmt: skip
    window = {
        "topic": "orders", "partition": 3, "from_ms": 3_500, "noticed_ms": 9_500, "to_ms": None,
        "cause": "unknown",
        "file": "b", "line": 2, "end_file": None, "end_line": None,
    }  # fmt: skip
    rule = {
        "id": "P01", "severity": "error", "count": 1, "title": "Partitions had no leader",
        "says": "one", "evidence": [{"file": "b", "line": 2}],
    }  # fmt: skip
    found: dict[str, Any] = {
        "to_ms": 10_000, "tenures": [tenure], "leaderless": [window], "rules": [rule],
    }  # fmt: skip

    def changes(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
        return [(row["finding"], row["id"], row["change"]) for row in rows]

    first = announce("c", found, {}, is_settled=False)
    quiet = announce("c", found, first.announced, is_settled=False)
    settled = announce("c", found, first.announced, is_settled=True)
    window |= {"to_ms": 12_000, "end_file": "b", "end_line": 9}
    rule["count"] = 2
    later = announce("c", {**found, "to_ms": 13_000}, settled.announced, is_settled=False)

    # Open for half a second only: it may be an election.
    assert changes(first.rows) == [("tenure", "epoch 4", "new"), ("rule", "P01", "new")]
    assert first.is_held
    assert quiet.rows == []
    assert changes(settled.rows) == [("leaderless", "orders-3", "new")]
    assert changes(later.rows) == [("leaderless", "orders-3", "ended"), ("rule", "P01", "grown")]
    assert later.rows[0]["says"] == "had no leader for 8.5 s: unknown"
    assert (later.rows[0]["file"], later.rows[0]["line"]) == ("b", 9)
    assert not later.is_held
    assert tuple(later.rows[0]) == KEYS
