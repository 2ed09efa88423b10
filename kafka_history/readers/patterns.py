"""Logs in another layout than Kafka's default one: a log4j conversion pattern as a regex.

Kafka's own ``log4j.properties`` has ``[%d] %p %m (%c)%n``.  A user with another layout gives its
pattern to ``--pattern``, in the syntax of log4j 1 (reload4j) or 2.  A record in such a layout is
rewritten in the default layout, with its time in UTC, because later steps know only that layout.

A line begins a record if it matches the pattern up to the message.  The lines below it belong to
the message, until a line looks like the trace of an exception.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Final

from kafka_history.readers.log_times import zone_of
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.shapes.catalogue import shapes

DEFAULT_PATTERN: Final = "[%d] %p %m (%c)%n"

_CONVERSION: Final = re.compile(r"%(-?\d*)(?:\.(-?\d+))?([A-Za-z]+)((?:\{[^}]*\})*)|%%")
_NAMES: Final = {
    "d": "time", "date": "time",
    "p": "level", "level": "level", "le": "level",
    "c": "logger", "logger": "logger", "lo": "logger",
    "m": "message", "msg": "message", "message": "message",
    "n": "end",
    "t": "thread", "thread": "thread", "tn": "thread", "threadName": "thread",
    "X": "context", "mdc": "context", "MDC": "context",
    "x": "stack", "NDC": "stack",
    "r": "number", "relative": "number", "L": "number", "line": "number", "pid": "number",
    "M": "place", "method": "place", "F": "place", "file": "place", "C": "place", "class": "place",
    "l": "location", "location": "location",
    "ex": "nothing", "throwable": "nothing", "exception": "nothing",
    "xEx": "nothing", "xThrowable": "nothing", "xException": "nothing",
    "rEx": "nothing", "rThrowable": "nothing", "rException": "nothing",
}  # fmt: skip
"""The meaning of each conversion of log4j 1 and 2; exceptions are below the line: ``nothing``."""
_TEXTS: Final = {
    "level": "(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)",
    "logger": r"(?P<logger>[\w.$-]+)",
    "message": "(?P<message>.*)",
    "thread": ".*?",
    "context": r"(?:\{[^}]*\})?",
    "context of a key": r"\S*?",
    "stack": ".*?",
    "number": r"-?\d+",
    "place": r"[^\s:()]+",
    "location": r".*?",
    "end": "",
    "nothing": "",
}
_NEEDED: Final = {"time": "%d", "level": "%p", "logger": "%c", "message": "%m"}
_NAMED_DATES: Final = {
    "": "yyyy-MM-dd HH:mm:ss,SSS",
    "ISO8601": "yyyy-MM-dd HH:mm:ss,SSS",
    "DEFAULT": "yyyy-MM-dd HH:mm:ss,SSS",
    "ISO8601_PERIOD": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "ISO8601_BASIC": "yyyyMMdd'T'HHmmss,SSS",
    "ISO8601_OFFSET_DATE_TIME_HH": "yyyy-MM-dd'T'HH:mm:ss,SSSX",
    "ISO8601_OFFSET_DATE_TIME_HHMM": "yyyy-MM-dd'T'HH:mm:ss,SSSZ",
    "ISO8601_OFFSET_DATE_TIME_HHCMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXXX",
    "DATE": "dd MMM yyyy HH:mm:ss,SSS",
    "COMPACT": "yyyyMMddHHmmssSSS",
    "UNIX": "UNIX",
    "UNIX_MILLIS": "UNIX_MILLIS",
}
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip
_OFFSET: Final = r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?)"
_FIELDS: Final = {
    "yyyy": r"(?P<year>\d{4})", "uuuu": r"(?P<year>\d{4})", "yy": r"(?P<short_year>\d\d)",
    "MM": r"(?P<month>\d\d)", "M": r"(?P<month>\d\d?)",
    "MMM": f"(?P<month_name>{'|'.join(_MONTHS)})",
    "dd": r"(?P<day>\d\d)", "d": r"(?P<day>\d\d?)",
    "HH": r"(?P<hour>\d\d)", "H": r"(?P<hour>\d\d?)",
    "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)",
    "S": r"(?P<fraction>\d{1,3})", "SSS": r"(?P<fraction>\d{3})",
    "SSSSSS": r"(?P<fraction>\d{6})", "SSSSSSSSS": r"(?P<fraction>\d{9})",
    "n": r"(?P<fraction>\d{9})", "nnnnnnnnn": r"(?P<fraction>\d{9})",
    "EEE": "[A-Z][a-z]{2}", "E": "[A-Z][a-z]{2}", "EEEE": "[A-Z][a-z]{2,8}",
    "Z": _OFFSET, "X": _OFFSET, "XX": _OFFSET, "XXX": _OFFSET, "ZZ": _OFFSET, "ZZZ": _OFFSET,
}  # fmt: skip
"""The regular expression for each field of a ``SimpleDateFormat`` pattern."""
_DATE_NEEDED: Final = (
    {"year", "short_year"}, {"month", "month_name"}, {"day"}, {"hour"}, {"minute"}, {"second"},
)  # fmt: skip
_CLASSES: Final = {
    "kafka.common": "ZkNodeChangeNotificationListener",
    "kafka.coordinator.group": "GroupCoordinator GroupMetadataManager",
    "kafka.coordinator.transaction":
        "ProducerIdManager TransactionCoordinator TransactionMarkerChannelManager "
        "TransactionStateManager",
    "kafka.log": "LocalLog LogCleaner LogCleanerManager LogLoader LogManager UnifiedLog",
    "kafka.network":
        "Acceptor ConnectionQuotas ControlPlaneAcceptor DataPlaneAcceptor Processor RequestChannel "
        "SocketServer",
    "kafka.server":
        "AddPartitionsToTxnManager BrokerTopicStats ClientQuotaManager DelayedOperationPurgatory "
        "FinalizedFeatureChangeListener KafkaRequestHandlerPool NodeToControllerChannelManagerImpl "
        "NodeToControllerRequestThread ZkAlterPartitionManager",
    "kafka.utils": "Log4jControllerRegistration",
    "org.apache.kafka.common.metrics": "Metrics",
    "org.apache.kafka.common.utils": "AppInfoParser",
    "org.apache.kafka.server.util": "KafkaScheduler",
    "org.apache.kafka.storage.internals.epoch": "LeaderEpochFileCache",
    "org.apache.kafka.storage.internals.log":
        "LogDirFailureChannel LogSegment ProducerStateManager SnapshotFile",
}  # fmt: skip
"""Loggers of Kafka 3.9 that shapes contain only as a pattern with ``*``."""
_MOVED: Final = {"KafkaScheduler", "LeaderEpochFileCache", "LogDirFailureChannel"}
_AUDIT: Final = b"Principal = "
_TRACE: Final = re.compile(
    rb"(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable)\b|\s+at [\w.$/<>@-]+\(|Caused by: "
)


class Pattern:
    """A layout, given as a log4j conversion pattern.

    Raises:
        HistoryInvalid: a conversion of it is not supported, or it leaves out what is needed.
    """

    def __init__(self, text: str, time_zone: str = "UTC") -> None:
        self.text = text
        self._zone = zone_of(time_zone)
        parts, names = self._parts()
        missing = [sign for name, sign in _NEEDED.items() if name not in names]
        if missing:
            raise HistoryInvalid(
                f"pattern {text!r} lacks {', '.join(missing)}: a line that says neither when nor "
                "who nor what proves nothing"
            )
        twice = [sign for name, sign in _NEEDED.items() if names.count(name) > 1]
        if twice:
            raise HistoryInvalid(f"pattern {text!r} has {', '.join(twice)} twice")
        whole = "".join(parts)
        before = whole[: whole.index(_TEXTS["message"])]
        try:
            self._line = re.compile(whole.encode())
            # In a record with a message of several lines, the text after %m is on the last line.
            self._whole = re.compile(whole.encode(), re.DOTALL)
            has_time = "time" in names[: names.index("message")]
            self.head = re.compile(before.encode()) if has_time else self._line
            """The pattern up to the message; the whole line if the time comes after the message."""
        except re.error as error:
            raise HistoryInvalid(f"pattern {text!r}: something is there twice: {error}") from None

    def begins(self, line: bytes) -> bool:
        """Whether a record begins with this line, which has no newline."""
        return self.head.match(line) is not None

    def is_of(self, beginning: bytes) -> bool:
        """Whether some line of a file's beginning is a record of this layout."""
        lines = (line.rstrip(b"\r") for line in beginning.split(b"\n"))
        return any(map(self._line.fullmatch, lines))

    def rewritten(self, record: bytes) -> bytes:
        """The record in the default layout, without its first ``[20``; unchanged if no match."""
        first, newline, below = record.partition(b"\n")
        match = self._line.fullmatch(first.rstrip(b"\r"))
        if match is None:
            match = self._whole.fullmatch(record.rstrip(b"\r\n"))
            below = newline = b""
        if match is None:
            return record
        lines = below.split(b"\n") if newline else []
        said = next((n for n, line in enumerate(lines) if _TRACE.match(line)), len(lines))
        message = b"\n".join([match["message"], *lines[:said]])
        trace = b"\n".join(lines[said:])
        head = b"%s] %s %s (%s)" % (
            self._moment(match), match["level"], message,
            full_name(match["logger"], is_audit=message.startswith(_AUDIT)),
        )  # fmt: skip
        return head + b"\n" + trace if trace else head

    def _parts(self) -> tuple[list[str], list[str]]:
        parts: list[str] = []
        names: list[str] = []
        end = 0
        for found in _CONVERSION.finditer(self.text):
            parts.append(self._literal(self.text[end : found.start()]))
            end = found.end()
            if found[0] == "%%":
                parts.append("%")
                continue
            name, left = _known(found[3], self.text)
            if found[2] and name in ("time", "level"):
                raise HistoryInvalid(f"pattern {self.text!r}: {found[0]} cuts off what is needed")
            names.append(name)
            parts.append(
                self._padded(found[1], name, self._conversion(name, "" if left else found[4]))
            )
            # log4j takes the longest name that it knows: %mtext is %m followed by "text".
            parts.append(self._literal(left + (found[4] if left else "")))
        parts.append(self._literal(self.text[end:]))
        return parts, names

    def _literal(self, text: str) -> str:
        if "%" in text:
            raise HistoryInvalid(f"pattern {self.text!r}: no conversion behind the % in {text!r}")
        return re.escape(text.replace("\\n", "").replace("\\t", "\t"))

    def _conversion(self, name: str, options: str) -> str:
        if name == "time":
            return self._date(re.findall(r"\{([^}]*)\}", options))
        if name == "logger" and re.search(r"\{[^}]*[^\d}]", options):
            raise HistoryInvalid(f"pattern {self.text!r}: of a logger only %c and %c{{1}} are read")
        return _TEXTS["context of a key" if name == "context" and options else name]

    @staticmethod
    def _padded(width: str, name: str, text: str) -> str:
        if not width:
            return text
        if name == "level":
            # Match the padding exactly, because a field after it, such as %X, may be empty.
            short, long = (" " * max(abs(int(width)) - size, 0) for size in (4, 5))
            if width.startswith("-"):
                return f"{text}(?:(?<=INFO|WARN){short}|(?<!INFO|WARN){long})"
            return f"(?:{short}(?=INFO|WARN)|{long}(?!INFO|WARN)){text}"
        return f"{text} *" if width.startswith("-") else f" *{text}"

    def _date(self, options: list[str]) -> str:
        given = options[0] if options else ""
        zones = options[1:]
        if zones:
            self._zone = zone_of(zones[0])
        text = _NAMED_DATES.get(given, given)
        if text in ("UNIX", "UNIX_MILLIS"):
            digits = r"\d{10}" if text == "UNIX" else r"\d{13}"
            return f"(?P<{text.lower()}>{digits})"
        parts = []
        for token in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", text):
            if token[2]:
                field = _FIELDS.get(token[0])
                if field is None:
                    raise HistoryInvalid(
                        f"pattern {self.text!r}: {token[0]!r} in %d{{{given}}} is not supported; "
                        f"there are {', '.join(_FIELDS)}"
                    )
                parts.append(field)
            else:
                quoted = token[0].startswith("'")
                literal = (token[1].replace("''", "'") or "'") if quoted else token[0]
                parts.append(re.escape(literal))
        regex = "".join(parts)
        if given in ("", "ISO8601"):
            regex = regex.replace(r"\ ", "[ T]")  # log4j 1 and log4j 2
        fields = set(re.findall(r"\?P<(\w+)>", regex))
        if not all(fields & needed for needed in _DATE_NEEDED):
            raise HistoryInvalid(
                f"pattern {self.text!r}: %d{{{given}}} must tell year, month, day, hour, minute "
                "and second"
            )
        return regex

    def _moment(self, match: re.Match[bytes]) -> bytes:
        """The time in UTC, as in the default layout, without the ``[20``."""
        fields = {name: value.decode() for name, value in match.groupdict().items() if value}
        try:
            moment = _moment(fields, self._zone)
        except (ValueError, OverflowError):
            # No valid time: write digits that the next step recognises as invalid.
            return b"00-00-00 00:00:00,000"
        return f"{moment:%y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}".encode()


def _moment(fields: dict[str, str], zone: tzinfo) -> datetime:
    if "unix" in fields or "unix_millis" in fields:
        millis = int(fields.get("unix_millis") or fields["unix"] + "000")
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    year = int(fields.get("year") or f"20{fields['short_year']}")
    month = int(fields["month"]) if "month" in fields else 1 + _MONTHS.index(fields["month_name"])
    day, hour, minute, second = (int(fields[n]) for n in ("day", "hour", "minute", "second"))
    fraction = int(fields.get("fraction", "0").ljust(6, "0")[:6])
    offset = fields.get("offset")
    if offset is not None:
        zone = _zone_of_offset(offset)
    local = datetime(year, month, day, hour, minute, second, fraction, zone)
    return local.astimezone(UTC)


def _zone_of_offset(offset: str) -> tzinfo:
    if offset == "Z":
        return UTC
    digits = offset[1:].replace(":", "").ljust(4, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-ahead if offset[0] == "-" else ahead)


def _known(letters: str, pattern: str) -> tuple[str, str]:
    """The meaning of a conversion, and the letters after its name."""
    for size in range(len(letters), 0, -1):
        if letters[:size] in _NAMES:
            return _NAMES[letters[:size]], letters[size:]
    supported = ", ".join(f"%{name}" for name in _NAMES if len(name) == 1)
    raise HistoryInvalid(f"pattern {pattern!r}: %{letters} is not supported; there are {supported}")


@lru_cache(10_000)
def full_name(logger: bytes, *, is_audit: bool) -> bytes:
    """A logger's full name, which shapes need; ``%c{1}`` prints only its last part.

    Two are called ``logger`` then.  ``is_audit``: the message is one of the authorizer's.
    """
    if logger == b"logger":
        return b"kafka.authorizer.logger" if is_audit else b"state.change.logger"
    known = _loggers()
    if logger in known:
        return logger
    # An inner class has the package of its outer class.
    for end in (logger, logger.split(b"$")[0]):
        ends = [name for name in known if name.endswith(b"." + end)]
        if len(ends) == 1:
            return ends[0] + logger.removeprefix(end)
    return logger


@cache
def _loggers() -> frozenset[bytes]:
    of_shapes = {name for shape in shapes() for name in shape.loggers if "*" not in name}
    classes = {f"{package}.{name}" for package, names in _CLASSES.items() for name in names.split()}
    # These classes moved to another package: use only the package of 3.9, from _CLASSES.
    moved = {name for name in of_shapes if name.rpartition(".")[2] in _MOVED}
    return frozenset(name.encode() for name in of_shapes - moved | classes)
