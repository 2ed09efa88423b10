"""The incarnations of brokers: when each process started, when and how it ended, lost sessions.

A life begins with *starting* in ``server.log``, or with the start of the controller's event thread
where only ``controller.log`` is there, or with the controller's *Newly added brokers* where
nothing of the broker is there at all. It ends in order (*shutting down*), or without a word: then
the truth lies between the broker's last line and the moment when the controller missed it, and the
first *disconnected* of a peer in between tells it best.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import ids, of_kind, says, value

CLEAN, KILLED, LOST, OPEN = "clean_shutdown", "killed", "lost", "open"
"""The values of ``ended_by``; ``lost``: only the controller says so, its own log is not here."""
NOTICE_MS: Final = 120_000
"""A dead broker is missed when its session runs out, which takes no longer than this."""
RUMOUR_MS: Final = 1_000
"""Peers may see a connection break this much before the victim's last line, as clocks go."""
STARTUP_MS: Final = 10_000
"""Lines this little before *starting* are of the same start."""
_FOREVER: Final = 2**62


def broker_lives(events: DataFrame) -> DataFrame:
    """Finds the lives of all brokers.

    One row for each life: ``broker``, ``from_ms``, ``to_ms`` (null: it runs when the logs end),
    ``ended_by``, ``stopping_ms`` (where an ordered stop began), ``last_ms`` and ``missed_ms``
    (what bounds the end of a life that ended without a word), ``broker_epoch``, ``is_started``
    (false: the logs begin in the middle of it), and evidence: ``file``, ``line``, ``end_file``,
    ``end_line``.
    """
    # A plan that is used four times is made once.
    marks = _marks(events).localCheckpoint()
    spans = _spans(marks)
    kinds = ("stopping", "stopped", "announced", "own")
    told = marks.where(F.col("mark").isin(*kinds, "registered")).join(
        F.broadcast(spans),
        (F.col("about") == F.col("broker"))
        & (F.col("at_ms") >= F.col("from_ms"))
        & (F.col("at_ms") < F.col("until_ms")),
    )
    evidence = F.struct("at_ms", "mark_file", "mark_line")
    gathered = told.groupBy("broker", "from_ms").agg(
        *(F.max(F.when(F.col("mark") == mark, evidence)).alias(mark) for mark in kinds),
        F.min_by("epoch", F.when(F.col("mark") == "registered", F.col("at_ms"))).alias(
            "broker_epoch"
        ),
        F.min(F.when(F.col("mark").isin("stopping", "announced"), F.col("at_ms"))).alias(
            "stopping_ms"
        ),
    )
    lives = spans.join(gathered, ["broker", "from_ms"], "left")
    return _ended(_missed(lives, _views(events)), marks)


def _missed(lives: DataFrame, views: DataFrame) -> DataFrame:
    """Adds when the controller first missed a broker.

    Adds ``missed`` (when, file, line): the controller's first view without a broker that had
    fallen silent, unless a later view has it again.
    """
    after = F.coalesce(F.col("own.at_ms") - RUMOUR_MS, F.col("from_ms"))
    met = lives.join(
        F.broadcast(views),
        (F.col("seen_ms") > after) & (F.col("seen_ms") < F.col("until_ms")),
        "left",
    )
    is_in = F.array_contains("live", F.col("broker"))
    evidence = F.struct(
        F.col("seen_ms").alias("at_ms"),
        F.col("seen_file").alias("mark_file"),
        F.col("seen_line").alias("mark_line"),
    )
    without = met.groupBy(*lives.columns).agg(
        F.min(F.when(~is_in, evidence)).alias("absent"),
        F.max(F.when(is_in, F.col("seen_ms"))).alias("present_ms"),
    )
    is_back = F.col("present_ms") > F.col("absent.at_ms")
    gone = F.when(~F.coalesce(is_back, F.lit(False)), F.col("absent"))
    return without.withColumn("missed", gone).drop("absent", "present_ms")


def session_expiries(events: DataFrame) -> DataFrame:
    """Finds lost ZooKeeper sessions of running brokers.

    Lost ZooKeeper sessions of running brokers: ``broker``, ``at_ms`` (when the broker learnt of
    it), ``gone_ms`` (when the controller missed it), ``back_ms`` (registered again), ``file``,
    ``line``.
    """
    is_expiry = (
        (of_kind("zkc-session") & says("Session expired"))
        | (of_kind("zk-timeout") & says("has expired"))
        | (of_kind("zk-state") & says("Expired"))
    )
    order = Window.partitionBy("broker").orderBy("at_ms", "file", "line")
    # ZooKeeper's client and Kafka's both say it: one loss within a few seconds.
    losses = (
        events.where(is_expiry)
        .select(F.col("broker_id").alias("broker"), F.col("time_ms").alias("at_ms"), "file", "line")
        .withColumn("_before", F.lag("at_ms").over(order))
        .where(F.col("_before").isNull() | (F.col("at_ms") - F.col("_before") > 5 * RUMOUR_MS))
        .drop("_before")
    )
    seen = losses.join(
        F.broadcast(_views(events)),
        F.col("seen_ms").between(F.col("at_ms") - NOTICE_MS, F.col("at_ms") + RUMOUR_MS),
        "left",
    ).withColumn("is_in", F.array_contains("live", F.col("broker")))
    each = Window.partitionBy("broker", "at_ms")
    was_in = F.col("is_in") & (F.col("seen_ms") < F.col("at_ms"))
    present_ms = F.max(F.when(was_in, F.col("seen_ms"))).over(each)
    absent = (
        seen.withColumn("present_ms", F.coalesce(present_ms, F.lit(0)))
        .groupBy(*losses.columns)
        .agg(
            F.min(
                F.when(~F.col("is_in") & (F.col("seen_ms") > F.col("present_ms")), F.col("seen_ms"))
            ).alias("gone_ms")
        )
    )
    returns = events.where(of_kind("broker-registered")).select(
        F.col("broker_id").alias("who"), F.col("time_ms").alias("return_ms")
    )
    is_return = (
        (F.col("who") == F.col("broker"))
        & (F.col("return_ms") >= F.col("at_ms"))
        & (F.col("return_ms") <= F.col("at_ms") + NOTICE_MS)
    )
    return (
        absent.join(returns, is_return, "left")
        .groupBy(*absent.columns)
        .agg(F.min("return_ms").alias("back_ms"))
    )


def _views(events: DataFrame) -> DataFrame:
    """Finds which brokers lived, in the controllers' view.

    Who lived, as controllers saw it: ``seen_ms``, ``live`` (array), evidence. One row for each
    change of the brokers and for each failover.
    """
    live = F.when(of_kind("ctl-brokers-active"), F.col("peers")).otherwise(ids(value("live")))
    return events.where(of_kind("ctl-brokers-changed", "ctl-brokers-active")).select(
        F.col("time_ms").alias("seen_ms"),
        F.coalesce(live, F.array().cast("array<int>")).alias("live"),
        F.col("file").alias("seen_file"),
        F.col("line").alias("seen_line"),
    )


def _marks(events: DataFrame) -> DataFrame:
    """Every statement about a broker: ``about``, ``at_ms``, ``mark``, ``epoch``, evidence."""
    own = F.array(F.col("broker_id"))
    nobody = F.array().cast("array<int>")
    is_life, is_thread = of_kind("server-life"), of_kind("ctl-thread")
    changed = of_kind("ctl-brokers-changed")
    node = F.regexp_extract("text", r"[Nn]ode (-?\d+)", 1)
    parted = (of_kind("net-disconnected") & says("disconnected.")) | of_kind("fetch-session-error")
    marks = (
        ("starting", is_life & F.col("text").endswith("starting"), own),
        ("thread", is_thread & says("Starting"), own),
        ("stopping", (is_life & says("shutting down")) | (is_thread & says("Shutting down")), own),
        (
            "stopped",
            (is_life & says("shut down completed")) | (is_thread & says("Shutdown completed")),
            own,
        ),
        ("registered", of_kind("broker-registered"), own),
        ("announced", of_kind("shutdown-request"), F.array(F.col("peer"))),
        ("added", changed, F.concat(ids(value("added")), ids(value("bounced")))),
        ("live", changed, ids(value("live"))),
        ("live", of_kind("ctl-brokers-active"), F.coalesce("peers", nobody)),
        ("parted", parted & (node != ""), F.array(node.try_cast("int"))),
    )
    told = F.filter(
        F.array(
            *(
                F.when(
                    is_it,
                    F.struct(F.lit(mark).alias("mark"), F.coalesce(who, nobody).alias("about")),
                )
                for mark, is_it, who in marks
            )
        ),
        lambda entry: entry.isNotNull(),
    )
    relevant = (
        "server-life",
        "ctl-thread",
        "broker-registered",
        "shutdown-request",
        "ctl-brokers-changed",
        "ctl-brokers-active",
        "net-disconnected",
        "fetch-session-error",
    )
    said = (
        events.where(of_kind(*relevant))
        .withColumn("told", F.explode(told))
        .select(
            F.explode("told.about").alias("about"),
            F.col("time_ms").alias("at_ms"),
            F.col("told.mark").alias("mark"),
            value("broker_epoch").try_cast("bigint").alias("epoch"),
            F.col("file").alias("mark_file"),
            F.col("line").alias("mark_line"),
        )
    )
    # One row for each second in which a broker wrote: small, whatever it wrote.  What a new process
    # says before *starting* is no sign of life of the one before.
    prelude = says("Registered kafka:type=", "Registered signal handlers", "Setting -D jdk.tls")
    wrote = (
        events.where("broker_id IS NOT NULL AND time_ms IS NOT NULL")
        .where(~(prelude | F.coalesce(of_kind("config-dump"), F.lit(False))))
        .groupBy("broker_id", F.floor(F.col("time_ms") / 1000))
        .agg(F.max(F.struct("time_ms", "file", "line")).alias("e"))
        .select(
            F.col("broker_id").alias("about"),
            F.col("e.time_ms").alias("at_ms"),
            F.lit("own").alias("mark"),
            F.lit(None).cast("bigint").alias("epoch"),
            F.col("e.file").alias("mark_file"),
            F.col("e.line").alias("mark_line"),
        )
    )
    return said.unionByName(wrote).where("about >= 0")


def _spans(marks: DataFrame) -> DataFrame:
    """The beginning of each life, and of the broker's next one (``until_ms``)."""
    rank = (
        F.when(F.col("mark") == "starting", 0)
        .when(F.col("mark") == "thread", 1)
        .when(F.col("mark") == "added", 2)
    )
    starts = marks.withColumn("rank", rank).where("rank IS NOT NULL")
    own = marks.groupBy("about").agg(
        F.min(
            F.when(F.col("mark").isin("own", "live"), F.struct("at_ms", "mark_file", "mark_line"))
        ).alias("e"),
        F.max(F.col("mark") == "own").alias("writes"),
    )
    best = Window.partitionBy("about")
    chosen = (
        starts.join(own.select("about", "writes"), "about")
        # A controller's *added* is no start of a process that tells of itself.
        .where("rank < 2 OR NOT writes")
        .withColumn("best", F.min("rank").over(best))
        .where("rank = best")
        .select(
            F.col("about").alias("broker"),
            F.col("at_ms").alias("from_ms"),
            F.lit(True).alias("is_started"),
            F.col("mark_file").alias("file"),
            F.col("mark_line").alias("line"),
        )
        # A life is a broker and a start, in however many lines the start stands.
        .groupBy("broker", "from_ms", "is_started")
        .agg(F.min(F.struct("file", "line")).alias("e"))
        .select("broker", "from_ms", "is_started", "e.*")
    )
    first = chosen.groupBy(F.col("broker").alias("about")).agg(F.min("from_ms").alias("first_ms"))
    before = (
        own.join(first, "about", "left")
        .where("first_ms IS NULL OR e.at_ms < first_ms - " + str(STARTUP_MS))
        .select(
            F.col("about").alias("broker"),
            F.col("e.at_ms").alias("from_ms"),
            F.lit(False).alias("is_started"),
            F.col("e.mark_file").alias("file"),
            F.col("e.mark_line").alias("line"),
        )
        .where("from_ms IS NOT NULL")
    )
    order = Window.partitionBy("broker").orderBy("from_ms")
    return chosen.unionByName(before).withColumn(
        "until_ms", F.coalesce(F.lead("from_ms").over(order), F.lit(_FOREVER))
    )


def _ended(lives: DataFrame, marks: DataFrame) -> DataFrame:
    last_ms, missed_ms = F.col("own.at_ms"), F.col("missed.at_ms")
    is_restarted = F.col("until_ms") < _FOREVER
    is_missed = missed_ms.isNotNull()
    ended_by = (
        F.when(F.col("stopped").isNotNull(), CLEAN)
        .when(F.col("stopping").isNotNull() & ~is_restarted, CLEAN)
        .when(last_ms.isNotNull() & (is_restarted | is_missed), KILLED)
        .when(F.col("announced").isNotNull() & (is_restarted | is_missed), CLEAN)
        .when(is_restarted | is_missed, LOST)
        .otherwise(OPEN)
    )
    upper = F.coalesce(F.when(is_missed, missed_ms), F.when(is_restarted, F.col("until_ms")))
    lives = lives.withColumn("ended_by", ended_by).withColumn("upper_ms", upper)
    partings = marks.where("mark = 'parted'").select(
        F.col("about").alias("victim"), F.col("at_ms").alias("parted_ms")
    )
    lower = F.coalesce(last_ms - RUMOUR_MS, F.col("upper_ms") - NOTICE_MS)
    met = lives.join(
        partings,
        (F.col("ended_by") == KILLED)
        & (F.col("victim") == F.col("broker"))
        & F.col("parted_ms").between(
            F.greatest(lower, F.col("upper_ms") - NOTICE_MS), F.col("upper_ms")
        ),
        "left",
    )
    lives = met.groupBy(*lives.columns).agg(F.min("parted_ms").alias("parted_ms"))
    near = (F.col("upper_ms") - last_ms) <= NOTICE_MS
    died_ms = F.when(
        F.col("parted_ms").isNotNull(), F.greatest(F.col("parted_ms"), last_ms)
    ).otherwise(F.when(near, last_ms).otherwise(F.col("upper_ms")))
    stopped = F.coalesce("stopped", "stopping", "announced")
    return lives.select(
        "broker",
        "from_ms",
        F.when(F.col("ended_by") == CLEAN, stopped["at_ms"])
        .when(F.col("ended_by") == KILLED, died_ms)
        .when(F.col("ended_by") == LOST, F.col("upper_ms"))
        .alias("to_ms"),
        "ended_by",
        "stopping_ms",
        last_ms.alias("last_ms"),
        F.when(is_missed, missed_ms).alias("missed_ms"),
        "broker_epoch",
        "is_started",
        "file",
        "line",
        F.when(F.col("ended_by") == CLEAN, stopped["mark_file"])
        .when(F.col("ended_by") != OPEN, F.coalesce("missed.mark_file", "own.mark_file"))
        .alias("end_file"),
        F.when(F.col("ended_by") == CLEAN, stopped["mark_line"])
        .when(F.col("ended_by") != OPEN, F.coalesce("missed.mark_line", "own.mark_line"))
        .alias("end_line"),
    )
