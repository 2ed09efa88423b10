"""Ingest on one machine: worker processes turn logs into Parquet, without a JVM.

A worker runs the same code as a task of Spark (:mod:`.piece_reader`).  This module distributes the
tasks and collects what they found, as Spark does.  The rows are the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Final

from kafka_history.readers.found_tables import write_found
from kafka_history.readers.ingest_plan import IngestOptions, Tell, complete, plan
from kafka_history.readers.piece_reader import Found, read_pieces
from kafka_history.readers.pieces import Piece, tasks_of
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.progress import telling
from kafka_history.readers.sources import Source

WORKERS_MAX: Final = 64
"""Most worker processes at once."""
_CONTEXT: Final = get_context("spawn")
"""Workers are not forked, because threads of the caller's libraries may hold locks."""
_HERE: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable of a program that spark-submit started, which has a Spark already."""

Task = tuple[int, list[Piece]]
"""The number of a task, and the pieces of files it reads."""

_read: Synchronized[int] | None = None
"""In a worker process: the number of bytes that all workers have read; else None."""


def workers_of(master: str) -> int | None:
    """The number of workers for a local Spark ``master``; None: Spark itself must be used."""
    here = _HERE.fullmatch(master)
    if here is None or _SUBMITTED in os.environ:
        return None
    cores = len(os.sched_getaffinity(0))
    wanted = cores if here[1] == "*" else int(here[1] or 1)
    return min(max(wanted, 1), WORKERS_MAX)


def ingest_here(
    paths: Sequence[str], options: IngestOptions, workers: int, tell: Tell | None = None
) -> None:
    """Reads the logs below the paths into ``options.out``, with this number of processes.

    Files that were read before, with the same size and time, are left out.

    Raises:
        HistoryInvalid: a path, option or the directory is not usable, or a process ended early.
    """
    planned = plan(paths, options)
    if planned.number is None:
        return
    out = Path(options.out)
    events = out / "events" / f"ingest={planned.number}"
    # Remove what an interrupted ingest of this number has left.
    rmtree(events, ignore_errors=True)
    found = read_into(events, planned.sources, options, workers, tell)
    write_found(found, planned.sources, out, planned.number)
    complete(planned, out)


def read_into(
    events: Path, sources: Sequence[Source], options: IngestOptions, workers: int,
    tell: Tell | None = None,
) -> list[Found]:  # fmt: skip
    """Reads the files into the folder of an ingest; returns what was found in each piece.

    Raises:
        HistoryInvalid: a process ended early, or a file cannot be read.
    """
    tasks = list(enumerate(tasks_of(sources, workers)))
    total = sum(source.size_bytes for source in sources if source.format)
    # Do not start more processes than tasks; a single one does its work in this process.
    workers = min(workers, len(tasks))
    found: list[Found] = []
    if workers == 1:
        sizes: list[int] = []
        with _failures(events), telling(tell, lambda: sum(sizes), total):
            for task in tasks:
                found += _run(task, str(events), options, sizes.append)
        return found
    read = _CONTEXT.Value("q", 0)
    with (
        _failures(events),
        telling(tell, lambda: read.value, total),
        pool_of(workers, read) as pool,
    ):
        waiting = [pool.submit(_run, task, str(events), options, _count) for task in tasks]
        try:
            for each in waiting:
                found += each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


@contextmanager
def _failures(events: Path) -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise HistoryInvalid(
            "a process that read logs was killed, perhaps for want of memory: nothing of this "
            "ingest counts; read with fewer, --master local[1]"
        ) from None
    except OSError as error:
        raise HistoryInvalid(f"logs cannot be read into {events}: {error}") from None
    except MemoryError:
        raise HistoryInvalid(
            "a process that reads logs has no more memory: nothing of this ingest counts; read "
            "with fewer, --master local[1]"
        ) from None


def pool_of(workers: int, read: Synchronized[int]) -> ProcessPoolExecutor:
    """A pool of workers, which add the bytes they read to ``read`` and end with this process."""
    return ProcessPoolExecutor(workers, _CONTEXT, _begin, (read,))


def _begin(read: Synchronized[int]) -> None:
    global _read
    _read = read
    parent = parent_process()
    if parent is not None:
        # If the parent is killed, its workers would wait for tasks for ever: this thread ends them.
        Thread(target=_end_with, args=(parent.sentinel,), name="ingest-parent", daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _run(
    task: Task, events: str, options: IngestOptions, count: Callable[[int], None]
) -> list[Found]:
    return list(
        read_pieces(*task, events, options.time_zone, count, options.pattern, options.redact)
    )


def _count(size: int) -> None:
    assert _read is not None, "_begin was called"
    with _read.get_lock():
        _read.value += size
