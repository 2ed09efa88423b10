"""What MkDocs calls while it builds the site: adds the pages made of the code, mends links.

The documents link to files of the repository, which are no pages: there the name of the file
stands instead of the link.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
# MkDocs loads this file by its path.
sys.path.insert(0, str(ROOT))

from scripts.site_pages import pages  # noqa: E402

_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are made of the code."""
    structure = __import__("mkdocs.structure.files", fromlist=["File"])
    for path, text in pages().items():
        files.append(structure.File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with the names of files instead of links to what is no page."""
    folder = (Path(config.docs_dir) / page.file.src_uri).parent
    known = {file.src_uri for file in files}

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if not target or "://" in target:
            return found[0]
        path = (folder / target).resolve()
        inside = path.is_relative_to(config.docs_dir)
        if inside and path.relative_to(config.docs_dir).as_posix() in known:
            return found[0]
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        is_named = not name or name in text or name.endswith(text.strip("`"))
        return text if is_named else f"{text} (`{name}`)"

    return _LINK.sub(link, markdown)
