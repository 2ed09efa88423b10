"""Words that the project has given up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


RETIRED_WORDS = re.compile(
    r"\b(?:deeds?|desks?|story|stories|dut(?:y|ies)|told|hears?|heard|news|"
    r"(?:some|no|every)body|who(?:m)?ever|what becomes of|is gone about)\b",
    re.IGNORECASE,
)
"""Words that made sentences hard to read; CONTRIBUTING.md asks for the field's own terms."""
