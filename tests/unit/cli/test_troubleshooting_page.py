"""docs/troubleshooting.md: every message that it explains is one that the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.support.code_texts import texts

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


def said() -> list[str]:
    """Every text in zkctl."""
    return [text for module in sorted((ROOT / "cli").rglob("*.py")) for _, text in texts(module)]


def test_every_message_of_the_page_stands_in_the_code() -> None:
    messages = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    found = said()

    assert len(messages) > 15
    assert [each for each in messages if not any(each in text for text in found)] == []


def test_a_message_that_is_nowhere_would_be_seen() -> None:
    assert not any("the moon is in use" in text for text in said())
