"""``scripts/java-home.sh``: nothing is installed for the whole machine without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "scripts" / "java-home.sh"
TOOLS = ("bash", "dirname", "env", "grep", "id", "mktemp", "readlink", "rm", "sed", "tail")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine without Java, whose apt-get only notes that it was called."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, tool
        (tmp_path / "bin" / tool).symlink_to(found)
    apt = tmp_path / "bin" / "apt-get"
    apt.write_text(f"#!{shutil.which('bash')}\necho called >>{tmp_path}/apt\n")
    apt.chmod(0o755)
    script = SCRIPT.read_text(encoding="utf-8").replace("/usr/lib/jvm", str(tmp_path / "jvm"))
    (tmp_path / "java-home.sh").write_text(script, encoding="utf-8")
    return tmp_path


def run(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(machine / "java-home.sh")],
        env={"PATH": str(machine / "bin"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_installed_where_that_is_forbidden(machine: Path) -> None:
    response = run(machine, ZKCONTROLLER_INSTALL_JAVA="no")

    assert response.returncode == 1
    assert not (machine / "apt").exists()
    assert response.stdout == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may install a package")
def test_what_is_installed_is_said_first(machine: Path) -> None:
    response = run(machine)

    assert (machine / "apt").exists()
    assert "installing the system package" in response.stderr
    assert "as root" in response.stderr
