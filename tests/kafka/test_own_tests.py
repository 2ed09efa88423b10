"""Kafka's own integration tests pass on our brokers.

``own-tests.tsv`` has a line for each class of tests: how many pass, how many look inside the
broker's process and so say nothing, and the others, each with the reason why it cannot pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import pytest

from benchmarks.kafka_peer import kafka_tests_libs
from tests.kafka.own_tests import run
from tests.peers.kafka_versions import required

pytestmark = pytest.mark.kafka

TABLE: Final = Path(__file__).with_name("own-tests.tsv")


class Expected(NamedTuple):
    passed: int
    inside: int
    failed: frozenset[str]


def expected() -> dict[str, Expected]:
    """By the name of the class."""
    found: dict[str, Expected] = {}
    for line in TABLE.read_text().splitlines()[1:]:
        name, passed, inside, others = line.split("\t")
        tests = frozenset(each.partition(":")[0] for each in others.split("; ") if each)
        found[name] = Expected(int(passed), int(inside), tests)
    return found


@pytest.mark.timeout(2000)
@pytest.mark.parametrize("name", sorted(expected()))
def test_what_kafka_asks_of_itself_holds(name: str, tmp_path: Path) -> None:
    outcome = run(required(kafka_tests_libs), name, tmp_path)

    seen = Expected(outcome.passed, outcome.inside, frozenset(outcome.failed))
    assert seen == expected()[name], outcome.failed
