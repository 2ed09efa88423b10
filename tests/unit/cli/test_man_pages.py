"""The manual pages: one for each group, with every verb, and without a fault of format."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from scripts import write_man_pages
from tests.unit.cli.commands import all_commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    stale = folder / "man1" / "zkctl-gone.1"
    stale.parent.mkdir()
    stale.touch()

    written = write_man_pages.write(folder)

    assert not stale.exists()
    assert folder / "man1" / "zkctl.1" in written
    return folder / "man1"


def test_every_command_has_its_page_or_its_place_in_one(folder: Path) -> None:
    pages = {path.stem: path.read_text() for path in folder.iterdir()}
    verbs = [name for name, command in all_commands() if not isinstance(command, click.Group)]

    assert verbs
    for name in verbs:
        words = name.split()
        text = pages["-".join(words[:2])]
        escaped = name.replace("-", "\\-")
        assert len(words) == 2 or f'.SS "{escaped}"' in text, name
        assert ".EX\n" in text


def test_the_page_of_zkctl_names_what_its_help_names(folder: Path) -> None:
    text = (folder / "zkctl.1").read_text().replace("\\-", "-")
    root = dict(all_commands())["zkctl"]
    options = [option for each in root.params for option in each.opts if option != "--version"]

    assert not [option for option in options if option not in text]
    for variable in ("ZKCTL_CONTEXT", "ZKCTL_CONFIG", "ZKCTL_ZOOKEEPER_AUTH"):
        assert variable in text


def test_a_fixed_date_makes_the_same_pages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    first = write_man_pages.pages()

    assert first == write_man_pages.pages()
    assert '"2023-11-14"' in first["zkctl.1"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (".TH is no macro here", r"\&.TH is no macro here"),
        ("'quoted' first", r"\&'quoted' first"),
        (r"a \n b", r"a \en b"),
        ("--all", r"\-\-all"),
        ("a\n.b", "a\n\\&.b"),
    ],
)
def test_no_text_is_read_as_a_command(text: str, written: str) -> None:
    assert write_man_pages.escaped(text) == written


def test_every_page_passes_mandoc(folder: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")

    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *sorted(folder.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_every_page_passes_man(folder: Path) -> None:
    # Some images have a man that only says that there are no pages.
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man or groff is not installed")

    for page in sorted(folder.iterdir()):
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page],
            capture_output=True,
            text=True,
            env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
            check=False,
        )
        assert (done.stderr, done.returncode) == ("", 0), page
        assert done.stdout
