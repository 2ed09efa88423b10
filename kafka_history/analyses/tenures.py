"""Controller tenures: begin, end, reason, and the steps of each failover.

A tenure is one controller epoch of one broker. It begins with *successfully elected* in the log of
the elected, or, where that log is missing, with the first line of any broker that names controller
and epoch. It ends where the next epoch begins or where its holder resigned, whichever is earlier:
a killed or paused controller prints nothing, and a zombie's *Resigned* comes after its successor's
election. *Resigned* alone proves nothing, because brokers that never were controller print it too.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import of_kind, says

GRACE_MS: Final = 2_000
"""A handover takes some 10 ms; a resignation later than this after the successor is a zombie's."""
WITNESS_KINDS: Final = ("um-applied", "lisr-received", "um-cached", "stop-received")
"""Lines of brokers that name the controller and its epoch."""
CLEAN, KILLED, EXPIRED = "clean_shutdown", "killed", "session_expired"
MOVED, FAILED, OPEN = "controller_moved", "election_failed", "open"
UNKNOWN: Final = "unknown"
"""The values of ``ended_by``; ``controller_moved``: /controller was deleted or taken over;
``unknown``: the holder's own logs are not there."""

PHASES: Final = (
    ("ctl-phase-handlers", "", "registered watches"),
    ("ctl-phase-logdir-notifications", "", "deleted log directory notifications"),
    ("ctl-phase-isr-notifications", "", "deleted ISR notifications"),
    ("ctl-phase-context", "", "began to read brokers, topics and states"),
    ("ctl-brokers-active", "", "read brokers, topics and states"),
    ("ctl-phase-deletions", "", "looked for deletions"),
    ("ctl-phase-deletion-manager", "", "prepared deletions"),
    ("ctl-phase-update-metadata", "", "told brokers who is alive"),
    ("rsm-phase", "Initializing", "began replica states"),
    ("rsm-started", "", "replica states ready"),
    ("psm-phase", "Initializing", "began partition states"),
    ("psm-phase", "Triggering", "began elections"),
    ("psm-started", "", "partition states ready"),
    ("ctl-ready", "", "ready"),
    ("ctl-scheduler-start", "", "scheduler started"),
)
"""Kind, text that distinguishes rows of one kind, and what has been done by then."""


PHASE_SPAN_MS: Final = 600_000
"""Steps later than this after the election are not steps of the failover."""
TOLD_MS: Final = 2_000
"""A broker that learns of the new controller later than this was not running before."""


def tenures(events: DataFrame) -> DataFrame:
    """One row for each tenure, by epoch.

    ``broker``, ``controller_epoch``, ``from_ms``, ``ready_ms``, ``to_ms`` (null: still open),
    ``ended_by``, ``resigned_ms``, ``overlap_ms`` (how long a zombie went on; else null),
    ``is_elected`` (false: only witnesses name it), and evidence: ``file``, ``line`` of the
    beginning, ``end_file``, ``end_line``.
    """
    begun = _begun(events)
    next_by_epoch = Window.partitionBy(F.lit(0)).orderBy("controller_epoch", "from_ms")
    own = Window.partitionBy("broker").orderBy("controller_epoch", "from_ms")
    spans = begun.select(
        "*",
        F.lead("from_ms").over(next_by_epoch).alias("next_ms"),
        F.lead("file").over(next_by_epoch).alias("next_file"),
        F.lead("line").over(next_by_epoch).alias("next_line"),
        F.coalesce(F.lead("from_ms").over(own), F.lit(2**62)).alias("own_next_ms"),
    )
    marks = events.where(_mark().isNotNull()).select(
        F.col("broker_id").alias("mark_broker"),
        F.col("time_ms").alias("at_ms"),
        _mark().alias("mark"),
        F.col("file").alias("mark_file"),
        F.col("line").alias("mark_line"),
    )
    met = spans.join(
        marks,
        (F.col("mark_broker") == F.col("broker"))
        & (F.col("at_ms") >= F.col("from_ms"))
        & (F.col("at_ms") < F.col("own_next_ms")),
        "left",
    )
    gathered = met.groupBy(*spans.columns).agg(
        *(
            F.min(F.when(F.col("mark") == mark, F.col("at_ms"))).alias(f"{mark}_ms")
            for mark in ("resigned", "expired", "stopping", "started", "failed", "ready")
        ),
        F.min_by("mark_file", F.when(F.col("mark") == "resigned", F.col("at_ms"))).alias("r_file"),
        F.min_by("mark_line", F.when(F.col("mark") == "resigned", F.col("at_ms"))).alias("r_line"),
    )
    # What comes after the process was started again belongs to another life.
    in_life = F.coalesce(F.col("started_ms"), F.lit(2**62))
    for mark in ("resigned", "expired", "stopping", "failed", "ready"):
        seen = F.col(f"{mark}_ms")
        gathered = gathered.withColumn(f"{mark}_ms", F.when(seen <= in_life, seen))
    return _ended(gathered, _last_words(events))


def phases(events: DataFrame, held: DataFrame) -> DataFrame:
    """Finds the steps of each failover.

    The steps of each failover: ``controller_epoch``, ``broker``, ``step``, ``phase``, ``at_ms``,
    ``took_ms`` (since the step before; the first since the election), ``file``, ``line``.

    ``held``: what :func:`tenures` gave. The last step is the moment when the last broker that took
    the new controller's metadata at once had done so.
    """
    step, name = F.lit(None).cast("int"), F.lit(None).cast("string")
    for number, (kind, text, label) in enumerate(PHASES):
        is_it = of_kind(kind) & (F.col("text").contains(text) if text else F.lit(True))
        step = F.when(is_it, F.lit(number)).otherwise(step)
        name = F.when(is_it, F.lit(label)).otherwise(name)
    steps = events.where(of_kind(*(kind for kind, _, _ in PHASES))).select(
        F.col("broker_id").alias("by"),
        F.col("time_ms").alias("at_ms"),
        "file",
        "line",
        step.alias("step"),
        name.alias("phase"),
    )
    spans = held.select("broker", "controller_epoch", "from_ms", "to_ms")
    inside = (
        (F.col("by") == F.col("broker"))
        & (F.col("at_ms") >= F.col("from_ms"))
        & (F.col("at_ms") <= F.coalesce("to_ms", F.lit(2**62)))
    )
    found = steps.where("step IS NOT NULL").join(F.broadcast(spans), inside)
    firsts = (
        events.where(of_kind("um-applied"))
        .groupBy(F.col("controller_epoch").alias("told_epoch"), "broker_id")
        .agg(F.min(F.struct("time_ms", "file", "line")).alias("first"))
    )
    # A broker that came back later was updated later, which is not due to the failover.
    in_time = F.col("first.time_ms") <= F.coalesce("ready_ms", "from_ms") + TOLD_MS
    told = (
        held.join(firsts, F.col("told_epoch") == F.col("controller_epoch"))
        .where(in_time)
        .groupBy("broker", "controller_epoch", "from_ms")
        .agg(F.max("first").alias("last"))
        .select(
            "broker",
            "controller_epoch",
            "from_ms",
            F.col("last.time_ms").alias("at_ms"),
            F.col("last.file").alias("file"),
            F.col("last.line").alias("line"),
            F.lit(len(PHASES)).alias("step"),
            F.lit("brokers told").alias("phase"),
        )
    )
    columns = ["broker", "controller_epoch", "from_ms", "at_ms", "file", "line", "step", "phase"]
    firsts = (
        found.select(*columns)
        .where(F.col("at_ms") - F.col("from_ms") < PHASE_SPAN_MS)
        .unionByName(told.select(*columns))
        .groupBy("broker", "controller_epoch", "from_ms", "step", "phase")
        .agg(F.min(F.struct("at_ms", "file", "line")).alias("e"))
        .select("broker", "controller_epoch", "from_ms", "step", "phase", "e.*")
    )
    order = Window.partitionBy("controller_epoch", "broker").orderBy("at_ms", "step")
    before = F.coalesce(F.lag("at_ms").over(order), "from_ms")
    return firsts.withColumn("took_ms", F.col("at_ms") - before).drop("from_ms")


def _begun(events: DataFrame) -> DataFrame:
    """Broker, epoch, beginning and its evidence; the election where it is known."""
    # Up to 2.0 the epoch stands in a line of its own, right after (0.11: before) the election.
    said = events.where(of_kind("ctl-elected", "ctl-epoch-incremented")).select(
        F.col("broker_id").alias("broker"),
        "controller_epoch",
        "time_ms",
        "file",
        "line",
        of_kind("ctl-elected").alias("is_elected"),
    )
    near = Window.partitionBy("broker").orderBy("time_ms", "file", "line")
    neighbour = F.coalesce(
        F.lead("controller_epoch").over(near), F.lag("controller_epoch").over(near)
    )
    elected = (
        said.withColumn("controller_epoch", F.coalesce("controller_epoch", neighbour))
        .where("is_elected AND controller_epoch IS NOT NULL")
        .select("broker", "controller_epoch", "time_ms", "file", "line", F.lit(0).alias("rank"))
    )
    own = events.where(
        (F.col("component") == "controller")
        & (F.col("logger") == "state.change.logger")
        & F.col("controller_epoch").isNotNull()
    ).select(F.col("broker_id").alias("broker"), "controller_epoch", "time_ms", "file", "line")
    seen = events.where(
        of_kind(*WITNESS_KINDS) & (F.col("controller_id") >= 0) & (F.col("controller_epoch") > 0)
    ).select(F.col("controller_id").alias("broker"), "controller_epoch", "time_ms", "file", "line")
    witnessed = own.unionByName(seen).withColumn("rank", F.lit(1))
    return (
        elected.unionByName(witnessed)
        .groupBy("broker", "controller_epoch")
        .agg(F.min(F.struct("rank", "time_ms", "file", "line")).alias("e"))
        .select(
            "broker",
            "controller_epoch",
            F.col("e.time_ms").alias("from_ms"),
            (F.col("e.rank") == 0).alias("is_elected"),
            F.col("e.file").alias("file"),
            F.col("e.line").alias("line"),
        )
    )


def _mark() -> Column:
    return (
        F.when(of_kind("ctl-resigned"), "resigned")
        .when(of_kind("zkc-session") & says("Session expired"), "expired")
        .when(of_kind("zk-timeout") & says("has expired"), "expired")
        .when(of_kind("zk-state") & says("Expired"), "expired")
        .when(of_kind("server-life") & says("shutting down", "shut down completed"), "stopping")
        .when(of_kind("ctl-thread") & says("Shutting down", "Shutdown completed"), "stopping")
        .when(of_kind("server-life") & F.col("text").endswith("starting"), "started")
        .when(of_kind("ctl-thread") & says("Starting"), "started")
        .when(of_kind("ctl-elect-error"), "failed")
        .when(of_kind("ctl-ready"), "ready")
    )


def _last_words(events: DataFrame) -> DataFrame:
    """Until when each broker wrote, and whether its own controller.log is among the files."""
    return events.groupBy(F.col("broker_id").alias("broker")).agg(
        F.max("time_ms").alias("last_ms"),
        F.max(F.col("logger").startswith("kafka.controller")).alias("has_controller_log"),
    )


def _ended(gathered: DataFrame, last_words: DataFrame) -> DataFrame:
    met = gathered.join(F.broadcast(last_words), "broker", "left")
    resigned, following = F.col("resigned_ms"), F.col("next_ms")
    is_late = resigned > following + GRACE_MS
    before_end = F.least(F.coalesce(following, F.lit(2**62)), F.coalesce(resigned, F.lit(2**62)))
    went_silent = (
        resigned.isNull()
        & following.isNotNull()
        & (F.col("started_ms").isNotNull() | (F.col("last_ms") < following + GRACE_MS))
    )
    ended_by = (
        F.when(F.col("failed_ms") <= before_end, FAILED)
        .when(F.col("stopping_ms") <= F.coalesce(resigned, following) + GRACE_MS, CLEAN)
        .when(F.col("expired_ms") <= F.coalesce(resigned, F.lit(2**62)) + GRACE_MS, EXPIRED)
        .when(is_late, EXPIRED)
        .when(resigned.isNotNull(), MOVED)
        .when(F.coalesce(F.col("has_controller_log"), F.lit(False)) & went_silent, KILLED)
        .when(following.isNull() & F.col("started_ms").isNotNull(), KILLED)
        .when(following.isNull(), OPEN)
        .when(~F.coalesce(F.col("has_controller_log"), F.lit(False)), UNKNOWN)
        .otherwise(MOVED)
    )
    killed_last = following.isNull() & resigned.isNull() & F.col("started_ms").isNotNull()
    to_ms = F.when(killed_last, F.col("started_ms")).otherwise(F.least(following, resigned))
    own_end = resigned.isNotNull() & (following.isNull() | (resigned <= following))
    return met.select(
        "broker",
        "controller_epoch",
        "from_ms",
        "ready_ms",
        to_ms.alias("to_ms"),
        ended_by.alias("ended_by"),
        "resigned_ms",
        F.when(is_late, resigned - following).alias("overlap_ms"),
        "is_elected",
        "file",
        "line",
        F.when(own_end | is_late, F.col("r_file")).otherwise(F.col("next_file")).alias("end_file"),
        F.when(own_end | is_late, F.col("r_line")).otherwise(F.col("next_line")).alias("end_line"),
    )
