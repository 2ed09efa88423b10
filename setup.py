"""The description of the package for an index: README without links that lead nowhere there.

Everything else about the package is in ``setup.cfg``.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

_LINK = re.compile(r"!?\[([^\]]*)\]\((?!https?://)([^)]*)\)")


def description_for_an_index(readme: str) -> str:
    """README where each link to a file of the repository is that file's name, beside its text."""

    def named(link: re.Match[str]) -> str:
        text, target = link[1], link[2].partition("#")[0]
        return text if not target or target in text else f"{text} (`{target}`)"

    return _LINK.sub(named, readme)


if __name__ == "__main__":
    readme = Path(__file__).parent / "README.md"
    setup(long_description=description_for_an_index(readme.read_text(encoding="utf-8")))
