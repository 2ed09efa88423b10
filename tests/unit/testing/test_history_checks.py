"""Histories of a correct cluster pass; each way of spoiling them is found, and shown shortly."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.support.client_histories import MUTATIONS, Mutation, correct_history
from zkcontroller_testing.history_checks import CHECKS, violations
from zkcontroller_testing.operations import ClientAct, Operation, OperationResult, history_text

SEEDS: Final = range(12)
LONGEST_PART: Final = 4


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_correct_cluster_does_is_right(seed: int) -> None:
    history = correct_history(seed)

    assert violations(history) == []
    assert {each.act for each in history} >= {
        ClientAct.SEND,
        ClientAct.READ,
        ClientAct.COMMIT,
        ClientAct.COMMIT_OFFSET,
    }


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda each: each.__name__)
def test_a_history_that_is_spoilt_is_refused_by_name(mutate: Mutation) -> None:
    tried = 0
    for seed in SEEDS:
        spoilt = mutate(correct_history(seed), Random(seed))
        if spoilt is None:
            continue
        tried += 1
        assert MUTATIONS[mutate] in {each.name for each in violations(spoilt)}, seed

    assert tried >= len(SEEDS) // 2


def is_shown(part: tuple[Operation, ...], name: str, where: str) -> bool:
    return any((each.name, each.where) == (name, where) for each in violations(part))


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda each: each.__name__)
def test_the_part_shows_it_alone_and_has_nothing_to_leave_out(mutate: Mutation) -> None:
    spoilt = next(again for seed in SEEDS if (again := mutate(correct_history(seed), Random(seed))))

    found = violations(spoilt)

    assert found
    for each in found:
        assert len(each.part) <= LONGEST_PART
        assert is_shown(each.part, each.name, each.where)
        for left_out in each.part:
            rest = tuple(other for other in each.part if other is not left_out)
            assert not is_shown(rest, each.name, each.where), each.text()


def test_every_name_of_the_table_is_found_by_some_history() -> None:
    from zkcontroller_testing import history_checks

    table = (history_checks.__doc__ or "").split("=\n")[1:-1]
    names = {line.split()[0] for line in "".join(table).splitlines() if line and line[0] != "="}

    assert names == set(MUTATIONS.values())
    assert len(CHECKS) == len(names) - 1  # one check finds two leaders and two controllers


def test_a_violation_says_what_where_and_when() -> None:
    send = Operation(
        0, "p", ClientAct.SEND, 5_000_000, 6_000_000, OperationResult.OK, "orders", 0, "v", 7
    )
    end = Operation(
        1,
        "c",
        ClientAct.READ_TO_END,
        8_000_000,
        9_000_000,
        OperationResult.OK,
        "orders",
        0,
        offset=9,
    )

    (found,) = violations([send, end])

    assert found.text() == (
        "lost-record in orders-0 at 0.009000 s: v was acknowledged at 7, and c has read "
        "everything up to 9 without it\n"
        "      0.005000   0.006000 p              send          ok   orders-0 at 7 value=v\n"
        "      0.008000   0.009000 c              read-to-end   ok   orders-0 at 9\n"
    )


def operation(index: int, act: ClientAct, **fields: object) -> Operation:
    at_ns = 10 * index
    defaults = {"completed_ns": at_ns + 5, "completion": OperationResult.OK, "topic": "orders"}
    return Operation(
        index,
        "a",
        act,
        at_ns,
        partition=0,
        **{**defaults, **fields},  # type: ignore[arg-type]
    )


def test_a_reset_of_a_group_allows_a_lower_offset() -> None:
    def offsets(*acts: tuple[ClientAct, int]) -> list[Operation]:
        return [operation(n, act, group="g", offset=at) for n, (act, at) in enumerate(acts)]

    back = offsets((ClientAct.COMMIT_OFFSET, 9), (ClientAct.COMMIT_OFFSET, 3))
    reset = offsets(
        (ClientAct.COMMIT_OFFSET, 9), (ClientAct.RESET_OFFSET, 3), (ClientAct.COMMIT_OFFSET, 3)
    )
    again = offsets(
        (ClientAct.RESET_OFFSET, 3), (ClientAct.COMMIT_OFFSET, 9), (ClientAct.FETCH_OFFSET, 4)
    )

    assert [each.name for each in violations(back)] == ["group-offset-back"]
    assert violations(reset) == []
    assert [each.name for each in violations(again)] == ["group-offset-back"]


def test_an_offset_that_an_aborted_transaction_committed_does_not_count() -> None:
    history = [
        operation(0, ClientAct.COMMIT_OFFSET, group="g", offset=9, transaction="t"),
        operation(1, ClientAct.ABORT, transaction="t"),
        operation(2, ClientAct.FETCH_OFFSET, group="g", offset=3),
    ]

    assert violations(history) == []
    assert violations([history[0], operation(1, ClientAct.COMMIT, transaction="t"), history[2]])


def test_a_seek_allows_a_consumer_to_read_again() -> None:
    sent = operation(0, ClientAct.SEND, value="v", offset=0)
    first, again = (operation(n, ClientAct.READ, value="v", offset=0) for n in (1, 3))

    assert [each.name for each in violations([sent, first, again])] == ["nonmonotonic-read"]
    assert violations([sent, first, operation(2, ClientAct.SEEK), again]) == []


def test_what_nothing_is_known_of_may_be_there_or_not() -> None:
    sent = operation(
        0, ClientAct.SEND, value="v", completion=OperationResult.INFO, completed_ns=None
    )
    end = operation(2, ClientAct.READ_TO_END, offset=1)

    assert violations([sent, end]) == []
    assert violations([sent, operation(1, ClientAct.READ, value="v", offset=0), end]) == []


def test_a_history_can_be_read() -> None:
    lines = history_text(correct_history(1)).splitlines()

    assert len(lines) == len(correct_history(1))
    assert any(" commit-offset ok   orders-0 group=group at 1" in line for line in lines)
