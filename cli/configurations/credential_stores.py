"""Changes SCRAM credentials by brokers, or in ZooKeeper if only that is named.

Source: Kafka ``ConfigCommand``; by brokers since Kafka 2.7 (KIP-554).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from kafka_common.errors import ZkControllerError
from zkcontroller_cli.configurations.stored_configs import (
    change_stored,
    credentials_in,
    read_stored,
    stored_credentials,
)
from zkcontroller_cli.console.errors import ApiNotKnown, CommandFailed, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.values.config_entities import USER, ConfigEntity
from zkcontroller_cli.values.users import CredentialChange, HeldCredential
from zkcontroller_cli.wire.requests import Deadline, run
from zkcontroller_cli.wire.scram import alter_credentials, describe_credentials
from zkcontroller_cli.wire.target import brokers_to_change, name_zookeeper_to_change
from zkcontroller_cli.znodes.session import ZooKeeper, open_zookeeper

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import BrokerRefusal


class CredentialStore(ABC):
    """Reads and changes credentials, and checks what is stored if it can be read."""

    @abstractmethod
    def held(self, users: Sequence[str]) -> list[HeldCredential]:
        """Read the current credentials of those users."""

    @abstractmethod
    def change(self, changes: Sequence[CredentialChange]) -> Mapping[str, BrokerRefusal | None]:
        """Change credentials; by user the refusal, or None if all changes were made."""

    @abstractmethod
    def is_stored(self, change: CredentialChange) -> bool | None:
        """Whether exactly this credential is stored; None if that cannot be read."""


@contextmanager
def credential_store(given: Settings) -> Iterator[CredentialStore]:
    """The store for the settings, after its cluster was named on stderr."""
    if given.is_zookeeper_alone:
        with open_zookeeper(given) as zookeeper:
            name_zookeeper_to_change(given, zookeeper)
            yield _InZooKeeper(given, zookeeper)
        return
    bootstrap = brokers_to_change(given)
    if given.security.tls is None:
        say("warning: the connection is not encrypted, and a salted password is enough to log in")
    with ExitStack() as stack:
        beside: ZooKeeper | None = None
        if given.find_zookeeper() is not None:
            try:
                beside = stack.enter_context(open_zookeeper(given))
            except (CommandFailed, ZkControllerError) as error:
                say(f"warning: what is stored will not be compared with what is sent: {error}")
        yield _ByBrokers(given, bootstrap, beside)


class _ByBrokers(CredentialStore):
    def __init__(self, given: Settings, bootstrap: Bootstrap, zookeeper: ZooKeeper | None) -> None:
        self._given = given
        self._bootstrap = bootstrap
        self._zookeeper = zookeeper

    @override
    def held(self, users: Sequence[str]) -> list[HeldCredential]:
        deadline = Deadline(self._given.deadline_s)
        try:
            return run(describe_credentials(self._bootstrap, deadline, users))
        except ApiNotKnown as unknown:
            raise Refused(
                f"{unknown}; older ones read credentials from ZooKeeper: name that alone (-z)"
            ) from None

    @override
    def change(self, changes: Sequence[CredentialChange]) -> Mapping[str, BrokerRefusal | None]:
        deadline = Deadline(self._given.deadline_s)
        return run(alter_credentials(self._bootstrap, deadline, changes))

    @override
    def is_stored(self, change: CredentialChange) -> bool | None:
        if self._zookeeper is None:
            return None
        try:
            return _is_in(self._zookeeper, change)
        except ZkControllerError as error:  # for example, only brokers may read the znode
            say(f"warning: what is stored was not compared with what was sent: {error}")
            return None


class _InZooKeeper(CredentialStore):
    def __init__(self, given: Settings, zookeeper: ZooKeeper) -> None:
        self._given = given
        self._zookeeper = zookeeper

    @override
    def held(self, users: Sequence[str]) -> list[HeldCredential]:
        return stored_credentials(self._zookeeper, users)

    @override
    def change(self, changes: Sequence[CredentialChange]) -> Mapping[str, BrokerRefusal | None]:
        with open_zookeeper(self._given, is_for_creating=True) as writing:
            for user in dict.fromkeys(each.user for each in changes):
                own = [each for each in changes if each.user == user]
                entity = ConfigEntity(USER, user)
                change_stored(self._zookeeper, writing, entity, partial(_changed, own))
        return dict.fromkeys(each.user for each in changes)

    @override
    def is_stored(self, change: CredentialChange) -> bool | None:
        return _is_in(self._zookeeper, change)


def _changed(changes: Sequence[CredentialChange], now: Mapping[str, str]) -> dict[str, str]:
    after = dict(now)
    for each in changes:
        after.pop(each.mechanism, None)
        if each.secret is not None:
            after[each.mechanism] = each.secret.credential(each.mechanism).encode()
    return after


def _is_in(zookeeper: ZooKeeper, change: CredentialChange) -> bool:
    entity = ConfigEntity(USER, change.user)
    stored = read_stored(zookeeper, [entity])[entity]
    now = credentials_in(entity, stored.config).get(change.mechanism)
    wanted = None if change.secret is None else change.secret.credential(change.mechanism)
    return now == wanted
