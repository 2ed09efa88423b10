"""Opens a history for the verbs that show results: stored tables, or logs that are read first."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import say

if TYPE_CHECKING:
    from kafka_history.analyses.results import Results
    from kafka_history.rules.history import Answers, EventHistory

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
Finding = TypeVar("Finding", bound=tuple[Any, ...])

DEFAULT_OUT: Final = Path("zkctl-history")
MANIFEST: Final = "history.json"
PROBLEMS_MAX: Final = 5
"""The most unreadable files that are named on the screen."""


class Asked(NamedTuple):
    """The logs and tables to use, as given on the command line."""

    logs: tuple[str, ...]
    out: Path
    master: str
    memory: str
    cluster: str | None
    time_zone: str
    pattern: str | None
    engine: str


_OUT: Final = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_OUT,
    show_default=True,
    help="Directory of the history's Parquet tables.",
)
_MASTER: Final = click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."
)
_MEMORY: Final = click.option(
    "--memory", default="2g", show_default=True, help="Heap of Spark's driver."
)


def _time_zone(text: str) -> Callable[[CommandT], CommandT]:
    return click.option("--time-zone", default="UTC", show_default=True, metavar="ZONE", help=text)


ENGINES: Final = ("auto", "local", "spark")
_ENGINE: Final = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="What answers: this process alone (local) or Spark; auto: local for few records.",
)
PATTERN: Final = click.option(
    "--pattern",
    metavar="LOG4J",
    help="Conversion pattern of logs in another layout than Kafka's, such as '%d %-5p %c - %m%n'.",
)


def history_options(command: CommandT) -> CommandT:
    """Give a verb the argument LOG and the options for reading; :func:`asked_of` collects them."""
    return _with(
        command,
        click.argument("logs", nargs=-1, metavar="[LOG…]"),
        _OUT,
        _MASTER,
        _MEMORY,
        click.option(
            "--cluster", metavar="NAME", help="Which cluster, if the logs are of several."
        ),
        _time_zone("Zone of the brokers' clocks, for logs that are read now."),
        PATTERN,
        _ENGINE,
    )


def log_options(command: CommandT) -> CommandT:
    """Give a verb that stores logs the argument LOG, and the option for the tables' directory."""
    return _with(command, click.argument("logs", nargs=-1, required=True, metavar="LOG…"), _OUT)


def spark_options(command: CommandT) -> CommandT:
    """Give a verb the options of Spark."""
    return _with(command, _MASTER, _MEMORY)


def reading_options(command: CommandT) -> CommandT:
    """Give a verb that stores logs the options that say how they are read."""
    return _with(
        command,
        click.option(
            "--cluster", metavar="NAME", help="The cluster of all files, where they do not tell it."
        ),
        click.option(
            "--broker-id", type=click.IntRange(0), help="The broker of lines that do not name one."
        ),
        _time_zone("Zone of brokers' clocks."),
        click.option("--redact", metavar="KEY", help="Replace names by hashes made with KEY."),
    )


def _with(command: CommandT, *options: Callable[[CommandT], CommandT]) -> CommandT:
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(arguments: dict[str, Any]) -> Asked:
    """Take the options of :func:`history_options` out of a verb's arguments."""
    return Asked(**{name: arguments.pop(name) for name in Asked._fields})


def must_exist(logs: Sequence[str]) -> None:
    """Refused if a path does not exist; checked before Spark starts, which takes seconds."""
    for log in logs:
        if not Path(log).exists():
            raise Refused(f"no such file or folder: {log}")


def briefly(logs: Sequence[str]) -> str:
    """The first three paths as text, for a line on the screen."""
    return f"{', '.join(logs[:3])}{' …' if len(logs) > 3 else ''}"


def directory_of(asked: Asked) -> Path:
    """The directory of the history's tables: ``--out``, or the only LOG if that is a history."""
    is_history = len(asked.logs) == 1 and (Path(asked.logs[0]) / MANIFEST).is_file()
    return Path(asked.logs[0]) if is_history else asked.out


class Opened:
    """A history: answers come from stored results, from this process, or from Spark.

    Spark starts only when a question needs it.
    """

    def __init__(self, asked: Asked) -> None:
        """Read logs that are not in the history yet; without Spark if the master is local.

        If the only LOG is a directory of Parquet tables, it is the history.

        Raises:
            BadUsage: there are no logs and no history, or the logs are of several clusters.
            Refused: the history has no record of that cluster.
        """
        from kafka_history.readers.ingest_plan import IngestOptions, checked
        from kafka_history.readers.local_ingest import ingest_here, workers_of

        self._asked = asked
        self._out = directory_of(asked)
        self._logs = () if self._out != asked.out else asked.logs
        if not self._logs and not (self._out / MANIFEST).is_file():
            raise BadUsage(
                f"which logs? Name files or directories; {self._out} holds no history yet"
            )
        must_exist(self._logs)
        # Checked before Spark starts, which takes seconds.
        self._options = IngestOptions(
            out=str(self._out), time_zone=asked.time_zone, pattern=asked.pattern
        )
        checked(self._options)
        self._unread = self._logs
        workers = workers_of(asked.master)
        if self._logs and workers is not None:
            say(f"reading {briefly(self._logs)}")
            ingest_here(self._logs, self._options, workers, progress())
            self._unread = ()
            _say_problems(self._out)
        if not self._unread:
            self._find()

    def _find(self) -> None:
        from kafka_history.analyses.kept import answers_folder
        from kafka_history.analyses.results import Results
        from kafka_history.readers.manifest import clusters_in, complete_ingests

        ingests = complete_ingests(self._out)
        self._cluster = _chosen(clusters_in(self._out), self._asked.cluster)
        self._tables = answers_folder(self._out, ingests, self._cluster)
        self._results: Results = Results(self._out, ingests, self._cluster)

    def kept(self, name: str, kind: type[Finding], **fields: object) -> list[Finding] | None:
        """Findings that an earlier question has stored, with these values of fields, unordered.

        None if none are stored, or too many.
        """
        from kafka_history.analyses.kept import findings

        return None if self._unread else findings(self._tables, name, kind, fields)

    def answer(
        self, question: str, arguments: Mapping[str, Any], ask: Callable[[Answers[Any]], Any]
    ) -> Any:
        """The plain values that ``ask`` returns, or stored ones if the same was asked before.

        Raises:
            HistoryInvalid: the history is damaged.
        """
        if not self._unread:
            kept = self._results.get(question, arguments)
            if kept is not None:
                return kept
        with _without_garbage_collection():
            found = ask(self._in_memory or self._in_spark)
        return self._keep(question, arguments, found)

    @cached_property
    def _in_memory(self) -> EventHistory | None:
        """The history in the memory of this process; None if Spark should answer."""
        from kafka_history.readers.found_tables import wanting
        from kafka_history.readers.local_events import read_events_here
        from kafka_history.readers.local_ingest import workers_of
        from kafka_history.readers.soundness import LOCAL_ROWS, is_little
        from kafka_history.rules.history import EventHistory

        if self._unread or self._asked.engine == "spark":
            return None
        is_wanted = self._asked.engine == "local"
        if not is_wanted and (
            workers_of(self._asked.master) is None or not is_little(self._out, LOCAL_ROWS)
        ):
            return None
        return EventHistory(read_events_here(self._out, self._cluster), wanting(self._out))

    def made(self, question: str, arguments: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """The plain values that ``make`` returns, or stored ones if they were made before."""
        kept = self._results.get(question, arguments)
        return self._keep(question, arguments, make()) if kept is None else kept

    def _keep(self, question: str, arguments: Mapping[str, Any], found: Any) -> Any:
        import orjson

        self._results.put(question, arguments, found)
        # Through JSON, so that the result is the same as when it is read from the file later.
        return orjson.loads(orjson.dumps(found))

    @cached_property
    def _in_spark(self) -> Answers[Any]:
        """The history in Spark; the first use starts Spark, and reads unread logs by it.

        Few rows are gathered by one job, and this process applies the rules to them: a job for
        each rule would take longer than the work.
        """
        from kafka_history.analyses.carrying import gathered
        from kafka_history.analyses.history import History
        from kafka_history.readers.found_tables import wanting
        from kafka_history.readers.ingest import ingest
        from kafka_history.readers.session import start_spark
        from kafka_history.readers.soundness import BRIEF_ROWS, SMALL_ROWS, is_little
        from kafka_history.readers.store import read_events
        from kafka_history.rules.history import EventHistory

        is_small = not self._unread and is_little(self._out, SMALL_ROWS)
        say("starting Spark")
        spark = start_spark(
            self._asked.master,
            memory=self._asked.memory,
            is_brief=not self._unread and is_little(self._out, BRIEF_ROWS),
            is_small=is_small,
        )
        if self._unread:
            say(f"reading {briefly(self._unread)}")
            ingest(spark, self._unread, self._options, progress())
            self._unread = ()
            _say_problems(self._out)
            self._find()
        events = read_events(spark, self._out)
        mine = (
            events.where("cluster IS NULL")
            if self._cluster is None
            else events.where(events["cluster"] == self._cluster)
        )
        if is_small:
            return EventHistory(gathered(mine), wanting(self._out))
        return History(mine, self._tables, wanting(self._out))


def _say_problems(out: Path) -> None:
    """Name on stderr the files that could not be read in full."""
    from kafka_history.readers.found_tables import wanting

    found = wanting(out)
    for row in found[:PROBLEMS_MAX]:
        say(f"{row['file']}: {row['status']}: {row['problem']}")
    if len(found) > PROBLEMS_MAX:
        say("there are more such files: zkctl history ingest lists them all")


def progress() -> Callable[[int, int], None]:
    """A function that reports on stderr how much is read (bytes done, bytes in all)."""
    began = monotonic()

    def tell(done: int, total: int) -> None:
        speed = done / (monotonic() - began)
        left = f", some {(total - done) / speed:.0f} s left" if done < total else ""
        say(f"read {done >> 20} of {total >> 20} MB, {speed / 2**20:.0f} MB/s{left}")

    return tell


def _chosen(found: Sequence[str | None], wanted: str | None) -> str | None:
    names = sorted(name for name in found if name is not None)
    if wanted is not None:
        if wanted not in names:
            raise Refused(f"no record of cluster {wanted}; there are {', '.join(names) or 'none'}")
        return wanted
    if len(found) > 1:
        raise BadUsage(
            f"the logs are of {len(found)} clusters ({', '.join(map(str, found))}): "
            "choose one with --cluster"
        )
    return found[0] if found else None


def moment_ms(text: str) -> int:
    """Parse a time into milliseconds since 1970: a number of them, or an ISO 8601 date and time.

    A time without an offset is UTC.

    Raises:
        BadUsage: the text is no time.
    """
    from datetime import UTC, datetime

    if text.isdigit():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text.strip().replace(",", "."))
    except ValueError:
        raise BadUsage(f"{text!r} is no time such as 2026-11-20T18:09:32.376Z") from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def window_ms(text: str) -> tuple[int, int]:
    """Parse ``FROM/TO`` into two times in milliseconds since 1970.

    Raises:
        BadUsage: the text has another form, or the window ends before it begins.
    """
    first, slash, last = text.partition("/")
    if not slash:
        raise BadUsage(f"{text!r} is no window: FROM/TO, both such as 2026-11-20T18:09:32Z")
    window = moment_ms(first), moment_ms(last)
    if window[0] >= window[1]:
        raise BadUsage(f"window {text} ends before it begins")
    return window


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Switch off garbage collection: it would only slow down the creation of millions of events."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
