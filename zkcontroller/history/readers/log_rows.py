"""From records to rows of the schema: head, logger, message, shape, exception."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from zkcontroller.history.event_schema import EVENT_COLUMNS
from zkcontroller.history.readers import typed_rows

TEXT_CAPACITY: Final = 4_000
EXCEPTION_CAPACITY: Final = 2_000


def bytes_of(text: str, start: str, length: str | None = None) -> str:
    """SQL for a part of a text, counted in bytes from 1.

    ``substr`` walks through all characters of a text, every time; this copies.
    """
    size = "" if length is None else f", {length}"
    return f"cast(substring(cast({text} AS binary), {start}{size}) AS string)"


_MESSAGE: Final = (
    "CASE WHEN has_logger AND ends_there THEN "
    + bytes_of(
        "first",
        "octet_length(level) + 2",
        "octet_length(first) - octet_length(level) - octet_length(said_last) - 3",
    )
    + " WHEN has_logger THEN "
    + bytes_of(
        "behind",
        "octet_length(level) + 2",
        "octet_length(behind) - octet_length(level) - octet_length(said_last) - 3",
    )
    + f" ELSE coalesce({bytes_of('behind', 'octet_length(level) + 2')}, record) END"
)
_HEAD: Final = r"^\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d,\\d{3}\\] [A-Z]+ "
_LOGGER: Final = r"^[\\w.$-]+\\)$"
_LAST_LOGGER: Final = (
    "CASE WHEN ends_there THEN said_last ELSE substring_index(behind, ' (', -1) END"
)
_CLASS: Final = r"^[\\w$]+(?:\\.[\\w$]+)+"
_FRAME: Final = r"(?m)^\\s+at ([^\\n(]+)"


def log_rows(records: DataFrame, time_zone: str) -> DataFrame:
    """One row per record, in the columns of the schema.

    ``uri``, ``block``, ``line_id`` and ``stream`` stand for ``cluster``, ``file`` and ``line``.
    ``time_zone``: what the brokers' clocks show; log4j writes local time without a zone.
    """
    return _with_columns(_with_shape(_with_message(records, time_zone)))


def _with_message(records: DataFrame, time_zone: str) -> DataFrame:
    zone = time_zone.replace("'", "")
    utc = f"cast('20' || {bytes_of('record', '1', '17')} AS timestamp)"
    moment = utc if zone == "UTC" else f"to_utc_timestamp({utc}, '{zone}')"
    # A record with an exception has its logger on the first line, one with a message of several
    # lines on the last.
    return (
        records.withColumn("is_record", F.expr(f"record rlike '{_HEAD}'"))
        .withColumn("behind", F.expr(f"CASE WHEN is_record THEN {bytes_of('record', '24')} END"))
        .withColumn("level", F.expr("substring_index(behind, ' ', 1)"))
        .withColumn("first", F.expr(r"substring_index(behind, '\n', 1)"))
        .withColumn("said_last", F.expr("substring_index(first, ' (', -1)"))
        .withColumn("ends_there", F.expr(f"said_last rlike '{_LOGGER}'"))
        .withColumn("said_last", F.expr(_LAST_LOGGER))
        .withColumn("has_logger", F.expr(f"ends_there OR said_last rlike '{_LOGGER}'"))
        .select(
            "uri", "block", "line_id", "lines", "size_bytes", "stream", "record", "level",
            F.expr(
                f"CASE WHEN is_record THEN unix_millis({moment}) "
                f"+ cast({bytes_of('record', '19', '3')} AS int) END"
            ).alias("time_ms"),
            F.expr("CASE WHEN has_logger THEN replace(said_last, ')', '') END").alias(
                "logger"
            ),
            F.expr(_MESSAGE).alias("message"),
            F.expr(
                f"CASE WHEN ends_there AND lines > 1 "
                f"THEN {bytes_of('behind', 'octet_length(first) + 2')} END"
            ).alias("trace"),
        )
    )  # fmt: skip


def _with_shape(messages: DataFrame) -> DataFrame:
    table = typed_rows.candidates()
    known = messages.sparkSession.createDataFrame(
        [(entry.loggers, entry.words, [shape.rank for shape in entry.shapes]) for entry in table],
        "loggers string, words string, ranks array<int>",
    )
    kept = messages.columns
    found = (
        messages.select("*", F.expr(typed_rows.BODY).alias("body"))
        .select(
            *kept,
            F.expr(typed_rows.WORDS).alias("words_0"),
            F.expr(typed_rows.logger_kind()).alias("kind_of_logger"),
        )
        .select("*", F.expr("substring_index(words_0, ' ', 1)").alias("words_1"))
        .select("*", F.lit("").alias("words_2"))
    )
    # By two words, else by one, else by the logger alone.
    for level in range(3):
        entries = known.filter("words = ''") if level == 2 else known
        renamed = entries.toDF(f"loggers_{level}", f"key_{level}", f"ranks_{level}")
        condition = f"kind_of_logger = loggers_{level} AND words_{level} = key_{level}"
        found = found.join(F.broadcast(renamed), F.expr(condition), "left")
    tried = found.select(
        *kept,
        F.expr("coalesce(ranks_0, ranks_1, ranks_2)").alias("ranks"),
        F.col("message").alias("recognised"),
    )
    for place in range(max(len(entry.shapes) for entry in table)):
        tried = tried.select(*kept, "ranks", F.expr(typed_rows.attempt(place)).alias("recognised"))
    return tried.select(*kept, "recognised", F.expr(typed_rows.parts()).alias("parts"))


def _with_columns(recognised: DataFrame) -> DataFrame:
    typed = typed_rows.typed_columns()
    # recv-response: the code inside the response it prints.
    typed["error_code"] = (
        "CASE WHEN startswith(get(parts, 1), 'recv-') THEN try_cast(nullif(regexp_extract("
        r"recognised, 'error_?[cC]ode=(-?\\d+)', 1), '') AS int) "
        f"ELSE {typed['error_code']} END"
    )
    typed["request"] = (
        f"CASE {typed['request']} WHEN 'LEADER_AND_ISR' THEN 'LeaderAndIsr' "
        "WHEN 'UPDATE_METADATA' THEN 'UpdateMetadata' WHEN 'STOP_REPLICA' THEN 'StopReplica' "
        f"ELSE {typed['request']} END"
    )
    frames = f"regexp_extract_all(trace, '{_FRAME}', 1)"
    first_class = f"nullif(regexp_extract(trace, '{_CLASS}', 0), '')"
    columns = {
        **typed,
        "text": (
            f"CASE WHEN parts IS NULL THEN left(record, {TEXT_CAPACITY * 16}) "
            f"WHEN octet_length(message) > {TEXT_CAPACITY} THEN left(message, {TEXT_CAPACITY}) "
            "ELSE message END"
        ),
        "exception_class": f"CASE WHEN trace IS NOT NULL THEN {first_class} END",
        "exception_message": (
            "CASE WHEN trace IS NOT NULL THEN nullif(left(regexp_replace(substring_index(trace, "
            rf"'\n', 1), '{_CLASS}(?:: )?', ''), {EXCEPTION_CAPACITY}), '') END"
        ),
        "exception_frames": (
            f"CASE WHEN trace IS NOT NULL THEN transform(slice({frames}, 1, 3), "
            r"f -> regexp_replace(f, '\\$[\\w$]*', '')) END"
        ),
        "exception_frame_count": f"CASE WHEN trace IS NOT NULL THEN size({frames}) END",
    }
    known = [c.name for c in EVENT_COLUMNS]
    kept = {"lines", "size_bytes", "time_ms", "level", "logger"}
    selected = [F.col("uri"), F.col("block"), F.col("line_id"), F.col("stream")]
    selected += [
        F.col(name) if name in kept else F.expr(columns.get(name, "NULL")).alias(name)
        for name in known
        if name not in ("cluster", "file", "line", "fingerprint")
    ]
    rows = recognised.select(*selected)
    return rows.withColumn("fingerprint", F.expr(_FINGERPRINT))


_FINGERPRINT: Final = (
    "CASE WHEN exception_class IS NOT NULL THEN concat_ws(' | ', exception_class, "
    r"regexp_replace(regexp_replace(exception_message, '[a-zA-Z0-9._-]+-\\d+\\b', '#'), "
    r"'\\d+', '#'), "
    "coalesce(get(filter(exception_frames, f -> startswith(f, 'kafka.')), 0), "
    "get(exception_frames, 0))) END"
)
"""Class, message without partitions and numbers, first frame of Kafka's."""
