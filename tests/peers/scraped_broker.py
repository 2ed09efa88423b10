"""A broker whose metrics are scraped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from benchmarks.broker_process import OurBroker
from tests.peers.metric_values import Values, scraped

_SERVED_AT: Final = re.compile(r"Serving metrics at (\S+)")


class ScrapedBroker(OurBroker):
    """Our broker with a metrics port."""

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        return [*super()._command(properties), "--metrics-port", "0"]

    def metrics(self) -> Values:
        """What Prometheus would read."""
        [url] = [
            found[1] for line in self.log_lines("server.log") if (found := _SERVED_AT.search(line))
        ]
        assert url.startswith("http://127.0.0.1:")
        return scraped(url)
