"""What operators did, and what the controller did on its own: topics, elections, configurations.

These are no faults, but most of what moves leaders and in-sync replicas in a healthy cluster is one
of them. So they are findings of their own, and what follows from one of them is not counted as the
effect of a broker that happened to stop afterwards.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules.tenures import GRACE_MS

from .columns import TOPIC_PARTITION, names, of_kind, value

CREATED, GROWN, DELETED = "topic created", "partitions added", "topic deleted"
PREFERRED, UNCLEAN, BALANCED = "preferred election", "unclean election", "leaders balanced"
CONFIGURED, MOVED = "configuration changed", "reassignment"
"""The values of ``act``; only ``leaders balanced`` is the controller's own."""
ELECTION_MS: Final = 10_000
"""The elections that a line announces are written within this time."""
AFTER_MS: Final = 5_000
"""The last changes of a deletion or a reassignment may be noted this much later."""
REPEAT_MS: Final = 10_000
"""Every broker says that a configuration changed, within this time."""
CHECK_MS: Final = 2_000
"""The check of the balance precedes the election that it orders by less than this."""
CONFIG_MAX: Final = 300
"""Characters that are shown of a configuration."""
_COLUMNS: Final = (
    "at_ms", "to_ms", "act", "topic", "partitions", "outcome", "says", "file", "line",
)  # fmt: skip


def acts(events: DataFrame, held: DataFrame, gone: DataFrame, moves: DataFrame) -> DataFrame:
    """Finds what was ordered, one row for each order and topic.

    ``at_ms``, ``to_ms`` (null: it ends at once, or did not end), ``act``, ``topic`` (null: it is
    not about one), ``partitions`` (how many; null: not known), ``outcome`` (of a reassignment),
    ``says``, ``file``, ``line``.

    ``held``: the controllers' tenures; ``gone``: deletions of topics; ``moves``: reassignments.
    """
    found = _creations(events).unionByName(_growth(events)).unionByName(_deletions(gone))
    found = found.unionByName(_elections(events, held)).unionByName(_configurations(events))
    return found.unionByName(_reassignments(moves)).select(*_COLUMNS)


def effects(events: DataFrame, held: DataFrame, gone: DataFrame, moves: DataFrame) -> DataFrame:
    """What each act may change: ``topic``, ``partition`` (null: all), ``from_ms``, ``to_ms``."""
    end = F.coalesce(F.col("to_ms") + AFTER_MS, F.lit(2**62))
    deleted = gone.select(
        "topic", F.lit(None).cast("int").alias("partition"), "from_ms", end.alias("to_ms")
    )
    moved = moves.select(*TOPIC_PARTITION, "from_ms", end.alias("to_ms"))
    name = F.explode(names(_listed()))
    elected = (
        _orders(events, held)
        .select(name.alias("name"), F.col("time_ms").alias("from_ms"))
        .select(
            F.regexp_extract("name", r"^(.+)-(\d+)$", 1).alias("topic"),
            F.regexp_extract("name", r"^(.+)-(\d+)$", 2).try_cast("int").alias("partition"),
            "from_ms",
            (F.col("from_ms") + ELECTION_MS).alias("to_ms"),
        )
    )
    return deleted.unionByName(moved).unionByName(elected)


def _row(rows: DataFrame, act: str | Column, says: Column, **columns: Column | str) -> DataFrame:
    """The columns of an act, null where they are not given."""
    kinds = {"to_ms": "bigint", "topic": "string", "partitions": "int", "outcome": "string"}
    given = {name: F.col(c) if isinstance(c, str) else c for name, c in columns.items()}
    return rows.select(
        given.get("at_ms", F.col("time_ms")).alias("at_ms"),
        (F.lit(act) if isinstance(act, str) else act).alias("act"),
        says.alias("says"),
        "file",
        "line",
        *(given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()),
    )


def _creations(events: DataFrame) -> DataFrame:
    inside = F.regexp_extract(value("added"), r"\((.*)\)", 1)
    made = events.where(of_kind("topics-changed")).withColumn("made", F.explode(names(inside)))
    return _row(made, CREATED, F.format_string("Topic %s was created", "made"), topic=F.col("made"))


def _growth(events: DataFrame) -> DataFrame:
    listed = F.regexp_extract_all(value("assignment"), F.lit(r"([\w.-]+-\d+) ->"), F.lit(1))
    grown = (
        events.where(of_kind("partitions-added"))
        .withColumn("name", F.explode(listed))
        .withColumn("grown", F.regexp_extract("name", r"^(.+)-\d+$", 1))
        .groupBy("time_ms", "file", "line", "grown")
        .agg(F.count_distinct("name").cast("int").alias("new"))
    )
    says = F.format_string("Topic %s got %d more partitions", "grown", "new")
    return _row(grown, GROWN, says, topic=F.col("grown"), partitions=F.col("new"))


def _deletions(gone: DataFrame) -> DataFrame:
    return _row(
        gone,
        DELETED,
        F.concat(
            F.format_string("Topic %s was deleted", "topic"),
            F.when(F.col("to_ms").isNull(), ", which did not end").otherwise(""),
        ),
        at_ms="from_ms",
        to_ms="to_ms",
        topic="topic",
    )


def _listed() -> Column:
    """The partitions of an election as ``a-0,b-1``; 0.11 writes ``[a,0],[b,1]``."""
    return F.regexp_replace(value("partitions"), r"\[([^,\]]+),(\d+)\]", "$1-$2")


def _orders(events: DataFrame, held: DataFrame) -> DataFrame:
    """Elections that a line announces, of one partition at least, with what ordered them."""
    order = Window.partitionBy("broker_id").orderBy("time_ms", "file", "line")
    is_check = of_kind("elect-auto", "elect-auto-check", "elect-not-preferred")
    checked_ms = F.last(F.when(is_check, F.col("time_ms")), ignorenulls=True).over(order)
    # Before 2.4 the line does not say what ordered the election; the check of the balance does.
    is_checked = F.col("time_ms") - checked_ms <= CHECK_MS
    trigger = F.coalesce(
        value("trigger"), F.when(F.coalesce(is_checked, F.lit(False)), F.lit("AutoTriggered"))
    )
    said = events.where(is_check | of_kind("elect-start")).withColumn("trigger", trigger)
    has_some = F.trim(F.coalesce(value("partitions"), F.lit(""))) != ""
    ordered = said.where(of_kind("elect-start") & has_some)
    # What a deposed controller orders does not happen.
    others = held.select(
        F.col("broker").alias("holder"),
        (F.col("from_ms") + GRACE_MS).alias("held_from_ms"),
        F.coalesce("to_ms", F.lit(2**62)).alias("held_to_ms"),
    )
    is_deposed = (F.col("holder") != F.col("broker_id")) & F.col("time_ms").between(
        F.col("held_from_ms"), F.col("held_to_ms")
    )
    return ordered.join(F.broadcast(others), is_deposed, "left_anti")


def _elections(events: DataFrame, held: DataFrame) -> DataFrame:
    # The controller of 0.11 to 2.3 orders one election for each partition.
    each = (
        _orders(events, held)
        .withColumn("number", F.size(names(_listed())))
        .withColumn("is_unclean", F.coalesce(value("type") == "UNCLEAN", F.lit(False)))
        .withColumn("is_auto", F.coalesce(F.col("trigger") == "AutoTriggered", F.lit(False)))
        .withColumn("moment_ms", F.floor(F.col("time_ms") / 1000))
        .groupBy("broker_id", "moment_ms", "is_unclean", "is_auto")
        .agg(
            F.sum("number").cast("int").alias("number"),
            F.min(F.struct("time_ms", "file", "line")).alias("e"),
        )
        .select("is_unclean", "is_auto", "number", "e.*")
    )
    many = F.when(F.col("number") == 1, F.lit("1 partition")).otherwise(
        F.format_string("%d partitions", "number")
    )
    act = F.when(F.col("is_auto"), BALANCED).when(F.col("is_unclean"), UNCLEAN).otherwise(PREFERRED)
    says = F.concat(
        F.when(F.col("is_auto"), "The controller balanced leaders: the preferred leaders of ")
        .when(F.col("is_unclean"), "An unclean election was ordered for ")
        .otherwise("An election of preferred leaders was ordered for "),
        many,
    )
    return _row(each, act, says, partitions=F.col("number"))


def _configurations(events: DataFrame) -> DataFrame:
    """One row for each change, whichever brokers say it, and again after they were restarted."""
    who = F.coalesce(
        value("path"),
        F.concat(value("entity_type"), F.lit("/"), value("entity")),
        F.concat(F.lit("topics/"), F.col("topic")),
        F.concat(F.lit("brokers/"), F.col("peer").cast("string")),
        F.lit("brokers/<default>"),
    )
    by_entity = Window.partitionBy("entity").orderBy("time_ms", "file", "line")
    said = (
        events.where(of_kind("config-updated", "config-applied"))
        .withColumn("entity", who)
        .withColumn("config", F.regexp_replace(value("config"), r"^\w*\((.*)\)$", "$1"))
        .withColumn("config", F.substring("config", 1, CONFIG_MAX))
    )
    applied = said.where(of_kind("config-applied"))
    is_news = ~F.col("config").eqNullSafe(F.lag("config").over(by_entity))
    first = applied.where("entity IS NOT NULL").withColumn("is_news", is_news).where("is_news")
    ordered = said.where(of_kind("config-updated"))
    # Where brokers say what they apply, the order itself is the same change once more.
    known = first.select(F.col("entity").alias("of"), F.col("time_ms").alias("known_ms"))
    alone = ordered.join(
        known,
        (F.col("of") == F.col("entity"))
        & F.col("known_ms").between(F.col("time_ms") - REPEAT_MS, F.col("time_ms") + REPEAT_MS),
        "left_anti",
    )
    is_topic = F.col("entity").startswith("topics/")
    return _row(
        first.drop("is_news").unionByName(alone),
        CONFIGURED,
        F.format_string("The configuration of %s became %s", "entity", "config"),
        topic=F.when(is_topic, F.substring_index("entity", "/", -1)),
    )


def _reassignments(moves: DataFrame) -> DataFrame:
    """The partitions of a topic that were reassigned by one order are one row."""
    near = F.floor(F.col("from_ms") / 1000)
    together = (
        moves.withColumn("near", near)
        .groupBy("topic", "outcome", "near")
        .agg(
            F.min(F.struct("from_ms", "file", "line")).alias("e"),
            F.max("to_ms").alias("to_ms"),
            F.count("*").cast("int").alias("number"),
            F.min("partition").alias("only"),
        )
        .select("topic", "outcome", "to_ms", "number", "only", "e.*")
    )
    which = F.when(F.col("number") == 1, F.format_string("%s-%d", "topic", "only")).otherwise(
        F.format_string("%d partitions of %s", "number", "topic")
    )
    end = (
        F.when(F.col("outcome") == "completed", " began, and was completed")
        .when(F.col("outcome") == "cancelled", " began, and was cancelled")
        .when(F.col("outcome") == "order only", " changed the order of the replicas only")
        .when(F.col("outcome") == "no change", " changed nothing: the replicas were the same")
        .otherwise(" began, and did not end")
    )
    return _row(
        together,
        MOVED,
        F.concat(F.lit("A reassignment of "), which, end),
        at_ms="from_ms",
        to_ms="to_ms",
        topic="topic",
        partitions=F.col("number"),
        outcome="outcome",
    )
