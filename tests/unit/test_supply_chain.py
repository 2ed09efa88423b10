"""The lists of exact versions that images and CI install, beside the ranges of setup.cfg."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {
    "requirements.lock": (),
    "requirements-spark.lock": ("spark",),
    "requirements-test.lock": ("spark", "test"),
}
IMAGES = {"Dockerfile": "requirements.lock", "spark.Dockerfile": "requirements-spark.lock"}
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(*extras: str) -> dict[str, str]:
    """Names and ranges of setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    blocks = [parser["options"]["install_requires"]]
    blocks += [parser["options.extras_require"][extra] for extra in extras]
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    found = {}
    for line in lines:
        match = _NAME.match(line.strip())
        assert match is not None, line
        found[normal(match[0])] = line.strip()[match.end() :].strip()
    return found


def locked(file: str) -> dict[str, list[str]]:
    """Names of a list, each with its hashes."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("    --hash="):
            found[name].append(line.strip(" \\").partition("=")[2])
        elif line and not line.startswith("#"):
            name = normal(line.partition("==")[0])
            assert "==" in line, line
            found.setdefault(name, [])
    return found


@pytest.mark.parametrize("file", LOCKS)
def test_a_list_has_what_setup_cfg_wants_in_exact_versions_with_hashes(file: str) -> None:
    found = locked(file)

    assert wanted(*LOCKS[file]).keys() <= found.keys(), "run make lock"
    assert all(
        hashes and all(each.startswith("sha256:") for each in hashes) for hashes in found.values()
    )
    assert "://" not in (ROOT / file).read_text(encoding="utf-8")


def test_every_dependency_of_users_has_a_range() -> None:
    assert [name for name, range_ in wanted("spark").items() if not range_] == []


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_installs_its_list_and_nothing_else(image: str) -> None:
    text = (ROOT / "compose" / image).read_text(encoding="utf-8")

    installs = re.findall(r"pip install (.*?)(?:\n|&&|\\)", text)

    assert len(installs) == 2
    assert f"--require-hashes -r {IMAGES[image]}" in installs[0]
    assert "--no-deps --no-build-isolation ." in installs[1]
