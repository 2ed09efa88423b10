"""What a report says first, from findings of every kind."""

from __future__ import annotations

from typing import Any, get_origin, get_type_hints

from kafka_history.report.verdict import ordered, verdict
from kafka_history.rules.blast_sums import BlastRadius
from kafka_history.rules.broker_lives import BrokerLife, SessionExpiry
from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.departures import ProcessPause
from kafka_history.rules.deposed_controllers import Zombie
from kafka_history.rules.isr_changes import Storm
from kafka_history.rules.log_dir_failures import FailedLogDir
from kafka_history.rules.min_isr import UnderMinIsr
from kafka_history.rules.tenures import Tenure
from kafka_history.rules.unclean_elections import UncleanElection
from kafka_history.rules.zookeeper_gaps import ZooKeeperGap

_VALUES: dict[Any, Any] = {int: 1, str: "a", bool: False, float: 0.5}


def row(kind: Any, **given: Any) -> dict[str, Any]:
    """A finding of that kind, with anything in the fields that are not given."""
    found = {
        name: _VALUES.get(said, [] if get_origin(said) is list else None)
        for name, said in get_type_hints(kind).items()
    }
    assert given.keys() <= found.keys()
    return found | given


def findings() -> dict[str, Any]:
    """One finding of each kind, each a second before the one above it."""
    tenures = [row(Tenure, from_ms=0, to_ms=500, ended_by="controller_moved"),
               row(Tenure, from_ms=2_000, ended_by="open")]  # fmt: skip
    return {
        "unclean_elections": [row(UncleanElection, at_ms=11_000, lost_records=3)],
        "unknown_lines": [],
        "zombies": [row(Zombie, from_ms=10_000, overlap_ms=5_000)],
        "leaderless": [row(Window, from_ms=9_000)],
        "leaderless_summary": {
            "windows": 1, "open": 0, "partitions": 1, "partition_seconds": 2.0, "max_ms": 2_000,
            "noticed_after_ms": 0,
        },
        "broker_lives": [row(BrokerLife, ended_by="killed", to_ms=8_000)],
        "pauses": [row(ProcessPause, from_ms=7_000, to_ms=7_500)],
        "session_expiries": [row(SessionExpiry, at_ms=6_000)],
        "zookeeper_gaps": [row(ZooKeeperGap, from_ms=5_000, to_ms=5_100, brokers=[1])],
        "log_dir_failures": [row(FailedLogDir, at_ms=4_000, dir="/logs", is_last=True)],
        "under_min_isr": [row(UnderMinIsr, from_ms=3_000, refused=2)],
        "tenures": tenures,
        "isr_changes": {"storms": [row(Storm, at_ms=1_000, common_follower=3)]},
        "blast_radius": [
            row(BlastRadius, at_ms=8_000, how="killed", leaderless_ms=9),
            row(BlastRadius, at_ms=100, how="clean_shutdown", leaderless=0, leaderless_ms=0),
        ],
        "acts": [{"at_ms": 50, "says": "Topic a was created"}],
        "to_ms": 20_000,
        "from_ms": 0,
    }  # fmt: skip


def test_the_gravest_comes_first_and_all_else_by_time() -> None:
    said = verdict(findings())

    assert said["headline"].startswith("Unclean leader elections in a-1")
    begun = [text.split(" ")[0] for text in said["sentences"]]
    assert begun == ["In-sync", "The", "a-1", "Log", "The", "ZooKeeper", "1", "1", "1", "Broker"]
    assert said["sentences"][3].endswith("; it was the last one: the broker halted.")


def test_what_was_ordered_stands_apart_from_what_broke() -> None:
    found = findings()
    found["verdict"] = said = verdict(found)

    assert [cause["how"] for cause in said["causes"]] == ["killed"]
    assert [each["at_ms"] for each in ordered(found)] == [50, 100, 500]
