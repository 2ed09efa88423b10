"""The rights that each request needs: the authorizer checks of a broker's handlers, as a table.

Requests about the whole cluster are in the broker's own :data:`CLUSTER_GATES`.  A test compares the
others with the handlers in ``replica_manager/server/handlers``.

Source: Kafka 3.9 ``KafkaApis``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_common.acls import AclOperation, ResourcePattern, ResourceType
from kafka_common.protocol.api_versions import APIS, Api, ApiKey
from replica_manager.server.authorization import CLUSTER_GATES
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.acls import CLUSTER, OPTIONS, word

_READ: Final = AclOperation.READ
_WRITE: Final = AclOperation.WRITE
_CREATE: Final = AclOperation.CREATE
_DELETE: Final = AclOperation.DELETE
_ALTER: Final = AclOperation.ALTER
_DESCRIBE: Final = AclOperation.DESCRIBE
_CLUSTER_ACTION: Final = AclOperation.CLUSTER_ACTION
_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_TRANSACTION: Final = ResourceType.TRANSACTIONAL_ID
_OF_CLUSTER: Final = ResourceType.CLUSTER
_Choice = tuple[AclOperation, ResourceType]


class RightCheck(NamedTuple):
    """One check that a handler makes: one of ``choices`` is enough to pass it."""

    choices: tuple[_Choice, ...]
    when: str | None = None
    """The case in which the handler makes the check; None: always."""
    is_optional: bool = False
    """Whether the request may name no such resource; then the check is not made."""
    without: ResourceType | None = None
    """The check is made only if the request names no resource of this type; None: always."""
    is_any: bool = False
    """Whether the last choice is a right on any resource of its type (KIP-679)."""


class Right(NamedTuple):
    """An operation on a resource; an empty name means any resource of that type."""

    operation: AclOperation
    resource: ResourcePattern


class Need(NamedTuple):
    """One condition of a request: the principal has one of these rights."""

    choices: tuple[Right, ...]
    when: str | None


def _always(*choices: _Choice) -> RightCheck:
    return RightCheck(choices)


def _if_named(*choices: _Choice) -> RightCheck:
    return RightCheck(choices, is_optional=True)


_MEMBER: Final = (_always((_READ, _GROUP)),)
_CHECKS: Final[Mapping[int, tuple[RightCheck, ...]]] = {
    ApiKey.PRODUCE: (_if_named((_WRITE, _TRANSACTION)), _always((_WRITE, _TOPIC))),
    ApiKey.FETCH: (
        _always((_READ, _TOPIC)),
        RightCheck(((_CLUSTER_ACTION, _OF_CLUSTER),), "a follower asks, instead of READ"),
    ),
    ApiKey.LIST_OFFSETS: (_always((_DESCRIBE, _TOPIC)),),
    ApiKey.METADATA: (
        _if_named((_DESCRIBE, _TOPIC)),
        RightCheck(
            ((_CREATE, _OF_CLUSTER), (_CREATE, _TOPIC)),
            "the topic is missing, and auto.create.topics.enable creates it",
            is_optional=True,
        ),
        RightCheck(((_DESCRIBE, _OF_CLUSTER),), "the client asks for the cluster's operations"),
    ),
    ApiKey.OFFSET_COMMIT: (_always((_READ, _GROUP)), _always((_READ, _TOPIC))),
    ApiKey.OFFSET_FETCH: (_always((_DESCRIBE, _GROUP)), _if_named((_DESCRIBE, _TOPIC))),
    ApiKey.FIND_COORDINATOR: (
        RightCheck(((_DESCRIBE, _GROUP),), without=_TRANSACTION),
        _if_named((_DESCRIBE, _TRANSACTION)),
        RightCheck(((_CLUSTER_ACTION, _OF_CLUSTER),), "for the state of share groups"),
    ),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.DESCRIBE_GROUPS: (_always((_DESCRIBE, _GROUP)),),
    # The response leaves out groups that the client may not describe.
    ApiKey.LIST_GROUPS: (
        _if_named((_DESCRIBE, _OF_CLUSTER), (_DESCRIBE, _GROUP)),
        RightCheck(((_DESCRIBE, _OF_CLUSTER),), "to see every group", without=_GROUP),
    ),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_TOPICS: (
        _always((_CREATE, _OF_CLUSTER), (_CREATE, _TOPIC)),
        RightCheck(
            ((AclOperation.DESCRIBE_CONFIGS, _TOPIC),),
            "the answer shows the topic's configuration",
        ),
    ),
    ApiKey.DELETE_TOPICS: (
        _always((_DELETE, _TOPIC)),
        RightCheck(((_DESCRIBE, _TOPIC),), "the topic is named by its id"),
    ),
    ApiKey.DELETE_RECORDS: (_always((_DELETE, _TOPIC)),),
    ApiKey.INIT_PRODUCER_ID: (
        _if_named((_WRITE, _TRANSACTION)),
        RightCheck(
            ((AclOperation.IDEMPOTENT_WRITE, _OF_CLUSTER), (_WRITE, _TOPIC)),
            without=_TRANSACTION,
            is_any=True,
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_always((_CLUSTER_ACTION, _OF_CLUSTER), (_DESCRIBE, _TOPIC)),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _always((_WRITE, _TRANSACTION)),
        _always((_WRITE, _TOPIC)),
        RightCheck(((_CLUSTER_ACTION, _OF_CLUSTER),), "a broker asks, instead of the others"),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_always((_WRITE, _TRANSACTION)), _always((_READ, _GROUP))),
    ApiKey.END_TXN: (_always((_WRITE, _TRANSACTION)),),
    ApiKey.TXN_OFFSET_COMMIT: (
        _always((_WRITE, _TRANSACTION)),
        _always((_READ, _GROUP)),
        _always((_READ, _TOPIC)),
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        _if_named((AclOperation.DESCRIBE_CONFIGS, _TOPIC)),
        RightCheck(((AclOperation.DESCRIBE_CONFIGS, _OF_CLUSTER),), without=_TOPIC),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: (_always((_DESCRIBE, _OF_CLUSTER)),),
    ApiKey.CREATE_PARTITIONS: (_always((_ALTER, _TOPIC)),),
    ApiKey.CREATE_DELEGATION_TOKEN: (_if_named((AclOperation.CREATE_TOKENS, ResourceType.USER)),),
    ApiKey.RENEW_DELEGATION_TOKEN: (),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        _if_named(
            (_DESCRIBE, ResourceType.DELEGATION_TOKEN),
            (AclOperation.DESCRIBE_TOKENS, ResourceType.USER),
        ),
    ),
    ApiKey.DELETE_GROUPS: (_always((_DELETE, _GROUP)),),
    ApiKey.OFFSET_DELETE: (_always((_DELETE, _GROUP)), _always((_READ, _TOPIC))),
    ApiKey.DESCRIBE_PRODUCERS: (_always((_READ, _TOPIC)),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _always((_DESCRIBE, _TRANSACTION)),
        _if_named((_DESCRIBE, _TOPIC)),
    ),
    ApiKey.LIST_TRANSACTIONS: (_always((_DESCRIBE, _TRANSACTION)),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_always((_ALTER, _OF_CLUSTER)),),
    ApiKey.DESCRIBE_CLUSTER: (
        RightCheck(((_DESCRIBE, _OF_CLUSTER),), "the client asks for the cluster's operations"),
    ),
    **dict.fromkeys(
        (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
        (
            _if_named((AclOperation.ALTER_CONFIGS, _TOPIC)),
            RightCheck(((AclOperation.ALTER_CONFIGS, _OF_CLUSTER),), without=_TOPIC),
        ),
    ),
}


def checks_of(api_key: int) -> tuple[RightCheck, ...]:
    """The checks of a request; BadUsage if a broker in ZooKeeper mode does not serve it."""
    gate = CLUSTER_GATES.get(api_key)
    if gate is not None:
        return (RightCheck(tuple((operation, _OF_CLUSTER) for operation in gate)),)
    try:
        return _CHECKS[api_key]
    except KeyError:
        raise BadUsage(f"brokers in ZooKeeper mode do not serve {APIS[api_key].name}") from None


def api_named(text: str) -> Api:
    """The API with that name (upper or lower case) or key; BadUsage if there is none."""
    wanted = text.replace("_", "").replace("-", "").lower().removesuffix("request")
    for row in APIS.values():
        if wanted in (row.name.lower(), str(int(row.key))):
            return row
    known = ", ".join(APIS[key].name for key in sorted({*_CHECKS, *CLUSTER_GATES}))
    raise BadUsage(f"{text!r} is no request of Kafka; say one of {known}")


def needs_of(row: Api, resources: Sequence[ResourcePattern]) -> list[Need]:
    """The needs of a request about those resources, in the order of the handler's checks.

    BadUsage if ``resources`` lacks one that the request always names.
    """
    needs: dict[Need, None] = {}
    for check in checks_of(row.key):
        needs.update(dict.fromkeys(_needs(row, check, resources)))
    return list(needs)


def _needs(row: Api, check: RightCheck, resources: Sequence[ResourcePattern]) -> Iterator[Need]:
    named = {resource.resource_type for resource in resources}
    if check.without in named:
        return
    varying = [kind for _, kind in check.choices if kind is not _OF_CLUSTER]
    if not varying or check.is_any:
        rights = [Right(operation, _without_name(kind)) for operation, kind in check.choices]
        yield Need(tuple(rights), check.when)
        return
    about = [each for each in resources if each.resource_type in varying]
    if not about:
        if check.is_optional or check.when is not None:
            return
        options = " or ".join(f"{OPTIONS[kind]} NAME" for kind in varying)
        raise BadUsage(f"{row.name} is about a {word(varying[0])}: say {options}")
    if len(set(varying)) > 1:  # a right on the token, or on its owner
        those = [_right(choice, each) for choice in check.choices for each in about]
        yield Need(tuple(right for right in those if right is not None), check.when)
        return
    for each in about:
        choices = [_right(choice, each) for choice in check.choices]
        yield Need(tuple(right for right in choices if right is not None), check.when)


def _without_name(kind: ResourceType) -> ResourcePattern:
    return CLUSTER if kind is _OF_CLUSTER else ResourcePattern(kind, "")


def _right(choice: _Choice, about: ResourcePattern) -> Right | None:
    operation, kind = choice
    if kind is _OF_CLUSTER:
        return Right(operation, CLUSTER)
    return Right(operation, about) if kind is about.resource_type else None
