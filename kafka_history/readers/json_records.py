"""Records that log4j wrote as JSON: JsonLayout, JsonTemplateLayout (ECS, Logstash), Logback.

A line is an object with the time, the level, the logger, the message and perhaps an exception.  It
is rewritten in the default layout, with its time in UTC, because later steps know only that layout.
A time without a zone is not taken: the result would be wrong by hours where brokers are not on UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

_TIMES: Final = ("@timestamp", "timestamp", "time", "ts")
_LEVELS: Final = ("level", "log.level", "severity")
_LOGGERS: Final = ("loggerName", "logger_name", "log.logger", "logger")
_MESSAGES: Final = ("message", "msg")
_TRACES: Final = (
    "stack_trace", "error.stack_trace", "exception.stacktrace", "thrown.extendedStackTrace",
    "exception",
)  # fmt: skip
"""Keys of the layouts; a dot stands for itself, or for an object in an object."""
_LEVEL_NAMES: Final = {
    **{name: name for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")},
    "WARNING": "WARN",
}


def record_of(entry: Mapping[str, Any]) -> str | None:
    """The record in the default layout, with its time in UTC; None: something of it is missing."""
    when = _time(entry)
    level = _LEVEL_NAMES.get(_text(entry, _LEVELS).upper())
    logger, message = _text(entry, _LOGGERS), _text(entry, _MESSAGES)
    if when is None or level is None or not logger or not message:
        return None
    head = f"[{when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03d}] {level} {message} ({logger})"
    return "\n".join([head, *_trace(entry)])


def _time(entry: Mapping[str, Any]) -> datetime | None:
    millis = entry.get("timeMillis")
    seconds, nanos = _at(entry, "instant.epochSecond"), _at(entry, "instant.nanoOfSecond")
    try:
        if isinstance(millis, int):
            return datetime.fromtimestamp(millis // 1000, UTC).replace(
                microsecond=millis % 1000 * 1000
            )
        if isinstance(seconds, int):
            micros = nanos // 1000 if isinstance(nanos, int) else 0
            return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
        when = datetime.fromisoformat(_text(entry, _TIMES))
    except (ValueError, OverflowError, OSError):
        return None
    return None if when.tzinfo is None else when.astimezone(UTC)


def _trace(entry: Mapping[str, Any]) -> Iterator[str]:
    name, reason = _text(entry, ("thrown.name",)), _text(entry, ("thrown.message",))
    if name:
        yield f"{name}: {reason}" if reason else name
    frames = _at(entry, "thrown.extendedStackTrace")
    if isinstance(frames, list):
        for frame in frames:
            if isinstance(frame, dict):
                place = f"{frame.get('file') or 'Unknown Source'}:{frame.get('line')}"
                yield f"\tat {frame.get('class')}.{frame.get('method')}({place})"
        return
    yield from _text(entry, _TRACES).rstrip().splitlines()


def _text(entry: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The first of the keys that holds text; empty if none does."""
    found = (_at(entry, key) for key in keys)
    return next((text for text in found if isinstance(text, str)), "")


def _at(entry: Mapping[str, Any], key: str) -> Any:
    if key in entry:
        return entry[key]
    outer, _, inner = key.partition(".")
    within = entry.get(outer)
    return within.get(inner) if inner and isinstance(within, dict) else None
