"""Recordings of a cluster's own files; a corrupt one is refused with its line."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller_lab import state_change_files
from zkcontroller_lab.recording import Recording
from zkcontroller_lab.state_change_files import CorruptStateChanges, read_files

ELECTED = StateChange(Kind.CONTROLLER_ELECTED, "controller", 1, controller_epoch=1)
ONLINE = StateChange(
    Kind.PARTITION_STATE_CHANGED,
    "controller",
    1,
    controller_epoch=1,
    topic="orders",
    partition=0,
    from_state="NewPartition",
    to_state="OnlinePartition",
    leader=2,
    leader_epoch=0,
    isr=(2, 3),
    zk_version=0,
    leader_recovery_state=0,
    state_controller_epoch=1,
)
FOLLOWS = StateChange(
    Kind.FOLLOWER_STARTED,
    "broker",
    3,
    controller_epoch=1,
    controller_id=1,
    correlation_id=7,
    topic="orders",
    partition=0,
    leader=2,
    leader_epoch=0,
    isr=(2, 3),
    zk_version=0,
    offset=0,
    high_watermark=0,
    previous_leader_epoch=-1,
)
REMOVED = ONLINE._replace(
    kind=Kind.REPLICA_REMOVED_FROM_ISR,
    broker_id=2,
    controller_epoch=2,
    from_state=None,
    to_state=None,
    replica=3,
    isr=(2,),
    leader_epoch=1,
    zk_version=1,
)
ELECTED_AGAIN = StateChange(Kind.CONTROLLER_ELECTED, "controller", 2, controller_epoch=2)


def written(path: Path, *records: tuple[int, StateChange]) -> Path:
    path.write_bytes(
        b"".join(json_line(record, time_ms=time_ms, host="h") for time_ms, record in records)
    )
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Of three brokers, each in its own order of time."""
    return [
        written(tmp_path / "1.jsonl", (1_000, ELECTED), (1_010, ONLINE)),
        written(tmp_path / "2.jsonl", (2_000, ELECTED_AGAIN), (2_005, REMOVED)),
        written(tmp_path / "3.jsonl", (1_020, FOLLOWS)),
    ]


def end_of(recording: Recording) -> dict[str, object]:
    return recording.frame(len(recording.steps) - 1)


def test_the_files_of_all_brokers_become_one_order_of_time(files: list[Path]) -> None:
    recording = read_files(list(reversed(files)))

    assert [step.time_ms for step in recording.steps] == [0, 10, 20, 1_000, 1_005]
    assert [step.lines[0].broker_id for step in recording.steps] == [1, 1, 3, 2, 2]
    assert recording.to_json() == read_files(list(reversed(files))).to_json()


def test_a_frame_has_what_controllers_decided_and_brokers_took_over(files: list[Path]) -> None:
    recording = read_files(files)

    decided = recording.frame(1)["partition/orders-0"]
    assert (decided["leader"], decided["isr"], decided["brokers"]) == (2, [2, 3], {})
    taken = recording.frame(2)["partition/orders-0"]
    assert taken["brokers"] == {"3": {"leader": 2, "leader_epoch": 0}}
    end = recording.frame(4)
    assert end["partition/orders-0"]["isr"] == [2]
    assert end["partition/orders-0"]["leader_epoch"] == 1
    assert (end["broker/1"]["is_controller"], end["broker/1"]["is_deposed"]) == (True, True)
    assert (end["broker/2"]["is_controller"], end["broker/2"]["is_deposed"]) == (True, False)


def test_a_line_is_what_kafka_logs(files: list[Path]) -> None:
    (line,) = read_files(files).steps[1].lines

    assert line.text.startswith("[Controller id=1 epoch=1] Changed partition orders-0 from")
    assert line.partitions == ("orders-0",)


def test_a_line_that_is_still_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = written(tmp_path / "live.jsonl", (1_000, ELECTED), (1_010, ONLINE))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    assert len(read_files([path]).steps) == 1
    path.write_bytes(whole)
    assert len(read_files([path]).steps) == 2


def test_an_empty_file_has_no_step(tmp_path: Path) -> None:
    path = written(tmp_path / "empty.jsonl")

    recording = read_files([path])

    assert (recording.steps, recording.ended) == ([], "the files hold no record yet")


def changed(record: StateChange, **fields: object) -> bytes:
    """A record's line with other fields; None takes a field away."""
    found = orjson.loads(json_line(record, time_ms=1, host="h")) | fields
    return orjson.dumps({name: value for name, value in found.items() if value is not None})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "schema_version is None"),
        (changed(ONLINE, schema_version=2), "schema_version is 2"),
        (changed(ONLINE, time_ms="soon"), "time_ms is 'soon'"),
        (changed(ONLINE, kind="gossip"), "the kind is 'gossip'"),
        (changed(ONLINE, component="client"), "the component is 'client'"),
        (changed(ONLINE, broker_id=True), "the broker_id is True"),
        (changed(ONLINE, leader="2"), "leader is '2'"),
        (changed(ONLINE, isr=[2, "3"]), "isr is"),
        (changed(ONLINE, isr="23"), "isr is '23'"),
        (changed(ONLINE, topic=7), "topic is 7"),
        (changed(ONLINE, topic=None), "without topic"),
        (changed(ONLINE, is_new=1), "is_new is 1"),
    ],
)
def test_a_corrupt_line_is_refused_with_file_and_line(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = written(tmp_path / "corrupt.jsonl", (1_000, ELECTED))
    path.write_bytes(path.read_bytes() + line + b"\n")

    with pytest.raises(CorruptStateChanges, match=reason) as refused:
        read_files([path])
    assert str(refused.value).startswith(f"{path}:2: ")


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "large.jsonl", *[(1_000 + each, ELECTED) for each in range(50)])

    with pytest.raises(CorruptStateChanges, match="more than 100 files"):
        read_files([path] * 101)
    monkeypatch.setattr(state_change_files, "MOST_STEPS", 10)
    assert read_files([path]).ended == "cut after 10 steps"
    monkeypatch.setattr(state_change_files, "LONGEST_LINE", 50)
    with pytest.raises(CorruptStateChanges, match=r":1: longer than 50 bytes"):
        read_files([path])
    monkeypatch.setattr(state_change_files, "MOST_BYTES", 100)
    with pytest.raises(CorruptStateChanges, match="100 is the most"):
        read_files([path])
