"""Requests that wait for a change of the metadata cache.

CreateTopics waits until every new partition has a leader, DeleteTopics until the topics are
deleted.  Each UpdateMetadata request wakes the requests that wait for one of its topics.

Source: Kafka ``DelayedCreatePartitions``, ``DelayedDeleteTopics`` and their purgatory.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from kafka_common.net.presence import abandonable


class TopicWaiters:
    """The waiting requests by topic.  For the event loop."""

    def __init__(self) -> None:
        self._events: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def wait(
        self, topics: Sequence[str], is_done: Callable[[], bool], timeout_ms: int
    ) -> bool:
        """Waits until ``is_done``, which is checked whenever ``topics`` change; False on a timeout.

        Raises CancelledError if the request's client disconnects.
        """
        event = asyncio.Event()
        for topic in topics:
            self._events[topic].add(event)
        try:
            with abandonable():
                async with asyncio.timeout(timeout_ms / 1000):
                    while not is_done():
                        event.clear()
                        await event.wait()
        except TimeoutError:
            return is_done()
        finally:
            for topic in topics:
                self._events[topic].discard(event)
                if not self._events[topic]:
                    del self._events[topic]
        return True

    def changed(self, topics: Iterable[str]) -> None:
        """Wakes the requests that wait for ``topics``, after their metadata has changed."""
        if not self._events:
            return
        for topic in topics:
            for event in self._events.get(topic, ()):
                event.set()

    def __len__(self) -> int:
        return len(self._events)
