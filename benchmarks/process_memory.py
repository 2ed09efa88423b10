"""What the system says of a process's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FILES: Final = {"VmRSS": "status", "VmHWM": "status", "Pss": "smaps_rollup"}


def memory_mb(pid: int, field: str) -> float:
    """``VmRSS`` (resident now), ``VmHWM`` (at most so far) or ``Pss`` (what is shared, in parts).

    OSError if the process has ended, or has no memory of its own, as one of the kernel's.
    """
    for line in Path(f"/proc/{pid}/{_FILES[field]}").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} tells no {field}")
