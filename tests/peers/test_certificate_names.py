"""Certificate names as text: ours equals that of the installed JVM, for random names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pytest

from replica_manager.security.certificate_names import name_text
from tests.wire.certificate_names import encoded_name

pytestmark = pytest.mark.peers
PROGRAM: Final = Path(__file__).parents[1] / "wire" / "data" / "CertificateNames.java"
NAMES: Final = 3_000


def test_generated_names_are_written_as_java_writes_them() -> None:
    seed = SystemRandom().randrange(1 << 32)
    random = Random(seed)
    names = [encoded_name(random).hex() for _ in range(NAMES)]
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"

    result = subprocess.run(
        [java, str(PROGRAM)], input="\n".join(names), capture_output=True, text=True, check=True
    )

    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [encoded for encoded, _ in rows] == names
    for encoded, text in rows:
        assert text.encode() == name_text(bytes.fromhex(encoded)).encode().hex().encode(), (
            f"seed {seed}: {encoded}"
        )
