"""The lists of exact versions that images and CI install, beside the ranges of setup.cfg."""

from __future__ import annotations

import configparser
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from scripts.list_modules import PACKAGES

ROOT = Path(__file__).parents[2]
LOCKS = {
    "requirements.lock": (),
    "requirements-zookeeper.lock": ("zookeeper",),
    "requirements-spark.lock": ("history",),
    "requirements-dev.lock": ("history", "dev"),
    "requirements-docs.lock": ("docs",),
}
USERS = ("test", "zookeeper", "container", "history", "top", "bench")
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
    assert [name for name, range_ in wanted(*USERS).items() if not range_] == []


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_installs_its_list_and_nothing_else(image: str) -> None:
    text = (ROOT / "compose" / image).read_text(encoding="utf-8")

    installs = re.findall(r"pip install (.*?)(?:\n|&&|\\)", text)

    assert len(installs) == 2
    assert f"--require-hashes -r {IMAGES[image]}" in installs[0]
    assert "--no-deps --no-build-isolation ." in installs[1]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_built_from_an_index_of_ones_own_if_there_is_one(image: str) -> None:
    text = (ROOT / "compose" / image).read_text(encoding="utf-8")
    named = f"compose/{image}"
    (build,) = [
        service["build"]
        for file in ("compose.yaml", "spark.yaml")
        for service in yaml.safe_load((ROOT / "compose" / file).read_text())["services"].values()
        if service.get("build", {}).get("dockerfile") == named
    ][:1]

    before_pip = text.partition("pip install")[0].partition("FROM")[2]
    wanted = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST"]

    # An argument that is given is in the environment of RUN, where pip looks.
    assert re.findall(r"^ARG (PIP_\w+)$", before_pip, re.MULTILINE) == wanted
    [default] = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)
    # docker-compose 1.29 gives an argument without a value as an empty base.
    assert build["args"] == [f"PYTHON_IMAGE=${{PYTHON_IMAGE:-{default}}}", *wanted]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_built_on_a_base_of_ones_own_and_keeps_no_installer(image: str) -> None:
    text = (ROOT / "compose" / image).read_text(encoding="utf-8")

    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert text.index("ARG PYTHON_IMAGE=") < text.index("FROM ")
    final = text.rpartition("FROM ")[2]
    assert "pip install" not in final
    assert "USER 1000:0" in final


_EXTRA = re.compile(r"zkcontroller\[([\w,]+)\]")
FOLDERS = (*PACKAGES, "scripts", "docs")


def test_every_extra_that_a_message_or_a_document_names_exists() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = set(parser["options.extras_require"])
    files = [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in FOLDERS
            for suffix in ("py", "sh", "md")
            for path in (ROOT / folder).rglob(f"*.{suffix}")
        ),
    ]

    named = {
        (path.relative_to(ROOT), extra)
        for path in files
        for names in _EXTRA.findall(path.read_text(encoding="utf-8"))
        for extra in names.split(",")
    }

    assert len({extra for _, extra in named}) >= 4
    assert [each for each in sorted(named) if each[1] not in extras] == []


def test_the_description_for_an_index_has_no_link_into_the_repository() -> None:
    spec = importlib.util.spec_from_file_location("setup_py", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    convert = module.description_for_an_index

    shown = convert((ROOT / "README.md").read_text(encoding="utf-8"))

    assert re.findall(r"\]\((?!https?://)", shown) == []
    assert "docs/zkctl.md" in shown
    assert convert("[a](docs/a.md#b), [docs/a.md](docs/a.md), [c](#c) [d](https://d)") == (
        "a (`docs/a.md`), docs/a.md, c [d](https://d)"
    )
