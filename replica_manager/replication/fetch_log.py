"""Log lines of a fetcher, with follower and leader as prefix.  Source: Kafka ``LogContext``."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class PrefixedLog(_Adapter):
    """A logger that begins every line with ``prefix``."""

    def __init__(self, logger: logging.Logger, prefix: str) -> None:
        super().__init__(logger, None)
        assert "%" not in prefix
        self._prefix = prefix

    @override
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return self._prefix + msg, kwargs


def fetcher_prefix(replica_id: int, leader: int, fetcher_id: int) -> str:
    """The prefix of a fetcher: ``[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] ``."""
    return f"[ReplicaFetcher replicaId={replica_id}, leaderId={leader}, fetcherId={fetcher_id}] "
