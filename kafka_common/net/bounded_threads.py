"""Socket servers with one thread per connection and a limit of connections.

They serve what is not on a broker's event loop: metrics, the lab's page, the test kit over HTTP.
"""

from __future__ import annotations

import socketserver
import threading
from typing import Any, ClassVar

from typing_extensions import override


class BoundedThreads(socketserver.ThreadingMixIn):
    """A mixin for a server of :mod:`socketserver`: closes connections beyond the limit at once."""

    daemon_threads = True
    most_connections: ClassVar[int]
    """The limit of connections at one time; each has one thread."""

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
