"""Envelopes: what log collectors put around each line, and how to remove it.

``kubectl logs --prefix``, ``docker compose``, the CRI, journald, stern and syslog write a prefix
before each line.  Filebeat, Fluent Bit, Docker and the cloud's consoles put the line into JSON.
Inside are log4j's lines, or records that log4j wrote as JSON (:mod:`.json_records`).  The lines of
one record are put together again by their stream: the pod, service, host or file that wrote them.

The envelope of a file is found from its beginning: it is the first one inside which a record
begins.  An unknown prefix is reported (:func:`unknown_prefix`), because such a file would look like
one endless record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from kafka_history.readers.json_records import record_of

LINES_MAX: Final = 2_000
"""Lines at the beginning of a file that are examined."""


class Inside(NamedTuple):
    """One line without its envelope."""

    stream: bytes
    """The writer, such as a pod; the lines of a record have the same stream. Empty: no name."""
    text: bytes
    goes_on: bool = False
    """True: the collector cut the line; the rest is in the next line of the stream."""


Unwrap = Callable[[bytes], Inside]

_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]*m")
_PREFIX: Final = re.compile(
    rb"(?:\[(pod/[^\]]+)\] )?(?:(\S+) +\| ?)?(?:\d{4}-\d\d-\d\dT\S+ (?:std(?:out|err) ([FP]) )?)?"
    rb"(?:[A-Z][a-z]{2} +\d+ [\d:.]+ (\S+) [^\s:]+: ?)?(?:(\S+) [\w.@-]+\[\d+\]: ?)?"
)
"""Prefixes of kubectl --prefix, docker compose, --timestamps of both, the CRI and journald."""
_RFC_5424: Final = re.compile(
    rb"(?:<\d{1,3}>)?1 (?:\d{4}-\d\d-\d\dT\S+|-) (\S+) (\S+) \S+ \S+ "
    rb"(?:-|(?:\[(?:[^\]\\\"]|\\.|\"(?:[^\"\\]|\\.)*\")*\])+) ?(?:\xef\xbb\xbf)?"
)
_RFC_3164: Final = re.compile(
    rb"<\d{1,3}>(?:[A-Z][a-z]{2} +\d+ [\d:.]+|\d{4}-\d\d-\d\dT\S+) (\S+) ([^\s:\[]+)(?:\[\d+\])?: ?"
)
_STERN: Final = rb"([a-z0-9][a-z0-9.-]*(?: [a-z0-9][a-z0-9.-]*){%d}) (?:\d{4}-\d\d-\d\dT\S+ )?"


def _prefixed(line: bytes) -> Inside:
    match = _PREFIX.match(line)
    assert match is not None, "every part of it may be missing"
    pod, service, whole, host, unit_host = match.groups()
    stream = b"".join(group or b"" for group in (pod, service, host, unit_host))
    return Inside(stream, line[match.end() :], whole == b"P")


def _behind(pattern: bytes | re.Pattern[bytes]) -> Unwrap:
    """A function that removes a prefix; a line without it stays whole, with no stream."""
    compiled = re.compile(pattern)

    def unwrap(line: bytes) -> Inside:
        match = compiled.match(line)
        if match is None:
            return Inside(b"", line)
        return Inside(b" ".join(match.groups()), line[match.end() :])

    return unwrap


_TEXTS: Final = ("log", "message", "msg", "line", "MESSAGE", "_raw", "@message", "textPayload")
"""JSON keys that hold the line, of Docker and Fluent Bit, Filebeat and stern, Loki, journald,
Splunk, CloudWatch and Google."""
_SPEAKERS: Final = (
    ("kubernetes", "pod_name"), ("kubernetes", "pod", "name"), ("podName",), ("pod",),
    ("container_name",), ("container", "name"), ("container_id",), ("host", "name"), ("host",),
    ("hostname",), ("_HOSTNAME",), ("log", "file", "path"), ("file",), ("filename",),
)  # fmt: skip
_DOCKERS: Final = {"log", "stream", "time"}
_DOCKERS_MAX: Final = 16_000
"""Docker cuts lines at 16 KiB; with characters of several bytes that is fewer characters."""


def _json(line: bytes) -> Inside:
    entry = _object(line)
    if isinstance(entry.get("_source"), dict):
        entry = entry["_source"]  # a dump of Elasticsearch
    text = _text(entry)
    if text is None:
        return Inside(b"", line)
    stream = " ".join(_speakers(entry))
    # Docker's own file keeps the newline at the end of a line, except where it cut a long line.
    is_cut = entry.get("logtag") == "P" or (
        entry.keys() - {"attrs"} <= _DOCKERS
        and len(text) >= _DOCKERS_MAX
        and not text.endswith("\n")
    )
    return Inside(stream.encode(), text.rstrip("\r\n").encode(), is_cut)


def _json_record(line: bytes) -> Inside:
    """A record that log4j wrote as JSON, by itself or in one of the envelopes around it."""
    outer = _prefixed(line)
    entry = _object(outer.text)
    # The object itself, or one that a collector has put into it.
    around = entry, entry.get("_source"), entry.get("json"), _object(_text(entry) or "")
    records = (record_of(inner) for inner in around if isinstance(inner, dict))
    record = next((found for found in records if found is not None), None)
    if record is None:
        return Inside(b"", line)
    return Inside(" ".join(_speakers(entry)).encode() or outer.stream, record.encode())


def _object(text: bytes | str) -> dict[str, Any]:
    """The JSON object that the text is; empty if it is none."""
    try:
        entry = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _speakers(entry: Mapping[str, Any]) -> Iterator[str]:
    found = (_at(entry, path) for path in _SPEAKERS)
    return (name for name in found if isinstance(name, str))


def _text(entry: Mapping[str, Any]) -> str | None:
    return next((entry[key] for key in _TEXTS if isinstance(entry.get(key), str)), None)


def _at(entry: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


JSON_RECORDS: Final = "json-records"
"""The envelope whose records are rewritten, with their times in UTC."""
ENVELOPES: Final[Mapping[str, Unwrap]] = {
    "prefixed": _prefixed,
    "json": _json,
    JSON_RECORDS: _json_record,
    "syslog": _behind(_RFC_5424),
    "syslog-bsd": _behind(_RFC_3164),
    "stern": _behind(_STERN % 1),
    "stern-namespaces": _behind(_STERN % 2),
}
"""The envelopes by the name that is used in the format of a file."""


def without_colours(line: bytes) -> bytes:
    """The line without the escape codes for colours of a terminal."""
    return _COLOURS.sub(b"", line) if b"\x1b[" in line else line


def envelope_of(beginning: bytes, begins: Callable[[bytes], bool]) -> tuple[str | None, int]:
    """The envelope of a file, and the number of records that begin in it; None and 0: none fits.

    ``begins``: returns whether a record begins with a line.
    """
    lines = list(map(without_colours, beginning.split(b"\n")[:LINES_MAX]))
    for name, unwrap in ENVELOPES.items():
        texts = (unwrap(line).text for line in lines)
        count = sum(text != line and begins(text) for text, line in zip(texts, lines, strict=True))
        if count:
            return name, count
    return None, 0


def unknown_prefix(beginning: bytes, head: re.Pattern[bytes]) -> str | None:
    """The text before the first ``head`` that is inside a line; None: there is none."""
    for line in beginning.split(b"\n")[:LINES_MAX]:
        found = head.search(line)
        if found is not None and found.start():
            return line[: found.start()].decode(errors="replace")
    return None
