"""What took brokers out of the cluster, by Spark: :mod:`kafka_history.rules.departures`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import departures as rule
from kafka_history.rules.broker_lives import BrokerLife, SessionExpiry
from kafka_history.rules.log_dir_failures import FailedLogDir

from .broker_lives import EXPIRY
from .carrying import as_rows, findings, gathered
from .columns import first_of_each, of_kind

_PAUSE: Final = "broker int, from_ms bigint, to_ms bigint, file string, line bigint"
_DEPARTURE: Final = (
    "broker int, begun_ms bigint, at_ms bigint, how string, since_ms bigint, until_ms bigint, "
    "back_ms bigint, file string, line bigint"
)


def pauses(events: DataFrame) -> DataFrame:
    """One row for each pause: :class:`kafka_history.rules.departures.ProcessPause`."""
    spark = events.sparkSession
    is_client = F.coalesce(of_kind(*rule.CLIENT), F.lit(False))
    client = events.where(is_client)
    quiet = [(s.broker, s.heard_ms, s.to_ms) for s in rule.silences(gathered(client))]
    if not quiet:
        return as_rows(spark, [], _PAUSE)
    silent = as_rows(spark, quiet, "who int, heard_ms bigint, until_ms bigint")
    is_within = (
        (F.col("who") == F.col("broker_id"))
        & (F.col("time_ms") > F.col("heard_ms"))
        & (F.col("time_ms") < F.col("until_ms") - rule.AWAKE_MS)
    )
    wrote = events.where(~is_client).join(F.broadcast(silent), is_within)
    last = first_of_each(wrote, ["who", "heard_ms", "until_ms"], F.desc("time_ms"))
    return as_rows(spark, rule.pauses(gathered(client, last)), _PAUSE)


def with_pauses(expiries: DataFrame, paused: DataFrame) -> DataFrame:
    """The lost sessions, each with when the pause began that cost it."""
    found = rule.with_pauses(findings(expiries, SessionExpiry), findings(paused, rule.ProcessPause))
    return as_rows(expiries.sparkSession, found, EXPIRY)


def departures(lives: DataFrame, expiries: DataFrame, failed_dirs: DataFrame) -> DataFrame:
    """One row for each departure: :class:`kafka_history.rules.departures.Departure`.

    ``lives``: of brokers; ``expiries``: what :func:`with_pauses` gave; ``failed_dirs``: directories
    that failed, which take a part of a broker away.
    """
    found = rule.departures(
        findings(lives, BrokerLife),
        findings(expiries, SessionExpiry),
        findings(failed_dirs, FailedLogDir),
    )
    return as_rows(lives.sparkSession, found, _DEPARTURE)
