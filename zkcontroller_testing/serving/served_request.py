"""A request of a client, its path and body checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kafka_common.topic_names import invalid_name_reason
from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.serving.served_clusters import ServedCluster, ServedClusters

BodyT = TypeVar("BodyT", bound=bodies.NoFields | Any)

_MOST_INT32: Final = 2**31 - 1
PATH_PARAMETERS: Final = {
    "cluster": "A cluster's number, from POST /clusters.",
    "broker": "A broker's id.",
    "topic": "A topic's name.",
    "partition": "A partition's number.",
    "fault": "A fault's number, from POST …/delay, …/drop or …/fail.",
    "hold": "A hold's number, from POST …/holds.",
    "ledger": "A ledger's number, from POST …/ledgers.",
    "watch": "A watch's number, from POST …/watches.",
}
"""The names in braces in paths, and their descriptions.  All but ``topic`` are integers."""


@dataclass(frozen=True)
class ServedRequest(Generic[BodyT]):
    """A request whose body or query parameters are checked."""

    clusters: ServedClusters
    path: Mapping[str, str]
    """The texts in the path, by the names in braces."""
    body: BodyT

    def number(self, name: str) -> int:
        """A number of the path; ApiRefusal ``invalid`` if the text is none."""
        text = self.path[name]
        if not (text.isascii() and text.isdecimal() and len(text) <= 10) or int(text) > _MOST_INT32:
            raise refusal("invalid", f"{text[:100]!r} is not from 0 to 2^31 - 1", name)
        return int(text)

    @functools.cached_property
    def cluster(self) -> ServedCluster:
        """The cluster of the path; ApiRefusal unless it is running."""
        return self.clusters.running(self.number("cluster"))

    @property
    def broker(self) -> int:
        """The broker of the path; ApiRefusal ``not_found`` if the cluster has none of this id."""
        broker, known = self.number("broker"), self.cluster.kafka.broker_ids
        if broker not in known:
            raise refusal(
                "not_found", f"there is no broker {broker}, only brokers 1 to {known[-1]}"
            )
        return broker

    @property
    def topic(self) -> str:
        """The topic of the path; ApiRefusal ``invalid`` if it is not a valid topic name."""
        return valid_topic(self.path["topic"], "topic")


def valid_topic(name: str, field: str) -> str:
    """The name; ApiRefusal ``invalid`` if no topic may have it."""
    reason = invalid_name_reason(name)
    if reason is not None:
        raise refusal("invalid", reason, field)
    return name


def check_brokers(request: ServedRequest[Any], field: str, *broker_ids: int | str | None) -> None:
    """Raises ApiRefusal ``invalid`` if a number is not the id of a broker of the cluster."""
    known = request.cluster.kafka.broker_ids
    for each in broker_ids:
        if isinstance(each, int) and each not in known:
            raise refusal("invalid", f"there is no broker {each}, only 1 to {known[-1]}", field)
