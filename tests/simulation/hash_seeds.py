"""Runs a program under several hash seeds: nothing may depend on the order of a set of strings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def run_under_hash_seeds(program: str) -> set[str]:
    """The different outputs of the program.

    There is one output if the program does not depend on the order of a set.
    """
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
