"""Finds the end of the last complete record in a growing file.

A record is complete when the next one has begun.  The last record may still get an exception below
it, so it is taken only when the file has stopped growing for a moment.  A line without a newline is
taken only when the file is no longer written.
"""

from __future__ import annotations

import re
from typing import Final

_HEAD_SOMEWHERE: Final = re.compile(
    rb"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)


def whole_bytes(content: bytes, kind: str, *, is_quiet: bool, is_over: bool, is_full: bool) -> int:
    """How many bytes of ``content``, which begins with a record, are complete records.

    ``kind``: the format, see :mod:`.readers.formats`.  ``is_quiet``: the file did not grow since
    the last look.  ``is_over``: the file will not be written any more.  ``is_full``: more of the
    file follows, so at least a part is taken even if ``content`` is one huge record.
    """
    if is_over and not is_full:
        return len(content)
    lines_end = content.rfind(b"\n") + 1
    if is_quiet and not is_full:
        return lines_end
    match kind:
        case "jsonl":
            end = lines_end
        case "log4j":
            end = content.rfind(b"\n[20", 0, lines_end) + 1
        case _:
            heads = [found.start() for found in _HEAD_SOMEWHERE.finditer(content, 0, lines_end)]
            end = content.rfind(b"\n", 0, heads[-1]) + 1 if heads else 0
    if not end and is_full:
        return lines_end or len(content)
    return end
