"""Numbers, sizes, times and broker ids as text for people; ``-`` for a value that is not known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

_UNKNOWN: Final = "-"


def count_text(value: int | None) -> str:
    """A number such as ``12,345``."""
    return _UNKNOWN if value is None else f"{value:,}"


def size_text(value: float | None) -> str:
    """A number of bytes as a size such as ``1.5 MiB``."""
    if value is None:
        return _UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def rate_text(value: float | None) -> str:
    """Bytes per second as a rate such as ``+1.5 MiB/s``."""
    if value is None:
        return _UNKNOWN
    return f"{'+' if value > 0 else ''}{size_text(value)}/s"


def signed_text(value: float | None) -> str:
    """A change per second such as ``+12.0/s``."""
    return _UNKNOWN if value is None else f"{value:+,.1f}/s"


def duration_text(milliseconds: float | None) -> str:
    """A duration in its two largest units, such as ``2m05s``."""
    if milliseconds is None:
        return _UNKNOWN
    seconds = round(milliseconds / 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def clock_text(at_ms: int) -> str:
    """Milliseconds since 1970 as local time such as ``14:03:22``."""
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))


def ids_text(brokers: Sequence[int] | None) -> str:
    """Broker ids such as ``1,2,3``; ``-`` also for an empty list."""
    return _UNKNOWN if brokers is None else ",".join(map(str, brokers)) or _UNKNOWN
