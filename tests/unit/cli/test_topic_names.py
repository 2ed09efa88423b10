"""Which topics and partitions a command line chooses."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import pytest

names: Any = import_module("zkcontroller_cli.values.topic_names")
errors: Any = import_module("zkcontroller_cli.console.errors")
parse_time: Any = import_module("zkcontroller_cli.topics.offsets").parse_time

TOPICS: Final = ("returns", "orders", "orders-old", "__consumer_offsets", "pay.ments", "payXments")


def chosen(*asked: str, **options: bool) -> list[str]:
    found: list[str] = names.ChosenTopics(asked, **options).among(TOPICS, is_missing_refused=True)
    return found


def test_without_a_name_every_topic_is_chosen_by_name() -> None:
    assert chosen() == sorted(TOPICS)
    assert chosen(is_without_internal=True) == sorted(set(TOPICS) - {"__consumer_offsets"})


def test_names_and_globs_choose_in_the_order_of_the_command_line_each_topic_once() -> None:
    assert chosen("returns", "orders*", "orders") == ["returns", "orders", "orders-old"]
    assert chosen("pay.ments") == ["pay.ments"]
    assert chosen("[or]*s") == ["orders", "returns"]
    assert chosen("pay?ments") == ["pay.ments", "payXments"]


def test_a_regular_expression_means_what_it_means_to_kafka() -> None:
    assert chosen("pay.ments", is_regex=True) == ["pay.ments", "payXments"]
    assert chosen(r"pay\.ments", is_regex=True) == ["pay.ments"]
    # A comma is an alternative; spaces and quotes count for nothing; all of the name must match.
    assert chosen("'orders, returns'", is_regex=True) == ["orders", "returns"]
    with pytest.raises(errors.Refused, match="no topic matches order"):
        chosen("order", is_regex=True)
    with pytest.raises(errors.BadUsage, match="not a regular expression"):
        chosen("(", is_regex=True)


def test_what_chooses_nothing_is_refused_unless_that_is_allowed() -> None:
    with pytest.raises(errors.Refused, match="there is no topic lost"):
        chosen("orders", "lost")
    with pytest.raises(errors.Refused, match=r"no topic matches lost\*"):
        chosen("lost*")
    with pytest.raises(errors.Refused, match="there is no topic __consumer_offsets"):
        chosen("__consumer_offsets", is_without_internal=True)

    lenient = names.ChosenTopics(("lost", "orders")).among(TOPICS, is_missing_refused=False)

    assert lenient == ["orders"]


def test_only_plain_names_can_be_asked_for_by_name() -> None:
    assert names.ChosenTopics(("b", "a", "b")).exact == ["b", "a"]
    assert names.ChosenTopics().exact is None
    assert names.ChosenTopics(("a*",)).exact is None
    assert names.ChosenTopics(("a",), is_regex=True).exact is None
    assert names.ChosenTopics(("a",), is_without_internal=True).exact is None


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("orders:1", {("orders", 1)}),
        ("orders:1-3", {("orders", 1), ("orders", 2)}),
        ("orders:2-", {("orders", 2), ("orders", 3)}),
        ("orders:-2", {("orders", 0), ("orders", 1)}),
        ("orders", {("orders", number) for number in range(4)}),
        ("orders:", {("orders", number) for number in range(4)}),
        (":0", {("orders", 0), ("audit", 0)}),
        ("a*:3, orders:0", {("audit", 3), ("orders", 0)}),
    ],
)
def test_ranges_of_partitions_are_those_of_kafkas_tool(
    rules: str, expected: set[tuple[str, int]]
) -> None:
    parsed = names.parse_partition_rules(rules, is_regex=False)

    assert {
        (topic, number)
        for topic in ("orders", "audit")
        for number in range(4)
        if any(rule.takes(topic, number) for rule in parsed)
    } == expected


@pytest.mark.parametrize("rules", ["orders:x", "orders:1-2-3", "orders:1:2", "orders:--1"])
def test_a_range_that_is_none_is_bad_usage(rules: str) -> None:
    with pytest.raises(errors.BadUsage, match="is not TOPIC"):
        names.parse_partition_rules(rules, is_regex=False)


def test_partition_ids_are_numbers_with_commas() -> None:
    assert names.parse_partition_ids("0, 2,5") == {0, 2, 5}
    for text in ("", "0,,1", "-1", "a", "0-2"):
        with pytest.raises(errors.BadUsage, match="is not P,P"):
            names.parse_partition_ids(text)


def test_times_are_those_of_kafkas_tool() -> None:
    times = ("latest", "earliest", "max-timestamp", "earliest-local", "latest-tiered")

    assert [parse_time(text) for text in times] == [-1, -2, -3, -4, -5]
    assert [parse_time(str(number)) for number in range(-5, 2)] == [*range(-5, 2)]
    assert parse_time("1700000000000") == 1_700_000_000_000
    for text in ("-6", "", "now", "1.5", "9223372036854775808", "--1", "1e3"):
        with pytest.raises(errors.BadUsage, match="milliseconds since 1970"):
            parse_time(text)
