"""One look at a cluster for ``zkctl metadata diff``: the expected values, then brokers' responses.

A few brokers are asked at a time, and each response is compared and dropped, so that the responses
of 100 brokers are never in memory together.  Only if brokers are compared with each other are all
responses kept, in a tenth of their memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH
from kafka_common.net.client_security import ClientSecurity
from zkcontroller.zookeeper.requests import Stat
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ControllerZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.console.errors import (
    ApiNotKnown,
    CannotConnect,
    CommandFailed,
    Refused,
    TimedOut,
)
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.truth.metadata_truth import (
    EPOCHS,
    LOG_DIRS,
    METADATA,
    ClusterTruth,
    Difference,
    KnownBroker,
    TopicFilter,
    agreed,
    epoch_differences,
    log_differences,
    metadata_differences,
)
from zkcontroller_cli.wire.metadata import (
    AskedEpoch,
    answer_of,
    epoch_errors,
    held_replicas,
    lacking_topics,
)
from zkcontroller_cli.wire.metadata_responses import ReportedMetadata
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    ask_metadata,
    connected,
    parse_bootstrap,
)
from zkcontroller_cli.wire.versions import BrokerConnection
from zkcontroller_cli.znodes.partitions import partitions_of, read_topics
from zkcontroller_cli.znodes.registrations import LiveBroker, read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, decoded
from zkcontroller_cli.znodes.topics import read_deletions

ASKED_AT_ONCE: Final = 2
"""The number of brokers that are asked at the same time.

While a response with 100,000 partitions is compared, the other broker's deadline goes on, so a
larger number would cause timeouts.
"""
MOST_NAMED: Final = 10_000
"""The most topics missing in a broker's response that are asked for by name."""
MOST_DIFFERENCES: Final = 100_000
"""The most differences kept of one look; a broker with more is reported as not compared."""


_NOT_AUTHORIZED: Final = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.cluster_authorization_failed,
)
"""Error codes of a broker that does not authorize the client."""


@dataclass
class MetadataLook:
    """The differences that one look found, and what it could not compare."""

    truth: ClusterTruth
    differences: dict[tuple[str | int | None, ...], Difference] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)
    """By request, as ``Metadata of broker 2``, why there is no complete result."""
    notes: dict[str, str] = field(default_factory=dict)
    """By request, what was not compared as the broker is too old or a log directory failed."""
    silent: set[int] = field(default_factory=set)
    """Brokers that could not be reached; they are not asked again in this look."""

    def take(self, found: Iterable[Difference], where: str) -> None:
        """Keep differences, at most :data:`MOST_DIFFERENCES` in all."""
        iterator = iter(found)
        room = MOST_DIFFERENCES - len(self.differences)
        self.differences.update((each.key, each) for each in islice(iterator, room))
        if next(iterator, None) is not None:
            self.not_compared[where] = f"more than {MOST_DIFFERENCES:,} differences"


@dataclass(frozen=True)
class BrokersToAsk:
    """The addresses of the brokers to ask, and how to connect."""

    addresses: Mapping[int, BrokerAddress]
    unreachable: Mapping[int, str]
    """Brokers that cannot be asked, and why."""
    security: ClientSecurity
    answer_s: float
    """Seconds that a broker may take for one kind of request."""


# The expected values from ZooKeeper.


def read_truth(zookeeper: ZooKeeper, wanted: TopicFilter) -> tuple[ClusterTruth, list[LiveBroker]]:
    """The expected values from the znodes, and the registered brokers.

    Raises what the session raises.
    """
    paths = (ClusterIdZnode.PATH, ControllerZnode.PATH)
    cluster_id, controller = map(optional, paths, zookeeper.read(paths))
    rules = None if controller is None else decoded(ControllerZnode.decode, controller.data)
    named = None if cluster_id is None else decoded(ClusterIdZnode.decode, cluster_id.data)
    registrations = read_registrations(zookeeper)
    listed = optional(TopicsZnode.PATH, zookeeper.children([TopicsZnode.PATH])[0]) or []
    topics = read_topics(zookeeper) if listed else []
    # Topics deleted since the listing, and unreadable ones, are not compared, like those that are
    # being deleted.
    deleting = set(listed) - {topic.topic for topic in topics} | read_deletions(zookeeper).keys()
    topics = [topic for topic in topics if wanted.takes(topic.topic)]
    partitions = partitions_of(zookeeper, topics)
    versions = {
        path: znode.zk_version
        for path, znode in zip(paths, (cluster_id, controller), strict=True)
        if znode is not None
    }
    stated = [TopicZnode.path(topic.topic) for topic in topics]
    stated += [BrokerIdZnode.path(each.broker.broker_id) for each in registrations]
    for path, stat in zip(stated, zookeeper.stats(stated), strict=True):
        if isinstance(stat, Stat):
            versions[path] = stat.zk_version
    truth = ClusterTruth(
        None if named is None else named.cluster_id,
        None if rules is None else rules.broker_id,
        {
            each.broker.broker_id: KnownBroker(
                frozenset((e.host, e.port) for e in each.broker.endpoints), each.broker.rack
            )
            for each in registrations
        },
        {topic.topic: topic.topic_id for topic in topics},
        {(view.topic, view.partition): view for view in partitions},
        frozenset(deleting),
        rules is None or rules.kraft_controller_epoch == NO_EPOCH,
        versions,
    )
    return truth, registrations


def registered_to_ask(
    registrations: Iterable[LiveBroker], security: ClientSecurity, answer_s: float
) -> BrokersToAsk:
    """The addresses of the registered brokers, at listeners with zkctl's security protocol."""
    addresses, unreachable = {}, {}
    for each in registrations:
        address = each.address_by(security.protocol)
        if address is None:
            unreachable[each.broker.broker_id] = f"it has no {security.protocol} listener"
        else:
            addresses[each.broker.broker_id] = BrokerAddress(*address)
    return BrokersToAsk(addresses, unreachable, security, answer_s)


# The responses of brokers.


async def brokers_named(bootstrap: Bootstrap, answer_s: float) -> BrokersToAsk:
    """Every broker in the Metadata of a bootstrap server; CannotConnect if none answers."""
    addresses: dict[int, BrokerAddress] = {}
    reasons = []
    for server in parse_bootstrap(bootstrap.servers):
        try:
            async with connected([server], Deadline(answer_s), bootstrap.security) as connection:
                response = answer_of(await ask_metadata(connection, ()))
        except CannotConnect as error:
            reasons.append(f"{server}: {error}")
            continue
        for broker_id, broker in response.brokers.items():
            addresses.setdefault(broker_id, BrokerAddress(broker.host, broker.port))
    if not addresses:
        raise CannotConnect("; ".join(reasons) or f"{bootstrap.servers} names no broker")
    return BrokersToAsk(addresses, {}, bootstrap.security, answer_s)


async def compare_with_znodes(
    truth: ClusterTruth, brokers: BrokersToAsk, only: int | None, wanted: TopicFilter
) -> MetadataLook:
    """Compare each broker's responses with the znodes; ``only``: one broker id, None for all."""
    look = MetadataLook(truth)
    await _ask_brokers(look, brokers, only, METADATA, partial(_compare_metadata, look, wanted))
    await _compare_replicas(look, brokers, only, wanted)
    return look


async def compare_brokers(
    brokers: BrokersToAsk, only: int | None, wanted: TopicFilter
) -> MetadataLook:
    """Compare each broker's responses with what the brokers agree on.

    ``only``: compare just this broker, None for all.
    """
    responses: dict[int, ReportedMetadata] = {}

    async def keep(broker_id: int, connection: BrokerConnection) -> None:
        responses[broker_id] = answer_of(await ask_metadata(connection))

    look = MetadataLook(agreed({}, wanted))
    await _ask_brokers(look, brokers, None, METADATA, keep)
    look.truth = agreed(responses, wanted)
    for broker_id, response in responses.items():
        if only is None or broker_id == only:
            lacking = sorted(look.truth.topic_ids.keys() - response.topics)
            where = f"{METADATA} of broker {broker_id}"
            found = metadata_differences(look.truth, broker_id, response, lacking, wanted)
            look.take(found, where)
    await _compare_replicas(look, brokers, only, wanted)
    return look


async def _ask_brokers(
    look: MetadataLook,
    brokers: BrokersToAsk,
    only: int | None,
    request: str,
    ask: Callable[[int, BrokerConnection], Awaitable[None]],
) -> None:
    """Run ``ask`` for every broker, a few at a time, and record in ``look`` why one failed."""
    gate = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(broker_id: int, address: BrokerAddress) -> None:
        where = f"{request} of broker {broker_id}"
        async with gate:
            try:
                deadline = Deadline(brokers.answer_s)
                async with connected([address], deadline, brokers.security) as connection:
                    await ask(broker_id, connection)
            except ApiNotKnown as error:
                look.notes[where] = str(error)
            except CommandFailed as error:
                look.not_compared[where] = str(error)
                if isinstance(error, CannotConnect | TimedOut):
                    look.silent.add(broker_id)

    for broker_id, why in brokers.unreachable.items():
        if only in (None, broker_id):
            look.not_compared[f"{METADATA} of broker {broker_id}"] = why
    await asyncio.gather(
        *(
            one(broker_id, address)
            for broker_id, address in sorted(brokers.addresses.items())
            # A broker that could not be reached before is not asked again.
            if only in (None, broker_id) and broker_id not in look.silent
        )
    )


async def _compare_metadata(
    look: MetadataLook, wanted: TopicFilter, broker_id: int, connection: BrokerConnection
) -> None:
    truth = look.truth
    where = f"{METADATA} of broker {broker_id}"
    response = answer_of(await ask_metadata(connection))
    led = {view.topic for view in truth.partitions.values() if view.state is not None}
    lacking = sorted(led - response.topics - truth.deleting) if response.brokers else []
    unknown: tuple[str, ...] = ()
    if lacking:
        if len(lacking) > MOST_NAMED:
            look.not_compared[where] = (
                f"{MOST_NAMED:,} of {len(lacking):,} topics that it does not name are asked for"
            )
        unknown, refused = await lacking_topics(connection, lacking[:MOST_NAMED])
        if refused:
            more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            look.not_compared[where] = f"{refused[0]}{more}"
    look.take(metadata_differences(truth, broker_id, response, unknown, wanted), where)


async def _compare_replicas(
    look: MetadataLook, brokers: BrokersToAsk, only: int | None, wanted: TopicFilter
) -> None:
    """Compare logs, leaders and leader epochs, which brokers have from LeaderAndIsr requests."""
    truth = look.truth

    async def ask_logs(broker_id: int, connection: BrokerConnection) -> None:
        held = await held_replicas(connection)
        where = f"{LOG_DIRS} of broker {broker_id}"
        if not held.is_shown:
            raise Refused("no directory is named: not allowed")
        for log_dir, error in held.failed_dirs.items():
            look.notes[where] = f"{log_dir} failed ({error}), replicas in it are not compared"
        look.take(log_differences(truth, broker_id, held, wanted), where)

    async def ask_epochs(broker_id: int, connection: BrokerConnection) -> None:
        questions = [
            AskedEpoch(view.topic, view.partition, view.state.leader_epoch)
            for view in truth.held_by(broker_id).values()
            # Kafka's brokers do not apply the leader epoch of a leader that they know to be dead.
            if view.state is not None and view.leader_is_live and view.state.leader_epoch >= 0
        ]
        where = f"{EPOCHS} of broker {broker_id}"
        try:
            responses = await epoch_errors(connection, questions)
        except Refused as error:  # before Kafka 2.1 the request has no current leader epoch
            look.notes[where] = str(error)
            return
        hidden = [key for key, code in responses.items() if code in _NOT_AUTHORIZED]
        if hidden:
            topic, partition = hidden[0]
            more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
            code = responses[hidden[0]].name.upper()
            look.not_compared[where] = f"{code} for {topic}-{partition}{more}"
        look.take(epoch_differences(truth, broker_id, responses), where)

    await _ask_brokers(look, brokers, only, LOG_DIRS, ask_logs)
    await _ask_brokers(look, brokers, only, EPOCHS, ask_epochs)
