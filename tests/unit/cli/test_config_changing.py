"""What is said and left when a change is refused, crossed, or does not come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import orjson
import pytest

changing: Any = import_module("zkcontroller_cli.configurations.changing")
credentials: Any = import_module("zkcontroller_cli.configurations.credential_stores")
entities: Any = import_module("zkcontroller_cli.values.config_entities")
errors: Any = import_module("zkcontroller_cli.console.errors")
options: Any = import_module("zkcontroller_cli.console.options")
plan: Any = import_module("zkcontroller_cli.values.config_plan")
user: Any = import_module("zkcontroller_cli.user")
user_plan: Any = import_module("zkcontroller_cli.values.users")
values: Any = import_module("zkcontroller_cli.values.config_values")
wire: Any = import_module("zkcontroller_cli.wire.requests")

ORDERS = entities.ConfigEntity("topic", "orders")
PAYMENTS = entities.ConfigEntity("topic", "payments")
WANTED = [plan.KeyOperation("retention.ms", "set", "5")]
REFUSAL = wire.BrokerRefusal("TOPIC_AUTHORIZATION_FAILED", "not allowed")


class TopicsInMemory(changing.ConfigStore):  # type: ignore[misc]  # of the installed package
    """Topics whose keys take a value, except for those that refuse it or never show it."""

    def __init__(self, *, refusing: Sequence[Any] = (), deaf: Sequence[Any] = ()) -> None:
        self.stored: dict[Any, str | None] = {}
        self.sent: list[tuple[tuple[Any, ...], bool]] = []
        self._refusing = refusing
        self._deaf = deaf

    def read(self, entities: Sequence[Any]) -> Mapping[Any, Mapping[str, Any]]:
        return {each: {"retention.ms": self._setting(self.stored.get(each))} for each in entities}

    def known(self, entity: Any) -> Mapping[str, Any]:
        return self.read([entity])[entity]

    def send(
        self, changes: Mapping[Any, Sequence[Any]], *, is_dry_run: bool
    ) -> Mapping[Any, Any | None]:
        self.sent.append((tuple(changes), is_dry_run))
        for entity, those in changes.items():
            if not is_dry_run and entity not in (*self._refusing, *self._deaf):
                self.stored[entity] = those[-1].wanted
        return {
            each: REFUSAL if each in self._refusing and not is_dry_run else None for each in changes
        }

    @staticmethod
    def _setting(value: str | None) -> Any:
        if value is None:
            return values.ConfigSetting("retention.ms", "9", "default", "long")
        place = values.PlaceOfValue("retention.ms", value, "topic")
        return values.ConfigSetting("retention.ms", value, "topic", "long", synonyms=(place,))


@pytest.fixture
def carry_out(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Carries out the change; the rows that it shows, and the error that it ends with."""

    def run(store: TopicsInMemory, *topics: Any) -> tuple[Any, Any]:
        given = options.Settings(output="json", timeout_s=0.05)
        error = None
        try:
            changing.carry_out(given, store, topics, WANTED, is_dry_run=False, yes=True)
        except errors.CommandFailed as failed:
            error = failed
        return orjson.loads(capsys.readouterr().out or "[]"), error

    return run


def test_a_change_is_checked_first_and_then_sent_once(carry_out: Callable[..., Any]) -> None:
    store = TopicsInMemory()

    rows, error = carry_out(store, ORDERS, PAYMENTS)

    assert store.sent == [((ORDERS, PAYMENTS), True), ((ORDERS, PAYMENTS), False)]
    assert error is None
    assert [(row["old_value"], row["value"], row["is_done"]) for row in rows] == [
        ("9", "5", True)
    ] * 2


def test_a_change_that_is_refused_after_all_is_named_and_the_others_are_proved(
    carry_out: Callable[..., Any],
) -> None:
    store = TopicsInMemory(refusing=[ORDERS])

    rows, error = carry_out(store, ORDERS, PAYMENTS)

    assert [(row["entity"], row["value"], row["is_done"], row["error"]) for row in rows] == [
        ("orders", "9", False, "TOPIC_AUTHORIZATION_FAILED"),
        ("payments", "5", True, None),
    ]
    assert error.exit_code == 5
    assert str(error).startswith("topic orders: not allowed (TOPIC_AUTHORIZATION_FAILED); 1 of 2")


def test_a_change_that_does_not_come_ends_with_what_to_do(carry_out: Callable[..., Any]) -> None:
    store = TopicsInMemory(deaf=[PAYMENTS])

    rows, error = carry_out(store, ORDERS, PAYMENTS)

    assert [(row["value"], row["is_done"]) for row in rows] == [("5", True), ("9", False)]
    assert error.exit_code == 4
    assert "topic payments: the change of retention.ms was accepted and is not seen" in str(error)
    assert "zkctl config get" in str(error)


def test_what_is_so_already_is_not_sent_again(carry_out: Callable[..., Any]) -> None:
    store = TopicsInMemory()
    carry_out(store, ORDERS)
    store.sent.clear()

    [row], error = carry_out(store, ORDERS)

    assert (store.sent, error) == ([], None)
    assert (row["is_done"], row["reason"]) == (True, "it has this value already")


class CredentialsInMemory(credentials.CredentialStore):  # type: ignore[misc]  # see above
    """Credentials of one user, over which another change may come."""

    def __init__(self, *, is_crossed: bool = False, is_refused: bool = False) -> None:
        self._iterations: int | None = None
        self._is_crossed = is_crossed
        self._is_refused = is_refused

    def held(self, users: Sequence[str]) -> list[Any]:
        if self._iterations is None or "alice" not in users:
            return []
        return [user_plan.HeldCredential("alice", "SCRAM-SHA-256", self._iterations)]

    def change(self, changes: Sequence[Any]) -> Mapping[str, Any | None]:
        if self._is_refused:
            return {"alice": REFUSAL}
        self._iterations = changes[0].secret.iterations
        return {"alice": None}

    def is_stored(self, change: Any) -> bool | None:
        return not self._is_crossed and change.secret is not None


@pytest.mark.parametrize(
    ("trouble", "exit_code", "sentence"),
    [
        ({"is_refused": True}, 5, "not allowed"),
        ({"is_crossed": True}, 4, "another change may have come in between"),
    ],
    ids=["refused", "crossed"],
)
def test_a_password_that_is_not_the_one_that_was_sent_is_no_success(
    capsys: pytest.CaptureFixture[str], trouble: dict[str, bool], exit_code: int, sentence: str
) -> None:
    given = options.Settings(output="json", timeout_s=0.05)
    secret = user_plan.salted("SCRAM-SHA-256", "geheim", 4096, lambda size: b"s" * size)
    changes = [user_plan.CredentialChange("alice", "SCRAM-SHA-256", secret)]
    planned = user_plan.plan_set("alice", ["SCRAM-SHA-256"], 4096, [])

    with pytest.raises(errors.CommandFailed, match=sentence) as failed:
        user._carry_out(given, CredentialsInMemory(**trouble), planned, changes)

    assert failed.value.exit_code == exit_code
    [row] = orjson.loads(capsys.readouterr().out)
    assert not row["is_done"]
    assert "geheim" not in str(row) + repr(changes)


def test_the_question_names_the_keys_and_whose_they_are() -> None:
    assert changing.question_for([ORDERS], WANTED) == "Change retention.ms of topic orders?"
    assert changing.question_for([ORDERS, PAYMENTS], WANTED) == "Change retention.ms of 2 topics?"
