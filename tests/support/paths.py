"""Where tests find files: the project, and data recorded from a real Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DATA: Final = Path(__file__).with_name("data")
WIRE_DATA: Final = ROOT / "tests" / "wire" / "data"
