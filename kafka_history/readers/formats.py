"""What a file holds, found out from its beginning: its envelope, and the layout inside.

A format is a word or two: ``log4j``, ``patterned`` or ``strimzi`` (layouts), ``jsonl`` (our
export), an envelope such as ``prefixed`` with log4j's default layout in it, or an envelope and a
layout, ``prefixed strimzi``.
"""

from __future__ import annotations

import re
from typing import Final

from kafka_history.readers.envelopes import ENVELOPES, envelope_of, unknown_prefix
from kafka_history.readers.patterns import Pattern
from kafka_history.readers.record_blocks import is_head

PATTERNED, STRIMZI = "patterned", "strimzi"
STRIMZI_PATTERN: Final = "%d{ISO8601} %p %m (%c) [%t]%n"
"""What Strimzi's images log with, unless its user says otherwise."""

_HEAD: Final = re.compile(
    rb"^\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ", re.M
)
_HEAD_SOMEWHERE: Final = re.compile(_HEAD.pattern[1:])
_OWN: Final = re.compile(rb'^\{"schema_version":\d+,"time_ms":', re.M)


def format_of(beginning: bytes, pattern: Pattern | None) -> tuple[str | None, str | None]:
    """The format of a file, or None and why it cannot be read.

    ``pattern``: what files look like that are not in the default layout.
    """
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, "it is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
    # The first is what takes long to search for.
    if b'{"schema_version":' in beginning and _OWN.search(beginning):
        return "jsonl", None
    # What was asked for comes first: [%d] %p [%t] %m begins like the default layout.
    if pattern is not None and pattern.is_of(beginning):
        return PATTERNED, None
    if not beginning or (_HEAD.search(beginning) and not _are_mostly_within(beginning)):
        return "log4j", None
    strimzi = Pattern(STRIMZI_PATTERN)
    if strimzi.is_of(beginning):
        return STRIMZI, None
    if b"\0" in beginning:
        return None, "it is binary, not a log"
    asked_for = (None, 0) if pattern is None else envelope_of(beginning, pattern.begins)
    if asked_for[0] is not None:
        return f"{asked_for[0]} {PATTERNED}", None
    # What most of the services log whose lines are here.
    default, of_strimzi = envelope_of(beginning, is_head), envelope_of(beginning, strimzi.begins)
    if default[0] is not None and default[1] >= of_strimzi[1]:
        return default[0], None
    if of_strimzi[0] is not None:
        return f"{of_strimzi[0]} {STRIMZI}", None
    return None, _why_not(beginning, pattern)


def _are_mostly_within(beginning: bytes) -> bool:
    """Whether more heads stand within lines than begin one: a few lines lack the prefix."""
    at_start = len(_HEAD.findall(beginning))
    return len(_HEAD_SOMEWHERE.findall(beginning)) > 2 * at_start


def _why_not(beginning: bytes, pattern: Pattern | None) -> str:
    # Without a head to split at, all of it would be one record, and take a worker's memory.
    prefix = unknown_prefix(beginning, _HEAD_SOMEWHERE)
    if prefix is not None:
        return (
            f"its lines begin with something that is not known: {prefix[:80]!r}; cut it off first, "
            r"for instance with sed -E 's/^.*(\[20[0-9]{2}-)/\1/'"
        )
    for layout in (pattern, Pattern(STRIMZI_PATTERN)):
        prefix = None if layout is None else unknown_prefix(beginning, layout.head)
        if prefix:
            return (
                f"its lines begin with something that is not known: {prefix[:80]!r}; cut it off "
                "first"
            )
    if pattern is not None:
        return (
            f"no line of it fits the pattern {pattern.text!r}, or begins like log4j's [date] LEVEL"
        )
    return (
        "no line of it begins like log4j's [date] LEVEL: is the pattern another one? "
        "ingest takes --pattern"
    )


def envelope_name(form: str) -> str | None:
    """The envelope of a format; None if lines stand there by themselves."""
    name = form.split(" ")[0]
    return name if name in ENVELOPES else None


def layout_of(form: str) -> str | None:
    """The layout of a format; None if it is log4j's default one, or our export."""
    name = form.split(" ")[-1]
    return name if name in (PATTERNED, STRIMZI) else None
