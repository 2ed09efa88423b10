"""The environment of brokers and commands that tests start as processes of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

WITHOUT_HYPOTHESIS: Final = Path(__file__).parent / "without_hypothesis"


def environment() -> dict[str, str]:
    """This process's environment, but that Hypothesis cannot be imported.

    kio imports Hypothesis where it is installed, which no broker needs: that takes a fifth of a
    broker's start.
    """
    return os.environ | {"PYTHONPATH": str(WITHOUT_HYPOTHESIS)}
