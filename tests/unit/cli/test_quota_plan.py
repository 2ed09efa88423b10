"""Which quota counts for a client, which are listed, and which values are quotas."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_manager.quotas.client_quotas import ClientQuotas
from tests.support.cli_world import Zkctl, installed_zkctl

entities: Any = import_module("zkcontroller_cli.values.config_entities")
plan: Any = import_module("zkcontroller_cli.values.quotas")
wire: Any = import_module("zkcontroller_cli.wire.quotas")
errors: Any = import_module("zkcontroller_cli.console.errors")

NAMES = ("alice", "app", "<default>")
NOWHERE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def held(user: str | None, client: str | None, value: float) -> Any:
    if user is None:
        entity = entities.ConfigEntity("client", client)
    else:
        entity = entities.ConfigEntity("user", user, client)
    return plan.HeldQuotas(entity, {"producer_byte_rate": value})


USERS = st.sampled_from([None, "alice", "bob", "<default>"])
CLIENTS = st.sampled_from([None, "app", "other", "<default>"])


@given(
    st.dictionaries(
        st.tuples(USERS, CLIENTS).filter(lambda pair: pair != (None, None)),
        st.integers(0, 1000),
    )
)
def test_the_quota_that_counts_is_the_one_that_a_broker_counts(
    quotas: dict[tuple[str | None, str | None], int],
) -> None:
    broker = ClientQuotas("producer_byte_rate", is_whole=True)
    for (user, client), value in quotas.items():
        entity = entities.ConfigEntity(*(("client", client) if user is None else ("user", user)))
        entity = entity if user is None else entity._replace(client_id=client)
        broker.configure(entities.entity_znode(entity), {"producer_byte_rate": str(value)})

    found = plan.effective_quotas(
        [held(*names, float(value)) for names, value in quotas.items()], "alice", "app"
    )

    assert found[0].value == broker.bound(broker.key("alice", "app"))
    assert [each.value for each in found[1:]] == [None] * 3


def test_an_effective_quota_says_why_it_counts_and_what_does_not() -> None:
    all_of_them = [held("alice", None, 10.0), held(None, "app", 20.0)]

    first = plan.effective_quotas(all_of_them, "alice", "app")[0].row()

    assert (first["value"], first["user"], first["client_id"]) == (10, "alice", None)
    assert first["reason"].startswith("place 3 of 8 in Kafka's order")
    assert "without effect: client app (20)" in first["reason"]
    assert first["shared_by"] == "all clients of this user together"
    assert [place["value"] for place in first["places"]] == [
        *(None, None, 10, None, None, None, 20, None)
    ]


def test_a_quota_of_another_key_does_not_hide_a_less_specific_one() -> None:
    other = plan.HeldQuotas(entities.ConfigEntity("user", "alice"), {"request_percentage": 5.0})

    found = {
        each.quota: each.value
        for each in plan.effective_quotas([other, held("<default>", None, 7.0)], "alice", "app")
    }

    assert found == {
        "producer_byte_rate": 7,
        "consumer_byte_rate": None,
        "request_percentage": 5,
        "controller_mutation_rate": None,
    }


def test_an_address_has_its_own_quota_or_the_default() -> None:
    rate = "connection_creation_rate"
    default = plan.HeldQuotas(entities.ConfigEntity("ip", "<default>"), {rate: 3.0})
    own = plan.HeldQuotas(entities.ConfigEntity("ip", "10.0.0.1"), {rate: 9.0})

    values = [
        plan.effective_for_address([default, own], each)[0].value
        for each in ("10.0.0.1", "10.0.0.2")
    ]

    assert values == [9, 3]


ALL = [
    held("alice", None, 1.0),
    held("alice", "app", 2.0),
    held("<default>", None, 3.0),
    held("<default>", "<default>", 4.0),
    held(None, "app", 5.0),
    plan.HeldQuotas(entities.ConfigEntity("ip", "10.0.0.1"), {"connection_creation_rate": 6.0}),
]


@pytest.mark.parametrize(
    ("wanted", "is_exact", "values"),
    [
        ((), False, [5.0, 1.0, 2.0, 3.0, 4.0, 6.0]),
        ((("user", "alice"),), False, [1.0, 2.0]),
        ((("user", "alice"),), True, [1.0]),
        ((("user", None),), True, [1.0, 3.0]),
        ((("user", None), ("client", None)), True, [2.0, 4.0]),
        ((("client", "app"),), False, [2.0, 5.0]),
        ((("client", "app"),), True, [5.0]),
        ((("user", "<default>"), ("client", "<default>")), True, [4.0]),
        ((("ip", None),), False, [6.0]),
        ((("ip", "10.0.0.2"),), False, []),
    ],
)
def test_entities_are_found_as_a_broker_finds_them(
    wanted: tuple[tuple[str, str | None], ...], is_exact: bool, values: list[float]
) -> None:
    matches = [plan.QuotaMatch(*each) for each in wanted]

    found = plan.matching(ALL, matches, is_exact=is_exact)

    assert sorted(next(iter(each.quotas.values())) for each in found) == sorted(values)


def test_an_entity_goes_to_the_broker_and_comes_back() -> None:
    for each in ALL:
        assert wire.entity_in(dict(wire.parts_of(each.entity))) == each.entity


@pytest.mark.parametrize(
    ("name", "text", "type_name", "value"),
    [
        ("producer_byte_rate", "1e6", "long", 1_000_000),
        ("producer_byte_rate", "0", "long", 0),
        ("request_percentage", "12.5", "double", 12.5),
    ],
)
def test_a_quota_is_read_as_a_number(name: str, text: str, type_name: str, value: float) -> None:
    assert plan.parse_quota(name, text, type_name) == value


@pytest.mark.parametrize(
    ("text", "type_name"),
    [("1.5", "long"), ("-1", "double"), ("nan", "double"), ("inf", "double"), ("x", "long"),
     ("1_0", "long"), ("", "long"), ("1e30", "long"), ("2147483648", "int"), ("٣", "long")],
)  # fmt: skip
def test_what_is_no_quota_is_refused(text: str, type_name: str) -> None:
    with pytest.raises(errors.BadUsage, match="rate must be a"):
        plan.parse_quota("rate", text, type_name)


@pytest.mark.parametrize(
    ("name", "is_said"), [("localhost", True), ("127.0.0.1", False), ("::1", False)]
)
def test_a_quota_of_a_host_name_has_no_effect_at_our_brokers_and_that_is_said(
    zkctl: Zkctl, name: str, is_said: bool
) -> None:
    result = zkctl("quota", "set", "--ip", name, "connection_creation_rate=5", "--yes", *NOWHERE)

    assert result.exit_code == 3
    assert (f"note: {name} is no IP address" in result.stderr) is is_said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("quota", "set", "producer_byte_rate=1"), "whose quotas?"),
        (("quota", "set", "--user", "a", "producer_byte_rate"), "takes KEY=VALUE"),
        (("quota", "set", "--user", "a", "producer_byte_rate=x"), "must be a number"),
        (("quota", "set", "--user", "a", "--ip", "b", "x=1"), "quotas of its own"),
        (("quota", "unset", "--user", "", "x"), "is empty"),
        (("quota", "list", "--user", "a", "--user", "b"), "name one user to list"),
        (("quota", "list", "--user", "a", "--ip", "b"), "quotas of its own"),
        (("quota", "describe"), "whose quotas?"),
        (
            ("quota", "describe", "--effective", "a", "b", "--user", "c"),
            "leave --user and --client",
        ),
        (("quota", "describe", "--effective", "", "b"), "takes a user, a client id"),
    ],
)
def test_what_contradicts_itself_is_a_matter_of_usage(
    zkctl: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    result = zkctl(*arguments, *NOWHERE)

    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert sentence in result.stderr
