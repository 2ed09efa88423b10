"""What ``zkctl doctor`` finds: the evidence, the place of each fault, and the finding of a rule."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafka_history.analyses.rules import Severity

UNCHECKED: Final = "unchecked"
"""The ``severity`` of a rule that could not be checked, because a request failed."""


class Evidence(NamedTuple):
    """Where a fault was seen, a znode or a request to a broker, and what was seen there."""

    where: str
    what: str


class Place(NamedTuple):
    """One place where a rule is broken; ``topic`` and ``partition`` where it concerns one.

    The command of the next step may name these: ``path`` (the znode without the chroot), ``broker``
    (the broker to look at), ``file`` (its server.properties, if it is a stopped broker of the local
    cluster) and ``reordered`` (the partition's replicas in another order, as ``1,3,2``).
    ``is_kraft``: a KRaft controller holds ``/controller``, so that no broker can be elected.
    """

    evidence: Evidence
    topic: str | None = None
    partition: int | None = None
    path: str | None = None
    broker: int | None = None
    file: str | None = None
    reordered: str | None = None
    is_kraft: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies this place in another reading, also when its evidence has changed."""
        if self.topic is None:
            return (self.evidence.where.partition(" at version ")[0],)
        return self.topic, str(self.partition)


class Finding(NamedTuple):
    """One rule that the cluster breaks, with all places where it does."""

    rule: str
    severity: Severity
    title: str
    places: tuple[Place, ...]
    partitions: int
    topics: int
    next_step: str
    command: str
    """``next_step`` as a command line; it asks before it changes anything."""

    def row(self) -> dict[str, Any]:
        """The row that ``doctor`` shows for this finding."""
        return row_of(
            self.rule,
            str(self.severity),
            self.title,
            [place.evidence for place in self.places],
            self.next_step,
            self.command,
            self.partitions,
            self.topics,
        )


def row_of(
    rule: str,
    severity: str,
    title: str,
    evidence: list[Evidence],
    next_step: str,
    command: str,
    partitions: int = 0,
    topics: int = 0,
) -> dict[str, Any]:
    """One row of the result: a finding, or a rule that could not be checked."""
    return {
        "rule": rule,
        "severity": severity,
        "title": title,
        "partition_count": partitions,
        "topic_count": topics,
        "evidence": [each._asdict() for each in evidence],
        "next_step": next_step,
        "command": command,
        "page": page_of(rule),
    }


def page_of(rule: str) -> str:
    """The page and section of the documentation that explain a rule."""
    return f"docs/doctor.md#{rule.lower()}"
