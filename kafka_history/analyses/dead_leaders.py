"""Leaders that were dead before the controller knew it.

The state of a partition names its leader until the controller writes another one, which takes a
session's timeout after a death. In between the partition has a leader by name only: no client can
write to it. So the time without a leader begins with the death, not with what the controller did
about it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, of_kind
from .partition_states import KEY

DEAD: Final = ("killed", "lost", "clean_shutdown", "paused")
"""How a broker ceases to serve. One that lost its session alone serves on for a while."""


def dead_leaders(events: DataFrame, states: DataFrame, gone: DataFrame) -> DataFrame:
    """Finds the spans in which the leader of a partition was dead, stopped or paused.

    One row for each: ``topic``, ``partition``, ``incarnation``, ``from_ms``, ``to_ms`` (null: until
    the end of the logs), ``noticed_ms`` (when the state changed; null: it did not), ``lost`` (the
    leader), ``lost_ms`` (when its end began), ``how``, ``next_leader``, ``next_epoch``, and
    evidence: ``file``, ``line``, ``end_file``, ``end_line``.
    """
    order = Window.partitionBy(*KEY).orderBy("number")
    led = (
        states.select(
            *KEY,
            "leader",
            F.col("time_ms").alias("led_ms"),
            F.lead("time_ms").over(order).alias("next_ms"),
            F.lead("leader").over(order).alias("next_leader"),
            F.lead("leader_epoch").over(order).alias("next_epoch"),
            F.lead("file").over(order).alias("next_file"),
            F.lead("line").over(order).alias("next_line"),
        )
        .where("leader >= 0")
        .join(
            F.broadcast(
                gone.where(F.col("how").isin(*DEAD)).select(
                    F.col("broker").alias("lost"),
                    F.col("at_ms").alias("lost_ms"),
                    "begun_ms",
                    "how",
                    "until_ms",
                    "back_ms",
                    F.col("file").alias("lost_file"),
                    F.col("line").alias("lost_line"),
                )
            ),
            (F.col("lost") == F.col("leader"))
            & (F.col("lost_ms") < F.coalesce("next_ms", F.lit(2**62)))
            & (F.col("led_ms") < F.coalesce("back_ms", F.lit(2**62)))
            # A controller that had missed the broker elects it only when it is back.
            & (F.col("led_ms") <= F.coalesce("until_ms", F.lit(2**62))),
        )
    )
    # A broker that is back leads again when it says so, which needs no new state.
    starts = events.where(of_kind("leader-starts")).select(
        *TOPIC_PARTITION, F.col("broker_id").alias("starter"), F.col("time_ms").alias("start_ms")
    )
    again = (
        led.join(starts, [*TOPIC_PARTITION], "left")
        .groupBy(*led.columns)
        .agg(
            F.min(
                F.when(
                    (F.col("starter") == F.col("lost")) & (F.col("start_ms") > F.col("lost_ms")),
                    F.col("start_ms"),
                )
            ).alias("start_ms")
        )
    )
    returned_ms = F.greatest("back_ms", "start_ms")
    is_noticed = F.col("next_ms").isNotNull() & (
        F.col("back_ms").isNull() | (F.col("next_ms") <= returned_ms)
    )
    to_ms = F.when(is_noticed, F.col("next_ms")).when(F.col("back_ms").isNotNull(), returned_ms)
    from_ms = F.greatest("led_ms", "lost_ms")
    return (
        again.withColumn("from_ms", from_ms)
        .withColumn("to_ms", to_ms)
        .where("to_ms IS NULL OR to_ms > from_ms")
        .select(
            *KEY,
            "from_ms",
            "to_ms",
            F.when(is_noticed, F.col("next_ms")).alias("noticed_ms"),
            "lost",
            F.col("begun_ms").alias("lost_ms"),
            "how",
            F.when(is_noticed, F.col("next_leader"))
            .when(F.col("to_ms").isNotNull(), F.col("lost"))
            .alias("next_leader"),
            F.when(is_noticed, F.col("next_epoch")).alias("next_epoch"),
            F.when(is_noticed, F.col("next_file")).otherwise(F.col("lost_file")).alias("file"),
            F.when(is_noticed, F.col("next_line")).otherwise(F.col("lost_line")).alias("line"),
            F.when(is_noticed, F.col("next_file")).alias("end_file"),
            F.when(is_noticed, F.col("next_line")).alias("end_line"),
        )
    )
