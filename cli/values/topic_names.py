"""Chooses topics and partitions by names, globs, regular expressions and ranges.

A name with ``*``, ``?`` or ``[`` is a glob, as no topic may have such a name.  With ``--regex``
every name is a regular expression, as ``kafka-topics --topic`` reads it.

Source: Kafka ``TopicFilter.IncludeList`` and ``GetOffsetShell.parseRuleSpec``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final, NamedTuple

from zkcontroller_cli.console.errors import BadUsage, Refused

_GLOB: Final = re.compile(r"[*?\[]")
_RANGE: Final = re.compile(r"(\d{1,10})|(\d{1,10})?-(\d{1,10})?", re.ASCII)
_MOST_PARTITIONS: Final = 1 << 31

# Topics that Kafka itself creates (Topic.INTERNAL_TOPICS); Metadata marks them, znodes do not.
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class ChosenTopics(NamedTuple):
    """The topics that a command line chooses; without names, all topics."""

    names: tuple[str, ...] = ()
    is_regex: bool = False
    is_without_internal: bool = False

    @property
    def exact(self) -> list[str] | None:
        """The names, each once, if none is a pattern; None if all topics must be read.

        Also None if internal topics are left out.
        """
        if not self.names or self.is_regex or self.is_without_internal:
            return None
        if any(map(_GLOB.search, self.names)):
            return None
        return list(dict.fromkeys(self.names))

    def among(self, topics: Iterable[str], *, is_missing_refused: bool) -> list[str]:
        """The chosen ones of ``topics``, in the order of the command line.

        Refused if a name or a pattern matches none and ``is_missing_refused``.
        """
        known = sorted(topics)
        if self.is_without_internal:
            known = [topic for topic in known if topic not in INTERNAL_TOPICS]
        if not self.names:
            return known
        chosen: dict[str, None] = {}
        for name in self.names:
            matches = _matcher(name, is_regex=self.is_regex)
            found = [topic for topic in known if matches.fullmatch(topic)]
            if not found and is_missing_refused:
                is_pattern = self.is_regex or _GLOB.search(name)
                raise Refused(
                    f"no topic matches {name}" if is_pattern else f"there is no topic {name}"
                )
            chosen.update(dict.fromkeys(found))
        return list(chosen)


class PartitionRule(NamedTuple):
    """Chooses the partitions ``low`` to ``high`` (not included) of the topics that match."""

    topic: re.Pattern[str]
    low: int
    high: int

    def takes(self, topic: str, partition: int) -> bool:
        """Whether the partition is chosen."""
        return self.low <= partition < self.high and self.topic.fullmatch(topic) is not None


def parse_partition_rules(text: str, *, is_regex: bool) -> list[PartitionRule]:
    """Parse rules such as ``orders:1,pay*:0-3,returns,audit:5-,:-3``; BadUsage for another form."""
    rules = []
    for item in text.split(","):
        name, colon, numbers = item.strip().partition(":")
        low, high = 0, _MOST_PARTITIONS
        if colon and numbers:
            found = _RANGE.fullmatch(numbers)
            if found is None:
                raise BadUsage(f"{item.strip()!r} is not TOPIC[:P|:P-|:-P|:P-P]")
            one, first, last = found.groups()
            if one is not None:
                low, high = int(one), int(one) + 1
            else:
                low = 0 if first is None else int(first)
                high = _MOST_PARTITIONS if last is None else int(last)
        everything = ".*" if is_regex else "*"
        rules.append(PartitionRule(_matcher(name or everything, is_regex=is_regex), low, high))
    return rules


def parse_partition_ids(text: str) -> frozenset[int]:
    """Parse partition numbers such as ``0,2,5``; BadUsage for another form."""
    items = [item.strip() for item in text.split(",")]
    if not all(item.isascii() and item.isdecimal() and len(item) <= 10 for item in items):
        raise BadUsage(f"{text!r} is not P,P,…")
    return frozenset(map(int, items))


def _matcher(name: str, *, is_regex: bool) -> re.Pattern[str]:
    if not is_regex:
        return re.compile(translate(name))
    # As in Kafka, a comma separates alternatives, and spaces are ignored.
    text = name.replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(text)
    except re.error as error:
        raise BadUsage(f"{name!r} is not a regular expression: {error}") from error
