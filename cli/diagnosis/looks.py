"""What earlier looks of ``zkctl doctor`` saw, and the rules that need them.

``--watch`` remembers its looks, ``--save FILE`` keeps one for a later ``--since FILE``.  One look
alone cannot show that an epoch went back, or that the controller changed twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from zkcontroller.zookeeper.znodes import ControllerEpochZnode, PartitionStateZnode
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.tables import moment_text
from zkcontroller_cli.diagnosis.findings import Evidence, Finding, Place
from zkcontroller_cli.znodes.topics import topic_id_text

if TYPE_CHECKING:
    from zkcontroller_cli.diagnosis.reading import ClusterReading

CHANGES_WITHIN_S: Final = 600
"""More than one change of the controller within this many seconds breaks rule C03."""
MOST_EPOCHS: Final = 1000
"""The most changes of the controller epoch that are remembered."""
SILENCE_GAP_MS: Final = 15_000
"""Two unanswered requests to a broker this close in time count as one silence."""
_VERSION: Final = 1


class SeenBroker(NamedTuple):
    """A registered broker: its epoch, and the address at which ``zkctl`` asked it."""

    broker_epoch: int
    host: str
    port: int


class Silence(NamedTuple):
    """The time in which a broker did not answer, in milliseconds since 1970.

    From the first unanswered request to the end of the wait for the last one.
    """

    since_ms: int
    until_ms: int

    def joined(self, earlier: Silence | None) -> Silence:
        """This silence, together with the earlier one if at most SILENCE_GAP_MS lie between."""
        if earlier is None or self.since_ms - earlier.until_ms > SILENCE_GAP_MS:
            return self
        return Silence(earlier.since_ms, self.until_ms)


class TopicEpochs(NamedTuple):
    """The leader epochs of one topic by partition.

    ``topic_id`` tells a topic from a later one with the same name; None if it has no id.
    """

    topic_id: str | None
    leader_epochs: dict[int, int]


@dataclass(frozen=True)
class Look:
    """The part of one look at a cluster that later looks need."""

    at_ms: int
    cluster_id: str | None
    controller_id: int | None
    controller_epoch: int | None
    epochs: tuple[tuple[int, int], ...]
    """When each controller epoch was first seen (ms since 1970), and that epoch."""
    brokers: Mapping[int, SeenBroker]
    topics: Mapping[str, TopicEpochs]
    longest_answers_ms: Mapping[int, int]
    places: frozenset[tuple[str, ...]]
    """The rule and the key of every place that was found."""
    silences: Mapping[int, Silence] = field(default_factory=dict)
    """By broker; not saved to a file, as nothing is known of the time between two commands."""

    def followed_by(self, later: Look) -> Look:
        """The later look, with the highest epochs and the longest answers of both."""
        topics = dict(later.topics)
        for name, seen in self.topics.items():
            now = topics.get(name)
            if now is not None and now.topic_id == seen.topic_id:
                highest = {
                    partition: max(epoch, seen.leader_epochs.get(partition, -1))
                    for partition, epoch in now.leader_epochs.items()
                }
                topics[name] = TopicEpochs(now.topic_id, highest)
        mine, its = self.controller_epoch, later.controller_epoch
        went_back = mine is not None and (its is None or its < mine)
        epochs = self.epochs
        if its is not None and not went_back and (not epochs or epochs[-1][1] != its):
            epochs = (*epochs, (later.at_ms, its))[-MOST_EPOCHS:]
        responses = dict(self.longest_answers_ms)
        for broker, longest_ms in later.longest_answers_ms.items():
            responses[broker] = max(longest_ms, responses.get(broker, 0))
        return replace(
            later,
            controller_id=self.controller_id if went_back else later.controller_id,
            controller_epoch=mine if went_back else its,
            epochs=epochs,
            topics=topics,
            brokers={**self.brokers, **later.brokers},
            longest_answers_ms=responses,
        )


def look_at(reading: ClusterReading, found: Iterable[Finding], at_ms: int) -> Look:
    """The look to keep of a reading and its findings."""
    topics = {
        topic.topic: TopicEpochs(topic_id_text(topic.topic_id), {}) for topic in reading.topics
    }
    for view in reading.partitions:
        if view.state is not None:
            topics[view.topic].leader_epochs[view.partition] = view.state.leader_epoch
    epoch = reading.controller_epoch
    return Look(
        at_ms,
        reading.cluster_id,
        None if reading.controller is None else reading.controller.broker_id,
        epoch,
        () if epoch is None else ((at_ms, epoch),),
        {
            broker_id: SeenBroker(registration.broker_epoch, *address)
            for broker_id, registration in reading.registrations.items()
            if (address := registration.address_by(reading.security_protocol)) is not None
        },
        topics,
        dict(reading.longest_answers_ms),
        frozenset((each.rule, *place.key) for each in found for place in each.places),
        dict(reading.silences),
    )


def save(look: Look, path: Path) -> None:
    """Write a look to a file atomically; Refused if that fails."""
    content = {
        "version": _VERSION,
        "at_ms": look.at_ms,
        "cluster_id": look.cluster_id,
        "controller_id": look.controller_id,
        "controller_epoch": look.controller_epoch,
        "epochs": look.epochs,
        "brokers": {str(id_): list(broker) for id_, broker in look.brokers.items()},
        "topics": {
            name: {
                "topic_id": seen.topic_id,
                "partitions": list(seen.leader_epochs),
                "leader_epochs": list(seen.leader_epochs.values()),
            }
            for name, seen in look.topics.items()
        },
        "longest_answers_ms": {str(id_): ms for id_, ms in look.longest_answers_ms.items()},
        "places": sorted(look.places),
    }
    draft = path.with_name(f"{path.name}.tmp")
    try:
        draft.write_bytes(orjson.dumps(content))
        os.replace(draft, path)
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from error


def load(path: Path) -> Look:
    """Read a look from a file; BadUsage if the file does not hold one."""
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise BadUsage(f"--since {path}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise BadUsage(f"--since {path} was not written by zkctl doctor --save: {error}") from error
    try:
        return _look_of(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadUsage(
            f"--since {path} was not written by zkctl doctor --save: {error!r}"
        ) from error


def _look_of(content: Any) -> Look:
    if content["version"] != _VERSION:
        raise ValueError(f"version {content['version']}")
    epoch, controller = content["controller_epoch"], content["controller_id"]
    return Look(
        int(content["at_ms"]),
        content["cluster_id"],
        None if controller is None else int(controller),
        None if epoch is None else int(epoch),
        tuple((int(at_ms), int(each)) for at_ms, each in content["epochs"]),
        {
            int(id_): SeenBroker(int(broker_epoch), str(host), int(port))
            for id_, (broker_epoch, host, port) in content["brokers"].items()
        },
        {
            str(name): TopicEpochs(
                seen["topic_id"], dict(zip(seen["partitions"], seen["leader_epochs"], strict=True))
            )
            for name, seen in content["topics"].items()
        },
        {int(id_): int(ms) for id_, ms in content["longest_answers_ms"].items()},
        frozenset(tuple(map(str, place)) for place in content["places"]),
    )


# The rules that compare with an earlier look.


def epoch_went_back(reading: ClusterReading) -> Iterator[Place]:
    """C02: ``/controller_epoch`` is smaller than it was, or one epoch has two controllers."""
    then, now = reading.earlier, reading.controller_epoch
    if then is None or then.controller_epoch is None:
        return
    path = ControllerEpochZnode.PATH
    seen = f"{then.controller_epoch} was seen by {moment_text(then.at_ms)}"
    if now is None or now < then.controller_epoch:
        shown = "nothing that can be read" if now is None else str(now)
        yield Place(Evidence(reading.at(path), f"holds {shown}; {seen}"), path=path)
        return
    controller = None if reading.controller is None else reading.controller.broker_id
    if (
        now == then.controller_epoch
        and None not in (controller, then.controller_id)
        and controller != then.controller_id
    ):
        what = f"epoch {now} belongs to broker {controller}; broker {then.controller_id} had it"
        yield Place(Evidence(reading.at(path), what), path=path)


def changed_too_often(reading: ClusterReading) -> Iterator[Place]:
    """C03: the controller epoch rose so often that two changes lie within ten minutes."""
    then, now = reading.earlier, reading.controller_epoch
    if then is None or now is None:
        return
    for at_ms, epoch in reversed(then.epochs):
        passed_s = max(0.0, (reading.at_ms - at_ms) / 1000)
        # The most changes that fit into the time if they are at least ten minutes apart.
        if now - epoch > passed_s // CHANGES_WITHIN_S + 1:
            path = ControllerEpochZnode.PATH
            what = f"holds {now}; {passed_s:.0f} s ago it held {epoch}"
            yield Place(Evidence(reading.at(path), what), path=path)
            return


def leader_epoch_went_back(reading: ClusterReading) -> Iterator[Place]:
    """P07: a partition's leader epoch is smaller than it was, in the same topic."""
    then = reading.earlier
    if then is None:
        return
    ids = {topic.topic: topic_id_text(topic.topic_id) for topic in reading.topics}
    for view in reading.partitions:
        seen = then.topics.get(view.topic)
        if seen is None or view.state is None or seen.topic_id != ids[view.topic]:
            continue
        before = seen.leader_epochs.get(view.partition, -1)
        if view.state.leader_epoch < before:
            path = PartitionStateZnode.path(view.topic, view.partition)
            where = f"{reading.full(path)} at version {view.zk_version}"
            what = f"leader epoch {view.state.leader_epoch}; {before} was seen before"
            yield Place(Evidence(where, what), view.topic, view.partition, path)
