"""Every block of code in docs/testing.md, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from scripts.list_hold_points import DOCUMENT, relisted

pytestmark = pytest.mark.kit

RUN_S: Final = 170
BLOCKS: Final = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
PYTHON: Final = [text for language, text in BLOCKS if language == "python"]


def name_of(block: str) -> str:
    found = re.search(r"def (test_\w+)", block)
    assert found is not None, block
    return found[1]


def test_every_block_is_of_a_kind_that_is_run() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh", "ini"}
    assert len(PYTHON) >= 9


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_a_block_of_python_passes(block: str, tmp_path: Path, kafka_shared_zookeeper: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_block.py").write_text(block)
    server = (kafka_shared_zookeeper / "connect").read_text()

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", f"--kafka-zookeeper={server}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_settings_are_those_that_pytest_takes(tmp_path: Path) -> None:
    (settings,) = (text for language, text in BLOCKS if language == "ini")
    (tmp_path / "pytest.ini").write_text(settings)
    (tmp_path / "test_it.py").write_text(
        "from confluent_kafka.admin import AdminClient, ConfigResource\n"
        "def test_it(kafka_cluster):\n"
        "    assert kafka_cluster.broker_ids == (1,)\n"
        "    broker = ConfigResource('broker', '1')\n"
        "    admin = AdminClient(kafka_cluster.client_config())\n"
        "    found = admin.describe_configs([broker])[broker].result(20)\n"
        "    assert found['log.segment.bytes'].value == '1048576'\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-o", "strict_config=true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_exist() -> None:
    lines = "\n".join(text for language, text in BLOCKS if language == "sh").splitlines()
    commands = [line.partition("#")[0].strip() for line in lines]
    extras = set(distribution("zkcontroller").metadata.get_all("Provides-Extra") or ())

    installed = {extra for line in commands for extra in re.findall(r"zkcontroller\[(\w+)\]", line)}
    called = [line.split()[1:] for line in commands if line.startswith("zkctl ")]

    assert installed <= extras
    assert called
    for words in called:
        subprocess.run(
            [sys.executable, "-m", "zkcontroller_cli", *words, "--help"],
            check=True,
            capture_output=True,
        )


def test_the_table_of_hold_points_is_up_to_date() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")

    assert relisted(document) == document, "run python -m scripts.list_hold_points"
