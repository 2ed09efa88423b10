"""Draws docs/history-report.png: the first page of ``zkctl history report`` of a real incident.

    .venv/bin/python scripts/draw_report.py

It needs Debian's chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LOGS: Final = ROOT / "tests" / "history" / "data" / "incidents-a"
PICTURE: Final = ROOT / "docs" / "history-report.png"
SIZE: Final = "1000,1290"
"""Columns and lines of pixels: down to the legend of the time line."""


def main() -> None:
    """Draw the picture."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        subprocess.run(
            [sys.executable, "-m", "zkcontroller_cli", "history", "report", str(LOGS),
             "--out", f"{directory}/history", "--to", str(report)],
            check=True, capture_output=True,
        )  # fmt: skip
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={directory}/profile", f"--window-size={SIZE}",
             f"--screenshot={PICTURE}", (report / "report.html").as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
