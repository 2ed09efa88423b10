"""Packed writes must answer, and leave behind, what writing one by one would."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from kafka_common.errors import ControllerMoved, ZooKeeperRefused
from tests.support.zookeeper_multi_server import MultiServer
from zkcontroller.zookeeper.acls import encoded_acls_for
from zkcontroller.zookeeper.jute import Reply
from zkcontroller.zookeeper.plans import run
from zkcontroller.zookeeper.requests import (
    Check,
    Create,
    Delete,
    RolledBack,
    SetData,
    Write,
    WriteResult,
    Written,
    ZkCode,
    ZkTransaction,
)
from zkcontroller.zookeeper.write_plan import Encoder, TransactionPlan, WritePlan
from zkcontroller_simulation.zookeeper_server import RefusedError, SimulatedZooKeeper

IN_FLIGHT = 4
ENCODER = Encoder(str, str, lambda path: encoded_acls_for(path, set_acl=False))
FENCE = Check("/controller_epoch", 0)


def packed(
    server: MultiServer,
    operations: Sequence[Write],
    *,
    fence: Check | None = None,
    max_request_bytes: int = 1_000_000,
) -> list[WriteResult]:
    plan = WritePlan(operations, ENCODER, fence=fence, max_request_bytes=max_request_bytes)
    run(server, plan, IN_FLIGHT)
    return plan.results


def one_by_one(
    zookeeper: SimulatedZooKeeper, session_id: int, operations: Sequence[Write]
) -> list[WriteResult]:
    results: list[WriteResult] = []
    for operation in operations:
        try:
            results += zookeeper.transact(session_id, [operation])
        except RefusedError as refusal:
            results.append(refusal.code)
    return results


def tree(zookeeper: SimulatedZooKeeper, path: str = "") -> dict[str, tuple[bytes, int]]:
    """Data and version of every znode."""
    found: dict[str, tuple[bytes, int]] = {}
    for name in zookeeper.peek_children(path or "/"):
        znode = zookeeper.peek(f"{path}/{name}")
        assert znode is not None
        found[f"{path}/{name}"] = (znode.data, znode.zk_version)
        found |= tree(zookeeper, f"{path}/{name}")
    return found


def random_operations(random: Random) -> list[Write]:
    """Writes that often depend on each other, and often fail."""
    paths = ["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f", "/g"]
    paths += [f"/h{number}" for number in range(random.randrange(60))]
    operations: list[Write] = []
    for number in range(random.randrange(1, 120)):
        path = random.choice(paths)
        zk_version = random.choice([-1, -1, 0, 1, 2])
        choices: list[Write] = [
            Create(path, b"%d" % number),
            Create(path, b"%d" % number),
            SetData(path, b"%d" % number, zk_version),
            Delete(path, zk_version),
        ]
        operations.append(random.choice(choices))
    return operations


def anonymous(results: Sequence[WriteResult]) -> list[object]:
    """Without the czxids, which count multis."""
    return [each._replace(czxid=0) if isinstance(each, Written) else each for each in results]


@pytest.mark.parametrize("seed", range(300))
def test_packed_writes_answer_and_leave_what_single_writes_do(seed: int) -> None:
    random = Random(seed)
    operations = random_operations(random)
    # What is lost on its way is asked again, before anything that depends on it.
    server = MultiServer(operations, fate=lambda: random.choice(["answered", "answered", "lost"]))
    expected = SimulatedZooKeeper()
    session_id = expected.open_session(1000, lambda _: None)

    results = packed(server, operations, max_request_bytes=random.choice([100, 400, 5000]))

    assert anonymous(results) == anonymous(one_by_one(expected, session_id, operations))
    assert tree(server.zookeeper) == tree(expected)


@pytest.mark.parametrize("seed", range(100))
def test_whatever_is_lost_every_operation_is_judged_and_no_write_lands_twice(seed: int) -> None:
    random = Random(seed)
    paths = [f"/n{number}" for number in range(random.randrange(1, 300))]
    operations: list[Write] = [SetData(path, b"new", 0) for path in paths]
    fates = ["answered", "answered", "lost", "unanswered"]
    server = MultiServer(operations, fate=lambda: random.choice(fates))
    server.zookeeper.transact(server.session_id, [Create(path, b"old") for path in paths])

    results = packed(server, operations, max_request_bytes=random.choice([300, 2000, 50_000]))

    assert tree(server.zookeeper) == dict.fromkeys(paths, (b"new", 1))
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, ZkCode):
            assert result is ZkCode.BAD_VERSION
        else:
            assert (result.path, result.zk_version) == (path, 1)


def test_a_batch_that_succeeds_needs_one_request_per_thousand() -> None:
    operations: list[Write] = [Create(f"/n{number}") for number in range(2500)]
    server = MultiServer(operations)

    packed(server, operations)

    assert [len(ask.part) for ask in server.asked] == [1000, 1000, 500]


def test_a_batch_in_which_everything_fails_costs_little_more_than_single_writes() -> None:
    operations: list[Write] = [Delete(f"/n{number}") for number in range(2000)]
    server = MultiServer(operations)

    assert packed(server, operations) == [ZkCode.NO_NODE] * 2000

    assert len(server.asked) == 2000
    assert sum(len(ask.part) for ask in server.asked) < 3 * 2000


def test_requests_stay_below_the_servers_buffer() -> None:
    operations: list[Write] = [Create(f"/n{number}", b"x" * 3000) for number in range(100)]
    server = MultiServer(operations)

    packed(server, operations, max_request_bytes=10_000)

    assert 9_000 < server.largest_request_bytes <= 10_000


def test_an_operation_too_large_for_any_request_is_never_sent() -> None:
    operations: list[Write] = [Create("/a"), Create("/b", b"x" * 10_000), Create("/c")]
    server = MultiServer(operations)

    results = packed(server, operations, max_request_bytes=10_000)

    assert results == [Written("/a", 0, -1), ZkCode.MARSHALLING_ERROR, Written("/c", 0, -1)]


def test_every_multi_carries_the_fence() -> None:
    operations: list[Write] = [Create(f"/n{number % 900}") for number in range(1800)]
    server = MultiServer(operations, FENCE)
    server.zookeeper.transact(server.session_id, [Create("/controller_epoch")])

    results = packed(server, operations, fence=FENCE)

    assert results[:900] == [Written(f"/n{number}", 0, -1) for number in range(900)]
    assert results[900:] == [ZkCode.NODE_EXISTS] * 900
    fence = ENCODER.encode(FENCE)
    assert all(ask.body.startswith(fence) for ask in server.asked)


def test_a_fence_at_another_version_stops_the_batch() -> None:
    operations: list[Write] = [Create(f"/n{number}") for number in range(3000)]
    server = MultiServer(operations, FENCE)
    server.zookeeper.transact(
        server.session_id, [Create("/controller_epoch"), SetData("/controller_epoch", b"")]
    )

    with pytest.raises(ControllerMoved):
        packed(server, operations, fence=FENCE)

    assert list(tree(server.zookeeper)) == ["/controller_epoch"]


def test_a_fence_that_cannot_be_checked_is_not_a_deposed_controller() -> None:
    operations: list[Write] = [Create("/a")]
    server = MultiServer(operations, FENCE)

    with pytest.raises(ZooKeeperRefused, match="NO_NODE for /controller_epoch"):
        packed(server, operations, fence=FENCE)


def test_a_transaction_that_was_sent_again_says_so_where_it_is_refused() -> None:
    for losses in (0, 1):
        plan = TransactionPlan(ZkTransaction([Delete("/a")]), ENCODER, max_request_bytes=1_000)
        for _ in range(losses):
            sent = plan.next()
            assert sent is not None
            plan.lost(sent)
        sent = plan.next()
        assert sent is not None

        plan.answered(sent, Reply(1, ZkCode.NO_NODE, b"", 0))

        assert plan.result == RolledBack(ZkCode.NO_NODE, 0, is_repeated=losses > 0)
