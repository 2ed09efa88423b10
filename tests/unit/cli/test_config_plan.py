"""Changes of configurations as they are planned, how values compare, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cli_world import Zkctl, installed_zkctl

entities: Any = import_module("zkcontroller_cli.values.config_entities")
plan: Any = import_module("zkcontroller_cli.values.config_plan")
values: Any = import_module("zkcontroller_cli.values.config_values")
differences: Any = import_module("zkcontroller_cli.configurations.differences")
errors: Any = import_module("zkcontroller_cli.console.errors")

ORDERS = entities.ConfigEntity("topic", "orders")
BROKER = entities.ConfigEntity("broker", "1")
EVERY_BROKER = entities.ConfigEntity("broker", "<default>")
LOGGER = entities.ConfigEntity("logger", "1")
NOWHERE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def setting(name: str, *places: tuple[str, str | None, str], **more: Any) -> Any:
    """A key with the places where it has a value, the one that counts first."""
    synonyms = tuple(values.PlaceOfValue(*each) for each in places)
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, "default")
    rest = {"value": value, "source": source, "type": "long", "synonyms": synonyms, **more}
    return values.ConfigSetting(name=name, **rest)


RETENTION = setting(
    "retention.ms",
    ("retention.ms", "1000", "topic"),
    ("log.retention.ms", "5000", "dynamic_broker"),
    ("log.retention.hours", "168", "default"),
)
POLICY = setting("cleanup.policy", ("log.cleanup.policy", "delete", "default"), type="list")


def planned(
    entity: Any, operation: str, name: str, value: str | None, *known: Any, **more: Any
) -> Any:
    settings = {each.name: each for each in known}
    wanted = plan.KeyOperation(name, operation, value, more.pop("is_visible", True))
    [one] = plan.plan_keys(entity, settings, [wanted], {}, **more)
    return one


def test_a_plan_shows_what_counts_now_and_what_will_count() -> None:
    changed = planned(ORDERS, "set", "retention.ms", "2000", RETENTION)
    unset = planned(ORDERS, "unset", "retention.ms", None, RETENTION)
    grown = planned(ORDERS, "append", "cleanup.policy", "compact", POLICY)
    shrunk = planned(ORDERS, "subtract", "cleanup.policy", "delete", POLICY)

    assert changed.text == "topic orders: retention.ms 1000 (topic) -> 2000"
    assert (unset.new_value, unset.is_needed) == ("5000", True)
    assert (grown.new_value, shrunk.new_value) == ("delete,compact", "")
    assert grown.text.endswith("delete (default) -> delete,compact (append compact)")
    assert not any(each.is_impossible for each in (changed, unset, grown, shrunk))


def test_an_inherited_value_is_shown_in_the_unit_of_the_topics_key() -> None:
    own = setting(
        "retention.ms",
        ("retention.ms", "1000", "topic"),
        ("log.retention.hours", "168", "default"),
    )

    assert planned(ORDERS, "unset", "retention.ms", None, own).new_value == str(168 * 3_600_000)


def test_what_is_so_already_is_not_sent() -> None:
    same = planned(ORDERS, "set", "retention.ms", " 1000", RETENTION)
    not_there = planned(ORDERS, "unset", "cleanup.policy", None, POLICY)
    pinned = planned(ORDERS, "set", "cleanup.policy", "delete", POLICY)

    assert (same.is_needed, same.reason) == (False, "it has this value already")
    assert (not_there.is_needed, not_there.reason) == (False, "it is not set here")
    # An inherited value may change: to set the same one is a change.
    assert (pinned.is_needed, pinned.reason) == (True, None)


def test_the_place_of_a_key_store_is_sent_again_so_that_the_broker_reads_the_file() -> None:
    name = "listener.name.x.ssl.keystore.location"
    store = setting(name, (name, "/k", "dynamic_broker"), type="string")

    assert planned(BROKER, "set", name, "/k", store).is_needed


def test_an_unknown_key_is_refused_with_the_most_similar_one() -> None:
    wrong = planned(ORDERS, "set", "retention", "1", RETENTION, POLICY)
    far = planned(ORDERS, "set", "zzz", "1", *(setting(f"key.{n}") for n in range(20)))
    few = planned(ORDERS, "set", "zzz", "1", RETENTION, POLICY)

    assert wrong.is_impossible
    assert wrong.reason.endswith("did you mean retention.ms?")
    assert "zkctl config get topic" in far.reason
    assert few.reason.endswith("it may have retention.ms, cleanup.policy")


def test_a_read_only_key_is_named_as_one_and_throttles_are_not() -> None:
    read_only = setting("broker.id", ("broker.id", "1", "static_broker"), is_read_only=True)
    store = setting("ssl.keystore.location", is_read_only=False)

    static = planned(BROKER, "set", "broker.id", "2", read_only)
    prefixed = planned(BROKER, "set", "listener.name.x.ssl.keystore.location", "/k", store)
    throttle = planned(
        EVERY_BROKER, "set", "leader.replication.throttled.rate", "5", read_only,
        always=("leader.replication.throttled.rate",),
    )  # fmt: skip
    custom = planned(BROKER, "set", "my.own", "5", read_only, is_unknown_allowed=True)

    assert "read-only" in static.reason
    assert "restart" in static.reason
    assert [each.reason for each in (prefixed, throttle, custom)] == [None, None, None]


def test_a_secret_is_never_shown_and_never_an_argument() -> None:
    secret = setting(
        "ssl.keystore.password", ("ssl.keystore.password", None, "dynamic_broker"),
        is_sensitive=True, type="password",
    )  # fmt: skip

    as_argument = planned(BROKER, "set", "ssl.keystore.password", "geheim", secret)
    from_file = planned(BROKER, "set", "ssl.keystore.password", "geheim", secret, is_visible=False)

    assert "--from-file" in as_argument.reason
    assert from_file.reason is None
    for shown in (str(from_file.row()), from_file.text, as_argument.text):
        assert "geheim" not in shown
    assert from_file.text.endswith("(hidden) (dynamic_broker) -> (hidden)")


def test_what_a_broker_does_not_know_may_be_secret_and_is_not_shown() -> None:
    known = setting("broker.id", ("broker.id", "1", "static_broker"))
    own = setting("my.own", ("my.own", None, "dynamic_broker"), is_sensitive=True, type="unknown")

    new = planned(BROKER, "set", "my.own", "geheim", known, is_unknown_allowed=True)
    again = planned(BROKER, "set", "my.own", "geheim", known, own, is_unknown_allowed=True)
    [_, of_file] = differences.against_file(
        BROKER, {"broker.id": known}, "f", {"my.own": "geheim", "broker.id": "1"}
    )

    for shown in (new.text, str(new.row()), again.text, str(again.row()), str(of_file)):
        assert "geheim" not in shown
    assert (new.reason, again.reason) == (None, None)


def test_only_a_list_is_appended_to() -> None:
    assert "no list" in planned(ORDERS, "append", "retention.ms", "1", RETENTION).reason


@pytest.mark.parametrize(
    ("type_name", "one", "other", "is_same"),
    [
        ("boolean", "TRUE", "true", True),
        ("double", "0.50", "0.5", True),
        ("long", "+7", "7", True),
        ("long", "7", "8", False),
        ("list", "a, b", "a,b", True),
        ("list", "a,b", "b,a", False),
        ("string", "Abc", "abc", False),
        ("string", " x ", "x", True),
        ("long", "9007199254740993", "9007199254740992", False),
    ],
)
def test_values_are_compared_as_a_broker_reads_them(
    type_name: str, one: str, other: str, is_same: bool
) -> None:
    assert values.is_same_value(type_name, one, other) is is_same
    assert values.is_same_value(type_name, other, one) is is_same
    assert not values.is_same_value(type_name, one, None)


@given(
    st.lists(st.sampled_from("abcde"), unique=True), st.lists(st.sampled_from("abcde"), unique=True)
)
def test_a_list_that_a_broker_changes_as_planned_is_done_and_no_other(
    now: list[str], given_: list[str]
) -> None:
    own = setting("cleanup.policy", ("cleanup.policy", ",".join(now), "topic"), type="list")
    for operation in ("append", "subtract"):
        one = planned(ORDERS, operation, "cleanup.policy", ",".join(given_), own)
        after = own._replace(
            value=one.new_value, synonyms=(values.PlaceOfValue(own.name, one.new_value, "topic"),)
        )

        assert plan.is_done(one, after)
        assert plan.is_done(one, own) == (
            set(one.new_value.split(",")) == set(",".join(now).split(","))
        )


def test_a_change_is_done_when_the_entity_itself_has_the_value() -> None:
    one = planned(ORDERS, "set", "retention.ms", "5000", RETENTION)
    inherited = setting("retention.ms", ("log.retention.ms", "5000", "dynamic_broker"))
    own = setting("retention.ms", ("retention.ms", "5000", "topic"))
    gone = planned(ORDERS, "unset", "retention.ms", None, RETENTION)

    assert [plan.is_done(one, each) for each in (None, RETENTION, inherited, own)] == [
        *(False, False, False, True)
    ]
    assert [plan.is_done(gone, each) for each in (None, RETENTION, inherited)] == [
        True,
        False,
        True,
    ]


def test_a_level_of_a_logger_is_done_in_any_case_of_its_letters() -> None:
    root = setting("root", ("root", "INFO", "dynamic_broker_logger"), type="string")
    one = planned(LOGGER, "set", "root", "debug", root)

    assert not plan.is_done(one, root)
    assert plan.is_done(one, root._replace(value="DEBUG"))


def test_differences_are_of_values_and_not_of_their_places() -> None:
    other = setting("retention.ms", ("log.retention.ms", "1000", "static_broker"))
    sides = [
        differences.ComparedConfig("a", {"retention.ms": RETENTION, "cleanup.policy": POLICY}),
        differences.ComparedConfig(
            "b", {"retention.ms": other, "cleanup.policy": POLICY._replace(value="compact")}
        ),
        differences.ComparedConfig("c", {"retention.ms": RETENTION, "cleanup.policy": POLICY}),
    ]

    [found] = differences.compare(sides)

    assert found.name == "cleanup.policy"
    assert found.values == {"a": "delete", "b": "compact", "c": "delete"}
    assert differences.compare(sides[::2]) == []


def test_of_secrets_only_that_one_is_set_can_differ() -> None:
    def side(title: str, source: str) -> Any:
        secret = setting("ssl.key.password", value=None, source=source, is_sensitive=True)
        return differences.ComparedConfig(title, {"ssl.key.password": secret})

    both = differences.compare([side("1", "static_broker"), side("2", "dynamic_broker")])
    [one] = differences.compare([side("1", "static_broker"), side("2", "default")])

    assert both == []
    assert one.cells() == {"name": "ssl.key.password", "1": "(hidden)", "2": "(hidden)"}


def test_a_file_is_compared_with_what_it_says_and_what_is_set_besides() -> None:
    settings = {"retention.ms": RETENTION, "cleanup.policy": POLICY, "x": setting("x")}

    sides = differences.against_file(ORDERS, settings, "f", {"cleanup.policy": "delete", "y": "1"})
    found = {each.name: each.values for each in differences.compare(sides)}

    assert found == {
        "retention.ms": {"orders": "1000", "f": None},
        "y": {"orders": None, "f": "1"},
    }


def test_defaults_are_what_a_topic_inherits() -> None:
    found = differences.defaults_of(ORDERS, {"retention.ms": RETENTION, "cleanup.policy": POLICY})

    assert {name: each.value for name, each in found.items()} == {
        "retention.ms": "5000",
        "cleanup.policy": "delete",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("config", "get", "topic"), "which topic? Name it, or say --all-entities"),
        (("config", "get", "topic", "--default"), "a topic has no default entity"),
        (("config", "get", "logger"), "which logger?"),
        (("config", "get", "broker", "one"), "'one' is not the id of a broker"),
        (("config", "get", "broker", "1", "--all-entities"), "not both"),
        (("config", "get", "broker", "--all-topics"), "--all-topics is for topics"),
        (("config", "get", "topic", "orders", "--client", "app"), "client ids of a user"),
        (("config", "get", "user", ""), "the name of a user is empty"),
        (("config", "set", "topic", "orders"), "change what?"),
        (("config", "set", "topic", "orders", "--config", "key"), "--config takes KEY=VALUE"),
        (("config", "set", "topic", "orders", "--append", "=1"), "--append takes KEY=VALUE"),
        (
            ("config", "set", "topic", "orders", "--config", "a=1", "--append", "a=2"),
            "a is changed twice",
        ),
        (("config", "set", "topic", "orders", "--from-file", "/no/such"), "--from-file"),
        (
            ("config", "set", "topic", "orders", "--config", "a=1", "--allow-unknown"),
            "--allow-unknown is for brokers",
        ),
        (("config", "set", "user", "a", "--config", "SCRAM-SHA-256=x"), "zkctl user set"),
        (("config", "set", "user", "a", "--append", "producer_byte_rate=1"), "is no list"),
        (("config", "unset", "topic", "orders"), "take what away?"),
        (("config", "unset", "topic", "orders", "--key", "a=b"), "is a KEY, not 'a=b'"),
        (("config", "diff", "topic", "orders"), "name two entities or more"),
        (("config", "diff", "topic", "a", "b", "--defaults"), "name one entity"),
        (("config", "diff", "user", "a", "--defaults"), "has no defaults"),
        (("config", "diff", "topic", "a", "--defaults", "--file", "x"), "one of --defaults"),
    ],
)
def test_what_contradicts_itself_or_lacks_something_is_a_matter_of_usage(
    zkctl: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    result = zkctl(*arguments, *NOWHERE)

    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ORDERS, "topics/orders"),
        (BROKER, "brokers/1"),
        (EVERY_BROKER, "brokers/<default>"),
        (entities.ConfigEntity("user", "CN=a b"), "users/CN%3Da%20b"),
        (entities.ConfigEntity("user", "<default>", "x/y"), "users/<default>/clients/x%2Fy"),
        (entities.ConfigEntity("client", "<default>"), "clients/<default>"),
        (entities.ConfigEntity("ip", "::1"), "ips/%3A%3A1"),
    ],
)
def test_an_entity_has_the_znode_that_kafka_gives_it(entity: Any, path: str) -> None:
    assert entities.entity_znode(entity) == path
