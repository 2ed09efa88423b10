"""Readings for ``zkctl top``: ZooKeeper in bulk, then every broker at once, and metrics.

The reader keeps one ZooKeeper session, and opens a new one when it is lost.  Sizes and groups are
read less often than the rest (:class:`ReadingPace`).  A part that cannot be read becomes a problem
of that reading; the other parts are read anyway.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, Self

from kafka_common.errors import ZkControllerError
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import ClusterIdZnode, TopicsZnode
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.screen.brokers import BrokerReader, brokers_of
from zkcontroller_cli.screen.brokers import partitions_of as partitions_known
from zkcontroller_cli.screen.metrics import scraped
from zkcontroller_cli.screen.model import BrokerNow, Name, QueueNow, Reading
from zkcontroller_cli.wire.admin import ongoing_reassignments
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, metadata
from zkcontroller_cli.znodes.cluster_view import ControllerView, read_controller
from zkcontroller_cli.znodes.partitions import partitions_of, read_topics
from zkcontroller_cli.znodes.registrations import LiveBroker, read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, decoded, now_ms, open_zookeeper, warnings_to
from zkcontroller_cli.znodes.topics import read_deletions

METADATA_S: Final = 10.0
"""Seconds for the Metadata response of all topics, if ZooKeeper cannot be read."""
SIZES_EVERY_S: Final = 10.0
GROUPS_EVERY_S: Final = 5.0
SHARE: Final = 5.0
"""A part is read again at the earliest after this many times the duration of its last reading."""
WARNINGS_SHOWN: Final = 3
"""The most corrupt znodes that are named; the others are counted."""


@dataclass
class ReadingPace:
    """Decides when a part is read again: every ``every_s``, less often if reading takes long."""

    every_s: float
    _due_at_s: float = 0.0

    def is_due(self, now_s: float) -> bool:
        """Whether the part should be read now."""
        return now_s >= self._due_at_s

    def done(self, began_s: float, ended_s: float) -> None:
        """Record that the part was read, from ``began_s`` to ``ended_s``."""
        self._due_at_s = began_s + max(self.every_s, SHARE * (ended_s - began_s))


class Reader:
    """Takes readings; creating it raises BadUsage if neither ZooKeeper nor brokers are named."""

    def __init__(self, settings: Settings, metrics_urls: Sequence[str] = ()) -> None:
        if settings.find_zookeeper() is None:
            settings.bootstrap()  # raises an error that names both options
        self._settings = settings
        self._security = settings.security
        self._metrics_urls = tuple(metrics_urls)
        self._zookeeper: ZooKeeper | None = None
        self._stack = ExitStack()
        self._sizes = ReadingPace(SIZES_EVERY_S)
        self._groups = ReadingPace(GROUPS_EVERY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session with ZooKeeper."""
        self._zookeeper = None
        self._stack.close()

    def read(self) -> Reading:
        """Take one reading; blocks until all have answered or timed out."""
        began_ms, began_s = now_ms(), time.monotonic()
        warnings: list[str] = []
        problems: list[str] = []
        reading = Reading(began_ms)
        addresses: dict[int, BrokerAddress] = {}
        with warnings_to(warnings.append):
            if self._settings.find_zookeeper() is not None:
                try:
                    reading, addresses = self._from_zookeeper(reading)
                except (CommandFailed, ZkControllerError) as error:
                    self.close()
                    problems.append(f"ZooKeeper: {error}")
        problems += warnings[:WARNINGS_SHOWN]
        if len(warnings) > WARNINGS_SHOWN:
            problems.append(f"{len(warnings) - WARNINGS_SHOWN} more znodes are corrupt")
        reading = asyncio.run(self._from_brokers(reading, addresses, problems))
        took_ms = round((time.monotonic() - began_s) * 1000)
        return replace(reading, took_ms=took_ms, problems=tuple(problems))

    def _from_zookeeper(self, reading: Reading) -> tuple[Reading, dict[int, BrokerAddress]]:
        if self._zookeeper is None or self._zookeeper.is_lost:
            self.close()
            self._zookeeper = self._stack.enter_context(open_zookeeper(self._settings))
        zookeeper = self._zookeeper
        controller = read_controller(zookeeper)
        registrations = read_registrations(zookeeper)
        [id_znode] = zookeeper.read([ClusterIdZnode.PATH])
        id_found = optional(ClusterIdZnode.PATH, id_znode)
        cluster_id = None if id_found is None else decoded(ClusterIdZnode.decode, id_found.data)
        has_topics = optional(TopicsZnode.PATH, zookeeper.stats([TopicsZnode.PATH])[0]) is not None
        views = read_topics(zookeeper) if has_topics else []
        partitions = partitions_of(zookeeper, views)
        # Listed after reading them, so that it has the unreadable topics, and not those deleted
        # meanwhile.
        names = optional(TopicsZnode.PATH, zookeeper.children([TopicsZnode.PATH])[0]) or []
        ids = {view.topic: view.topic_id for view in views}
        found = replace(
            reading,
            source="ZooKeeper",
            cluster_id=None if cluster_id is None else cluster_id.cluster_id,
            controller=controller,
            brokers={each.broker.broker_id: _broker_now(each) for each in registrations},
            topics={name: ids.get(name) for name in names},
            partitions={(each.topic, each.partition): each for each in partitions},
            deletions=read_deletions(zookeeper),
        )
        addresses = {
            each.broker.broker_id: BrokerAddress(*address)
            for each in registrations
            if (address := each.address_by(self._security.protocol)) is not None
        }
        return found, addresses

    async def _from_brokers(
        self, reading: Reading, addresses: dict[int, BrokerAddress], problems: list[str]
    ) -> Reading:
        if reading.source is None and self._settings.find_bootstrap() is not None:
            try:
                reading = await self._from_metadata(reading, problems)
            except CommandFailed as error:
                problems.append(f"brokers: {error}")
            addresses = {
                broker.broker_id: BrokerAddress(broker.host, broker.port)
                for broker in (reading.brokers or {}).values()
                if broker.host is not None and broker.port is not None
            }
        elif reading.brokers is not None:
            protocol = self._security.protocol
            problems += [
                f"broker {broker} has no {protocol} listener"
                for broker in sorted(reading.brokers.keys() - addresses.keys())
            ]
        queue, reading = await asyncio.gather(
            self._queue(problems), self._asked(reading, addresses, problems)
        )
        return replace(reading, queue=queue)

    async def _from_metadata(self, reading: Reading, problems: list[str]) -> Reading:
        bootstrap = self._settings.bootstrap()
        known = await metadata(bootstrap, Deadline(METADATA_S))
        try:
            ongoing = await ongoing_reassignments(bootstrap, Deadline(METADATA_S))
        except CommandFailed as error:
            ongoing = []
            problems.append(f"reassignments: {error}")
        controller_id = int(known.controller_id)
        return replace(
            reading,
            source="brokers",
            cluster_id=known.cluster_id,
            controller=ControllerView(
                controller_id if controller_id >= 0 else None, None, None, None, None
            ),
            brokers=brokers_of(known),
            topics={str(topic.name): topic.topic_id for topic in known.topics},
            partitions=partitions_known(known, ongoing),
        )

    async def _asked(
        self, reading: Reading, addresses: dict[int, BrokerAddress], problems: list[str]
    ) -> Reading:
        """The reading with replica sizes and groups, which only brokers know."""
        if not addresses:
            return reading
        brokers = BrokerReader(addresses, self._security)
        partitions = reading.partitions or {}
        moving: defaultdict[int, list[Name]] = defaultdict(list)
        for name, view in partitions.items():
            assignment = view.assignment
            if assignment.adding_replicas and view.state is not None:
                for broker in {view.state.leader, *assignment.adding_replicas}:
                    moving[broker].append(name)
        if moving:
            await brokers.read_moving(moving)
        began_s = time.monotonic()
        if is_sized := self._sizes.is_due(began_s):
            await brokers.read_sizes()
            self._sizes.done(began_s, time.monotonic())

        def leader_of(name: Name) -> int | None:
            view = partitions.get(name)
            return None if view is None or view.state is None else view.state.leader

        began_s = time.monotonic()
        if is_grouped := self._groups.is_due(began_s):
            await brokers.read_groups(leader_of)
            self._groups.done(began_s, time.monotonic())
        found = brokers.reading
        problems += found.problems
        return replace(
            reading,
            moving_bytes=found.moving_bytes,
            sizes=found.sizes if is_sized else None,
            groups=found.groups if is_grouped else None,
        )

    async def _queue(self, problems: list[str]) -> QueueNow | None:
        responses = await asyncio.gather(
            *(asyncio.to_thread(_scraped, url) for url in self._metrics_urls)
        )
        queue = next((each for each in responses if isinstance(each, QueueNow)), None)
        if queue is None:  # with the controller's metrics found, failures of others do not matter
            problems += [str(each) for each in responses if isinstance(each, CommandFailed)]
        return queue


def _scraped(url: str) -> QueueNow | CommandFailed | None:
    try:
        return scraped(url)
    except CommandFailed as error:
        return error


def _broker_now(each: LiveBroker) -> BrokerNow:
    first = each.broker.endpoints[0] if each.broker.endpoints else None
    return BrokerNow(
        each.broker.broker_id,
        None if first is None else first.host,
        None if first is None else first.port,
        each.broker.rack,
        each.broker_epoch,
        each.timestamp_ms,
    )
