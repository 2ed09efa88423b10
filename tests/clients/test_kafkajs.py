"""kafkajs on Node: topics, an idempotent producer, a group, offsets, deleted records."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from zkcontroller_testing import KafkaCluster

pytestmark = pytest.mark.integration

SCENARIO = Path(__file__).with_name("kafkajs")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with kafkajs installed beside it, exactly the version in package-lock.json."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not on the PATH")
    folder = tmp_path_factory.mktemp("kafkajs")
    for name in ("package.json", "package-lock.json", "story.js"):
        shutil.copy(SCENARIO / name, folder)
    try:
        installed = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"],
            cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip("npm has not fetched kafkajs within two minutes")
    if installed.returncode != 0:
        pytest.skip(f"npm cannot fetch kafkajs: {installed.stderr.strip()[-300:]}")
    return folder / "story.js"


def test_a_program_finds_everything_as_with_kafka(cluster: KafkaCluster, scenario: Path) -> None:
    done = subprocess.run(
        ["node", str(scenario), cluster.bootstrap_servers, "kafkajs-story"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])

    def message(number: int) -> list[Any]:
        partition, offset = number % 2, number // 2
        return [partition, str(offset), f"key {number}", f"value {number}", "story"]

    assert seen["created"] is True
    assert sorted(seen["first"]) == sorted(message(number) for number in range(20))
    assert sorted(seen["second"]) == sorted(message(number) for number in range(20, 24))

    def offsets(name: str, field: str) -> dict[int, str]:
        return {each["partition"]: each[field] for each in seen[name]}

    assert offsets("offsets", "low") == {0: "0", 1: "0"}
    assert offsets("offsets", "high") == {0: "12", 1: "12"}
    assert offsets("byTime", "offset") == {0: "0", 1: "0"}
    assert offsets("afterDeletion", "low") == {0: "5", 1: "0"}
