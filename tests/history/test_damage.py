"""Logs as they really lie about: mixed encodings, Windows' line ends, logs of two clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_history.readers.found_tables import read_sources, wanting
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.sources import Source, look_at
from kafka_history.report.rules_hit import rules_hit

from .stored import stored_report
from .test_pieces import rows

HEAD = "[2026-11-20 18:08:31,404] INFO "
ELECTED = (
    f"{HEAD}[Controller id=2] 2 successfully elected as the controller. Epoch incremented to 7 and "
    "epoch zk version is now 8 (kafka.controller.KafkaController)\n"
)
HELLO = f"{HEAD}Größe (kafka.unheard.Of)\n"
MINE, THEIRS = "AbCdEfGhIjKlMnOpQrStUv", "ZyXwVuTsRqPoNmLkJiHgFe"


def cluster_id(name: str) -> str:
    return f"{HEAD}Cluster ID = {name} (kafka.server.KafkaServer)\n"


def look(*paths: Path) -> dict[str, Source]:
    return {Path(s.file).name: s for s in look_at([str(path) for path in paths])}


def test_encodings_and_line_ends_may_change_within_a_file(tmp_path: Path) -> None:
    log = tmp_path / "controller.log"
    log.write_bytes(
        ELECTED.replace("\n", "\r\n").encode()
        + HELLO.encode("latin-1")
        + HELLO.encode()
        # Another program wrote UTF-16 into it.
        + ELECTED.encode("utf-16-le")
        + b"\n"
        + ELECTED.encode()
    )

    found = rows(log)

    elected = [row for row in found if row["shape"] == "ctl-elected"]
    assert [row["logger"] for row in elected] == ["kafka.controller.KafkaController"] * 2
    assert [row["text"].endswith("version is now 8") for row in elected] == [True, True]
    sizes = [
        row["text"].split("INFO ")[1][:5] for row in found if row["logger"] and row not in elected
    ]
    assert [size.strip() for size in sizes] == ["Gr\ufffd\ufffde", "Größe"]
    assert {row["time_ms"] for row in found} == {1795198111404}


def test_a_mark_of_byte_order_costs_nothing_but_itself(tmp_path: Path) -> None:
    log = tmp_path / "controller.log"
    log.write_bytes(b"\xef\xbb\xbf" + (ELECTED * 2).encode())

    assert look(log)["controller.log"].format == "log4j"
    assert [row["shape"] for row in rows(log) if row["shape"]] == ["ctl-elected"] * 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (ELECTED.encode("utf-16"), "it is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"),
        (b"\x7fELF\0\0\0" * 100, "it is binary, not a log"),
        (b"2026-11-20 18:08:31 INFO no bracket\n", "is the pattern another one?"),
    ],
    ids=["utf-16", "binary", "pattern"],
)
def test_what_cannot_be_read_says_why(content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(content)
    (tmp_path / "controller.log").write_text(ELECTED)

    found = look(tmp_path)

    assert problem in str(found["server.log"].problem)
    assert found["server.log"].format is None
    assert found["controller.log"].format == "log4j"


def test_logs_of_two_clusters_in_one_folder_are_parted_where_they_tell(tmp_path: Path) -> None:
    (tmp_path / "a-server.log").write_text(cluster_id(MINE) + ELECTED)
    (tmp_path / "b-server.log").write_text(cluster_id(THEIRS) + ELECTED)
    (tmp_path / "state-change.log").write_text(HELLO)

    found = look(tmp_path)

    assert found["a-server.log"].cluster == MINE
    assert found["b-server.log"].cluster == THEIRS
    assert found["state-change.log"].cluster not in (MINE, THEIRS)
    assert found["state-change.log"].problem == (
        f"whose it is cannot be told: logs of {MINE} and {THEIRS} are in its folder; say --cluster"
    )
    assert found["a-server.log"].problem is None


def test_two_clusters_in_folders_side_by_side_are_parted(tmp_path: Path) -> None:
    for folder, name in ("one", MINE), ("two", THEIRS):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}-server.log").write_text(cluster_id(name) + ELECTED)
        (tmp_path / folder / f"{folder}-state-change.log").write_text(HELLO)

    found = look(tmp_path)

    assert {name: s.cluster for name, s in found.items()} == {
        "one-server.log": MINE, "one-state-change.log": MINE,
        "two-server.log": THEIRS, "two-state-change.log": THEIRS,
    }  # fmt: skip
    assert not [source.problem for source in found.values() if source.problem]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-20T18:08:31.404+0000][0.011s][gc] Using G1",
        "[0.011s][info][gc,heap] Heap region size: 1M",
        "2026-11-20T18:08:31.404+0000: 1.023: [GC (Allocation Failure) 1.023: [ParNew: 1K->2K]",
        "[2026-11-20 18:08:31,404] INFO binding to port 0.0.0.0/0.0.0.0:2181 "
        "(org.apache.zookeeper.server.NIOServerCnxnFactory)",
        "2026-11-20 18:08:31,404 [myid:1] - INFO  [main:QuorumPeerConfig@135] - Reading",
    ],
)
def test_logs_of_other_programs_beside_a_broker_s_are_no_problem(line: str, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text(f"a heading\n{line}\n")
    (tmp_path / "controller.log").write_text(ELECTED + f"{line}\n")
    ingest_here([str(tmp_path)], IngestOptions(str(tmp_path / "history")), 1)

    [source, _] = sorted(read_sources(tmp_path / "history"), key=lambda row: row["format"] or "")

    assert (source["file"], source["status"]) == (str(other), "skipped")
    assert source["problem"].startswith("no log of a broker: ")
    assert wanting(tmp_path / "history") == []


def test_a_log_of_no_broker_is_no_sign_of_another_cluster(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(cluster_id(MINE) + ELECTED)
    (tmp_path / "zookeeper" / "data").mkdir(parents=True)
    (tmp_path / "zookeeper" / "data" / "zookeeper.log").write_text(HELLO)
    (tmp_path / "old" / "site").mkdir(parents=True)
    (tmp_path / "old" / "site" / "controller.log").write_text(ELECTED)

    assert {name: source.cluster for name, source in look(tmp_path).items()} == {
        "server.log": MINE, "zookeeper.log": MINE, "controller.log": "site",
    }  # fmt: skip


def test_segments_of_records_in_a_folder_are_no_logs(tmp_path: Path) -> None:
    data = tmp_path / "broker-1" / "data" / "orders-0"
    data.mkdir(parents=True)
    for name in (f"{7:020}.log", f"{7:020}.index", f"{0:020}.log.deleted", f"{3:020}.log.cleaned"):
        (data / name).write_bytes(b"\0" * 9)
    logs = tmp_path / "broker-1" / "logs"
    logs.mkdir()
    for name in ("server.log", "server.log.2026-11-20-18", "00000000000000000000-server.log.gz"):
        (logs / name).write_text(cluster_id(MINE) + ELECTED * len(name))

    assert {name: source.cluster for name, source in look(tmp_path).items()} == {
        "server.log": MINE,
        "server.log.2026-11-20-18": MINE,
        "00000000000000000000-server.log.gz": MINE,
    }


def test_two_cluster_ids_in_one_history_are_a_finding() -> None:
    found = stored_report()

    def sign(name: str, line: int) -> dict[str, Any]:
        proof = {"count": 1, "first_ms": 1, "file": "server.log", "line": line}
        return {"sign": f"cluster {name}", "broker": 1, **proof}

    def hit(signs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        rules = rules_hit({**found, "signs": list(signs)})
        return [rule for rule in rules if rule["id"] == "K03"]

    assert hit([sign(MINE, 3), sign(MINE, 9)]) == []
    (rule,) = hit([sign(MINE, 3), sign(THEIRS, 9)])
    assert rule["says"] == f"{MINE}, {THEIRS}"
    assert rule["evidence"] == [
        {"file": "server.log", "line": 3},
        {"file": "server.log", "line": 9},
    ]
