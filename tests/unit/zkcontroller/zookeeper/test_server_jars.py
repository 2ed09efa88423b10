"""Where the jars of the embedded ZooKeeper come from."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

from kafka_common.errors import NotInstalled
from zkcontroller.zookeeper import server_jars
from zkcontroller.zookeeper.server_jars import (
    JARS_VARIABLE,
    REPOSITORY_VARIABLE,
    Artefact,
    cache_folder,
    fetch_jars,
    find_jars,
)


@pytest.fixture
def artefacts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Artefact, ...]:
    """Two small jars in a Maven repository of files, which the environment names."""
    made = []
    for name in ("zookeeper", "zookeeper-jute"):
        artefact = Artefact("org.example", name, "9.9", "")
        path = tmp_path / "repository" / artefact.path
        path.parent.mkdir(parents=True)
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr("name", name)
        made.append(artefact._replace(sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    monkeypatch.setattr(server_jars, "ARTEFACTS", tuple(made))
    monkeypatch.setenv(REPOSITORY_VARIABLE, (tmp_path / "repository").as_uri() + "/")
    return tuple(made)


def test_fetched_jars_are_found(
    artefacts: tuple[Artefact, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    said: list[str] = []

    fetched = fetch_jars(cache_folder(), said.append)

    assert fetched == find_jars()
    assert [each.name for each in fetched] == [each.file for each in artefacts]
    assert said == ["fetching 2 jars"]
    fetch_jars(cache_folder(), said.append)
    assert said[-1].startswith("all 2 jars are in ")


def test_a_jar_that_is_not_the_expected_one_is_not_installed(
    artefacts: tuple[Artefact, ...], tmp_path: Path
) -> None:
    (tmp_path / "repository" / artefacts[1].path).write_bytes(b"something else")

    with pytest.raises(NotInstalled, match=r"zookeeper-jute-9.9.jar is not the one that is"):
        fetch_jars(tmp_path / "jars", lambda _: None)

    assert not (tmp_path / "jars").exists()


def test_a_repository_that_does_not_answer_is_named(
    artefacts: tuple[Artefact, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, (tmp_path / "nowhere").as_uri())

    with pytest.raises(NotInstalled, match=f"nowhere/{artefacts[0].path} cannot be fetched"):
        fetch_jars(tmp_path / "jars", lambda _: None)


@pytest.mark.usefixtures("artefacts")
def test_without_jgo_and_repository_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REPOSITORY_VARIABLE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "unused")
    monkeypatch.setitem(sys.modules, "jgo", None)

    with pytest.raises(NotInstalled, match=rf"'zkcontroller\[zookeeper\]'.*{REPOSITORY_VARIABLE}"):
        fetch_jars(tmp_path / "jars", lambda _: None)


def test_a_folder_that_is_named_and_has_none_is_not_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))

    with pytest.raises(NotInstalled, match="zkctl cluster fetch brings them"):
        find_jars()


def test_pyspark_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    package = tmp_path / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("zookeeper-3.9.1.jar", "zookeeper-jute-3.9.1.jar", "unrelated-1.jar"):
        (package / "jars" / name).touch()
    spec = importlib.util.spec_from_file_location("pyspark", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)

    assert [each.name for each in find_jars()] == [
        "zookeeper-3.9.1.jar",
        "zookeeper-jute-3.9.1.jar",
    ]
