"""``zkctl check perf``: percentiles, limits, and measurements that change nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import SetData
from zkcontroller.zookeeper.znodes import ControllerEpochZnode

results: Any = import_module("zkcontroller_cli.truth.perf_results")
rounds_of: Any = import_module("zkcontroller_cli.truth.perf_rounds")
errors: Any = import_module("zkcontroller_cli.console.errors")
zookeeper_of: Any = import_module("zkcontroller_cli.znodes.session")
options: Any = import_module("zkcontroller_cli.console.options")
topic_state: Any = import_module("zkcontroller_cli.wire.topic_state")

_times = st.lists(st.integers(0, 10_000).map(float), min_size=1, max_size=300)


@given(_times, st.sampled_from((0.5, 0.9, 0.99)))
def test_a_percentile_is_a_time_that_so_many_rounds_did_not_exceed(
    times_ms: list[float], share: float
) -> None:
    found = results.percentile(times_ms, share)

    assert found in times_ms
    assert sum(each <= found for each in times_ms) >= share * len(times_ms)
    assert sum(each < found for each in times_ms) < share * len(times_ms)
    assert results.percentile(times_ms, 0.5) <= statistics.median_high(times_ms)


def row(limit_ms: float | None, *times_ms: float, error: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = results.PerfResult("produce", "orders-0", 1, list(times_ms), error).row(
        limit_ms
    )
    return found


def test_a_check_passes_when_its_p99_is_within_the_limit_and_every_round_came_back() -> None:
    assert row(10, 1, 2, 10)["result"] == "PASS"
    assert row(9.999, 1, 2, 10)["result"] == "FAIL"
    assert row(10, 1, 2, error="gone")["result"] == "FAIL"
    assert row(10)["result"] == "FAIL"  # nothing was measured
    assert row(None)["result"] == "PASS"  # what has no limit only must not fail
    assert row(None, error="gone")["result"] == "FAIL"


def test_limits_are_set_one_by_one() -> None:
    assert results.limits_of(["produce=5", "controller=0.5"]) == {
        **results.LIMITS_MS,
        "produce": 5.0,
        "controller": 0.5,
    }


@pytest.mark.parametrize(
    "text", ["orders=5", "produce", "produce=", "produce=x", "produce=0", "produce=-1",
             "produce=nan", "produce=inf", "cleanup=1"],
)  # fmt: skip
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(errors.BadUsage):
        results.limits_of([text])


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        yield zkctl


def test_zookeeper_is_measured_and_no_znode_is_written(zkctl: Zkctl) -> None:
    path = ControllerEpochZnode.PATH
    before = zkctl.session().exists(path)

    with zookeeper_of.open_zookeeper(options.Settings(zookeeper_flag="zk:1")) as zookeeper:
        read, write = rounds_of.measure_zookeeper(zookeeper, 7, is_write=True)
        [only] = rounds_of.measure_zookeeper(zookeeper, 3, is_write=False)

    assert (read.check, write.check, only.check) == (
        "zookeeper_read",
        "zookeeper_write",
        "zookeeper_read",
    )
    assert (len(read.times_ms), len(write.times_ms), len(only.times_ms)) == (7, 7, 3)
    assert zkctl.session().exists(path) == before


@pytest.mark.parametrize(("before", "measured"), [(0, 0), (3, 2)])  # the first one does not count
def test_a_controller_that_moves_meanwhile_ends_the_measurement(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, before: int, measured: int
) -> None:
    module = zookeeper_of.ZooKeeper
    transaction = module.transaction
    left = list(range(before))

    def moving(self: Any, request: Any) -> Any:
        if not left:
            value = ControllerEpochZnode.encode(8)
            zkctl.session().write(SetData(ControllerEpochZnode.PATH, value))
        else:
            left.pop()
        return transaction(self, request)

    monkeypatch.setattr(module, "transaction", moving)
    with zookeeper_of.open_zookeeper(options.Settings(zookeeper_flag="zk:1")) as zookeeper:
        _, write = rounds_of.measure_zookeeper(zookeeper, 7, is_write=True)

    assert len(write.times_ms) == measured
    assert "is not at version 0 any more: BAD_VERSION" in write.error
    assert write.row(100)["result"] == "FAIL"


def test_nothing_is_written_off_a_terminal_without_yes(zkctl: Zkctl) -> None:
    refused = zkctl("check", "perf", "-z", "zk:1")

    assert refused.exit_code == 5
    assert "say --yes" in refused.stderr
    assert "--no-produce leaves that out" in refused.stderr
    assert zkctl.connected_to == []


def test_options_that_contradict_each_other_are_refused(zkctl: Zkctl) -> None:
    both = zkctl("check", "perf", "-z", "zk:1", "--no-produce", "--topic", "orders")
    limit = zkctl("check", "perf", "-z", "zk:1", "--no-produce", "--limit", "x=1")

    assert (both.exit_code, limit.exit_code) == (2, 2)
    assert "--limit x=1: there are zookeeper_read" in limit.stderr
    assert zkctl.connected_to == []


async def test_the_temporary_topic_is_gone_when_the_controller_says_so_not_when_no_broker_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic that was made just now is not yet in a broker's Metadata."""
    named = iter([ErrorCode.topic_already_exists, ErrorCode.topic_already_exists, ErrorCode.none])

    async def delete(*_: object) -> list[Any]:
        return [SimpleNamespace(name="t", error_code=ErrorCode.none, error_message=None)]

    async def metadata(*_: object) -> Any:
        return SimpleNamespace(topics=(), brokers=(1,))

    async def create(*_: object, is_dry_run: bool) -> Any:
        assert is_dry_run
        return SimpleNamespace(error_code=next(named))

    monkeypatch.setattr(rounds_of, "delete_topics_named", delete)
    monkeypatch.setattr(topic_state, "metadata", metadata)
    monkeypatch.setattr(topic_state, "create_topic", create)

    deleted = await rounds_of._delete(None, "zkctl-check-perf-1")

    assert deleted.error is None
    assert next(named, None) is None
