"""The task of one fetcher: sends its next request and passes it the response, in a loop.

No step of a :class:`.ReplicaFetcher` waits, so neither another step nor a request of the controller
can interrupt a step; this module does the waiting.  It handles a large response in steps, between
which other tasks run.  The reads that a truncation needs run in a thread.

Source: Kafka ``ReplicaFetcherThread``, ``AbstractFetcherThread`` (``doWork``), also for the log
lines.  Deviations: the log line about a failed Fetch request has the number of its partitions, not
their names; after an unexpected failure the task logs it, pauses and continues, where Kafka's
thread ends and its partitions are never fetched again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, assert_never

from msgspec import Struct

from kafka_common.errors import InvalidFrame
from kafka_common.model import TopicPartition
from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.prefixed_log import PrefixedLog
from replica_manager.replication.fetch_log import (
    fetch_data_text,
    fetcher_prefix,
    names_text,
)
from replica_manager.replication.fetch_requests import (
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    Idle,
    Request,
)
from replica_manager.replication.leader_end_point import LeaderEndPoint, LinkSettings
from replica_manager.replication.replica_fetcher import ReplicaFetcher

FAIR_BYTES: Final = 1024 * 1024
"""Bytes of one response that are appended before other tasks run: some 3 ms."""

_logger = logging.getLogger("kafka.server.ReplicaFetcherThread")


async def _flush_nothing(_: TopicPartition) -> None:
    """Does nothing; for logs in memory."""


class FetcherListener(Struct, frozen=True):
    """Callbacks of a fetcher, called on the event loop; only ``flush`` may wait."""

    high_watermarks_moved: Callable[[Iterable[TopicPartition]], None]
    """Called with the partitions whose high watermark moved: waiting requests may be complete."""
    bytes_in: Callable[[TopicPartition, int], None] = lambda _, __: None
    """Called with the number of bytes that were appended to a partition."""
    requested: Callable[[], None] = lambda: None
    """Called after each Fetch request, with or without a response."""
    flush: Callable[[TopicPartition], Awaitable[None]] = _flush_nothing
    """Flushes a partition's log to disk, before the next Fetch request reports its end offset."""


class FetcherTask:
    """A fetcher and its task, which ends with :meth:`end`."""

    def __init__(
        self,
        fetcher: ReplicaFetcher,
        fetcher_id: int,
        link: LeaderEndPoint,
        settings: LinkSettings,
        backoff_ms: int,
        now_ms: Callable[[], int],
        listener: FetcherListener,
    ) -> None:
        """Starts the task; needs a running event loop."""
        self.fetcher = fetcher
        self._link = link
        self._settings = settings
        self._backoff_s = backoff_ms / 1000
        self._now_ms = now_ms
        self._listener = listener
        self._woken = asyncio.Event()
        leader = fetcher.leader
        self._log = PrefixedLog(_logger, fetcher_prefix(settings.replica_id, leader, fetcher_id))
        name = f"ReplicaFetcherThread-{fetcher_id}-{leader}"
        self._life_log = PrefixedLog(_logger, f"[{name}]: ")
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def wake(self) -> None:
        """Ends the wait of an idle fetcher, because partitions were added."""
        self._woken.set()

    def end(self) -> asyncio.Task[None]:
        """Cancels the task and returns it, so that the caller can wait for its end.

        The response to a request in flight is lost.
        """
        self._life_log.info("Shutting down")
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        self._life_log.info("Starting")
        try:
            while True:
                try:
                    await self._step()
                except Exception as error:  # noqa: BLE001 no failure may end replication for good
                    self._log.error("Error due to", extra={"cause": throwable_text(error)})
                    await asyncio.sleep(self._backoff_s)
        except asyncio.CancelledError:
            self._life_log.info("Stopped")
            raise
        finally:
            await self._link.close()
            self._life_log.info("Shutdown completed")

    async def _step(self) -> None:
        self._woken.clear()
        request = self.fetcher.next_request(self._now_ms())
        await self._run_planned()
        if isinstance(request, Idle):
            await self._idle(request.until_ms)
            return
        try:
            await self._perform(request)
        except (OSError, InvalidFrame) as failure:
            await self._link.close()
            cause = throwable_text(failure)
            self._log_failure(request, cause)
            self.fetcher.handle_failure(request, self._now_ms(), cause)
        await self._run_planned()

    async def _run_planned(self) -> None:
        """Runs the reads that truncations need, in a thread; then truncations are tried again."""
        for plan in self.fetcher.take_planned():
            await asyncio.to_thread(plan.run)
            self._woken.set()

    async def _idle(self, until_ms: int | None) -> None:
        """Waits until ``until_ms`` (None: for ever), or until :meth:`wake` is called."""
        seconds = None if until_ms is None else max(until_ms - self._now_ms(), 0) / 1000
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _perform(self, request: Request) -> None:
        match request:
            case AskRecords():
                await self._fetch(request)
            case AskEpochEnds():
                ends = await self._link.ask_epoch_ends(request)
                self.fetcher.handle_epoch_ends(request, ends, self._now_ms())
            case AskOffsets():
                offsets = await self._link.ask_offsets(request)
                self.fetcher.handle_offsets(request, offsets, self._now_ms())
            case _:
                assert_never(request)

    async def _fetch(self, request: AskRecords) -> None:
        try:
            response = await self._link.ask_records(request, self.fetcher.session.topic_names)
        finally:
            self._listener.requested()
        taken_bytes = 0
        for tp, progress in self.fetcher.records_steps(request, response, self._now_ms):
            try:
                if progress.high_watermark_moved:
                    self._listener.high_watermarks_moved(progress.high_watermark_moved)
                if progress.bytes_in:
                    self._listener.bytes_in(tp, progress.bytes_in)
            except Exception as error:  # noqa: BLE001 - the other partitions need their records
                cause = throwable_text(error)
                self._log.error("Error after an append to %s", tp, extra={"cause": cause})
            if progress.is_flush_due:
                await self._listener.flush(tp)
            taken_bytes += progress.bytes_in
            if taken_bytes >= FAIR_BYTES or progress.is_piece:
                taken_bytes = 0
                await asyncio.sleep(0)

    def _log_failure(self, request: Request, cause: str) -> None:
        match request:
            case AskRecords():
                text = f"Error in response for fetch request {self._printed(request)}"
            case AskEpochEnds():
                text = f"Error when sending leader epoch request for {_listed(request.partitions)}"
            case AskOffsets():
                partitions = _listed(request.partitions)
                text = f"Error getting offset for partition {partitions}"
            case _:
                assert_never(request)
        self._log.warning("%s", text, extra={"cause": cause})

    def _printed(self, request: AskRecords) -> str:
        limits, fetch = self._settings.limits, request.fetch
        return (
            f"(type=FetchRequest, replicaId={self._settings.replica_id}, "
            f"maxWait={limits.max_wait_ms}, minBytes={limits.min_bytes}, "
            f"maxBytes={limits.max_bytes}, fetchData={{{fetch_data_text(fetch.to_send)}}}, "
            f"isolationLevel=read_uncommitted, removed={names_text(fetch.to_forget)}, "
            f"replaced={names_text(fetch.to_replace)}, metadata={fetch.metadata}, rackId=)"
        )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
