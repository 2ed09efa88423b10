"""The events of the last hours, held in memory while logs are followed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final

from kafka_history.readers.found_tables import newest_pieces
from kafka_history.readers.local_events import events_of
from kafka_history.readers.manifest import clusters_of
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.history import EventHistory

EVENTS_MAX: Final = 200_000
"""Most events held of a cluster, some 400 MB; older ones are dropped."""
_HOUR_MS: Final = 3_600_000
_TIME: Final = attrgetter("time_ms")


class RecentEvents:
    """The events of each cluster in the last hours before the end of its logs."""

    def __init__(self, out: Path, window_hours: int) -> None:
        self._out = out
        self._window_ms = window_hours * _HOUR_MS
        self._events: dict[str | None, list[Event]] = {}
        self.is_cut = False
        """Whether events of these hours were dropped because of :data:`EVENTS_MAX`."""

    def histories(self) -> Iterator[tuple[str | None, EventHistory]]:
        """The clusters, sorted by name, each with its history."""
        for cluster, events in sorted(self._events.items(), key=lambda each: each[0] or ""):
            yield cluster, EventHistory(events)

    def add(self, ingests: Sequence[str]) -> None:
        """Adds the events of these ingests, the newest ingest first."""
        pieces = newest_pieces(self._out, ingests)
        for ingest in reversed(ingests):
            for cluster in clusters_of(self._out, ingest):
                since_ms = max(self._end_ms(cluster) - self._window_ms, 0)
                new = events_of(self._out, ingest, cluster, pieces, since_ms)
                while some := list(islice(new, EVENTS_MAX)):
                    self._merge(cluster, in_order(some))

    def rename(self, names: Mapping[str, str]) -> None:
        """Changes the paths of files in the events; ``names``: new paths by old paths."""
        if names:
            for events in self._events.values():
                events[:] = [
                    event._replace(file=names[event.file]) if event.file in names else event
                    for event in events
                ]

    def _end_ms(self, cluster: str | None) -> int:
        events = self._events.get(cluster)
        return events[-1].time_ms if events else 0

    def _merge(self, cluster: str | None, new: list[Event]) -> None:
        events = self._events.setdefault(cluster, [])
        # Sort only the end: most events are older than all new ones.
        at = bisect_left(events, new[0].time_ms, key=_TIME)
        events[at:] = in_order([*events[at:], *new])
        del events[: bisect_left(events, events[-1].time_ms - self._window_ms, key=_TIME)]
        if len(events) > EVENTS_MAX:
            self.is_cut = True
            del events[:-EVENTS_MAX]
