"""Whose directories these are: ``meta.properties`` of a KRaft node, ids, the lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kafka_common.errors import ConfigInvalid
from kraft.node.metadata_log import FOLDER
from kraft.node.node_files import (
    NodeFilesInvalid,
    initialize_log_dirs,
    is_reserved,
    load_log_dirs,
    lock_metadata_log_dir,
    new_directory_id,
)
from replica_manager.configuration.meta_properties import (
    MetaProperties,
    meta_properties_of,
    write_meta_properties,
)
from replica_manager.configuration.properties import parse_properties

CLUSTER = "AAECAwQFBgcICQoLDA0ODw"
IDS = [UUID(int=(n << 100) + n) for n in range(1, 20)]
DASH = UUID(int=0xF8 << 120)
"""Its text begins with a dash."""


def made_up(*ids: UUID) -> Iterator[UUID]:
    return iter((*ids, *IDS))


def formatted(directory: Path, meta: MetaProperties | None = None) -> Path:
    directory.mkdir()
    write_meta_properties(directory, meta or MetaProperties(1, CLUSTER, 1))
    return directory


def initialize(*directories: Path, metadata: Path | None = None, node_id: int = 1) -> list[UUID]:
    ids = made_up()
    found = initialize_log_dirs(directories, metadata or directories[0], node_id, lambda: next(ids))
    return list(found.directory_ids)


def test_version_1_is_written_in_kafkas_order(tmp_path: Path) -> None:
    write_meta_properties(
        tmp_path, MetaProperties(1, CLUSTER, 1, UUID("7a3adf01-39d1-70ad-860b-1a5fb27fbc5e"))
    )

    lines = (tmp_path / "meta.properties").read_text().split("\n")
    assert lines[0] == "#"
    assert lines[1].startswith("#")
    assert lines[2:] == [
        "node.id=1",
        "directory.id=ejrfATnRcK2GCxpfsn-8Xg",
        "version=1",
        f"cluster.id={CLUSTER}",
        "",
    ]
    assert load_log_dirs([tmp_path]).found == {
        tmp_path: MetaProperties(1, CLUSTER, 1, UUID("7a3adf01-39d1-70ad-860b-1a5fb27fbc5e"))
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=1\ncluster.id=x\n", r"Failed to find node\.id"),
        ("version=1\nnode.id=one\ncluster.id=x\n", r"Unable to read node\.id as a base-10"),
        ("version=2\nnode.id=1\n", "Unknown meta.properties version number 2"),
        ("version=new\n", "Invalid meta.properties version string 'new'"),
        ("version=1\nnode.id=1\ndirectory.id=x\n", r"Unable to read directory\.id as a Uuid"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        meta_properties_of(parse_properties(text))


def test_version_1_requires_a_cluster_and_version_0_nothing(tmp_path: Path) -> None:
    assert meta_properties_of({}) == MetaProperties()

    formatted(tmp_path / "a", MetaProperties(1, None, 1))
    with pytest.raises(NodeFilesInvalid, match=r"cluster\.id was not specified in the v1 file"):
        initialize(tmp_path / "a")


def test_a_directory_gets_an_id_once(tmp_path: Path) -> None:
    first, second = formatted(tmp_path / "a"), formatted(tmp_path / "b")

    assert initialize(first, second) == IDS[:2]
    assert initialize(first, second) == IDS[:2]
    assert load_log_dirs([second]).directory_ids == (IDS[1],)


def test_ids_that_stand_for_something_else_are_not_given() -> None:
    ids = made_up(UUID(int=0), UUID(int=1), UUID(int=99), DASH, IDS[0])

    assert new_directory_id(lambda: next(ids), (IDS[0],)) == IDS[1]
    assert is_reserved(UUID(int=99))
    assert not is_reserved(UUID(int=100))


def test_nothing_formatted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(NodeFilesInvalid, match=r"No readable meta\.properties files found"):
        initialize(tmp_path / "a")


def test_a_directory_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    formatted(tmp_path / "a")

    with pytest.raises(NodeFilesInvalid, match=r"have you run `zkctl storage format`"):
        initialize(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (MetaProperties(2, CLUSTER, 1), "Stored node id 2 doesn't match previous node id 1"),
        (MetaProperties(1, "other", 1), "Expected AAECAwQFBgcICQoLDA0ODw, but read other"),
        (MetaProperties(1, CLUSTER, 1, IDS[0]), "Duplicate directory ID"),
        (MetaProperties(1, CLUSTER, 1, UUID(int=7)), "reserved directory ID"),
        (MetaProperties(None, CLUSTER, 0), "node ID not found"),
    ],
)
def test_directories_that_contradict_each_other_are_refused(
    tmp_path: Path, meta: MetaProperties, reason: str
) -> None:
    first = formatted(tmp_path / "a", MetaProperties(1, CLUSTER, 1, IDS[0]))

    with pytest.raises(NodeFilesInvalid, match=reason):
        initialize(first, formatted(tmp_path / "b", meta))


def test_a_metadata_log_outside_of_its_directory_is_refused(tmp_path: Path) -> None:
    first, second = formatted(tmp_path / "a"), formatted(tmp_path / "b")
    (second / FOLDER).mkdir()

    with pytest.raises(NodeFilesInvalid, match="Found unexpected metadata location"):
        initialize(first, second)
    assert initialize(first, second, metadata=second) == IDS[:2]


def test_an_unreadable_data_directory_is_left_out_but_not_the_metadatas(tmp_path: Path) -> None:
    first, second = formatted(tmp_path / "a"), formatted(tmp_path / "b")
    (second / "meta.properties").write_text("version=1\n")

    assert initialize(first, second) == IDS[:1]
    with pytest.raises(NodeFilesInvalid, match="Encountered I/O error in metadata log directory"):
        initialize(first, second, metadata=second)


_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def is_locked(directory: Path) -> bool:
    tried = subprocess.run(
        [sys.executable, "-c", _LOCK, directory / ".lock"], check=False, capture_output=True
    )
    return tried.returncode != 0


def test_the_metadata_directory_is_locked_where_no_broker_does_it(tmp_path: Path) -> None:
    only = lock_metadata_log_dir(tmp_path, [tmp_path], is_only_controller=True)
    assert is_locked(tmp_path)
    only.release()
    assert not is_locked(tmp_path)

    lock_metadata_log_dir(tmp_path, [tmp_path], is_only_controller=False)
    assert not is_locked(tmp_path)

    separate = lock_metadata_log_dir(tmp_path, [tmp_path / "x"], is_only_controller=False)
    assert is_locked(tmp_path)
    separate.release()


def test_a_directory_of_another_process_is_refused(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{_LOCK}print('held', flush=True); sys.stdin.read()",
         tmp_path / ".lock"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigInvalid, match="locked by another process"):
            lock_metadata_log_dir(tmp_path, [tmp_path], is_only_controller=True)
        holder.communicate()
