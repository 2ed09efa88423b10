"""Servers on sockets with a thread for each connection, and so many at once.

For what is beside the brokers' own event loop: metrics, the lab's page, the test kit by HTTP.
"""

from __future__ import annotations

import socketserver
import threading
from typing import Any, ClassVar

from typing_extensions import override


class BoundedThreads(socketserver.ThreadingMixIn):
    """Stands before a server of :mod:`socketserver`; a connection beyond the bound is closed."""

    daemon_threads = True
    most_connections: ClassVar[int]
    """At once, and so many threads."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(self.most_connections)
        super().__init__(*arguments, **options)

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[attr-defined]  # of the server behind it
            return
        super().process_request(request, client_address)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()
