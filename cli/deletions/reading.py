"""Reads the topics marked for deletion: ZooKeeper first, then the brokers with replicas."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.net.client_security import ClientSecurity
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import DeleteTopicsZnode, DeleteTopicZnode, TopicZnode
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import ApiNotKnown, CommandFailed, NotLetIn, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings
from zkcontroller_cli.deletions.blockers import BrokerReplicas, Deletion, Mark
from zkcontroller_cli.wire.controller import probe_controller
from zkcontroller_cli.wire.log_dirs import ReplicasLeft, replicas_left
from zkcontroller_cli.wire.logs import ask_broker
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, run
from zkcontroller_cli.wire.topic_state import is_deletion_enabled
from zkcontroller_cli.wire.versions import BrokerConnection
from zkcontroller_cli.znodes.cluster_view import ControllerView, read_controller
from zkcontroller_cli.znodes.partitions import (
    PartitionView,
    live_broker_ids,
    partitions_of,
    read_topics,
)
from zkcontroller_cli.znodes.registrations import LiveBroker, read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, now_ms

_ONE_ANSWER_S: Final = 5.0
"""Seconds after which a broker counts as not answering."""


@dataclass(frozen=True, slots=True)
class DeletionsRead:
    """The topics marked for deletion, sorted by name, and the controller that must delete them."""

    deletions: list[Deletion]
    controller: ControllerView


def read_marked(
    given: Settings, zookeeper: ZooKeeper, topics: Sequence[str] | None = None
) -> DeletionsRead:
    """Read every topic that is marked for deletion; only ``topics`` unless it is None.

    Refused if one of ``topics`` is not marked.
    """
    marks = _marks(zookeeper)
    for topic in topics or ():
        if topic not in marks:
            raise Refused(_not_marked(zookeeper, topic))
    names = [name for name in marks if topics is None or name in topics]
    controller = read_controller(zookeeper)
    if not names:
        return DeletionsRead([], controller)
    partitions = _partitions(zookeeper, names)
    live = live_broker_ids(zookeeper)
    registrations = {each.broker.broker_id: each for each in read_registrations(zookeeper, live)}
    security = given.security
    at_ms = now_ms()
    held = run(_held(registrations, security, partitions))
    controller_error = run(_controller_error(controller, registrations, security))
    is_enabled = None
    if controller.controller_id is not None and controller_error is None:
        is_enabled = _is_enabled(given, registrations, security)
    return DeletionsRead(
        [
            Deletion(
                topic=name,
                mark=marks[name],
                age_ms=max(0, at_ms - marks[name].ordered_at_ms),
                has_znode=name in partitions,
                partitions=partitions.get(name, ()),
                live_brokers=live,
                controller_id=controller.controller_id,
                controller_error=controller_error,
                is_enabled=is_enabled,
                held=_held_of(name, held),
            )
            for name in names
        ],
        controller,
    )


def _marks(zookeeper: ZooKeeper) -> dict[str, Mark]:
    path = DeleteTopicsZnode.PATH
    names = optional(path, zookeeper.children([path])[0]) or []
    paths = [DeleteTopicZnode.path(name) for name in names]
    stats = map(optional, paths, zookeeper.stats(paths))
    return {
        name: Mark(stat.ctime_ms, stat.czxid, stat.zk_version)
        for name, stat in zip(names, stats, strict=True)
        if stat is not None
    }


def _not_marked(zookeeper: ZooKeeper, topic: str) -> str:
    path = TopicZnode.path(topic)
    if optional(path, zookeeper.stats([path])[0]) is None:
        return f"topic {topic} is not marked for deletion, and there is no such topic"
    return (
        f"topic {topic} is not marked for deletion: a controller with delete.topic.enable=false "
        f"takes marks away; {command_line('topic delete', topic)} deletes it"
    )


def _partitions(zookeeper: ZooKeeper, names: Sequence[str]) -> dict[str, list[PartitionView]]:
    """The partitions of each topic; a topic without a readable znode is left out."""
    paths = [TopicZnode.path(name) for name in names]
    there = [
        name
        for name, path, stat in zip(names, paths, zookeeper.stats(paths), strict=True)
        if optional(path, stat) is not None
    ]
    topics = []
    for name in there:
        try:
            topics += read_topics(zookeeper, [name])
        except Refused:  # deleted meanwhile, or corrupt, for which there was a warning
            continue
    found: dict[str, list[PartitionView]] = {topic.topic: [] for topic in topics}
    for view in partitions_of(zookeeper, topics):
        found[view.topic].append(view)
    return found


async def _held(
    registrations: Mapping[int, LiveBroker],
    security: ClientSecurity,
    partitions: Mapping[str, Sequence[PartitionView]],
) -> dict[int, ReplicasLeft | str]:
    """By live broker with assigned replicas of these topics: those it still has, or an error."""
    assigned: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for views in partitions.values():
        for view in views:
            for broker in view.assignment.replicas:
                assigned[broker].append((view.topic, view.partition))
    asked = {id_: those for id_, those in assigned.items() if id_ in registrations}

    async def ask(broker: int, those: list[tuple[str, int]]) -> ReplicasLeft | str:
        address = registrations[broker].address_by(security.protocol)
        if address is None:
            return f"it has no {security.protocol} listener"

        async def describe(connection: BrokerConnection) -> ReplicasLeft:
            return await replicas_left(connection, those)

        try:
            deadline = Deadline(_ONE_ANSWER_S)
            result = await ask_broker(BrokerAddress(*address), deadline, security, describe)
        except CommandFailed as error:
            return str(error)
        return str(result) if isinstance(result, CommandFailed) else result

    results = await asyncio.gather(*(ask(broker, those) for broker, those in asked.items()))
    return dict(zip(asked, results, strict=True))


def _held_of(topic: str, held: Mapping[int, ReplicasLeft | str]) -> dict[int, BrokerReplicas]:
    return {
        broker: BrokerReplicas(None, (), found)
        if isinstance(found, str)
        else BrokerReplicas(
            {p: size for (name, p), size in found.sizes.items() if name == topic},
            found.log_dir_errors,
        )
        for broker, found in held.items()
    }


async def _controller_error(
    controller: ControllerView, registrations: Mapping[int, LiveBroker], security: ClientSecurity
) -> str | None:
    """Why the controller does not work; None if it does, there is none, or it cannot be asked."""
    if controller.controller_id is None:
        return None
    broker = registrations.get(controller.controller_id)
    if broker is None:
        return "its broker is not registered"
    address = broker.address_by(security.protocol)
    if address is None:
        return None
    try:
        code = await probe_controller(address, security)
    except (ApiNotKnown, NotLetIn):
        return None
    except CommandFailed as error:
        return str(error)
    if code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
        return code.name.upper()
    return None


def _is_enabled(
    given: Settings, registrations: Mapping[int, LiveBroker], security: ClientSecurity
) -> bool | None:
    addresses = [each.address_by(security.protocol) for each in registrations.values()]
    servers = ",".join(str(BrokerAddress(*address)) for address in addresses if address)
    if not servers:
        return None
    try:
        bootstrap: Bootstrap = given.servers(servers)
        return run(is_deletion_enabled(bootstrap, Deadline(_ONE_ANSWER_S)))
    except CommandFailed:
        return None
