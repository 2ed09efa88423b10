"""docs/drill.md on brokers of a real Kafka: the same commands find and mend the same troubles."""

from __future__ import annotations

from pathlib import Path

import pytest
from typing_extensions import override

from tests.kit.drill import SECTIONS, LongSessions, NewOperator, ShortSessions
from tests.kit.typed_page import Operator
from tests.peers.kafka_versions import required_libs
from tests.peers.local_kafka import write_zkctl
from tests.support.drill_page import Command

pytestmark = pytest.mark.peers

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="class")
def libs() -> Path:
    """The jars of Kafka 3.9.1."""
    return required_libs()


@pytest.fixture(scope="class")
def new_operator(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> NewOperator:
    """One whose ``zkctl`` starts real brokers."""
    commands = tmp_path_factory.mktemp("commands") / "bin"
    write_zkctl(commands, libs)

    def made(directory: Path) -> Operator:
        operator = Operator(directory)
        operator.environment["PATH"] = f"{commands}:{operator.environment['PATH']}"
        return operator

    return made


class TestLongSessions(LongSessions):
    """Whose tests are there."""


class TestShortSessions(ShortSessions):
    """Whose tests are there."""


class Older:
    """On Kafka 2.8.2."""

    @pytest.fixture(scope="class")
    @classmethod
    def libs(cls) -> Path:
        return required_libs("2.8.2")


class TestLongSessionsOfOlderBrokers(Older, LongSessions):
    """All of them, but for transactions, for which those brokers cannot be asked."""

    @override
    def test_a_hanging_transaction_is_found_and_ended(self, patient: Operator) -> None:
        [find] = SECTIONS["A hanging transaction"].steps["Find"]

        said = patient.run(Command(find.line, 5)).stderr

        assert "does not know ListTransactions: that needs Kafka 3.0 or later" in said


class TestShortSessionsOfOlderBrokers(Older, ShortSessions):
    """All of them; but no Kafka before 3.4 can be migrated, whatever is left in ZooKeeper."""

    @override
    def test_what_an_earlier_migration_left_is_found(self, quick: Operator) -> None:
        section = SECTIONS["What an earlier migration left"]
        (quick.directory / "remnant.py").write_text(section.script)
        quick.run_all(section.steps["Cause"])

        assert quick.find(section) == ["zkctl znode get /migration"]
        assert "remnant" in quick.run(section.steps["Find"][1]).stdout

        quick.run_all(section.steps["Mend"])
        [prove] = section.steps["Prove"]
        said = quick.run(Command(prove.line, 1)).stdout
        assert "protocol-version" in said
        assert "remnant" not in said
