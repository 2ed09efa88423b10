"""Parses the exception below a log line: its class, message and first frames."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

MESSAGE_CAPACITY: Final = 2_000
"""Characters of an exception's message that are kept."""
FRAMES_KEPT: Final = 3
STACKS_MAX: Final = 1_000
"""Parsed stack traces that are cached, because the same fault has the same trace."""

_CLASS: Final = re.compile(r"[\w$]+(?:\.[\w$]+)+", re.A)
_FRAME: Final = re.compile(r"^\s+at ([^\n(]+)", re.M | re.A)
_LAMBDA: Final = re.compile(r"\$[\w$]*", re.A)
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]+-\d+\b", re.A)
_NUMBER: Final = re.compile(r"\d+", re.A)


class Exceptional(NamedTuple):
    """The columns of the schema that an exception fills."""

    exception_class: str | None
    exception_message: str | None
    exception_frames: tuple[str, ...]
    """Without line numbers and without the names of lambdas."""
    exception_frame_count: int
    """Number of all frames, those of causes included."""
    fingerprint: str | None
    """Class, message without partitions and numbers, and Kafka's first frame; equal faults have
    equal fingerprints."""


def exceptional(trace: bytes) -> Exceptional:
    """Parses the lines below a record's first line."""
    first, _, below = trace.partition(b"\n")
    if _FRAME.match(first.decode(errors="replace")):
        below = trace
    frames, frame_count = _frames(below)
    said = first.decode(errors="replace")
    named = _CLASS.match(said)
    if named is not None:
        said = said[named.end() :].removeprefix(": ")
    message = said[:MESSAGE_CAPACITY] or None
    fingerprint = None
    if named is not None:
        masked = message and _NUMBER.sub("#", _PARTITION.sub("#", message))
        kafka = next((frame for frame in frames if frame.startswith("kafka.")), None)
        parts = (named[0], masked, kafka or (frames[0] if frames else None))
        fingerprint = " | ".join(part for part in parts if part is not None)
    return Exceptional(named and named[0], message, frames, frame_count, fingerprint)


@lru_cache(STACKS_MAX)
def _frames(below: bytes) -> tuple[tuple[str, ...], int]:
    found = _FRAME.findall(below.decode(errors="replace"))
    return tuple(_LAMBDA.sub("", frame) for frame in found[:FRAMES_KEPT]), len(found)
