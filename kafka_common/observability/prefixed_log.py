"""A logger whose lines all begin with the same text, such as ``[RaftManager id=1] ``.

Source: Kafka ``LogContext``.
"""

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
