"""Log lines without what differs from run to run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from tests.support.kafka_log_shapes import RECORD

# Scala names whatever class a collection happens to have.
_COLLECTIONS: Final = re.compile(
    r"\b(?:List|ListBuffer|ArrayBuffer|ArraySeq|Vector|Buffer|Set|HashSet|Set[1-4]|Map|HashMap"
    r"|Map[1-4]|Iterable|View|Stream|WrappedArray|ListSet|LinkedHashSet|LinkedHashMap)\("
)
_MASKS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:*"),
    (re.compile(r"(?i)(broker[ _]?epochs?(?: is|=|:)?\s*)\d+"), r"\1*"),
    (re.compile(r"(?<=\d -> )\d+(?=[,)])"), "*"),  # the broker epochs cache
)
_REPLICA: Final = re.compile(r"\[Topic=[^]]*\]")


def comparable_lines(lines: Iterable[str]) -> Counter[str]:
    """``LEVEL message (logger)`` of each line at INFO and above; how often it came."""
    found = (RECORD.fullmatch(line) for line in lines)
    return Counter(
        f"{record['level']} {comparable_message(record['message'])} ({record['logger']})"
        for record in found
        if record is not None and record["level"] not in ("TRACE", "DEBUG")
    )


def comparable_message(message: str) -> str:
    """Masks applied, collections without class name and in order."""
    for pattern, mask in _MASKS:
        message = pattern.sub(mask, message)
    replicas = iter(sorted(_REPLICA.findall(message)))
    message = _REPLICA.sub(lambda _: next(replicas), message)
    return _sorted_collections(_COLLECTIONS.sub("(", message))


def _sorted_collections(text: str) -> str:
    """The elements of whatever stands in parentheses in order, from the inside out."""
    stack: list[list[str]] = [[""]]
    for piece in re.split(r"([(),])", text):
        if piece == "(":
            stack.append([""])
        elif piece == ")" and len(stack) > 1:
            elements = stack.pop()
            stack[-1][-1] += "(" + ", ".join(sorted(map(str.strip, elements))) + ")"
        elif piece == "," and len(stack) > 1:
            stack[-1].append("")
        else:
            stack[-1][-1] += piece
    return "(".join(",".join(elements) for elements in stack)
