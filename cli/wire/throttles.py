"""Replication throttles of topics and brokers, read and changed over the Kafka protocol.

Each broker shows and changes only its own configuration, so the throttle of a dead broker stays.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as alter_configs
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.static.primitive import i8

from zkcontroller_cli.console.errors import CommandFailed, Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.throttles import BROKER_KEYS, TOPIC_KEYS, ConfigEdit, StandingThrottles
from zkcontroller_cli.wire.admin import BROKER, TOPIC
from zkcontroller_cli.wire.log_dirs import NOT_ALIVE
from zkcontroller_cli.wire.logs import addresses_in, ask_broker
from zkcontroller_cli.wire.requests import (
    Deadline,
    connected,
    error_text,
    metadata,
    parse_bootstrap,
)
from zkcontroller_cli.wire.versions import BrokerConnection

_SOURCES: Final = {TOPIC: 1, BROKER: 2}
"""``ConfigSource`` of a value that is set on the topic itself, or on the broker itself."""
_SET: Final = 0
_DELETE: Final = 1
TOPICS_AT_ONCE: Final = 1_000
"""The most topics in one request."""
PROOF_S: Final = 10.0
"""Seconds that a broker may take until it shows a change of its configuration."""
_POLL_S: Final = 0.2


async def standing_throttles(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    topics: Sequence[str],
    brokers: Sequence[int],
) -> StandingThrottles:
    """The throttles set on those topics and brokers; ``unread`` has brokers that do not answer."""
    found = StandingThrottles()
    where = parse_bootstrap(bootstrap.servers)
    for start in range(0, len(topics), TOPICS_AT_ONCE):
        some = topics[start : start + TOPICS_AT_ONCE]
        async with connected(where, deadline, bootstrap.security) as connection:
            for result in await _described(connection, TOPIC, some, TOPIC_KEYS):
                # A deleted topic has no throttle.
                if result.error_code is not ErrorCode.unknown_topic_or_partition:
                    found.topics[result.resource_name] = _own_values(result, TOPIC)
    addresses = addresses_in(known)

    async def ask(connection: BrokerConnection, broker: int) -> Mapping[str, str]:
        [result] = await _described(connection, BROKER, [str(broker)], BROKER_KEYS)
        return _own_values(result, BROKER)

    async def asked(broker: int) -> Mapping[str, str] | CommandFailed:
        try:
            return await ask_broker(
                addresses.get(broker),
                deadline,
                bootstrap.security,
                lambda connection: ask(connection, broker),
            )
        except CommandFailed as error:
            return error

    responses = await asyncio.gather(*map(asked, brokers))
    for broker, response in zip(brokers, responses, strict=True):
        if isinstance(response, CommandFailed):
            found.unread[broker] = NOT_ALIVE if broker not in addresses else str(response)
        else:
            found.brokers[broker] = dict(response)
    return found


async def change_throttles(
    bootstrap: Bootstrap, deadline: Deadline, edits: Sequence[ConfigEdit]
) -> list[tuple[ConfigEdit, str]]:
    """Make the changes and read them back; returns the changes that failed, with the reason."""
    if not edits:
        return []
    known = await metadata(bootstrap, deadline, ())
    addresses = addresses_in(known)
    of_topics: defaultdict[str, list[ConfigEdit]] = defaultdict(list)
    of_brokers: defaultdict[int, list[ConfigEdit]] = defaultdict(list)
    for edit in edits:
        if edit.topic is not None:
            of_topics[edit.topic].append(edit)
        elif edit.broker_id is not None:
            of_brokers[edit.broker_id].append(edit)
    failed: dict[str, str] = {}
    names = list(of_topics)
    where = parse_bootstrap(bootstrap.servers)
    for start in range(0, len(names), TOPICS_AT_ONCE):
        some = {name: of_topics[name] for name in names[start : start + TOPICS_AT_ONCE]}
        async with connected(where, deadline, bootstrap.security) as connection:
            failed |= await _altered(connection, TOPIC, some)

    async def change(broker: int, those: list[ConfigEdit]) -> dict[str, str]:
        response: dict[str, str] | CommandFailed
        try:
            response = await ask_broker(
                addresses.get(broker),
                deadline,
                bootstrap.security,
                lambda connection: _altered(connection, BROKER, {str(broker): those}),
            )
        except CommandFailed as error:
            response = error
        if isinstance(response, CommandFailed):
            why = NOT_ALIVE if broker not in addresses else str(response)
            return {f"broker {broker}": why}
        return response

    for response in await asyncio.gather(*(change(*each) for each in of_brokers.items())):
        failed |= response
    return await _proved(bootstrap, deadline, known, edits, failed)


async def _proved(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    edits: Sequence[ConfigEdit],
    failed: Mapping[str, str],
) -> list[tuple[ConfigEdit, str]]:
    topics = list(dict.fromkeys(each.topic for each in edits if each.topic is not None))
    brokers = list(dict.fromkeys(e.broker_id for e in edits if e.broker_id is not None))
    patience = Deadline(PROOF_S)
    while True:
        now = await standing_throttles(bootstrap, deadline, known, topics, brokers)
        missed = []
        for edit in edits:
            if edit.where in failed:
                missed.append((edit, failed[edit.where]))
            elif edit.topic is not None:
                # A topic that was deleted meanwhile has nothing set.
                if now.topics.get(edit.topic, {}).get(edit.key) != edit.value:
                    missed.append((edit, "it does not show the change"))
            elif edit.broker_id in now.unread:
                missed.append((edit, now.unread[edit.broker_id]))
            elif now.brokers[edit.broker_id or 0].get(edit.key) != edit.value:
                missed.append((edit, "it does not show the change"))
        if patience.is_over or deadline.is_over or all(e.where in failed for e, _ in missed):
            return missed
        await asyncio.sleep(min(_POLL_S, patience.left_s))


async def _described(
    connection: BrokerConnection, kind: int, names: Sequence[str], keys: Sequence[str]
) -> Sequence[DescribeConfigsResult]:
    response = await connection.request(
        describe_configs.DescribeConfigsRequest(
            resources=tuple(
                describe_configs.DescribeConfigsResource(
                    resource_type=i8(kind), resource_name=name, configuration_keys=tuple(keys)
                )
                for name in names
            ),
            include_synonyms=False,
            include_documentation=False,
        )
    )
    assert isinstance(response, DescribeConfigsResponse), "request() answers in kind"
    return response.results


def _own_values(result: DescribeConfigsResult, kind: int) -> dict[str, str]:
    """The keys set on the topic or broker itself; Refused if the broker does not show them."""
    if result.error_code is not ErrorCode.none:
        what = "topic" if kind == TOPIC else "broker"
        said = result.error_message or error_text(result.error_code)
        raise Refused(
            f"{what} {result.resource_name} does not show its configuration: {said} "
            f"({result.error_code.name.upper()})"
        )
    return {
        each.name: each.value or "" for each in result.configs
        if each.config_source == _SOURCES[kind]
    }  # fmt: skip


async def _altered(
    connection: BrokerConnection, kind: int, wanted: Mapping[str, Sequence[ConfigEdit]]
) -> dict[str, str]:
    """Change configurations; why it was refused, by the ``where`` of the edits."""
    response = await connection.request(
        alter_configs.IncrementalAlterConfigsRequest(
            resources=tuple(
                alter_configs.AlterConfigsResource(
                    resource_type=i8(kind),
                    resource_name=name,
                    configs=tuple(
                        alter_configs.AlterableConfig(
                            name=edit.key,
                            config_operation=i8(_DELETE if edit.value is None else _SET),
                            value=edit.value,
                        )
                        for edit in edits
                    ),
                )
                for name, edits in wanted.items()
            ),
            validate_only=False,
        )
    )
    assert isinstance(response, IncrementalAlterConfigsResponse), "request() answers in kind"
    what = "topic" if kind == TOPIC else "broker"
    return {
        f"{what} {each.resource_name}": (
            f"{each.error_message or error_text(each.error_code)} ({each.error_code.name.upper()})"
        )
        for each in response.responses
        if each.error_code is not ErrorCode.none
    }
