"""Deletions of topics: beginning, completion, and what delayed them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.texts import names, shown

BEGUN: Final = frozenset({"delete-starting", "delete-restarted", "delete-handling"})
ENDED: Final = "delete-completed"
BLOCKED: Final = frozenset({
    "delete-halted", "delete-dead-replicas", "delete-failed-replicas", "delete-retry",
})  # fmt: skip
KINDS: Final = BEGUN | {ENDED} | BLOCKED


class DeletedTopic(NamedTuple):
    """One deletion of a topic."""

    topic: str
    from_ms: int
    to_ms: int | None
    """None: not completed."""
    took_ms: int | None
    halts: int
    """Number of lines that say the deletion cannot proceed."""
    blocked_by: str | None
    """The reason in the last of these lines; None: the deletion was not delayed."""
    file: str
    line: int
    end_file: str | None
    end_line: int | None


def topic_deletions(events: Sequence[Event]) -> Iterator[DeletedTopic]:
    """Every deletion; ``events`` must be in order and hold at least those of ``KINDS``.

    Lines after the completion of a deletion belong to the next deletion of that topic.
    """
    going: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        for topic in _topics(event) if event.kind in KINDS else ():
            going[topic].append(event)
            if event.kind == ENDED:
                yield _deletion(topic, going.pop(topic))
    for topic, lines in going.items():
        # Lines about a delay alone do not prove that a deletion was ordered.
        if any(event.kind in BEGUN for event in lines):
            yield _deletion(topic, lines)


def _topics(event: Event) -> list[str]:
    of_one = [topic for topic in (event.topic, event.value("topic")) if topic is not None]
    return list(dict.fromkeys(of_one + names(event.value("topics"))))


def _deletion(topic: str, lines: Sequence[Event]) -> DeletedTopic:
    begin = next((event for event in lines if event.kind in BEGUN), None)
    end = lines[-1] if lines[-1].kind == ENDED else None
    blocks = [event for event in lines if event.kind in BLOCKED]
    first = begin or lines[-1]
    return DeletedTopic(
        topic=topic,
        from_ms=first.time_ms,
        to_ms=end and end.time_ms,
        took_ms=end.time_ms - begin.time_ms if begin and end else None,
        halts=len(blocks),
        blocked_by=_words(blocks[-1]) if blocks else None,
        file=first.file,
        line=first.line,
        end_file=end and end.file,
        end_line=end and end.line,
    )


def _words(event: Event) -> str | None:
    words = (event.value("reason"), event.reason, shown(event.text))
    return next((each for each in words if each is not None), None)
