"""What a reassignment or an election would do, out of a broker's metadata."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import response as v12
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

plan: Any = import_module("zkcontroller_cli.moving.move_plan")
moves: Any = import_module("zkcontroller_cli.values.moves")
state: Any = import_module("zkcontroller_cli.values.move_state")


def metadata(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> v12.MetadataResponse:
    """Topic ``orders``, each partition as (leader, replicas, ISR); brokers 1, 2, 3 live."""
    return v12.MetadataResponse(
        throttle_time=import_module("kio.static.primitive").i32Timedelta.parse(
            import_module("datetime").timedelta(0)
        ),
        brokers=tuple(
            v12.MetadataResponseBroker(node_id=BrokerId(n), host="h", port=i32(n), rack=None)
            for n in (1, 2, 3)
        ),
        cluster_id="c",
        controller_id=BrokerId(1),
        topics=(
            v12.MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=TopicName("orders"),
                topic_id=None,
                is_internal=False,
                partitions=tuple(
                    v12.MetadataResponsePartition(
                        error_code=ErrorCode.none,
                        partition_index=i32(number),
                        leader_id=BrokerId(leader),
                        leader_epoch=i32(0),
                        replica_nodes=tuple(map(BrokerId, replicas)),
                        isr_nodes=tuple(map(BrokerId, isr)),
                        offline_replicas=(),
                    )
                    for number, (leader, replicas, isr) in enumerate(partitions)
                ),
                topic_authorized_operations=i32(0),
            ),
        ),
    )


def orders(partition: int) -> Any:
    return moves.NamedPartition("orders", partition)


@pytest.mark.parametrize(
    ("target", "adding", "removing", "reason"),
    [
        ((3, 2), [3], [1], None),
        ((2, 1), [], [], None),
        ((1,), [], [2], None),
        ((1, 9), [9], [2], "broker 9 is not alive"),
        ((8, 9), [8, 9], [1, 2], "brokers 8, 9 are not alive"),
        ((1, 1), [], [2], "a broker is named twice"),
    ],
)
def test_a_move_shows_what_comes_and_goes_or_why_it_cannot_be(
    target: tuple[int, ...], adding: list[int], removing: list[int], reason: str | None
) -> None:
    known = metadata((1, (1, 2), (1, 2)))

    [planned] = plan.plan_moves(known, [moves.Move(*orders(0), target)])

    assert planned.row() == {
        "topic": "orders",
        "partition": 0,
        "current_replicas": (1, 2),
        "replicas": target,
        "adding_replicas": adding,
        "removing_replicas": removing,
        "log_dirs": None,
        "reason": reason,
    }


def test_a_replica_that_stays_need_not_be_alive() -> None:
    [planned] = plan.plan_moves(metadata((1, (1, 9), (1,))), [moves.Move(*orders(0), (2, 9))])

    assert planned.reason is None


def test_a_partition_under_way_shows_where_it_comes_from() -> None:
    known = metadata((1, (3, 2, 1), (1, 2)))
    under_way = state.OngoingMove((3, 2, 1), (3,), (1,))

    [planned] = plan.plan_moves(known, [moves.Move(*orders(0), (3, 2))], {orders(0): under_way})

    assert (planned.current_replicas, planned.reason) == ((2, 1), None)


@pytest.mark.parametrize(
    ("path", "directories", "reason"),
    [
        ("/b", {2: {"/a": None, "/b": None}}, None),
        ("/c", {2: {"/b": None, "/a": None}}, "broker 2 has no log directory /c, but /a, /b"),
        ("/a", {2: {"/a": "KAFKA_STORAGE_ERROR"}}, "is not usable: KAFKA_STORAGE_ERROR"),
        ("/a", {}, "broker 2 does not tell its log directories"),
    ],
)
def test_a_log_directory_must_be_there_and_work(
    path: str, directories: dict[int, dict[str, str | None]], reason: str | None
) -> None:
    move = moves.Move(*orders(0), (1, 2), ("any", path))

    [planned] = plan.plan_moves(metadata((1, (1, 2), (1, 2))), [move], {}, directories)

    assert planned.reason is None if reason is None else reason in planned.reason


def test_a_partition_that_does_not_exist_cannot_move() -> None:
    [planned] = plan.plan_moves(metadata(), [moves.Move(*orders(0), (1,))])

    assert planned.reason == "there is no such partition"


@pytest.mark.parametrize(
    ("partition", "is_unclean", "elected", "reason"),
    [
        ((2, (1, 2), (1, 2)), False, 1, None),
        ((1, (1, 2), (1, 2)), False, None, "no election needed"),
        ((2, (1, 2), (2,)), False, None, "the preferred leader 1 is not in sync"),
        ((2, (9, 2), (2,)), False, None, "the preferred leader 9 is not alive"),
        ((1, (1, 2), (1,)), True, None, "no election needed"),
        ((-1, (9, 2, 3), (9,)), True, 2, None),
        ((-1, (9, 2, 3), (9, 3)), True, 3, None),
        ((-1, (8, 9), (8,)), True, None, "no replica is alive"),
    ],
)
def test_an_election_shows_who_would_lead_or_why_no_new_one(
    partition: Any, is_unclean: bool, elected: int | None, reason: str | None
) -> None:
    known = metadata(partition)

    [planned] = plan.plan_elections(known, [orders(0)], is_unclean=is_unclean)

    assert (planned.elected, planned.reason) == (elected, reason)


def test_a_line_says_why_a_leader_stays_or_why_there_is_none() -> None:
    known = metadata((2, (1, 2), (1, 2)), (2, (9, 2), (2,)), (-1, (8, 9), (8,)))
    named = [orders(number) for number in range(4)]

    preferred = [each.text for each in plan.plan_elections(known, named, is_unclean=False)]
    [unclean] = plan.plan_elections(known, [orders(2)], is_unclean=True)

    assert preferred[0] == "orders-0: leader 2 -> 1"
    assert preferred[1] == "orders-1: leader 2 stays: the preferred leader 9 is not alive"
    assert preferred[3] == "orders-3: there is no such partition"
    assert unclean.text == "orders-2: no replica is alive"


def test_of_all_partitions_those_that_need_an_election_are_shown() -> None:
    known = metadata((1, (1, 2), (1, 2)), (2, (1, 2), (1, 2)), (2, (1, 2), (2,)))

    planned = plan.plan_elections(known, None, is_unclean=False)

    assert [(each.partition, each.elected) for each in planned] == [(1, 1), (2, None)]
