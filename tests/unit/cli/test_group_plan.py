"""Resets of a group's offsets as they are planned, and how far a group lags."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cli_world import zkctl_here

plan: Any = import_module("zkcontroller_cli.coordinators.group_plan")
lags: Any = import_module("zkcontroller_cli.coordinators.group_lag")
groups: Any = import_module("zkcontroller_cli.wire.groups")
wire: Any = import_module("zkcontroller_cli.wire.requests")
coordinators: Any = import_module("zkcontroller_cli.wire.coordinators")
errors: Any = import_module("zkcontroller_cli.console.errors")
NamedPartition: Any = import_module("zkcontroller_cli.values.moves").NamedPartition

ORDERS = NamedPartition("orders", 0)
OTHER = NamedPartition("orders", 1)


def planned(mode: str, number: int, current: int | None, *log: int) -> tuple[Any, Any]:
    """The new offset of one partition, and why."""
    committed = {} if current is None else {ORDERS: current}
    [each] = plan.plan_reset(
        plan.ResetMode[mode], {ORDERS: number}, committed, {ORDERS: plan.Log(*log)}
    )
    assert each.current_offset == current
    return each.new_offset, each.reason


@given(
    st.sampled_from(["EARLIEST", "LATEST", "CURRENT", "OFFSET", "TIMESTAMP", "SHIFT", "FILE"]),
    st.integers(-20, 20),
    st.none() | st.integers(0, 20),
    st.integers(0, 10),
    st.integers(0, 10),
    st.none() | st.integers(0, 10),
)
def test_every_new_offset_is_the_nearest_one_that_the_log_has(
    mode: str, number: int, current: int | None, start: int, length: int, at: int | None
) -> None:
    end = start + length
    at_time = -1 if at is None else min(start + at, end)
    asked_for = {
        "EARLIEST": start,
        "LATEST": end,
        "CURRENT": end if current is None else current,
        "OFFSET": number,
        "FILE": number,
        "TIMESTAMP": end if at is None else at_time,
        "SHIFT": None if current is None else current + number,
    }[mode]

    new, reason = planned(mode, number, current, start, end, at_time)

    if asked_for is None:
        assert new is None
        assert reason == "nothing is committed that could be shifted"
    elif mode == "CURRENT":
        assert new == asked_for  # as it is, even outside the log: so does Kafka
    else:
        assert new == min(range(start, end + 1), key=lambda offset: abs(offset - asked_for))
        assert (reason is None) == (new == asked_for and not (mode == "TIMESTAMP" and at is None))


def test_a_partition_whose_log_is_not_known_has_no_new_offset() -> None:
    rows = plan.plan_reset(
        plan.ResetMode.EARLIEST,
        {OTHER: 0, ORDERS: 0},
        {OTHER: 4},
        {ORDERS: plan.Log(1, 5), OTHER: "LEADER_NOT_AVAILABLE"},
    )

    assert [(each.partition, each.new_offset, each.reason) for each in rows] == [
        (0, 1, None),
        (1, None, "LEADER_NOT_AVAILABLE"),
    ]


@given(st.timedeltas(timedelta(0), timedelta(days=9_000)))
def test_a_duration_is_read_as_java_writes_it(duration: timedelta) -> None:
    duration -= timedelta(microseconds=duration.microseconds % 1000)
    hours, rest = divmod(duration.days * 86_400 + duration.seconds, 3_600)
    text = f"PT{hours}H{rest // 60}M{rest % 60}.{duration.microseconds // 1000:03}S"

    assert plan.parse_duration(text) == duration // timedelta(milliseconds=1)
    assert plan.parse_duration(f"-{text}") == -plan.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("P2DT3H", 183_600_000),
        ("PT0.5S", 500),
        ("PT-1.5S", -1_500),
        ("pt15m", 900_000),
        ("PT1H-30M", 1_800_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert plan.parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1DT", "PT1", "P1M", "PT1.S", "P1D "])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(errors.BadUsage, match="PnDTnHnMnS"):
        plan.parse_duration(text)


def test_a_moment_without_a_zone_is_utc() -> None:
    at = datetime(2026, 11, 24, 10, 0, 0, 500_000, tzinfo=UTC).timestamp() * 1000

    assert plan.parse_moment("2026-11-24T10:00:00.500") == at
    assert plan.parse_moment("2026-11-24T10:00:00.500Z") == at
    assert plan.parse_moment("2026-11-24T12:00:00.500+02:00") == at
    with pytest.raises(errors.BadUsage, match="in --to-datetime"):
        plan.parse_moment("yesterday")


def test_topics_are_named_whole_or_by_partition() -> None:
    scopes = [plan.parse_scope(text) for text in ("orders", "payments:3,1")]

    chosen = plan.partitions_in(scopes, [ORDERS, OTHER, NamedPartition("payments", 0)])

    assert chosen == [ORDERS, OTHER, ("payments", 1), ("payments", 3)]
    for text in ("", ":1", "orders:", "orders:a", "orders:1,", "orders:-1"):
        with pytest.raises(errors.BadUsage, match="in --topic"):
            plan.parse_scope(text)


def test_an_exported_plan_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    rows = plan.plan_reset(
        plan.ResetMode.OFFSET,
        {ORDERS: 3, OTHER: 3},
        {},
        {ORDERS: plan.Log(0, 9), OTHER: plan.Log(0, 1)},
    )

    plan.write_offsets(file, rows)

    assert file.read_text() == "orders,0,3\norders,1,1\n"
    assert plan.read_offsets(file, "billing") == {ORDERS: 3, OTHER: 1}
    with pytest.raises(errors.BadUsage, match="cannot write"):
        plan.write_offsets(file, rows)


def test_a_file_of_several_groups_is_read_for_one(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text('billing,orders,0,3\nshipping,orders,0,4\n"billing",orders,1,5\n')

    assert plan.read_offsets(file, "billing") == {ORDERS: 3, OTHER: 5}
    with pytest.raises(errors.BadUsage, match="no offset for group returns"):
        plan.read_offsets(file, "returns")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("orders,0\n", "line 1"),
        ("orders,0,3\norders,x,3\n", "line 2"),
        ("orders,0,-1\n", "line 1"),
        ("topic,partition,offset\n", "line 1"),
        ("orders,0,3\norders,0,4\n", "orders-0 is named twice"),
        ("", "no offset for group billing"),
        ("orders,0,9223372036854775808\n", "line 1"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(content)

    with pytest.raises(errors.BadUsage, match=why):
        plan.read_offsets(file, "billing")


def view(committed: dict[Any, int], *assignments: tuple[Any, ...] | None) -> Any:
    members = tuple(
        groups.MemberDescription(f"member-{number}", None, "reader", "/127.0.0.1", assignment)
        for number, assignment in enumerate(assignments)
    )
    coordinator = coordinators.CoordinatorBroker(1, wire.BrokerAddress("localhost", 9092))
    return groups.GroupView(
        "billing", "Stable", "consumer", "range", coordinator, members, committed
    )


def test_a_lag_is_known_where_both_ends_are() -> None:
    third = NamedPartition("orders", 2)
    ends = {ORDERS: (10,), OTHER: (7,), third: "LEADER_NOT_AVAILABLE"}

    record = lags.group_record(view({ORDERS: 4, third: 1}, (ORDERS,), (OTHER,)), ends)

    assert [
        (row["committed_offset"], row["log_end_offset"], row["lag"], row["member_id"], row["error"])
        for row in record["partitions"]
    ] == [
        (4, 10, 6, "member-0", None),
        (None, 7, None, "member-1", None),
        (1, None, None, None, "LEADER_NOT_AVAILABLE"),
    ]
    assert (record["total_lag"], record["partition_count"], record["unknown_lag_count"]) == (
        *(6, 3, 2),
    )


def test_a_partition_of_two_members_counts_once() -> None:
    record = lags.group_record(view({ORDERS: 4}, (ORDERS,), (ORDERS,), None), {ORDERS: (10,)})

    assert [row["member_id"] for row in record["partitions"]] == ["member-0", "member-1"]
    assert (record["total_lag"], record["partition_count"], record["member_count"]) == (6, 1, 3)


def test_an_assignment_is_read_in_any_version_and_refused_when_it_is_cut_off() -> None:
    assignment = (
        bytes.fromhex("0001 00000001 0006")
        + b"orders"
        + bytes.fromhex("00000002 00000001 00000000 ffffffff")
    )

    assert groups.assignment_in(assignment) == (ORDERS, OTHER)
    assert groups.assignment_in(b"") == ()
    assert all(groups.assignment_in(assignment[:size]) is None for size in range(1, 28))


@pytest.mark.parametrize(
    ("error", "reason", "ends_with"),
    [
        ("GROUP_AUTHORIZATION_FAILED", "group authorization failed", "are still there"),
        ("NON_EMPTY_GROUP", "non empty group", "see who uses them (zkctl group members billing)"),
    ],
)
def test_members_are_only_looked_for_where_they_keep_a_group_from_being_deleted(
    error: str, reason: str, ends_with: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = coordinators.CoordinatorBroker(1, wire.BrokerAddress("127.0.0.1", 9092))
    view = groups.GroupView("billing", "Empty", "consumer", "", coordinator, (), {ORDERS: 5})

    async def described(*_: Any, **__: Any) -> Any:
        return [view]

    async def refused(*_: Any, **__: Any) -> Any:
        return {"billing": (error, reason)}

    monkeypatch.setattr(groups, "describe_groups", described)
    monkeypatch.setattr(groups, "delete_groups", refused)
    target = import_module("zkcontroller_cli.wire.target")
    monkeypatch.setattr(target, "brokers_to_change", lambda _: None)

    result = zkctl_here("-b", "127.0.0.1:1", "group", "delete", "billing", "--yes")

    assert result.exit_code == 5
    assert result.stderr.rstrip().endswith(ends_with)
