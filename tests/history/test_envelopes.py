"""Logs as collectors leave them: JSON lines, syslog, stern, and Strimzi's layout in all of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from kafka_history.readers.patterns import Pattern
from kafka_history.readers.piece_reader import read_pieces
from kafka_history.readers.pieces import tasks_of
from kafka_history.readers.sources import Source, look_at

WHEN: Final = "2026-11-20 18:08:31,404"
TIME_MS: Final = 1795198111404
LOGGERS: Final = ("state.change.logger", "kafka.controller.KafkaController")
MESSAGES: Final = (
    "ERROR [Controller id=2 epoch=7] Controller 2 epoch 7 failed to change state for partition "
    "orders-1 from OfflinePartition to OnlinePartition",
    "INFO [Controller id=2] 2 successfully elected as the controller. Epoch incremented to 7 and "
    "epoch zk version is now 8",
)
TRACE: Final = (
    "kafka.common.StateChangeFailedException: Failed to elect leader for partition orders-1",
    "\tat scala.collection.Iterator.foreach(Iterator.scala:5)",
)
LAYOUTS: Final[dict[str, Callable[[str, str], str]]] = {
    "default": lambda message, logger: f"[{WHEN}] {message} ({logger})",
    "strimzi": lambda message, logger: f"{WHEN} {message} ({logger}) [controller-event-thread]",
}


def lines(layout: str) -> list[str]:
    """An error with its trace, and an election."""
    failed, elected = map(LAYOUTS[layout], MESSAGES, LOGGERS)
    return [failed, *TRACE, elected]


def as_json(**around: Any) -> Callable[[str, int], str]:
    """Envelopes of JSON: LINE is the line, SPEAKER tells one pod from the other."""

    def filled(value: Any, line: str, speaker: int) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner, line, speaker) for key, inner in value.items()}
        if isinstance(value, str):
            return value.replace("LINE", line).replace("SPEAKER", str(speaker))
        return value

    return lambda line, speaker: json.dumps(filled(around, line, speaker))


ENVELOPES: Final[dict[str, tuple[str, Callable[[str, int], str], bool]]] = {
    # name: (format, envelope, whether it tells speakers apart)
    "filebeat": ("json", as_json(**{
        "@timestamp": "2026-11-20T18:08:31.404Z", "message": "LINE", "input": {"type": "log"},
        "log": {"offset": 7, "file": {"path": "/logs/kafka-SPEAKER.log"}}, "host": {"name": "h"},
    }), False),
    "filebeat-kubernetes": ("json", as_json(
        message="LINE", kubernetes={"pod": {"name": "kafka-SPEAKER"}}, stream="stdout",
    ), True),
    "fluent-bit": ("json", as_json(
        date=1795198111.4, log="LINE\n", stream="stdout",
        kubernetes={"pod_name": "kafka-SPEAKER", "namespace_name": "prod"},
    ), True),
    "docker": ("json", as_json(
        log="LINE\n", stream="stdout", time="2026-11-20T18:08:31.404920301Z",
    ), False),
    "stern-json": ("json", as_json(
        message="LINE", nodeName="n", namespace="prod", podName="kafka-SPEAKER",
        containerName="kafka",
    ), True),
    "elasticsearch": ("json", as_json(
        _index="logs", _source={"message": "LINE", "host": {"name": "host-SPEAKER"}},
    ), True),
    "stern": ("stern", lambda line, who: f"kafka-{who} kafka {line}", True),
    "stern-coloured": ("stern", lambda line, who: f"\x1b[36mkafka-{who}\x1b[0m kafka {line}", True),
    "stern-namespaces": ("stern-namespaces", lambda line, who: f"prod kafka-{who} k {line}", True),
    "rfc-5424": ("syslog", lambda line, who: (
        f"<14>1 2026-11-20T18:08:31.404920+00:00 host-{who} kafka 4711 - - {line}"
    ), True),
    "rfc-5424-data": ("syslog", lambda line, who: (
        f'1 2026-11-20T18:08:31Z host-{who} kafka - ID47 [a@1 b="c \\" ]"][d@2] \ufeff{line}'
    ), True),
    "rfc-3164": ("syslog-bsd", lambda line, who: (
        f"<30>Nov 20 18:08:31 host-{who} kafka[4711]: {line}"
    ), True),
    "kubectl-prefix": ("prefixed", lambda line, who: f"[pod/kafka-{who}/kafka] {line}", True),
    "cri": ("prefixed", lambda line, _: f"2026-11-20T19:08:31.4+01:00 stdout F {line}", False),
}  # fmt: skip


def read(path: Path, pattern: str | None = None) -> tuple[Source, list[dict[str, Any]], int]:
    """What the file is taken for, its rows in order, and its lines."""
    compiled = None if pattern is None else Pattern(pattern)
    (source,) = look_at([str(path)], pattern=compiled)
    events = path.parent / f"events-{path.stem}"
    found = [
        found
        for number, task in enumerate(tasks_of([source], 1))
        for found in read_pieces(number, task, str(events), "UTC", lambda _: None, pattern)
    ]
    rows = [row for file in events.rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return source, sorted(rows, key=lambda row: row["line_id"]), sum(f.end_id for f in found)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ENVELOPES)
def test_records_come_whole_out_of_every_envelope_and_layout(
    tmp_path: Path, name: str, layout: str
) -> None:
    form, envelope, tells_apart = ENVELOPES[name]
    speakers = (0, 1) if tells_apart else (0,)
    log = tmp_path / "all.log"
    log.write_text(
        "".join(envelope(line, who) + "\n" for line in lines(layout) for who in speakers)
    )

    source, rows, count = read(log)

    assert source.format == (form if layout == "default" else f"{form} {layout}")
    assert source.problem is None
    assert count == 4 * len(speakers)
    found = [
        (row["shape"], row["lines"], row["exception_frame_count"], row["time_ms"]) for row in rows
    ]
    assert found == (
        [("partition-failed", 3, 1, TIME_MS)] * len(speakers)
        + [("ctl-elected", 1, None, TIME_MS)] * len(speakers)
    )


def test_a_trace_that_the_collector_put_into_one_line_is_below_its_record(tmp_path: Path) -> None:
    log = tmp_path / "all.json.log"
    failed, *trace, elected = lines("default")
    records = ["\n".join([failed, *trace]), elected, elected]
    log.write_text("".join(json.dumps({"message": text, "host": "a"}) + "\n" for text in records))

    _, rows, count = read(log)

    assert count == 3
    assert [(row["shape"], row["exception_frame_count"], row["line_id"]) for row in rows] == [
        ("partition-failed", 1, 0), ("ctl-elected", None, 1), ("ctl-elected", None, 2),
    ]  # fmt: skip


def test_a_line_that_docker_or_the_cri_cut_is_put_together_again(tmp_path: Path) -> None:
    topics = ",".join(f"topic-{number}" for number in range(4_000))
    long = f"[{WHEN}] INFO [Controller id=2] List of topics to be deleted: {topics}"
    line = f"{long} (kafka.controller.KafkaController)"
    parts = [line[start : start + 16_384] for start in range(0, len(line), 16_384)]
    docker, cri = tmp_path / "docker.log", tmp_path / "cri.log"
    docker.write_text(
        "".join(
            json.dumps({"log": part + "\n" * (part is parts[-1]), "stream": "stdout", "time": ""})
            + "\n"
            for part in parts
        )
    )
    cri.write_text(
        "".join(
            f"2026-11-20T18:08:31.4Z stdout {'F' if part is parts[-1] else 'P'} {part}\n"
            for part in parts
        )
    )

    for log in (docker, cri):
        _, rows, count = read(log)
        assert count == len(parts) > 2
        assert [row["shape"] for row in rows] == ["ctl-deletions-pending"]


def test_a_pattern_is_read_in_an_envelope_too(tmp_path: Path) -> None:
    log = tmp_path / "pods.log"
    log.write_text(
        f"[pod/kafka-0/kafka] {WHEN} INFO  kafka.controller.KafkaController - "
        f"{MESSAGES[1].removeprefix('INFO ')}\n"
    )

    source, rows, _ = read(log, "%d %-5p %c - %m%n")

    assert source.format == "prefixed patterned"
    assert [(row["shape"], row["time_ms"]) for row in rows] == [("ctl-elected", TIME_MS)]


def test_a_prefix_that_cannot_be_taken_off_is_named_and_nothing_is_read(tmp_path: Path) -> None:
    log = tmp_path / "all.log"
    log.write_text("".join(f"{{{n}}} <Kafka!> {text}\n" for n, text in enumerate(lines("default"))))

    (source,) = look_at([str(log)])

    assert source.format is None
    assert source.problem is not None
    assert "'{0} <Kafka!> '" in source.problem


def test_a_few_lines_without_the_prefix_do_not_make_one_record_of_the_others(
    tmp_path: Path,
) -> None:
    log, unknown = tmp_path / "all.log", tmp_path / "unknown.log"
    bare, *_ = lines("default")
    log.write_text("\n".join([bare, *(f"kafka-0 kafka {line}" for line in lines("default") * 3)]))
    unknown.write_text("\n".join([bare, *(f"<Kafka!> {line}" for line in lines("default") * 3)]))

    source, rows, _ = read(log)
    (other,) = look_at([str(unknown)])

    assert source.format == "stern"
    assert len(rows) == 7
    assert other.format is None
    assert "'<Kafka!> '" in str(other.problem)


def test_of_services_with_two_layouts_the_layout_of_most_lines_is_read(tmp_path: Path) -> None:
    log = tmp_path / "compose.log"
    others = [f"zookeeper_1  | {line}" for line in lines("default")]
    log.write_text("\n".join([*others, *(f"kafka_1 | {line}" for line in lines("strimzi") * 2)]))

    source, rows, _ = read(log)

    assert source.format == "prefixed strimzi"
    assert sum(row["shape"] is not None for row in rows) == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_a_pattern_the_reason_does_not_ask_for_one(tmp_path: Path, layout: str) -> None:
    prefixed, nothing = tmp_path / "prefixed.log", tmp_path / "nothing.log"
    prefixed.write_text("".join(f"<Kafka!> {line}\n" for line in lines(layout)))
    nothing.write_text("one line\nand another\n")
    text = {"default": "[%d] %p %m (%c)%n", "strimzi": "%d %p %m (%c) [%t]%n"}[layout]

    sources = look_at([str(prefixed), str(nothing)], pattern=Pattern(text))

    problems = {Path(source.file).stem: str(source.problem) for source in sources}
    assert [source.format for source in sources] == [None, None]
    assert "'<Kafka!> '" in problems["prefixed"]
    assert problems["nothing"] == (
        f"no line of it fits the pattern {text!r}, or begins like log4j's [date] LEVEL"
    )


ZONED: Final = "2026-11-20T19:08:31.404+01:00"
JSON_LAYOUTS: Final[dict[str, Callable[[str, str, str, Sequence[str]], dict[str, Any]]]] = {
    # name: the object for a level, a logger, a message and the lines of a trace
    "JsonLayout": lambda level, logger, message, trace: {
        "instant": {"epochSecond": 1795198111, "nanoOfSecond": 404000000}, "thread": "main",
        "level": level, "loggerName": logger, "message": message, "endOfBatch": False,
    } | ({"thrown": {
        "name": trace[0].split(": ")[0], "message": trace[0].split(": ")[1],
        "extendedStackTrace": [{
            "class": "scala.collection.Iterator", "method": "foreach", "file": "Iterator.scala",
            "line": 5,
        }],
    }} if trace else {}),
    "JsonLayout of 2.10": lambda level, logger, message, trace: {
        "timeMillis": TIME_MS, "level": level, "loggerName": logger, "message": message,
    } | ({"thrown": {"extendedStackTrace": "\n".join(trace)}} if trace else {}),
    "ECS": lambda level, logger, message, trace: {
        "@timestamp": "2026-11-20T18:08:31.404Z", "ecs.version": "1.2.0", "log.level": level,
        "message": message, "log.logger": logger,
    } | ({"error.stack_trace": "\n".join(trace) + "\n"} if trace else {}),
    "ECS as objects": lambda level, logger, message, trace: {
        "@timestamp": ZONED, "log": {"level": level.lower(), "logger": logger}, "message": message,
    } | ({"error": {"stack_trace": "\n".join(trace)}} if trace else {}),
    "Logstash": lambda level, logger, message, trace: {
        "@timestamp": ZONED, "level": level, "logger_name": logger, "message": message,
    } | ({"exception": {"stacktrace": "\n".join(trace)}} if trace else {}),
}  # fmt: skip
AROUND: Final[dict[str, Callable[[str], str]]] = {
    "nothing": lambda line: line,
    "cri": lambda line: f"2026-11-20T18:08:32.000000001Z stdout F {line}",
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "-"}),
    "filebeat": lambda line: json.dumps({"@timestamp": ZONED, "message": line, "host": "a"}),
    "filebeat-decoded": lambda line: json.dumps({"message": "-", "json": json.loads(line)}),
    "elasticsearch": lambda line: json.dumps({"_index": "logs", "_source": json.loads(line)}),
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("layout", JSON_LAYOUTS)
def test_records_that_log4j_wrote_as_json_are_read(
    tmp_path: Path, layout: str, around: str
) -> None:
    log = tmp_path / "kafka.log"
    objects = [
        JSON_LAYOUTS[layout](level, logger, message, trace)
        for (level, _, message), logger, trace in zip(
            (message.partition(" ") for message in MESSAGES), LOGGERS, (TRACE, ()), strict=True
        )
    ]
    log.write_text("".join(AROUND[around](json.dumps(each)) + "\n" for each in objects))

    source, rows, _ = read(log)

    assert (source.format, source.problem) == ("json-records", None)
    assert [
        (row["shape"], row["level"], row["exception_frame_count"], row["time_ms"], row["line_id"])
        for row in rows
    ] == [
        ("partition-failed", "ERROR", 1, TIME_MS, 0),
        ("ctl-elected", "INFO", None, TIME_MS, 1),
    ]


@pytest.mark.parametrize(
    "missing",
    [
        {"timeMillis": None},
        {"timeMillis": None, "timestamp": "2026-11-20 18:08:31,404"},
        {"level": "SEVERE"},
        {"loggerName": None},
        {"message": {"text": "an object"}},
    ],
)
def test_json_without_what_a_record_needs_is_named_and_not_read(
    tmp_path: Path, missing: dict[str, Any]
) -> None:
    """A time without a zone would be wrong by hours where brokers are not on UTC."""
    log = tmp_path / "kafka.log"
    record = JSON_LAYOUTS["JsonLayout of 2.10"]("INFO", LOGGERS[1], "some text", [])
    log.write_text(json.dumps(record | missing) + "\n")

    (source,) = look_at([str(log)])

    assert source.format is None
    assert source.problem == (
        "its lines are JSON, but not of a log4j layout that is known: a time with its zone, a "
        "level, a logger and a message"
    )


LOG: Final = "".join(f"{line}\n" for line in lines("default")).encode()


def archived(name: str) -> bytes:
    """An archive with one log in it."""
    archive = BytesIO()
    if name == "tar":
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("server.log")
            entry.size = len(LOG)
            tar.addfile(entry, BytesIO(LOG))
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("server.log", LOG)
    return archive.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archived("tar"), "it is an archive; unpack it first, by tar -xf, and name the folder"),
        (archived("zip"), "it is an archive; unpack it first, by unzip, and name the folder"),
        (bz2.compress(LOG), "it is packed by bzip2; unpack it first, by bunzip2"),
        (lzma.compress(LOG), "it is packed by xz; unpack it first, by unxz"),
        (gzip.compress(LOG), "it is packed by gzip; give it a name that ends with .gz"),
    ],
    ids=["tar", "zip", "bzip2", "xz", "gzip"],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_archive_is_named_and_how_to_unpack_it(
    tmp_path: Path, content: bytes, reason: str, suffix: str
) -> None:
    """Logs lie in it as they are: they would be read as one, with the archive's own bytes."""
    log = tmp_path / f"server.log{suffix}"
    log.write_bytes(gzip.compress(content) if suffix else content)

    (source,) = look_at([str(log)])

    assert (source.format, source.problem) == (None, reason)
