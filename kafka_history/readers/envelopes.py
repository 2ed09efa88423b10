"""What collectors of logs put around each line, and how it comes off.

``kubectl logs --prefix``, ``docker compose``, the CRI, journald, stern and syslog write something
before each line; Filebeat, Fluent Bit, Docker and the cloud's consoles put it into JSON.  What is
inside is log4j's, with exceptions of several lines, whose lines are put together again by the one
who speaks: a pod, a service, a host, a file.

Which envelope a file has is learnt from its beginning: the first that comes off so that a record
begins.  What comes off in no known way is said so (:func:`unknown_prefix`), because such a file
would otherwise look like one record without an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

LINES_MAX: Final = 2_000
"""So many lines of a file's beginning are looked at."""


class Inside(NamedTuple):
    """One line, out of its envelope."""

    stream: bytes
    """Who speaks; lines of one stream belong together."""
    text: bytes
    goes_on: bool = False
    """The collector cut the line here, and its rest comes with the stream's next one."""


Unwrap = Callable[[bytes], Inside]

_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]*m")
_PREFIX: Final = re.compile(
    rb"(?:\[(pod/[^\]]+)\] )?(?:(\S+) +\| ?)?(?:\d{4}-\d\d-\d\dT\S+ (?:std(?:out|err) ([FP]) )?)?"
    rb"(?:[A-Z][a-z]{2} +\d+ [\d:.]+ (\S+) [^\s:]+: ?)?(?:(\S+) [\w.@-]+\[\d+\]: ?)?"
)
"""kubectl --prefix, docker compose, --timestamps of both, the CRI, journald short and short-iso."""
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
    """What stands behind a prefix; a line without it is all text."""
    compiled = re.compile(pattern)

    def unwrap(line: bytes) -> Inside:
        match = compiled.match(line)
        if match is None:
            return Inside(b"", line)
        return Inside(b" ".join(match.groups()), line[match.end() :])

    return unwrap


_TEXTS: Final = ("log", "message", "msg", "line", "MESSAGE", "_raw", "@message", "textPayload")
"""Where the collectors keep the line: Docker and Fluent Bit, Filebeat and stern, Loki, journald,
Splunk, CloudWatch, Google."""
_SPEAKERS: Final = (
    ("kubernetes", "pod_name"), ("kubernetes", "pod", "name"), ("podName",), ("pod",),
    ("container_name",), ("container", "name"), ("container_id",), ("host", "name"), ("host",),
    ("hostname",), ("_HOSTNAME",), ("log", "file", "path"), ("file",), ("filename",),
)  # fmt: skip
_DOCKERS: Final = {"log", "stream", "time"}
_DOCKERS_MAX: Final = 16_000
"""Docker cuts lines at 16 KiB; characters of several bytes make that fewer of them."""


def _json(line: bytes) -> Inside:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return Inside(b"", line)
    if isinstance(entry, dict) and isinstance(entry.get("_source"), dict):
        entry = entry["_source"]  # a dump of Elasticsearch
    text = _text(entry) if isinstance(entry, dict) else None
    if text is None:
        return Inside(b"", line)
    speakers = (_at(entry, path) for path in _SPEAKERS)
    stream = " ".join(name for name in speakers if isinstance(name, str))
    # Docker's own file keeps the newline, and has none where it cut a long line.
    is_cut = entry.get("logtag") == "P" or (
        entry.keys() - {"attrs"} <= _DOCKERS
        and len(text) >= _DOCKERS_MAX
        and not text.endswith("\n")
    )
    return Inside(stream.encode(), text.rstrip("\r\n").encode(), is_cut)


def _text(entry: Mapping[str, Any]) -> str | None:
    return next((entry[key] for key in _TEXTS if isinstance(entry.get(key), str)), None)


def _at(entry: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


ENVELOPES: Final[Mapping[str, Unwrap]] = {
    "prefixed": _prefixed,
    "json": _json,
    "syslog": _behind(_RFC_5424),
    "syslog-bsd": _behind(_RFC_3164),
    "stern": _behind(_STERN % 1),
    "stern-namespaces": _behind(_STERN % 2),
}
"""By the name that stands in a file's format."""


def without_colours(line: bytes) -> bytes:
    """The line as it was before a terminal's colours were put in."""
    return _COLOURS.sub(b"", line) if b"\x1b[" in line else line


def envelope_of(beginning: bytes, begins: Callable[[bytes], bool]) -> tuple[str | None, int]:
    """The envelope out of which a record comes, and how many come; None and 0 if there is none.

    ``begins``: whether a record begins with a line.
    """
    lines = list(map(without_colours, beginning.split(b"\n")[:LINES_MAX]))
    for name, unwrap in ENVELOPES.items():
        texts = (unwrap(line).text for line in lines)
        count = sum(text != line and begins(text) for text, line in zip(texts, lines, strict=True))
        if count:
            return name, count
    return None, 0


def unknown_prefix(beginning: bytes, head: re.Pattern[bytes]) -> str | None:
    """What stands before the first record that ``head`` finds within a line; None: nothing."""
    for line in beginning.split(b"\n")[:LINES_MAX]:
        found = head.search(line)
        if found is not None and found.start():
            return line[: found.start()].decode(errors="replace")
    return None
