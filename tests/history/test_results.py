"""What verbs answered is kept: for the same rows, code and question, byte for byte, and bounded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafka_history.analyses import results as module
from kafka_history.analyses.kept import ANSWERS, answers_folder
from kafka_history.analyses.results import Results
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import read_manifest

DATA = Path(__file__).parent / "data"
ANSWER = {"rows": [{"topic": "orders", "partition": 3, "isr": [1, 2], "to_ms": None}]}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A history of one broker's logs."""
    ingest_here([str(DATA / "incidents-1.1.1" / "broker-2")], IngestOptions(str(tmp_path)), 1)
    return tmp_path


def results_of(out: Path, cluster: str | None = "c") -> Results:
    return Results(out, read_manifest(out).ingests, cluster)


def files_of(out: Path) -> list[Path]:
    return sorted((out / ANSWERS / "results").iterdir())


def test_the_same_question_has_the_same_answer(out: Path) -> None:
    assert results_of(out).get("outages", {"sum": True}) is None
    assert results_of(out).put("outages", {"sum": True}, ANSWER)

    assert results_of(out).get("outages", {"sum": True}) == ANSWER
    for question, arguments, cluster in (
        ("isr", {"sum": True}, "c"),
        ("outages", {"sum": False}, "c"),
        ("outages", {}, "c"),
        ("outages", {"sum": True}, "d"),
        ("outages", {"sum": True}, None),
    ):
        assert results_of(out, cluster).get(question, arguments) is None


@pytest.mark.parametrize("place", [5, 60, -1], ids=["key", "digest", "rows"])
def test_a_damaged_answer_is_never_shown(place: int, out: Path) -> None:
    results_of(out).put("outages", {}, ANSWER)
    (file,) = files_of(out)
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)

    assert results_of(out).get("outages", {}) is None
    assert files_of(out) == []


def test_a_truncated_answer_is_never_shown(out: Path) -> None:
    results_of(out).put("outages", {}, ANSWER)
    (file,) = files_of(out)
    whole = file.read_bytes()

    for size in (0, 10, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert results_of(out).get("outages", {}) is None


def test_an_answer_under_the_name_of_another_is_never_shown(out: Path) -> None:
    results_of(out).put("outages", {}, ANSWER)
    (first,) = files_of(out)
    content = first.read_bytes()
    first.unlink()
    results_of(out).put("isr", {}, {"other": 1})
    (second,) = files_of(out)
    second.write_bytes(content)

    assert results_of(out).get("isr", {}) is None


def test_other_rows_have_other_answers_and_the_old_ones_go(out: Path) -> None:
    results_of(out).put("outages", {}, ANSWER)
    (before,) = files_of(out)
    rows = next((out / "events").rglob("*.parquet"))
    rows.write_bytes(rows.read_bytes()[:-1])

    assert results_of(out).get("outages", {}) is None
    results_of(out).put("outages", {}, {"rows": []})
    assert before not in files_of(out)
    assert len(files_of(out)) == 1


def test_a_new_ingest_asks_anew(out: Path) -> None:
    results_of(out).put("outages", {}, ANSWER)

    ingest_here([str(DATA / "incidents-1.1.1" / "broker-3")], IngestOptions(str(out)), 1)

    assert results_of(out).get("outages", {}) is None


def test_other_code_asks_anew(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results_of(out).put("outages", {}, ANSWER)

    monkeypatch.setattr(module, "_code_version", lambda: "of another release")

    assert results_of(out).get("outages", {}) is None


def test_there_are_never_more_than_the_bounds_allow(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESULTS_MAX", 3)

    def put(number: int, result: Any = ANSWER) -> None:
        assert results_of(out).put("partition", {"number": number}, result)
        for age, file in enumerate(sorted(files_of(out), key=lambda f: -f.stat().st_mtime)):
            os.utime(file, (1_000_000 - age, 1_000_000 - age))

    for number in range(5):
        put(number)

    kept = [n for n in range(5) if results_of(out).get("partition", {"number": n})]
    assert kept == [2, 3, 4]
    monkeypatch.setattr(module, "RESULTS_BYTES_MAX", 2_000)
    put(5, "x" * 1_500)
    assert len(files_of(out)) == 1
    monkeypatch.setattr(module, "RESULT_BYTES_MAX", 100)
    assert not results_of(out).put("partition", {"number": 6}, "x" * 101)
    assert results_of(out).get("partition", {"number": 5}) == "x" * 1_500


def test_tables_of_what_the_history_was_go_after_a_while(out: Path) -> None:
    ingests = read_manifest(out).ingests
    mine = answers_folder(out, ingests, "other cluster")
    old, lately = (answers_folder(out, (*ingests, name), "c") for name in ("000002", "000003"))
    for folder in (mine, old, lately):
        folder.mkdir(parents=True)
    for folder in (mine, old):
        os.utime(folder, (1_000_000, 1_000_000))

    results_of(out).put("outages", {}, ANSWER)

    assert mine.is_dir()
    assert lately.is_dir()
    assert not old.exists()


def test_a_directory_that_cannot_be_written_to_keeps_nothing(out: Path) -> None:
    (out / ANSWERS).write_bytes(b"a file where a folder belongs")

    assert not results_of(out).put("outages", {}, ANSWER)
    assert results_of(out).get("outages", {}) is None
