"""Kafka's log files: layout, routing, levels, roll, and what happens when the disk does not."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT, ENOSPC
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ControllerMoved, SessionExpired
from kafka_common.observability.java_values import socket_address_text
from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.rolling_file import RollingFile
from kafka_common.observability.sturdy_file import RETRY_S, SturdyFile, TroubleTeller
from tests.support.kafka_log_shapes import RECORD, assert_is_kafkas
from zkcontroller.state_changes.log_files import LogFiles, install_log_files, log_line
from zkcontroller.state_changes.log_writer import SLICE_RECORDS, LogWriter
from zkcontroller.state_changes.record import Kind, StateChange

CONTROLLER = "kafka.controller.KafkaController"
SERVER = "kafka.server.KafkaServer"


@contextmanager
def installed(directory: Path, **options: Any) -> Iterator[LogFiles]:
    files = install_log_files(directory, broker_id=1, **({"stdout": False} | options))
    try:
        yield files
    finally:
        files.close()


def lines(directory: Path, name: str) -> list[str]:
    return (directory / name).read_text().splitlines()


def replica_state(partition: int) -> StateChange:
    return StateChange(
        Kind.REPLICA_STATE_CHANGED,
        "controller",
        1,
        controller_epoch=4,
        topic="orders",
        partition=partition,
        replica=2,
        from_state="NewReplica",
        to_state="OnlineReplica",
    )


def partition_online(partition: int) -> StateChange:
    return StateChange(
        Kind.PARTITION_STATE_CHANGED,
        "controller",
        1,
        controller_epoch=4,
        topic="orders",
        partition=partition,
        from_state="OfflinePartition",
        to_state="OnlinePartition",
        leader=2,
        leader_epoch=1,
        isr=(2,),
        zk_version=3,
    )


def test_a_line_has_kafkas_layout_in_local_time(tmp_path: Path) -> None:
    with installed(tmp_path):
        log_line(CONTROLLER, "INFO", "[Controller id=1] Resigned")

    (line,) = lines(tmp_path, "controller.log")
    assert_is_kafkas(line, "ctl-resigned")
    record = RECORD.fullmatch(line)
    assert record is not None
    stamp = time.strptime(record["time"].partition(",")[0], "%Y-%m-%d %H:%M:%S")
    assert abs(time.mktime(stamp) - time.time()) < 60


def test_lines_go_where_kafkas_configuration_sends_them_and_nowhere_else(tmp_path: Path) -> None:
    with installed(tmp_path):
        log_line(CONTROLLER, "TRACE", "c")
        log_line("kafka.controller.ControllerEventManager$ControllerEventThread", "DEBUG", "e")
        log_line("state.change.logger", "INFO", "s")
        log_line(SERVER, "INFO", "k")
        log_line("org.apache.kafka.clients.NetworkClient", "WARN", "n")
        log_line("kafka.request.logger", "WARN", "r")
        log_line("kafka.authorizer.logger", "INFO", "a")

    found = {
        path.name: [line[26:] for line in path.read_text().splitlines()]
        for path in tmp_path.iterdir()
    }
    assert found == {
        "controller.log": [
            "TRACE c (kafka.controller.KafkaController)",
            "DEBUG e (kafka.controller.ControllerEventManager$ControllerEventThread)",
        ],
        "state-change.log": ["INFO s (state.change.logger)"],
        "server.log": [
            "INFO k (kafka.server.KafkaServer)",
            "WARN n (org.apache.kafka.clients.NetworkClient)",
        ],
        "kafka-request.log": ["WARN r (kafka.request.logger)"],
        "kafka-authorizer.log": ["INFO a (kafka.authorizer.logger)"],
        "log-cleaner.log": [],
        "state-changes.jsonl": [],
    }


def test_levels_are_kafkas_unless_overridden(tmp_path: Path) -> None:
    with installed(tmp_path, levels={"kafka.controller": "INFO", "kafka.server": "DEBUG"}):
        log_line(CONTROLLER, "DEBUG", "hidden")
        log_line(SERVER, "DEBUG", "shown")
        log_line("kafka.zk.KafkaZkClient", "DEBUG", "hidden")
        log_line("state.change.logger", "DEBUG", "hidden")
        log_line("kazoo.client", "INFO", "hidden")

    assert lines(tmp_path, "controller.log") == []
    assert [line[26:] for line in lines(tmp_path, "server.log")] == [f"DEBUG shown ({SERVER})"]
    assert lines(tmp_path, "state-change.log") == []


def test_only_what_is_in_server_log_is_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(tmp_path, stdout=True):
        log_line(CONTROLLER, "INFO", "c")
        log_line(SERVER, "INFO", "k")

    assert capsys.readouterr().out == (tmp_path / "server.log").read_text()
    assert "(kafka.server.KafkaServer)" in (tmp_path / "server.log").read_text()


def test_a_restart_appends(tmp_path: Path) -> None:
    for life in ("first", "second"):
        with installed(tmp_path):
            log_line(SERVER, "INFO", life)

    assert [line[26:31] + line[31:37] for line in lines(tmp_path, "server.log")] == [
        "INFO first ",
        "INFO second",
    ]


def test_an_exception_stands_below_its_line_as_java_prints_it(tmp_path: Path) -> None:
    with installed(tmp_path):
        log_line(CONTROLLER, "WARN", "[Controller id=1] w", "java.io.IOException: broken\n\tat x")
        try:
            raise ControllerMoved("Controller epoch zkVersion check fails. Expected zkVersion = 3")
        except ControllerMoved as error:
            logging.getLogger(CONTROLLER).info("moved", exc_info=error)

    written = lines(tmp_path, "controller.log")
    assert written[0].endswith("WARN [Controller id=1] w (kafka.controller.KafkaController)")
    assert written[1:3] == ["java.io.IOException: broken", "\tat x"]
    assert written[4] == (
        "org.apache.kafka.common.errors.ControllerMovedException: "
        "Controller epoch zkVersion check fails. Expected zkVersion = 3"
    )
    assert re.fullmatch(r"\tat test_an_exception_\w+\(test_log_files\.py:\d+\)", written[5])


def test_causes_of_an_exception_are_printed_with_kafkas_names() -> None:
    def raise_both() -> None:
        try:
            raise ConnectionResetError("peer is gone")
        except OSError as error:
            raise SessionExpired("session 5 is over") from error

    with pytest.raises(SessionExpired) as caught:
        raise_both()

    text = throwable_text(caught.value).splitlines()
    assert text[0] == (
        "org.apache.zookeeper.KeeperException$SessionExpiredException: session 5 is over"
    )
    assert "Caused by: java.io.IOException: peer is gone" in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(ENOENT, "No such file or directory", "/a/b"), "/a/b (No such file or directory)"),
        (OSError("of our own"), "of our own"),
    ],
)
def test_a_failed_system_call_is_printed_as_java_does_it(error: OSError, text: str) -> None:
    assert throwable_text(error) == f"java.io.IOException: {text}"


def test_closing_gives_pythons_loggers_back(tmp_path: Path) -> None:
    names = ("", "kafka.controller", "state.change.logger", "kazoo")
    before = [
        (logger.level, logger.propagate, list(logger.handlers))
        for logger in map(logging.getLogger, names)
    ]

    with installed(tmp_path):
        pass

    after = [
        (logger.level, logger.propagate, list(logger.handlers))
        for logger in map(logging.getLogger, names)
    ]
    assert after == before


def test_state_changes_become_a_line_and_an_object_each(tmp_path: Path) -> None:
    with installed(tmp_path) as files:
        assert not files.is_tracing_state_changes
        files.state_changes.write([partition_online(0), partition_online(1)])

    log, export = lines(tmp_path, "state-change.log"), lines(tmp_path, "state-changes.jsonl")
    assert len(log) == len(export) == 2
    for line in log:
        assert_is_kafkas(line, "partition-online")
    assert [json.loads(line)["partition"] for line in export] == [0, 1]
    assert abs(json.loads(export[0])["time_ms"] - time.time() * 1000) < 60_000


def test_trace_records_are_in_the_log_only_at_trace_and_in_the_export_always(
    tmp_path: Path,
) -> None:
    with installed(tmp_path) as files:
        files.state_changes.write([replica_state(0)])
    assert lines(tmp_path, "state-change.log") == []

    with installed(tmp_path, levels={"state.change.logger": "TRACE"}) as files:
        assert files.is_tracing_state_changes
        files.state_changes.write([replica_state(1)])

    (line,) = lines(tmp_path, "state-change.log")
    assert_is_kafkas(line, "replica-state")
    assert len(lines(tmp_path, "state-changes.jsonl")) == 2


def test_flush_returns_when_everything_is_in_the_files(tmp_path: Path) -> None:
    with installed(tmp_path) as files:
        files.state_changes.write([partition_online(n) for n in range(3 * SLICE_RECORDS + 1)])
        log_line(SERVER, "INFO", "after")

        files.flush()

        assert len(lines(tmp_path, "state-change.log")) == 3 * SLICE_RECORDS + 1
        assert len(lines(tmp_path, "server.log")) == 1


def test_state_changes_wait_for_who_is_at_work_but_not_for_ever(tmp_path: Path) -> None:
    asked: list[str] = []

    def is_at_work() -> bool:
        asked.append("at work?")
        return True

    with installed(tmp_path) as files:
        files.give_way(is_at_work)
        files.state_changes.write([partition_online(n) for n in range(3 * SLICE_RECORDS)])

        assert files.flush()
        assert len(lines(tmp_path, "state-change.log")) == 3 * SLICE_RECORDS
    assert asked


def test_a_record_that_cannot_be_printed_is_reported_and_the_others_are_written(
    tmp_path: Path,
) -> None:
    broken = StateChange(Kind.LEADER_AND_ISR_IGNORED, "broker", 1, reason="no such reason")
    with installed(tmp_path) as files:
        files.state_changes.write([partition_online(0), broken, partition_online(1)])

    assert len(lines(tmp_path, "state-change.log")) == 2
    assert "ERROR Cannot print the state change" in lines(tmp_path, "server.log")[0]


def test_records_beyond_the_bound_are_dropped_counted_and_reported(tmp_path: Path) -> None:
    writer = LogWriter(
        tmp_path,
        files=("server.log", "controller.log"),
        state_change_levels=frozenset({"INFO"}),
        pending_bytes_capacity=10_000,
    )
    for number in range(1_000):
        writer.log("controller.log", time.time(), "INFO", CONTROLLER, f"line {number}")
    writer.flush()
    writer.log("server.log", time.time(), "INFO", SERVER, "later")
    writer.close()

    written = len(lines(tmp_path, "controller.log"))
    told = [int(n) for line in lines(tmp_path, "server.log")
            for n in re.findall(r"(\d+) log records were dropped", line)]  # fmt: skip
    assert written >= 30
    assert told
    assert written + sum(told) == 1_000


def test_one_event_may_be_larger_than_the_bound(tmp_path: Path) -> None:
    writer = LogWriter(
        tmp_path,
        files=("server.log",),
        state_change_levels=frozenset({"INFO"}),
        pending_bytes_capacity=10_000,
    )
    writer.write([partition_online(n) for n in range(1_000)])
    writer.close()

    assert len(lines(tmp_path, "state-changes.jsonl")) == 1_000


def at(hour: int, minute: int = 0) -> float:
    return time.mktime((2026, 11, 20, hour, minute, 0, 0, 0, -1))


def test_the_first_write_after_an_hour_boundary_rolls_the_file(tmp_path: Path) -> None:
    file = RollingFile(tmp_path / "controller.log")
    file.write(b"one\n", at(17, 58))
    file.write(b"two\n", at(17, 59))
    file.write(b"three\n", at(20, 1))
    file.write(b"four\n", at(20, 59))
    file.close()

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "controller.log.2026-11-20-17": "one\ntwo\n",
        "controller.log": "three\nfour\n",
    }


def test_a_restart_in_a_later_hour_rolls_what_the_earlier_one_left(tmp_path: Path) -> None:
    path = tmp_path / "controller.log"
    path.write_text("yesterday\n")
    written_s = path.stat().st_mtime

    file = RollingFile(path)
    file.write(b"today\n", written_s + 24 * 3600)
    file.close()

    hour = time.strftime("%Y-%m-%d-%H", time.localtime(written_s))
    assert (tmp_path / f"controller.log.{hour}").read_text() == "yesterday\n"
    assert path.read_text() == "today\n"


def test_an_hour_that_occurs_twice_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "controller.log.2026-11-20-17").write_text("first time\n")
    file = RollingFile(tmp_path / "controller.log")
    file.write(b"second time\n", at(17, 30))
    file.write(b"next\n", at(18))
    file.close()

    assert (tmp_path / "controller.log.2026-11-20-17").read_text() == "first time\nsecond time\n"
    assert (tmp_path / "controller.log").read_text() == "next\n"


def test_hours_without_a_line_leave_no_file(tmp_path: Path) -> None:
    file = RollingFile(tmp_path / "controller.log")
    file.open(at(17))
    file.write(b"", at(17))
    file.write(b"late\n", at(19))
    file.close()

    assert [path.name for path in tmp_path.iterdir()] == ["controller.log"]


def test_a_directory_that_cannot_be_written_is_reported_once_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    obstacle = tmp_path / "logs"
    obstacle.write_text("a file where the directory should be")
    file = SturdyFile(obstacle / "server.log", TroubleTeller(), lambda: now_s)
    file.open()
    file.write(b"lost\n", time.time())
    now_s += RETRY_S
    file.write(b"lost too\n", time.time())
    file.flush()
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"cannot write {obstacle / 'server.log'}: ")

    obstacle.unlink()
    now_s += RETRY_S
    file.write(b"written\n", time.time())
    file.flush()
    file.close()

    note, line = lines(obstacle, "server.log")
    assert "WARN 14 bytes of this log were lost" in note
    assert line == "written"
    assert capsys.readouterr().err == ""


def test_all_files_of_a_directory_that_is_none_are_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file where the directory should be")
    with installed(tmp_path / "logs") as files:
        log_line(SERVER, "INFO", "lost")
        log_line(CONTROLLER, "INFO", "lost")
        files.state_changes.write([partition_online(0)])

    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_is_reported_once_however_long_it_stays_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_s = 0.0
    file = SturdyFile(Path("/dev/full"), TroubleTeller(), lambda: now_s)
    for _ in range(5):
        file.write(b"x" * 100_000, time.time())
        file.flush()
        now_s += RETRY_S

    assert capsys.readouterr().err.count("No space left on device") == 1


def test_an_address_is_printed_as_java_prints_it() -> None:
    assert socket_address_text("127.0.0.1", 9092) == "/127.0.0.1:9092"
    assert socket_address_text("::1", 9092) == "/[::1]:9092"
    assert socket_address_text("localhost", 9092, "127.0.0.1") == "localhost/127.0.0.1:9092"
    assert socket_address_text("broker", 9092) == "broker/<unresolved>:9092"
