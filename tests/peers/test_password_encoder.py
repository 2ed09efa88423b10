"""Passwords in ZooKeeper: Kafka reads what we encode, and we read what Kafka encodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from replica_manager.security.password_encoder import PasswordEncoder

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("kafka")]
TOOL: Final = str(Path(__file__).with_name("PasswordTool.java"))
PASSWORDS: Final = ("s", "storepass", "with, comma: and =", "ü漢😀", "x" * 4000)
SECRET: Final = "the secret ü"


@pytest.mark.parametrize(
    ("cipher", "bits"), [("AES/CBC/PKCS5Padding", 128), ("AES/GCM/NoPadding", 256)]
)
def test_kafka_and_we_read_each_others_passwords(cipher: str, bits: int) -> None:
    encoder = PasswordEncoder(SECRET, cipher=cipher, key_length=bits)
    lines = [f"d {encoder.encode(each)}" for each in PASSWORDS]
    lines += [f"e {each}" for each in PASSWORDS]

    result = run_kafka_tool(TOOL, SECRET, cipher, str(bits), "4096", stdin="\n".join(lines) + "\n")

    assert result.returncode == 0, result.stderr
    decoded, encoded = result.stdout.splitlines()[: len(PASSWORDS)], result.stdout.splitlines()
    assert tuple(decoded) == PASSWORDS
    assert tuple(encoder.decode(each) for each in encoded[len(PASSWORDS) :]) == PASSWORDS
