"""The verbs of ``zkctl history`` as a user calls them, on a real incident."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from shutil import rmtree
from typing import Any, NoReturn

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from kafka_history.analyses import history, kept
from kafka_history.analyses.history import History
from kafka_history.readers import ingest as ingest_module
from kafka_history.readers import session, soundness
from kafka_history.readers.ingest import ingest, write_sources
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.manifest import clusters_in, read_manifest
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.store import read_events
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import Tenure
from tests.support.cli_world import zkctl_here

from .conftest import DATA

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

Zkctl = Callable[..., int]
SNAPSHOT = '{"topic":"safe","partition":0,"leader":9,"leader_epoch":9,"isr":[9],"zk_version":9}\n'


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both incidents in one history, as a user gets them who names both folders."""
    out = tmp_path_factory.mktemp("store")
    ingest(spark, [str(DATA / "incidents-a"), str(DATA / "incidents-c")], IngestOptions(str(out)))
    return out


@pytest.fixture
def zkctl(spark: SparkSession, store: Path, monkeypatch: pytest.MonkeyPatch) -> Zkctl:
    """Runs a verb on the store, in the Spark of the tests; its exit code."""
    monkeypatch.setattr(session, "start_spark", lambda *_args, **_options: spark)
    (command,) = entry_points(group="console_scripts", name="zkctl")
    main = command.load()

    def run(*arguments: str, before: tuple[str, ...] = ()) -> int:
        code: int = main([*before, "history", *arguments, "--out", str(store)])
        return code

    return run


@pytest.fixture
def no_spark(zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch) -> Zkctl:
    """The same where Spark must not be started."""

    def start(*_args: Any, **_options: Any) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start_spark", start)
    return zkctl


@pytest.fixture(scope="module")
def clusters(store: Path) -> dict[str, str]:
    """The ids of the two clusters, by incident."""
    found = clusters_in(store)
    (first,) = [name for name in found if name is not None and name.startswith("yHk8")]
    (second,) = [name for name in found if name is not None and name != first]
    return {"incidents-a": first, "incidents-c": second}


def folder_of(store: Path, cluster: str) -> Path:
    return kept.answers_folder(store, read_manifest(store).ingests, cluster)


def test_what_is_kept_is_what_spark_found(
    spark: SparkSession, store: Path, clusters: dict[str, str]
) -> None:
    cluster = clusters["incidents-c"]
    folder = folder_of(store, cluster)
    events = read_events(spark, store)
    history = History(events.where(events["cluster"] == cluster), folder)
    assert kept.findings(folder, "states", State) is None  # no one has asked yet

    states = history.listed(history.states, State)

    assert sorted(kept.findings(folder, "states", State) or []) == sorted(states)
    mine = [state for state in states if (state.topic, state.partition) == ("safe", 0)]
    assert sorted(history.biographies([("safe", 0)])) == sorted(mine)
    known = kept.findings(folder, "states", State, {"topic": "safe", "partition": 0})
    assert sorted(known or []) == sorted(mine)
    assert kept.findings(folder, "tenures", Tenure) == history.tenures
    assert History(events.limit(0), folder).tenures == history.tenures


def all_questions(folder: Path) -> tuple[tuple[str, ...], ...]:
    """Each kind of question; the last one finds something, and ``folder`` is for its files."""
    snapshot = folder / "snapshot.jsonl"
    snapshot.write_text(SNAPSHOT)
    return (
        ("partition", "safe-0"),
        ("tenures",),
        ("tenures", "--phases"),
        ("state",),
        ("state", "--at", "2026-11-20T18:15:48Z"),
        ("outages",),
        ("outages", "--sum"),
        ("isr",),
        ("isr", "--changes"),
        ("isr", "--storms"),
        ("rules",),
        ("report", "--to", str(folder)),
        ("diff", "--first", "2026-11-20T18:15Z/2026-11-20T18:16Z",
         "--second", "2026-11-20T18:16Z/2026-11-20T18:17Z"),
        ("audit", "--snapshot", str(snapshot)),
    )  # fmt: skip


def test_the_second_question_starts_no_spark(
    zkctl: Zkctl,
    no_spark: Zkctl,
    clusters: dict[str, str],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions = all_questions(tmp_path)
    page = ("report.html", "report.md", "report.json")
    cluster = ("--cluster", clusters["incidents-c"], "-o", "csv")
    with monkeypatch.context() as patch:
        patch.setattr(session, "start_spark", lambda *_args, **_options: spark)
        first = {}
        for question in questions:
            code = zkctl(*question, *cluster)
            first[question] = code, capsys.readouterr().out
    pages = [(tmp_path / name).read_bytes() for name in page]
    assert [code for code, _ in first.values()] == [0] * (len(questions) - 1) + [1]
    assert json.loads(pages[2])["records"] == 10_282

    for question in questions:
        code = no_spark(*question, *cluster)
        assert (code, capsys.readouterr().out) == first[question]
    assert [(tmp_path / name).read_bytes() for name in page] == pages


@pytest.mark.parametrize(
    ("small_rows", "few_rows"),
    [(0, 0), (0, history.FEW_ROWS), (soundness.SMALL_ROWS, history.FEW_ROWS)],
    ids=["many", "some", "few"],
)
def test_one_process_answers_as_spark_does(
    zkctl: Zkctl,
    store: Path,
    clusters: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    small_rows: int,
    few_rows: int,
) -> None:
    monkeypatch.setattr(soundness, "SMALL_ROWS", small_rows)
    monkeypatch.setattr(history, "FEW_ROWS", few_rows)
    questions = all_questions(tmp_path)
    results: dict[tuple[str, object], Any] = {}
    for engine in ("spark", "local"):
        # Nothing that was kept may answer.
        rmtree(store / "answers", ignore_errors=True)
        for question in questions:
            options = ("--cluster", clusters["incidents-c"], "--engine", engine, "-o", "json")
            assert zkctl(*question, *options) == (question[0] == "audit")
            results[engine, question] = json.loads(capsys.readouterr().out)
        results[engine, "page"] = json.loads((tmp_path / "report.json").read_bytes())

    for asked in (*questions, "page"):
        local, spark = results["local", asked], results["spark", asked]
        assert local == spark, asked


def test_what_can_be_refused_is_refused_before_spark_starts(
    no_spark: Zkctl, clusters: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    a = clusters["incidents-a"]

    assert no_spark("outages") == 2
    assert "choose one with --cluster" in capsys.readouterr().err
    assert no_spark("outages", "--cluster", "nobody") == 5
    assert f"there are {', '.join(sorted(clusters.values()))}" in capsys.readouterr().err
    assert no_spark("outages", "--cluster", a, "--time-zone", "Mars") == 5
    assert "no time zone 'Mars'" in capsys.readouterr().err
    assert no_spark("outages", "--cluster", a, "--pattern", "%m%n") == 5
    assert "lacks %d, %p, %c" in capsys.readouterr().err
    assert no_spark("ingest", str(DATA), "--pattern", "%d %p %c %m %Q%n") == 5
    assert "%Q is not supported" in capsys.readouterr().err


def test_eyes_see_dates_and_programs_milliseconds(
    zkctl: Zkctl, clusters: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ("--cluster", clusters["incidents-c"])

    assert zkctl("outages", *cluster) == 0
    table = capsys.readouterr().out.splitlines()
    assert zkctl("outages", *cluster, "-o", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    assert table[0].split()[:6] == ["TOPIC", "PARTITION", "FROM", "NOTICED", "TO", "SPAN_MS"]
    # Two partitions of it, 28 s without a leader: the second broker of each was killed at :42.985,
    # which the controller noticed when the session had run out.
    assert "2026-11-20 18:15:42.986" in table[1]
    assert "2026-11-20 18:15:50." in table[1]
    assert rows[0]["from_ms"] == "1795198542986"
    assert rows[0]["span_ms"] == "27907"
    assert len(table) == len(rows) + 1


def test_an_answer_without_rows_says_so(
    zkctl: Zkctl, clusters: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ("--cluster", clusters["incidents-a"])

    assert zkctl("isr", "--storms", *cluster) == 0
    said = capsys.readouterr()
    assert said.out.split()[:2] == ["AT", "SHRINKS"]
    assert "no minute with so many shrinks" in said.err
    assert zkctl("partition", "nowhere-0", *cluster) == 5
    said = capsys.readouterr()
    assert said.out == ""
    assert "the logs say nothing of nowhere-0" in said.err
    assert zkctl("state", "--at", "2020-01-01", *cluster) == 0
    assert "controller: none; brokers: none" in capsys.readouterr().err


def test_deaths_are_listed_in_order(incident_a: dict[str, Any]) -> None:
    (rule,) = [rule for rule in incident_a["rules"] if rule["id"] == "B05"]

    # Broker 1 began its life after broker 3, and ended it before.
    assert rule["says"] == (
        "broker 2 at 2026-11-20 18:08:56.636, broker 1 at 2026-11-20 18:10:00.417, "
        "broker 3 at 2026-11-20 18:10:09.440"
    )
    told = " ".join(incident_a["verdict"]["sentences"])
    assert told.index("broker 1 at 18:10:00.417") < told.index("broker 3 at 18:10:09.440")


def test_a_truncated_table_is_an_error_and_no_smaller_answer(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "start_spark", lambda *_args, **_options: spark)
    monkeypatch.setattr(soundness, "SMALL_ROWS", 0)  # of few rows no table is kept
    out = str(tmp_path / "out")
    ask = ["history", "outages", "--sum", "--engine", "spark", "--out", out]
    log = tmp_path / "broker-1" / "controller.log"
    log.parent.mkdir()
    log.write_bytes(gzip.decompress((DATA / "incidents-c/broker-1/controller.log.gz").read_bytes()))
    assert zkctl_here(*ask, str(log)).exit_code == 0
    result = next((tmp_path / "out" / "answers").rglob("leaderless/*.parquet"))
    rows = next((tmp_path / "out" / "events").rglob("*.parquet"))

    # What can be computed again is.
    result.write_bytes(result.read_bytes()[:100])
    assert zkctl_here(*ask).exit_code == 0
    whole = rows.read_bytes()
    rows.write_bytes(whole[: len(whole) // 2])
    damaged = zkctl_here(*ask)
    assert (damaged.exit_code, damaged.stdout) == (5, "")
    assert f"{rows} is damaged" in damaged.stderr
    rows.unlink()
    lost = zkctl_here(*ask)
    assert lost.exit_code == 5
    assert "holds 0 rows, but" in lost.stderr


def test_an_ingest_whose_workers_share_no_directory_does_not_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(*_args: Any, **_options: Any) -> None:
        write_sources(*_args, **_options)
        rmtree(tmp_path / "out" / "events")

    monkeypatch.setattr(ingest_module, "write_sources", elsewhere)

    with pytest.raises(HistoryInvalid, match="workers on other machines do not share"):
        ingest(
            spark, [str(DATA / "incidents-c" / "broker-2")], IngestOptions(str(tmp_path / "out"))
        )
    assert read_manifest(tmp_path / "out").ingests == ()


def test_the_logs_of_one_cluster_are_not_compared_with_the_zookeeper_of_another(
    zkctl: Zkctl,
    clusters: dict[str, str],
    zookeeper_connect: str,
    chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine, other = clusters["incidents-a"], clusters["incidents-c"]
    zookeeper = KazooClient(zookeeper_connect)
    zookeeper.start()
    zookeeper.ensure_path(f"{chroot}/brokers/topics")
    znode = b'{"version":"1","id":"%s"}'
    zookeeper.create(f"{chroot}/cluster/id", znode % other.encode(), makepath=True)
    ask = ("audit", "--cluster", mine)

    try:
        assert zkctl(*ask, before=("-z", zookeeper_connect + chroot)) == 5
        said = capsys.readouterr()
        assert said.out == ""
        assert (
            f"the logs are of cluster {mine}, and this ZooKeeper is of cluster {other}" in said.err
        )
        # Its own cluster is compared, and has lost its topics.
        zookeeper.set(f"{chroot}/cluster/id", znode % mine.encode())
        assert zkctl(*ask, before=("-z", zookeeper_connect + chroot)) == 1
        assert "not_in_zookeeper" in capsys.readouterr().out
    finally:
        zookeeper.stop()
        zookeeper.close()
