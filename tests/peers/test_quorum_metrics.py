"""What the controllers of one quorum tell of themselves, ours and Kafka's: the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from tests.peers.metric_values import Values, kafkas_metrics, scraped
from tests.peers.quorum_cluster import MixedQuorum, OurVoter
from tests.support.quorum import free_ports

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]

GROUPS: Final = (
    "kafka.controller:*",
    "kafka.server:type=MetadataLoader,*",
    "kafka.server:type=SnapshotEmitter,*",
)
OF_THE_MOMENT: Final = (
    "lastapplied",
    "lastcommitted",
    "eventqueue",
    "newactivecontrollers",
    "latestsnapshot",
)
"""What differs with the start of a node, and from one millisecond to the next."""


class ScrapedVoter(OurVoter):
    """Our node with a metrics port."""

    @override
    def command(self) -> Sequence[str]:
        [self.metrics_port] = free_ports(1)
        return [*super().command(), "--metrics-port", str(self.metrics_port)]

    def metrics(self) -> Values:
        return scraped(f"http://127.0.0.1:{self.metrics_port}/metrics")


def test_standbys_of_one_quorum_tell_the_same(tmp_path: Path) -> None:
    quorum = MixedQuorum(tmp_path, ours=(1, 2))
    given = quorum.voters[2]
    scraped_voter = ScrapedVoter(given.node_id, given.directory, given.properties)
    quorum.voters[2] = scraped_voter
    try:
        quorum.start(1)
        quorum.start(2)
        quorum.make_lead(1)
        quorum.start(3)
        quorum.wait_until_all_follow()
        kafkas = quorum.voters[3].process
        assert kafkas is not None
        assert quorum.leader() == 1

        expected = kafkas_metrics(kafkas.pid, GROUPS)
        found = {name: value for name, value in scraped_voter.metrics().items() if name in expected}
    finally:
        quorum.close()

    assert sorted(found) == sorted(expected)
    assert len(expected) > 20
    for name, value in expected.items():
        if not any(part in name for part in OF_THE_MOMENT):
            assert found[name] == value, name
