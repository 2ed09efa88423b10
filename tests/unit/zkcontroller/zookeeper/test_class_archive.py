"""The class data archive of ZooKeeper servers, with files in the place of a JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zkcontroller.zookeeper.class_archive import MOST_ARCHIVES, ClassArchive
from zkcontroller.zookeeper.server_jars import cache_folder

JARS = [f"{number}.jar" for number in range(MOST_ARCHIVES + 1)]
WRITE, READ = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("java", *JARS):
        (tmp_path / name).write_text("17")
    return tmp_path / "java"


def archive_of(java: Path, jar: str = "0.jar") -> ClassArchive:
    return ClassArchive(str(java), [java.parent / jar])


def written(java: Path, jar: str = "0.jar", content: str = "classes") -> ClassArchive:
    """An archive that a server has just written, but not ended."""
    archive = archive_of(java, jar)
    draft = next(flag.removeprefix(WRITE) for flag in archive.flags() if flag.startswith(WRITE))
    Path(draft).write_text(content)
    return archive


def is_known(java: Path, jar: str = "0.jar") -> bool:
    return archive_of(java, jar).flags()[0].startswith(READ)


def test_an_archive_is_for_its_jars_and_its_java_alone(java: Path) -> None:
    written(java).server_ended(in_order=True)

    assert is_known(java)
    assert not is_known(java, "1.jar")
    for updated in (java, java.parent / "0.jar"):
        updated.write_text("17.0.1")
        assert not is_known(java)
        written(java).server_ended(in_order=True)
        assert is_known(java)


def test_two_servers_that_write_at_once_leave_one_archive(java: Path) -> None:
    first, second = written(java), written(java, content="the same classes")
    first.server_ended(in_order=True)
    second.server_ended(in_order=True)

    assert len(list(cache_folder().iterdir())) == 1
    assert is_known(java)


def test_what_a_killed_server_wrote_is_removed(java: Path) -> None:
    written(java).server_ended(in_order=False)

    assert list(cache_folder().iterdir()) == []


def test_a_java_that_writes_no_archive_is_asked_again(java: Path) -> None:
    archive = archive_of(java)
    archive.flags()
    archive.server_ended(in_order=True)

    assert list(cache_folder().iterdir()) == []


def test_a_damaged_archive_gives_way_to_a_new_one(java: Path) -> None:
    written(java).server_ended(in_order=True)
    (kept,) = cache_folder().iterdir()
    kept.write_text("classe")

    assert not is_known(java)
    assert not kept.exists()


def test_the_oldest_archives_go(java: Path) -> None:
    for jar in JARS:
        written(java, jar, jar).server_ended(in_order=True)
        for each in cache_folder().iterdir():
            os.utime(each, (0, each.stat().st_mtime - 60))

    assert [is_known(java, jar) for jar in JARS] == [False] + [True] * MOST_ARCHIVES


def test_a_cache_that_cannot_be_written_is_done_without(java: Path) -> None:
    cache_folder().parent.parent.write_text("a file where the folder would be")

    assert archive_of(java).flags() == []
