"""Finds the format of a file from its beginning: its envelope, and the layout inside.

A format is one word or two.  One word: ``log4j``, ``patterned`` or ``strimzi`` (layouts), ``jsonl``
(our export), or an envelope such as ``prefixed``, with Kafka's default layout inside.  Two words:
an envelope and another layout, such as ``prefixed strimzi``.
"""

from __future__ import annotations

import re
from typing import Final

from kafka_history.readers.envelopes import (
    ENVELOPES,
    JSON_RECORDS,
    envelope_of,
    unknown_prefix,
)
from kafka_history.readers.patterns import Pattern
from kafka_history.readers.record_blocks import is_head

PATTERNED, STRIMZI = "patterned", "strimzi"
STRIMZI_PATTERN: Final = "%d{ISO8601} %p %m (%c) [%t]%n"
"""The default log4j pattern of Strimzi's images."""

_HEAD: Final = re.compile(
    rb"^\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ", re.M
)
_HEAD_SOMEWHERE: Final = re.compile(_HEAD.pattern[1:])
NO_BROKER: Final = "no log of a broker: "
"""Beginning of the reason why a log that another program writes beside a broker's is not read."""
_COLLECTIONS: Final = re.compile(
    rb"^\[20\d\d-[^\]\n]*\](?:\[[^\]\n]*\])*\[gc|^\[\d[\d.]*s\](?:\[[^\]\n]*\])*\[gc"
    rb"|^20\d\d-\S+: [\d.]+: \[(?:Full )?GC ",
    re.M,
)
"""Lines about garbage collections, of Java 8 (``-XX:+PrintGCDateStamps``) and later (JEP 271)."""
_OF_ZOOKEEPER: Final = re.compile(
    rb"\(org\.apache\.zookeeper\.server\.[\w.$]+\)$|^20\d\d-\S+ \S+ \[myid:", re.M
)
_OF_KAFKA: Final = re.compile(
    rb"\b(?:org\.apache\.kafka|state\.change\.logger"
    rb"|kafka\.(?:server|controller|log|cluster|coordinator|network|zk|zookeeper))\b"
)
"""Loggers of Kafka's; a console may have their lines beside those of its JVM."""
_MAGIC: Final = {
    b"PK\x03\x04": "it is an archive; unpack it first, by unzip, and name the folder",
    b"BZh": "it is packed by bzip2; unpack it first, by bunzip2",
    b"\xfd7zXZ\x00": "it is packed by xz; unpack it first, by unxz",
    b"\x04\x22\x4d\x18": "it is packed by lz4; unpack it first, by unlz4",
    b"\x1f\x8b": "it is packed by gzip; give it a name that ends with .gz",
    b"\x28\xb5\x2f\xfd": "it is packed by zstd; give it a name that ends with .zst",
}
"""The first bytes of files that are packed in another way than their suffix says, and advice."""
_OWN: Final = re.compile(rb'^\{"schema_version":\d+,"time_ms":', re.M)


def format_of(beginning: bytes, pattern: Pattern | None) -> tuple[str | None, str | None]:
    """The format of a file and None, or None and why the file cannot be read.

    ``pattern``: the layout of files that are not in the default layout.
    """
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, "it is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8"
    if reason := _packed(beginning):
        return None, reason
    if writer := _other_program(beginning):
        return None, NO_BROKER + writer
    # Search for the literal first, because the regular expression is slow.
    if b'{"schema_version":' in beginning and _OWN.search(beginning):
        return "jsonl", None
    # Try the given pattern first: one like [%d] %p [%t] %m begins like the default layout.
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
    # Choose the layout in which more lines of the file begin a record.
    default, of_strimzi = envelope_of(beginning, is_head), envelope_of(beginning, strimzi.begins)
    if default[0] is not None and default[1] >= of_strimzi[1]:
        return default[0], None
    if of_strimzi[0] is not None:
        return f"{of_strimzi[0]} {STRIMZI}", None
    return None, _why_not(beginning, pattern)


def _packed(beginning: bytes) -> str | None:
    """Why a file cannot be read that is packed or holds other files; None if it does not.

    ``beginning``: as it is behind the suffix ``.gz`` or ``.zst``.
    """
    if beginning[257:262] == b"ustar":
        return "it is an archive; unpack it first, by tar -xf, and name the folder"
    return next((reason for magic, reason in _MAGIC.items() if beginning.startswith(magic)), None)


def _other_program(beginning: bytes) -> str | None:
    """Which program beside a broker has written this; None: Kafka, or one that is not known."""
    if _OF_KAFKA.search(beginning):
        return None
    if _COLLECTIONS.search(beginning):
        return "garbage collections of a JVM"
    return "ZooKeeper's own" if _OF_ZOOKEEPER.search(beginning) else None


def _are_mostly_within(beginning: bytes) -> bool:
    """Whether most heads of records are inside lines, so that the lines have a prefix."""
    at_start = len(_HEAD.findall(beginning))
    return len(_HEAD_SOMEWHERE.findall(beginning)) > 2 * at_start


def _why_not(beginning: bytes, pattern: Pattern | None) -> str:
    # Such a file must be refused: without heads it would be one huge record in memory.
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
    if beginning.startswith(b'{"'):
        return (
            "its lines are JSON, but not of a log4j layout that is known: a time with its zone, a "
            "level, a logger and a message"
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
    """The envelope of a format; None if lines have no envelope."""
    name = form.split(" ")[0]
    return name if name in ENVELOPES else None


def layout_of(form: str) -> str | None:
    """The layout of a format; None if it is Kafka's default layout or our export."""
    name = form.split(" ")[-1]
    return name if name in (PATTERNED, STRIMZI) else None


def is_in_utc(form: str) -> bool:
    """Whether records of the format are rewritten, with their times in UTC."""
    return layout_of(form) is not None or envelope_name(form) == JSON_RECORDS
