"""Spark expressions shared by several analyses."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's own documentation calls it so
from pyspark.sql.window import Window

TOPIC_PARTITION = ("topic", "partition")


def of_kind(*kinds: str) -> Column:
    """Rows of one of these families of shapes."""
    return F.col("kind").isin(*kinds)


def says(*texts: str) -> Column:
    """Rows whose message contains one of these texts."""
    found = F.lit(False)
    for text in texts:
        found = found | F.col("text").contains(text)
    return found


def first_of_each(rows: DataFrame, keys: list[str], *order: Column | str) -> DataFrame:
    """One row for each key: the first in the order given."""
    window = Window.partitionBy(*keys).orderBy(*order)
    return rows.withColumn("_n", F.row_number().over(window)).where("_n = 1").drop("_n")
