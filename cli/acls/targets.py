"""Where a change of ACLs is sent: to brokers, or directly to ZooKeeper.

Brokers check the right to change ACLs, write them to ZooKeeper, and inform each other by a
notification znode.  ``--in-zookeeper`` writes both itself, with the code of a broker.  That is for
clusters where no broker runs yet, or where no user who may change ACLs can log in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from typing_extensions import override

from replica_manager.security.acl_cache import AclBinding, AclBindingFilter, AclCache
from zkcontroller_cli.acls.notes import warn_before_adding, warn_before_removing
from zkcontroller_cli.acls.reading import rules_in_zookeeper
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.values.acls import exact_filter, filter_of_resource, in_order

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import BrokerRefusal, Deadline

_ZOOKEEPER: Final = "ZooKeeper"


class AclProof(NamedTuple):
    """The result of reading a change back."""

    without: dict[AclBinding, str]
    """By ACL whose change is not visible everywhere, the brokers or ZooKeeper, as text."""
    silent: str | None
    """The brokers that could not be asked, as text; None if all could."""
    next_step: str


class AclTarget(Protocol):
    """Reads ACLs, changes them, and proves the change."""

    def found(self, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
        """The ACLs that at least one of the filters matches, sorted."""

    def warn(self, bindings: Sequence[AclBinding], *, is_added: bool) -> None:
        """Say on stderr which side effects the change has; Refused if it cannot be made."""

    def change(
        self, bindings: Sequence[AclBinding], *, is_added: bool
    ) -> list[BrokerRefusal | None]:
        """Add or remove exactly these ACLs; returns for each the refusal, or None."""

    def proof(self, bindings: Sequence[AclBinding], *, is_added: bool) -> AclProof:
        """Read the change of these ACLs back."""


def target_of(given: Settings, *, is_in_zookeeper: bool, set_acl: bool | None) -> AclTarget:
    """The target of the change, after its cluster was named on stderr.

    ``set_acl`` None: znodes are protected if there are credentials at ZooKeeper.  Source: Kafka
    ``AclCommand.AuthorizerService``, whose default is whether there is a login by SASL.
    """
    if not is_in_zookeeper:
        from zkcontroller_cli.wire.target import brokers_to_change

        return _BrokersTarget(brokers_to_change(given), given.deadline_s)
    from zkcontroller_cli.wire.target import name_zookeeper_to_change
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(given) as zookeeper:  # refuses a chroot that does not exist
        name_zookeeper_to_change(given, zookeeper)
    return _ZooKeeperTarget(given, set_acl=set_acl)


class _BrokersTarget(AclTarget):
    def __init__(self, bootstrap: Bootstrap, deadline_s: float) -> None:
        self._bootstrap = bootstrap
        self._deadline_s = deadline_s

    def _deadline(self) -> Deadline:
        """A new deadline for each request, as the user's answer to a question may take long."""
        from zkcontroller_cli.wire.requests import Deadline

        return Deadline(self._deadline_s)

    @override
    def found(self, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
        from zkcontroller_cli.wire.acls import describe_acls
        from zkcontroller_cli.wire.requests import run

        return in_order(run(describe_acls(self._bootstrap, self._deadline(), filters)))

    @override
    def warn(self, bindings: Sequence[AclBinding], *, is_added: bool) -> None:
        warn = warn_before_adding if is_added else warn_before_removing
        warn(self._bootstrap, self._deadline(), bindings)

    @override
    def change(
        self, bindings: Sequence[AclBinding], *, is_added: bool
    ) -> list[BrokerRefusal | None]:
        from zkcontroller_cli.wire.acls import create_acls, delete_acls
        from zkcontroller_cli.wire.requests import run

        send = create_acls if is_added else delete_acls
        return run(send(self._bootstrap, self._deadline(), bindings))

    @override
    def proof(self, bindings: Sequence[AclBinding], *, is_added: bool) -> AclProof:
        from zkcontroller_cli.wire.acls import missed_rules
        from zkcontroller_cli.wire.proofs import asked_until_shown
        from zkcontroller_cli.wire.requests import run

        missed = missed_rules(bindings, is_added=is_added)
        shown = run(asked_until_shown(self._bootstrap, self._deadline(), missed))
        shown.warn_of_silent()
        without = {each: shown.brokers_without(each) for each in bindings}
        return AclProof(
            {each: f"brokers {_ids(brokers)}" for each, brokers in without.items() if brokers},
            f"brokers {_ids(sorted(shown.silent))}" if shown.silent else None,
            "they learn of it from ZooKeeper, look at their sessions with zkctl broker list, "
            "or another client changed it meanwhile; the same command may be given again",
        )


class _ZooKeeperTarget(AclTarget):
    def __init__(self, given: Settings, *, set_acl: bool | None) -> None:
        self._given = given
        self._set_acl = set_acl

    @override
    def found(self, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
        return rules_in_zookeeper(self._given, filters)

    @override
    def warn(self, bindings: Sequence[AclBinding], *, is_added: bool) -> None:
        for binding in bindings if is_added else ():
            name = binding.pattern.name
            if "/" in name or name in (".", ".."):
                raise Refused(f"ZooKeeper has no room for a resource called {name!r}")
        say(
            "note: this is written past the brokers, which check no right for it; those that run "
            "learn of it by a notification in ZooKeeper"
        )

    @override
    def change(
        self, bindings: Sequence[AclBinding], *, is_added: bool
    ) -> list[BrokerRefusal | None]:
        from replica_manager.security.acl_store import AclStore
        from replica_manager.security.authorizer import Authorizer
        from zkcontroller_cli.wire.requests import refusal_of
        from zkcontroller_cli.znodes.session import open_broker_session, quiet

        quiet("kafka.security.authorizer.AclAuthorizer")
        with open_broker_session(self._given, set_acl=self._set_acl) as session:
            store = AclStore(session, Authorizer(AclCache({})))
            store.load()
            if is_added:
                return [refusal_of(code, None) for code in store.create(bindings)]
            removed = store.delete([exact_filter(each) for each in bindings])
        outcomes = {each: code for those in removed for each, code in those}
        # An ACL without an outcome was removed by another client meanwhile.
        return [refusal_of(outcomes[each], None) if each in outcomes else None for each in bindings]

    @override
    def proof(self, bindings: Sequence[AclBinding], *, is_added: bool) -> AclProof:
        patterns = dict.fromkeys(each.pattern for each in bindings)
        there = set(self.found(list(map(filter_of_resource, patterns))))
        missed = [each for each in bindings if (each in there) is not is_added]
        return AclProof(
            dict.fromkeys(missed, _ZOOKEEPER),
            None,
            "another client changed it meanwhile; the same command may be given again",
        )


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))
