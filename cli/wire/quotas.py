"""Client quotas over the Kafka protocol; any broker answers.

Source: Kafka ``ConfigCommand``, KIP-546.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.alter_client_quotas.v1 import request as alter_request
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1 import request as describe_request
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.static.primitive import f64, i8

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.config_entities import CLIENT, DEFAULT_NAME, IP, USER, ConfigEntity
from zkcontroller_cli.values.config_plan import UNSET, PlannedKey
from zkcontroller_cli.values.quotas import HeldQuotas, QuotaMatch
from zkcontroller_cli.wire.requests import (
    BrokerRefusal,
    Deadline,
    connected,
    parse_bootstrap,
    raise_for_code,
    refusal_of,
)

_TYPES: Final = {USER: "user", CLIENT: "client-id", IP: "ip"}
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


async def describe_quotas(
    bootstrap: Bootstrap,
    deadline: Deadline,
    wanted: Sequence[QuotaMatch] = (),
    *,
    is_exact: bool = False,
) -> list[HeldQuotas]:
    """Every entity with quotas that has the ``wanted`` parts (user, client id, IP address).

    ``is_exact``: only entities that have no other parts.
    """
    request = describe_request.DescribeClientQuotasRequest(
        components=tuple(map(_component, wanted)), strict=is_exact
    )
    where = parse_bootstrap(bootstrap.servers)
    async with connected(where, deadline, bootstrap.security) as connection:
        response = await connection.request(request)
    assert isinstance(response, DescribeClientQuotasResponse), "request() answers in kind"
    raise_for_code("the quotas", response.error_code, response.error_message)
    return [
        HeldQuotas(
            entity_in({part.entity_type: part.entity_name for part in entry.entity}),
            {value.key: float(value.value) for value in entry.values},
        )
        for entry in response.entries or ()
    ]


async def alter_quotas(
    bootstrap: Bootstrap,
    deadline: Deadline,
    changes: Mapping[ConfigEntity, Sequence[PlannedKey]],
    *,
    is_dry_run: bool,
) -> dict[ConfigEntity, BrokerRefusal | None]:
    """Change quotas; by entity the refusal, or None if its quotas were changed.

    A broker changes all quotas of an entity or none.  Dry run: it only checks the change.
    """
    request = alter_request.AlterClientQuotasRequest(
        entries=tuple(
            alter_request.EntryData(
                entity=tuple(
                    alter_request.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in parts_of(entity)
                ),
                ops=tuple(
                    alter_request.OpData(
                        key=each.name,
                        value=f64(0.0 if each.wanted is None else float(each.wanted)),
                        remove=each.operation == UNSET,
                    )
                    for each in those
                ),
            )
            for entity, those in changes.items()
        ),
        validate_only=is_dry_run,
    )
    where = parse_bootstrap(bootstrap.servers)
    async with connected(where, deadline, bootstrap.security) as connection:
        response = await connection.request(request)
    assert isinstance(response, AlterClientQuotasResponse), "request() answers in kind"
    return {
        entity_in({part.entity_type: part.entity_name for part in entry.entity}): refusal_of(
            entry.error_code, entry.error_message
        )
        for entry in response.entries
    }


def _component(match: QuotaMatch) -> describe_request.ComponentData:
    is_default = match.name == DEFAULT_NAME
    match_type = _ANY if match.name is None else _DEFAULT if is_default else _EXACT
    return describe_request.ComponentData(
        entity_type=_TYPES[match.kind],
        match_type=i8(match_type),
        match=match.name if match_type == _EXACT else None,
    )


def parts_of(entity: ConfigEntity) -> list[tuple[str, str | None]]:
    """Type and name of each part of an entity, as in a request; the name is None for a default."""
    parts = [(_TYPES[entity.kind], entity.name)]
    if entity.client_id is not None:
        parts.append((_TYPES[CLIENT], entity.client_id))
    return [(kind, None if name == DEFAULT_NAME else name) for kind, name in parts]


def entity_in(parts: Mapping[str, str | None]) -> ConfigEntity:
    """The entity with those parts, given by type; a name of None is the default."""
    names = {kind: DEFAULT_NAME if name is None else name for kind, name in parts.items()}
    user, client, address = (names.get(_TYPES[kind]) for kind in (USER, CLIENT, IP))
    if user is not None:
        return ConfigEntity(USER, user, client)
    if client is not None:
        return ConfigEntity(CLIENT, client)
    assert address is not None, "brokers know users, client ids and addresses"
    return ConfigEntity(IP, address)
