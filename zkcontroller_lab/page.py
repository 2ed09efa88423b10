"""The page: its separate files, or one file with all of them and a recording.

The page has no build step: the browser reads the modules from ``static``.  One file cannot hold
modules that import each other.  So the one file has the modules in the order of :data:`MODULES`,
without their import and export statements.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from zkcontroller_lab.recording import Recording

MODULES: Final = ("dom", "frames", "stage", "tables", "why", "acts", "main")
"""The modules; each imports only earlier ones."""
_CONTENT_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the served page: no other origin, no inline code."""
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "[^"]+";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ", re.MULTILINE)


def page_files() -> Mapping[str, tuple[str, bytes]]:
    """The files of the page: name to (content type, bytes)."""
    names = ("index.html", "lab.css", *(f"{module}.js" for module in MODULES))
    return {name: (_CONTENT_TYPES[name.rpartition(".")[2]], _read(name).encode()) for name in names}


def one_file(recording: Recording) -> str:
    """The page as one file with styles, code and the recording; it needs no network."""
    styles = _read("lab.css")
    code = "\n".join(_inlined(f"{module}.js") for module in MODULES)
    # The recording is data that the page parses. No text in it can end its element.
    data = recording.to_json().decode().replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    html = _read("index.html")
    for old, new in (
        (
            '<meta charset="utf-8">',
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
            f'content="{policy}">',
        ),
        ('<link rel="stylesheet" href="lab.css">', f"<style>{styles}</style>"),
        (
            '<script type="module" src="main.js"></script>',
            f'<script type="application/json" id="recording">{data}</script>\n'
            f'<script type="module">{code}</script>',
        ),
    ):
        assert html.count(old) == 1, old
        html = html.replace(old, new)
    return html


def _inlined(name: str) -> str:
    code = _EXPORT.sub("", _IMPORT.sub("", _read(name)))
    assert "</script" not in code, name
    return code


def _read(name: str) -> str:
    return (files("zkcontroller_lab") / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
