"""``zkctl storage format``: which versions of the metadata may be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.metadata.bootstrap import decode_bootstrap
from tests.support.cli_world import Zkctl, installed_zkctl

CLUSTER = "AAECAwQFBgcICQoLDA0ODw"


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def config_in(folder: Path, *, is_unstable_enabled: bool) -> Path:
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://localhost:9093",
        "log.dirs": f"{folder}/a",
        "unstable.feature.versions.enable": str(is_unstable_enabled).lower(),
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return file


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (("-r", "3.3-IV0"), 4),
        (("-f", "metadata.version=4"), 4),
        (("-f", "metadata.version=20"), 20),
        (("-r", "3.9"), 21),
        ((), 21),
    ],
)
def test_what_is_settled_may_be_asked_for_by_name_and_by_level(
    zkctl: Zkctl, tmp_path: Path, options: tuple[str, ...], level: int
) -> None:
    file = config_in(tmp_path, is_unstable_enabled=False)

    result = zkctl("storage", "format", "-t", CLUSTER, "-c", str(file), *options)

    assert result.exit_code == 0, result.stderr
    bootstrap = decode_bootstrap((tmp_path / "a" / "bootstrap.checkpoint").read_bytes())
    assert bootstrap.metadata_version.level == level


@pytest.mark.parametrize(
    ("options", "level"),
    [
        (("-f", "metadata.version=22"), 22),
        (("-r", "4.0-IV1"), 23),
        (("-r", "3.9"), 21),
        ((), 23),
    ],
)
def test_what_is_not_settled_takes_a_key_of_its_own(
    zkctl: Zkctl, tmp_path: Path, options: tuple[str, ...], level: int
) -> None:
    refused_file = config_in(tmp_path, is_unstable_enabled=False)
    if level > 21 and options:
        refused = zkctl("storage", "format", "-t", CLUSTER, "-c", str(refused_file), *options)
        assert refused.stderr.endswith("is not yet stable.\n")
    file = config_in(tmp_path, is_unstable_enabled=True)

    result = zkctl("storage", "format", "-t", CLUSTER, "-c", str(file), *options)

    assert result.exit_code == 0, result.stderr
    bootstrap = decode_bootstrap((tmp_path / "a" / "bootstrap.checkpoint").read_bytes())
    assert bootstrap.metadata_version.level == level
