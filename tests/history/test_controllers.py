"""Tenures, zombies and refusals, from rows made by hand: the traps that real logs hold."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.deposed_controllers import refusals, zombies
from kafka_history.analyses.tenures import tenures
from tests.support.event_rows import START_MS, row

from .rows import answers, elected, frame

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]


def resigned(at_ms: int, broker: int) -> dict[str, object]:
    return row("ctl-resigned", at_ms, broker, f"[Controller id={broker}] Resigned")


def test_a_tenure_ends_where_the_next_epoch_begins_not_where_a_line_says_resigned(
    spark: SparkSession,
) -> None:
    rows = frame(
        spark,
        elected(0, 1, 1),
        resigned(5_000, 2),  # never was controller: its session had expired
        elected(10_000, 3, 2),
        resigned(10_015, 1),  # a normal handover prints this after the successor's election
    )

    held = tenures(rows)

    assert answers(held.orderBy("controller_epoch"), "broker", "to_ms", "ended_by") == [
        (1, START_MS + 10_000, "controller_moved"),
        (3, None, "open"),
    ]
    assert answers(zombies(rows, held), "broker") == []


def test_a_controller_that_resigns_long_after_its_successor_is_a_zombie_without_any_stale_line(
    spark: SparkSession,
) -> None:
    rows = frame(spark, elected(0, 3, 7), elected(20_000, 1, 8), resigned(31_300, 3))

    held = tenures(rows)

    assert answers(held.where("broker = 3"), "ended_by", "overlap_ms") == [
        ("session_expired", 11_300)
    ]
    assert answers(zombies(rows, held), "broker", "successor", "overlap_ms") == [(3, 1, 11_300)]


def test_a_controller_that_wrote_under_its_old_epoch_is_a_zombie_even_if_it_never_resigned(
    spark: SparkSession,
) -> None:
    deed = row("partition-failed", 9_000, 1, controller_epoch=1, topic="t", partition=0,
               from_state="OnlinePartition", to_state="OnlinePartition")  # fmt: skip
    rows = frame(spark, elected(0, 1, 1), elected(5_000, 2, 2), deed)

    found = zombies(rows, tenures(rows))

    assert answers(found, "broker", "deeds", "line") == [(1, 1, deed["line"])]


def test_a_killed_controller_is_distinguished_from_one_that_stopped(spark: SparkSession) -> None:
    stopping = row("server-life", 20_000, 2, "[KafkaServer id=2] shutting down")
    rows = frame(
        spark,
        elected(0, 1, 1),
        elected(10_000, 2, 2),
        row("server-life", 15_000, 1, "starting"),  # came back: its silence was its death
        stopping,
        resigned(20_100, 2),
        elected(20_200, 1, 3),
    )

    held = tenures(rows).orderBy("controller_epoch")

    assert answers(held, "broker", "ended_by") == [
        (1, "killed"), (2, "clean_shutdown"), (1, "open"),
    ]  # fmt: skip


def test_up_to_kafka_2_0_the_epoch_stands_in_a_line_of_its_own(spark: SparkSession) -> None:
    rows = frame(
        spark,
        row("ctl-elected", 0, 1, controller_id=1),
        row("ctl-epoch-incremented", 3, 1, controller_epoch=41),
        row("ctl-elected", 9_000, 2, controller_id=2),
        row("ctl-epoch-incremented", 9_004, 2, controller_epoch=42),
    )

    held = tenures(rows).orderBy("controller_epoch")

    assert answers(held, "broker", "controller_epoch", "from_ms") == [
        (1, 41, START_MS), (2, 42, START_MS + 9_000),
    ]  # fmt: skip


def test_without_any_controller_log_the_brokers_witness_the_tenures(spark: SparkSession) -> None:
    def told(at_ms: int, controller: int, epoch: int) -> dict[str, object]:
        return row("um-applied", at_ms, 9, controller_id=controller, controller_epoch=epoch)

    rows = frame(spark, told(0, 1, 5), told(4_000, 1, 5), told(8_000, 2, 6))

    held = tenures(rows).orderBy("controller_epoch")

    assert answers(held, "broker", "controller_epoch", "from_ms", "is_elected") == [
        (1, 5, START_MS, False), (2, 6, START_MS + 8_000, False),
    ]  # fmt: skip


def test_error_11_for_single_partitions_is_a_repeated_request_and_no_refusal(
    spark: SparkSession,
) -> None:
    repeated = row("recv-response", 100, 1, "… errorCode=11 …", controller_epoch=2, error_code=0)
    stale = row("recv-response", 200, 1, controller_epoch=2, error_code=11)
    ignored = row("lisr-stale-controller", 300, 3, controller_id=1, controller_epoch=2,
                  latest_controller_epoch=3)  # fmt: skip

    found = refusals(frame(spark, repeated, stale, ignored)).orderBy("first_ms")

    assert answers(found, "kind", "controller", "count") == [
        ("recv-response", 1, 1), ("lisr-stale-controller", 1, 1),
    ]  # fmt: skip
