"""Names of certificates against those that Java's ``X500Principal`` gave them.

``data/certificate-names.tsv`` holds encoded names and, as hexadecimal digits of UTF-8, Java's text.
It comes from ``data/CertificateNames.java`` on JDK 17, over the names of ``certificate_names``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from replica_manager.security.certificate_names import name_text
from tests.wire.certificate_names import encoded_name

GOLDEN = Path(__file__).with_name("data") / "certificate-names.tsv"


def test_every_recorded_name_is_written_as_java_wrote_it() -> None:
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines()]

    differing = [
        encoded
        for encoded, text in rows
        if name_text(bytes.fromhex(encoded)) != bytes.fromhex(text).decode()
    ]

    assert len(rows) == 400
    assert differing == []


def test_the_recorded_names_are_those_of_the_first_seed() -> None:
    random = Random(0)
    recorded = [line.partition("\t")[0] for line in GOLDEN.read_text().splitlines()]

    assert recorded == [encoded_name(random).hex() for _ in recorded]
