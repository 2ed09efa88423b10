"""From files to records: one row per log record, with the lines below it that belong to it.

Kafka's records begin with ``[2026-…``, and Spark's text source can split at any text, so a file is
split at a newline followed by ``[20``: every row is a whole record, however many lines its
exception has, large files are read in pieces by many tasks, and nothing is shuffled.  Lines are
numbered by a trick: each record is repeated once per line before ``monotonically_increasing_id``
counts, and only the first of each is kept.  Numbers thus count from the beginning of a task;
:mod:`.store` subtracts where a file began.

Where every line carries a prefix (``kubectl logs``, journald) this does not work; there lines are
read one by one and folded with a window per file, which costs a shuffle.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

URI: Final = "replace(_metadata.file_path, 'file:///', 'file:/')"
# Functions that count characters walk through the whole text; these do so only where they must.
_TRIMMED: Final = (
    r"CASE WHEN endswith(v, '\n') OR endswith(v, '\r') THEN trim(TRAILING '\n\r' FROM v) ELSE v END"
)
_LINES: Final = r"octet_length(v) - octet_length(replace(v, '\n', '')) + 1"
_SPLIT: Final = "\n[20"
_TORN: Final = (
    r"(?=\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) )"
)
_PREFIX: Final = (
    r"^(?:\[(pod/[^\]]+)\] )?(?:(\S+) +\| ?)?(?:\d{4}-\d\d-\d\dT\S+ (?:std(?:out|err) [FP] )?)?"
    r"(?:[A-Z][a-z]{2} +\d+ [\d:.]+ (\S+) [^\s:]+: ?)?(?:(\S+) [\w.@-]+\[\d+\]: ?)?"
)
"""kubectl --prefix, docker compose, --timestamps of both, the CRI, journald short and short-iso."""
_STREAMS: Final = 4
"""Groups of it, at most one of which holds text: pod, service or host."""


def default_records(spark: SparkSession, files: list[str]) -> DataFrame:
    """Records of files in Kafka's default layout.

    Columns: ``uri``, ``block`` (where the piece of the file begins), ``line_id`` (grows by one per
    line within a task), ``lines``, ``size_bytes``, ``stream`` (null), ``record`` (its text without
    ``[20`` and without the last newline).
    """
    text = spark.read.option("lineSep", _SPLIT).text(files)
    whole = text.select(
        F.expr(URI).alias("uri"),
        F.col("_metadata.file_block_start").alias("block"),
        (F.octet_length("value") + 4).alias("octets"),
        F.expr("CASE WHEN startswith(value, '[20') THEN substr(value, 4) ELSE value END").alias(
            "v"
        ),
    )
    trimmed = whole.select("uri", "block", "octets", F.expr(_TRIMMED).alias("v")).withColumn(
        "lines", F.expr(_LINES)
    )
    numbered = (
        trimmed.select("*", F.posexplode(F.expr("array_repeat(0, lines)")).alias("nth", "_"))
        .select("*", F.monotonically_increasing_id().alias("line_id"))
        .filter("nth = 0")
    )
    pieces = numbered.select(
        "*",
        F.posexplode(
            F.expr(
                f"CASE WHEN contains(v, '[20') THEN split(v, {_quoted(_TORN)}) ELSE array(v) END"
            )
        ).alias("piece", "text"),
    )
    before = r"length(regexp_replace(left(v, locate(text, v) - 1), '[^\\n]', ''))"
    return pieces.select(
        "uri", "block",
        F.expr(f"CASE WHEN piece = 0 THEN line_id ELSE line_id + {before} END").alias("line_id"),
        F.expr("CASE WHEN piece = 0 THEN lines ELSE 1 END").alias("lines"),
        F.expr("CASE WHEN piece = 0 THEN octets ELSE 0 END").alias("size_bytes"),
        F.lit(None).cast("string").alias("stream"),
        F.expr("CASE WHEN piece > 0 THEN substr(text, 4) ELSE text END").alias("record"),
    )  # fmt: skip


def prefixed_records(spark: SparkSession, files: list[str]) -> DataFrame:
    """The same of files whose every line carries a prefix; ``stream``: its pod, service or host."""
    lines = (
        spark.read.text(files)
        .select(
            F.expr(URI).alias("uri"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("line_id"),
            (F.octet_length("value") + 1).alias("octets"),
            F.col("value"),
        )
        .select(
            "uri", "block", "line_id", "octets",
            F.expr(f"regexp_replace(value, {_quoted(_PREFIX)}, '')").alias("v"),
            F.expr(
                " || ".join(
                    f"regexp_extract(value, {_quoted(_PREFIX)}, {group})"
                    for group in range(1, _STREAMS + 1)
                )
            ).alias("stream"),
        )
    )  # fmt: skip
    order = Window.partitionBy("uri", "stream").orderBy("block", "line_id")
    counted = lines.withColumn("is_head", F.expr(r"v rlike '^\\[20\\d\\d-\\d\\d-\\d\\d \\d\\d:'"))
    grouped = counted.withColumn("nth", F.sum(F.col("is_head").cast("int")).over(order))
    return (
        grouped.groupBy("uri", "stream", "nth")
        .agg(
            F.min("block").alias("block"),
            F.min("line_id").alias("line_id"),
            F.count("*").cast("int").alias("lines"),
            F.sum("octets").cast("int").alias("size_bytes"),
            F.expr(
                "array_join(transform(array_sort(collect_list(struct(line_id, v))), "
                "x -> x.v), '\n')"
            ).alias("v"),
        )
        .select(
            "uri", "block", "line_id", "lines", "size_bytes", "stream",
            F.expr("CASE WHEN startswith(v, '[20') THEN substr(v, 4) ELSE v END").alias("record"),
        )
    )  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
