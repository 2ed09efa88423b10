"""Logs in other layouts than Kafka's default one: the same records give the same rows."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_history.readers.content import Content
from kafka_history.readers.found_tables import read_sources
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.log_times import zone_of
from kafka_history.readers.patterns import Pattern
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.record_blocks import patterned_blocks, record_blocks
from kafka_history.readers.sources import look_at
from kafka_history.readers.typed_tables import Typer

from .conftest import DATA

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

BERLIN: Final = timezone(timedelta(hours=1))
"""What Europe/Berlin has in November."""
DEFAULT: Final = "%Y-%m-%d %H:%M:%S,{n}"
_HEAD: Final = re.compile(r"^\[(20[^\]]*)\] ([A-Z]+) (.*) \(([\w.$-]+)\)$", re.DOTALL)


def told_otherwise(log: Path, layout: str, date: str = DEFAULT, zone: timezone = UTC) -> str:
    """A log of the default layout in another one; ``{n}`` is the milliseconds."""
    text = gzip.decompress(log.read_bytes()).decode() if log.suffix == ".gz" else log.read_text()
    written = []
    for record in re.split(r"\n(?=\[20)", text.rstrip("\n")):
        first, _, below = record.partition("\n")
        match = _HEAD.match(first)
        if match is None:  # a message of several lines
            match, below = _HEAD.match(record), ""
        assert match is not None, record
        moment = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        when = moment.astimezone(zone).strftime(date).format(n=f"{moment.microsecond // 1000:03d}")
        line = layout.format(
            date=when,
            level=match[2],
            left=match[2].ljust(5),
            right=match[2].rjust(5),
            message=match[3],
            logger=match[4],
            last=match[4].rpartition(".")[2],
        )
        written.append(f"{line}\n{below}" if below else line)
    return "\n".join(written) + "\n"


LAYOUTS: Final = {
    "logger before the message": (
        "%d{ISO8601} %-5p %c{1} [%t] - %m%n",
        "{date} {left} {last} [main-EventThread] - {message}",
        DEFAULT,
        UTC,
    ),
    "message first, date last": (
        "%m | %p | %c | %d%n",
        "{message} | {level} | {logger} | {date}",
        DEFAULT,
        UTC,
    ),
    "log4j 2, with its offset": (
        "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5level %X{requestId} %logger: %msg%n%ex",
        "{date} {left}  {logger}: {message}",
        "%Y-%m-%dT%H:%M:%S.{n}+01:00",
        BERLIN,
    ),
    "like the default one, with the thread": (
        "[%d] %p [%t] %m (%c)%n",
        "[{date}] {level} [controller-event-thread] {message} ({logger})",
        DEFAULT,
        UTC,
    ),
    "American, in local time": (
        "%d{MM/dd/yy HH:mm:ss.SSS}{Europe/Berlin} 100%% %p %m (%c)%n",
        "{date} 100% {level} {message} ({logger})",
        "%m/%d/%y %H:%M:%S.{n}",
        BERLIN,
    ),
    "names of months": (
        "%d{DATE} %5p %c - %m%n",
        "{date} {right} {logger} - {message}",
        "%d %b %Y %H:%M:%S,{n}",
        UTC,
    ),
}


def rows_of(log: Path, pattern: str | None = None) -> pa.Table:
    """Every row of a file without what depends on the layout, in the order of the lines."""
    content = Content(log)
    typer = Typer(zone_of("UTC"))
    if pattern is None:
        blocks = record_blocks(content, 0, None)
    else:
        blocks = patterned_blocks(content, Pattern(pattern))
    tables = [typer.typed(block).table for block in blocks]
    return pa.concat_tables(tables).sort_by("line_id").drop_columns(["size_bytes"])


def stripped(row: dict[str, Any]) -> dict[str, Any]:
    """A row without newlines at the end of its texts: at the end of a record no one sees them."""
    values = [(key, value.rstrip()) for key, value in row["values"] or ()]
    return {**row, "values": values, "text": row["text"].rstrip()}


def test_two_loggers_of_one_short_name_are_known_by_their_messages(tmp_path: Path) -> None:
    said = (
        "Principal = User:alice is Denied Operation = Write from host = 192.0.2.1 on resource = x"
    )
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(f"2026-01-02 03:04:05,678 INFO  logger [main] - {said}\n")

    [row] = rows_of(log, LAYOUTS["logger before the message"][0]).to_pylist()

    assert (row["shape"], row["logger"]) == ("authorizer", "kafka.authorizer.logger")


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("log", ["controller", "state-change", "server"])
def test_the_real_logs_in_another_layout_give_the_same_rows(
    name: str, log: str, tmp_path: Path
) -> None:
    pattern, layout, date, zone = LAYOUTS[name]
    if pattern.startswith("%m") and log == "server":
        pytest.skip("its messages of several lines have no beginning there that could be told")
    original = DATA / "incidents-a" / "broker-2" / f"{log}.log.gz"
    other = tmp_path / "other.log"
    other.write_text(told_otherwise(original, layout, date, zone))

    expected, found = rows_of(original), rows_of(other, pattern)

    assert expected.num_rows > 200
    assert found["shape"].null_count == 0
    for ours, original_row in zip(found.to_pylist(), expected.to_pylist(), strict=True):
        assert stripped(ours) == stripped(original_row)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("%d %p %c %m %q%n", "%q is not supported; there are %d"),
        ("%d %p %m%n", "lacks %c"),
        ("just words", "lacks %d, %p, %c, %m"),
        ("%d{HH:mm:ss} %p %c %m%n", "must tell year, month, day"),
        ("%d{yyyy-MM-dd hh:mm:ss a} %p %c %m%n", "'hh' in %d{yyyy-MM-dd hh:mm:ss a}"),
        ("%d{yyyy yyyy-MM-dd HH:mm:ss} %p %c %m%n", "twice"),
        ("%d %p %c %m %m%n", "has %m twice"),
        ("%d %.1p %c %m%n", "%.1p cuts off what is needed"),
        ("%d %p %c{1.} %m%n", "only %c and %c{1} are read"),
        ("%d{ISO8601}{Mars/Olympus} %p %c %m%n", "no time zone 'Mars/Olympus'"),
        ("100% %d %p %c %m%n", "no conversion behind the %"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_with_the_reason(pattern: str, says: str) -> None:
    with pytest.raises(HistoryInvalid, match=re.escape(says)):
        Pattern(pattern)


def test_what_follows_a_line_is_its_message_until_an_exception_begins() -> None:
    pattern = Pattern("%d %-5p %c - %m%n", "Europe/Berlin")
    record = (
        b"2026-07-20 18:08:31,404 WARN  kafka.server.KafkaServer - one\n two\n"
        b"java.io.IOException: gone\n\tat kafka.Some.where(Some.scala:1)"
    )

    assert pattern.rewritten(record) == (
        b"26-07-20 16:08:31,404] WARN one\n two (kafka.server.KafkaServer)\n"
        b"java.io.IOException: gone\n\tat kafka.Some.where(Some.scala:1)"
    )
    # No such day: no time, but the record is there.
    assert pattern.rewritten(b"2026-02-31 18:08:31,404 INFO  kafka.A - m").startswith(b"00-00-00")
    assert pattern.rewritten(b"something else") == b"something else"


def test_a_folder_of_several_layouts_is_read_with_the_pattern_of_those_that_need_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    incident = DATA / "incidents-a"
    pattern, layout, date, zone = LAYOUTS["American, in local time"]
    for number in (1, 2):
        for log in ("controller", "server"):
            folder = tmp_path / "logs" / f"broker-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            original = incident / f"broker-{number}" / f"{log}.log.gz"
            told = ("[{date}] {level} {message} ({logger})", DEFAULT, UTC)
            if number == 2:
                told = (layout, date, zone)
            (folder / f"{log}.log").write_text(told_otherwise(original, *told))
    out = str(tmp_path / "out")

    before = ingest(spark, [str(tmp_path / "logs")], IngestOptions(out)).count()
    sources = {row["file"]: row for row in read_sources(Path(out))}
    skipped = [row for row in sources.values() if row["status"] == "skipped"]
    assert len(skipped) == 2
    assert all("ingest takes --pattern" in row["problem"] for row in skipped)
    options = IngestOptions(out, pattern=pattern)
    rows = ingest(spark, [str(tmp_path / "logs")], options)

    # The files that were skipped are read now, the others not again.
    assert rows.count() > before
    assert {row["format"] for row in read_sources(Path(out))} == {"log4j", "patterned"}
    columns = ["broker_id", "time_ms", "shape", "text"]
    expected = ingest(
        spark,
        [str(path) for path in sorted(incident.glob("broker-[12]/[cs]*r.log.gz"))],
        IngestOptions(str(tmp_path / "expected")),
    )
    assert rows.select(columns).exceptAll(expected.select(columns)).take(3) == []
    assert rows.count() == expected.count()


def test_a_pattern_is_known_by_its_lines(tmp_path: Path) -> None:
    log = tmp_path / "broker-7" / "server.log"
    log.parent.mkdir()
    log.write_text("2026-11-20 18:08:31,404 INFO  [KafkaServer id=7] started\n")

    assert look_at([str(log)])[0].format is None
    assert look_at([str(log)], pattern=Pattern("%d %-5p %c - %m%n"))[0].format is None
    log.write_text("2026-11-20 18:08:31,404 INFO  [KafkaServer id=7] started KafkaServer\n")
    (source,) = look_at([str(log)], pattern=Pattern("%d %-5p %m %c{1}%n"))
    assert (source.format, source.broker_id) == ("patterned", 7)


def test_a_pattern_is_not_redacted(spark: SparkSession, tmp_path: Path) -> None:
    options = IngestOptions(str(tmp_path / "out"), pattern="%d %p %c %m%n", redact="secret")

    with pytest.raises(HistoryInvalid, match="--pattern or --redact"):
        ingest(spark, [str(DATA)], options)
