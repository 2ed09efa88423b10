"""``zkctl topic offsets``: the first and last offsets of partitions, or their offsets at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, reads, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.values.topic_names import (
    ChosenTopics,
    parse_partition_ids,
    parse_partition_rules,
)

if TYPE_CHECKING:
    from kio.schema.metadata.v12.response import MetadataResponse

    from zkcontroller_cli.wire.requests import Deadline

_RANGE_KEYS: Final = (
    "topic",
    "partition",
    "leader",
    "earliest_offset",
    "latest_offset",
    "offset_count",
    "error",
)
_AT_TIME_KEYS: Final = ("topic", "partition", "leader", "time", "offset", "error")


def _name(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


_RANGES: Final = Layout(_name, _RANGE_KEYS, _RANGE_KEYS)
_AT_TIME: Final = Layout(_name, _AT_TIME_KEYS, _AT_TIME_KEYS)


@click.command("offsets")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option(
    "--time",
    metavar="TIME",
    help="One offset: of the first record of this time or later, in milliseconds since 1970; or "
    "latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5).",
)
@click.option("--partitions", metavar="P,P…", help="Only these partitions of each topic.")
@click.option(
    "--topic-partitions",
    metavar="TOPIC:P,TOPIC:P-P,TOPIC,…",
    help="These topics and ranges of partitions, instead of names; the end is not included.",
)
@click.option("--exclude-internal", is_flag=True, help="Leave Kafka's own topics out.")
@click.option("--regex", "is_regex", is_flag=True, help="TOPIC is a regular expression, no glob.")
@reads
def offsets(
    topics: tuple[str, ...],
    time: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    exclude_internal: bool,
    is_regex: bool,
) -> None:
    """Where the partitions of TOPIC, or of every topic, begin and end, as their leaders say.

    With --time one offset of each partition; null where there is no such record.

    Examples:
      zkctl topic offsets orders
      zkctl topic offsets orders --partitions 0,1 --time earliest
      zkctl topic offsets --topic-partitions 'orders:0-3,payments'
    """
    from zkcontroller_cli.wire.requests import Deadline, run

    if topic_partitions is not None and (topics or partitions is not None):
        raise BadUsage("--topic-partitions says it all: leave TOPIC and --partitions out")
    at = None if time is None else parse_time(time)
    given = settings()
    deadline, bootstrap = Deadline(given.deadline_s), given.bootstrap()
    known, wanted = run(
        _wanted(
            bootstrap,
            deadline,
            ChosenTopics(topics, is_regex, exclude_internal),
            partitions,
            topic_partitions,
        )
    )
    if at is None:
        _show_ranges(given, bootstrap, deadline, known, wanted)
    else:
        _show_at_time(given, bootstrap, deadline, known, wanted, at)


def parse_time(text: str) -> int:
    """Parse a timestamp of ListOffsets, in ms since 1970 or a special name; BadUsage for others."""
    from zkcontroller_cli.wire.logs import (
        EARLIEST,
        EARLIEST_LOCAL,
        LATEST,
        LATEST_TIERED,
        MAX_TIMESTAMP,
    )

    names = {
        "earliest": EARLIEST,
        "latest": LATEST,
        "max-timestamp": MAX_TIMESTAMP,
        "earliest-local": EARLIEST_LOCAL,
        "latest-tiered": LATEST_TIERED,
    }
    if text in names:
        return names[text]
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 19
    number = int(text) if is_number else LATEST_TIERED - 1
    if not LATEST_TIERED <= number < 1 << 63 or (number < 0 and number not in names.values()):
        raise BadUsage(f"{text!r} is not one of {', '.join(names)}, and no milliseconds since 1970")
    return number


async def _wanted(
    bootstrap: Bootstrap,
    deadline: Deadline,
    chosen: ChosenTopics,
    partitions: str | None,
    rules_text: str | None,
) -> tuple[MetadataResponse, list[NamedPartition]]:
    """The Metadata and the chosen partitions; Refused if a topic is missing, or none is chosen."""
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.logs import leaders_in
    from zkcontroller_cli.wire.requests import error_text, visible_metadata

    ids = None if partitions is None else parse_partition_ids(partitions)
    rules = (
        None if rules_text is None else parse_partition_rules(rules_text, is_regex=chosen.is_regex)
    )
    known = await visible_metadata(bootstrap, deadline, chosen.exact)
    for topic in known.topics:
        if topic.error_code is ErrorCode.invalid_topic_exception:
            raise Refused(
                f"{topic.name!r} is not a name that a topic can have; "
                "--topic-partitions takes TOPIC:P"
            )
        missing = topic.error_code is ErrorCode.unknown_topic_or_partition
        if topic.error_code is not ErrorCode.none and not missing:
            raise Refused(f"topic {topic.name}: {error_text(topic.error_code)}")
    leaders = leaders_in(known)
    names = set(chosen.among({each.topic for each in leaders}, is_missing_refused=True))
    wanted = [
        each
        for each in sorted(leaders)
        if each.topic in names
        and (ids is None or each.partition in ids)
        and (rules is None or any(rule.takes(*each) for rule in rules))
    ]
    if not wanted and (ids is not None or rules is not None):
        raise Refused("no partition is chosen; zkctl topic list shows all topics")
    return known, wanted


def _show_ranges(
    given: Settings,
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    wanted: list[NamedPartition],
) -> None:
    from zkcontroller_cli.wire.logs import EARLIEST, LATEST, leaders_in, offsets_at
    from zkcontroller_cli.wire.requests import run

    found = run(offsets_at(bootstrap, deadline, known, wanted, (EARLIEST, LATEST)))
    leaders = leaders_in(known)
    rows = []
    for each in wanted:
        response = found[each]
        first, last = response if isinstance(response, tuple) else (None, None)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "leader": leaders[each],
                "earliest_offset": first,
                "latest_offset": last,
                "offset_count": None if first is None or last is None else last - first,
                "error": response if isinstance(response, str) else None,
            }
        )
    given.renderer.rows(rows, _RANGES)


def _show_at_time(
    given: Settings,
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    wanted: list[NamedPartition],
    time: int,
) -> None:
    from zkcontroller_cli.wire.logs import leaders_in, offsets_at
    from zkcontroller_cli.wire.requests import run

    found = run(offsets_at(bootstrap, deadline, known, wanted, (time,)))
    leaders = leaders_in(known)
    rows = []
    for each in wanted:
        response = found[each]
        offset = response[0] if isinstance(response, tuple) else -1
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "leader": leaders[each],
                "time": time,
                "offset": None if offset < 0 else offset,
                "error": response if isinstance(response, str) else None,
            }
        )
    given.renderer.rows(rows, _AT_TIME)
