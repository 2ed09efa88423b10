"""Bulk reads: how they are portioned, and which watches they leave."""

from __future__ import annotations

from struct import pack, unpack_from

import pytest

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.plans import Ask
from zkcontroller.zookeeper.read_plan import PROBE_PATHS, ReadPlan, requests_to_arm_again
from zkcontroller.zookeeper.requests import (
    CheckExists,
    ListChildren,
    ReadZnodes,
    WatchKind,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.watch_table import WatchTable, WatchType

LAST = pack("!ibi", -1, True, -1)
STAT_BYTES = 68


def plan_for(
    request: ReadZnodes | ListChildren | CheckExists,
    watches: WatchTable | None = None,
    *,
    multi_read: bool = True,
    max_request_bytes: int = 1_000_000,
    max_reply_bytes: int = 4_000_000,
) -> ReadPlan:
    return ReadPlan(
        request,
        lambda path: "/kafka" + path,
        WatchTable() if watches is None else watches,
        multi_read=multi_read,
        max_request_bytes=max_request_bytes,
        max_reply_bytes=max_reply_bytes,
    )


def answer_data(ask: Ask, data: bytes, missing: frozenset[int] = frozenset()) -> Reply:
    """A MultiRead's answer in which every znode holds ``data``."""
    there = pack("!ibii", OpCode.GET_DATA, False, 0, len(data)) + data + bytes(STAT_BYTES)
    gone = pack("!ibii", -1, False, ZkCode.NO_NODE, ZkCode.NO_NODE)
    body = b"".join(gone if at in missing else there for at in ask.part) + LAST
    return Reply(77, ZkCode.OK, body, 0)


def drain(plan: ReadPlan) -> list[Ask]:
    """What may be asked without another answer."""
    return list(iter(plan.next, None))


def set_watches(ask: Ask) -> tuple[int, list[list[str]]]:
    """The zxid and the three lists of a setWatches."""
    assert ask.opcode is OpCode.SET_WATCHES
    (zxid,) = unpack_from("!q", ask.body)
    offset = 8
    lists: list[list[str]] = []
    for _ in range(3):
        (count,) = unpack_from("!i", ask.body, offset)
        offset += 4
        lists.append([])
        for _ in range(count):
            (length,) = unpack_from("!i", ask.body, offset)
            lists[-1].append(ask.body[offset + 4 : offset + 4 + length].decode())
            offset += 4 + length
    assert offset == len(ask.body)
    return zxid, lists


def test_the_first_request_is_small_and_alone_and_the_next_are_as_large_as_its_answer_allows() -> (
    None
):
    plan = plan_for(
        ReadZnodes([f"/n{number}" for number in range(2000)]), max_reply_bytes=1_000_000
    )

    [probe] = drain(plan)
    assert len(probe.part) == PROBE_PATHS
    plan.answered(probe, answer_data(probe, b"x" * 9919))

    portions = [len(ask.part) for ask in drain(plan)]
    assert set(portions[:-1]) == {99}
    assert sum(portions) == 1950


def test_small_znodes_are_read_a_thousand_at_a_time_unless_the_paths_are_long() -> None:
    def portions(length: int) -> list[int]:
        paths = [f"/{number:0{length}}" for number in range(2050)]
        plan = plan_for(ReadZnodes(paths), max_request_bytes=100_000)
        [probe] = drain(plan)
        plan.answered(probe, answer_data(probe, b""))
        asked = drain(plan)
        assert all(len(ask.body) <= 100_100 for ask in asked)
        return [len(ask.part) for ask in asked]

    assert portions(20) == [1000, 1000]
    assert portions(979) == [100] * 20


def test_larger_answers_later_on_make_later_requests_smaller() -> None:
    plan = plan_for(
        ReadZnodes([f"/n{number}" for number in range(5000)]), max_reply_bytes=1_000_000
    )
    probe = plan.next()
    assert probe is not None
    plan.answered(probe, answer_data(probe, b""))
    first = plan.next()
    assert first is not None
    assert len(first.part) == 1000

    plan.answered(first, answer_data(first, b"x" * 4919))

    following = plan.next()
    assert following is not None
    assert len(following.part) == 199


def test_a_watching_read_sets_watches_since_its_answer_on_what_exists() -> None:
    watches = WatchTable()
    plan = plan_for(ReadZnodes([f"/n{number}" for number in range(12)], watch=True), watches)
    [read] = drain(plan)

    plan.answered(read, answer_data(read, b"", missing=frozenset(range(10))))

    [arming] = drain(plan)
    assert set_watches(arming) == (77, [["/kafka/n10", "/kafka/n11"], [], []])
    assert watches.entries(WatchType.DATA) == ["/kafka/n10", "/kafka/n11"]
    plan.lost(arming)
    assert drain(plan) == [arming]


def test_an_exists_question_watches_what_is_missing_too() -> None:
    plan = plan_for(CheckExists([f"/n{number}" for number in range(9)], watch=True))
    [read] = drain(plan)

    plan.answered(read, answer_data(read, b"", missing=frozenset({8})))

    [arming] = drain(plan)
    zxid, (data, exists, children) = set_watches(arming)
    assert (zxid, len(data), exists, children) == (77, 8, ["/kafka/n8"], [])


def test_what_is_watched_already_is_not_set_again() -> None:
    watches = WatchTable()
    watches.arm(WatchType.DATA, ["/kafka/n0"], 70)
    watches.arm(WatchType.DATA, ["/kafka/n1"], 78)  # by someone who saw more than this read
    plan = plan_for(ReadZnodes([f"/n{number}" for number in range(9)], watch=True), watches)
    [read] = drain(plan)

    plan.answered(read, answer_data(read, b"", missing=frozenset(range(2, 9))))

    [arming] = drain(plan)
    assert set_watches(arming) == (77, [["/kafka/n1"], [], []])


def test_a_server_without_multi_read_is_asked_path_by_path() -> None:
    plan = plan_for(ReadZnodes([f"/n{number}" for number in range(100)]))
    [read] = drain(plan)

    plan.answered(read, Reply(0, ZkCode.UNIMPLEMENTED, b"", 0))

    singles = drain(plan)
    assert not plan.multi_read
    assert [ask.opcode for ask in singles] == [OpCode.GET_DATA] * 100
    for ask in singles:
        plan.answered(ask, Reply(5, ZkCode.OK, pack("!i", -1) + bytes(STAT_BYTES), 0))
    assert plan.results == [Znode(b"", 0, 0, 0)] * 100


@pytest.mark.parametrize(
    ("kind", "armed", "fires"),
    [
        (WatchKind.NODE_CREATED, WatchType.EXISTS, True),
        (WatchKind.NODE_DATA_CHANGED, WatchType.DATA, True),
        (WatchKind.NODE_DELETED, WatchType.DATA, True),
        (WatchKind.NODE_DELETED, WatchType.CHILDREN, True),
        (WatchKind.NODE_DELETED, WatchType.EXISTS, False),
        (WatchKind.NODE_CHILDREN_CHANGED, WatchType.CHILDREN, True),
        (WatchKind.NODE_CHILDREN_CHANGED, WatchType.DATA, False),
    ],
)
def test_a_notification_uses_up_the_watches_it_answers(
    kind: WatchKind, armed: WatchType, fires: bool
) -> None:
    watches = WatchTable()
    watches.arm(armed, ["/a"], 1)

    assert watches.fired(kind, "/b") is False
    assert watches.fired(kind, "/a") is fires
    assert watches.fired(kind, "/a") is False
    assert watches.entries(armed) == ([] if fires else ["/a"])


def test_after_a_reconnect_every_watch_is_set_again_in_its_list() -> None:
    watches = WatchTable()
    watches.arm(WatchType.DATA, [f"/n{number}" for number in range(1500)], 1)
    watches.arm(WatchType.EXISTS, ["/e"], 2)
    watches.arm(WatchType.CHILDREN, ["/c"], 3)

    asked = [set_watches(ask) for ask in requests_to_arm_again(watches, 9)]

    assert [(zxid, [len(each) for each in lists]) for zxid, lists in asked] == [
        (9, [1000, 0, 0]),
        (9, [500, 0, 0]),
        (9, [0, 1, 0]),
        (9, [0, 0, 1]),
    ]
