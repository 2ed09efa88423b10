"""Writes the tables of the HTTP API into docs/serve.md: python -m scripts.list_routes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from zkcontroller_testing.serving.refusals import CODES
from zkcontroller_testing.serving.routes import ROUTES

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "serve.md"


def _requests() -> str:
    lines = ["| request | fields | response | what it does |", "|---|---|---|---|"]
    for route in ROUTES:
        fields = ", ".join(
            f"`{each.name}`" if each.required else each.name
            for each in msgspec.structs.fields(route.body)
        )
        is_struct = hasattr(route.response, "__struct_fields__")
        response = ", ".join(getattr(route.response, "__struct_fields__", ()))
        if route.response is not None and not is_struct:
            response = "the document"
        text = route.summary.replace("``", "`")
        lines.append(f"| `{route.method} {route.path}` | {fields} | {response} | {text} |")
    return "\n".join(lines) + "\n"


def _codes() -> str:
    lines = ["| status | `error` | means |", "|---|---|---|"]
    lines += [f"| {status:d} | `{code}` | {means} |" for code, (status, means) in CODES.items()]
    return "\n".join(lines) + "\n"


def relisted(document: str) -> str:
    """The document with the tables as they must be now."""
    for table in (_requests(), _codes()):
        head = "".join(table.splitlines(keepends=True)[:2])
        found = re.search(re.escape(head) + r"(?:\|[^\n]+\n)*", document)
        document = document.replace(found[0], table) if found is not None else document
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(relisted(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
