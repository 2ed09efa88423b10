"""docs/containers.md as sections of commands, run as its reader runs them.

What differs: names of a project and of images of the test's own; ``docker-compose`` of Debian where
Docker has no plugin ``compose``; the network of the host for builds; no Grafana, whose image comes
from a registry alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.container.dockers import COMMAND_TIMEOUT_S, run
from tests.support.paths import ROOT

PAGE: Final = ROOT / "docs" / "containers.md"
PROJECT: Final = f"zkc{os.getpid()}"
ENVIRONMENT: Final = {
    "COMPOSE_FILE": str(ROOT / "compose" / "compose.yaml"),
    "COMPOSE_PROJECT_NAME": PROJECT,
    "ZKCONTROLLER_BUILD_NETWORK": "host",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}
_INDEX: Final = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST")


def commands() -> dict[str, list[str]]:
    """The commands of each section, by its heading, in the order of the page."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^##+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        lines = "".join(blocks).replace("\\\n", "").splitlines()
        if lines:
            assert all(line.startswith("$ ") for line in lines), lines
            found[heading] = [line.removeprefix("$ ") for line in lines]
    return found


def perform(command: str) -> str:
    """What a command of the page prints; an AssertionError if it fails."""
    done = subprocess.run(
        ["bash", "-c", _here(command)],
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _here(command: str) -> str:
    """The command as this machine can run it."""
    if command.startswith("export "):
        return "true"  # ENVIRONMENT has it, with the test's own project
    if base := os.environ.get("PYTHON_IMAGE"):
        given = [f"PYTHON_IMAGE={base}", *(name for name in _INDEX if os.environ.get(name))]
        arguments = " ".join(f"--build-arg {each}" for each in given)
        command = command.replace("docker build ", f"docker build --network host {arguments} ")
    command = command.removesuffix(" grafana")
    if _has_plugin():
        return command
    assert shutil.which("docker-compose"), "neither docker compose nor docker-compose is installed"
    command = re.sub(r"(docker compose (?:exec|run)) ", r"\1 -T ", command)
    return command.replace("docker compose ", "docker-compose ")


def _has_plugin() -> bool:
    return run("docker", "compose", "version").returncode == 0
