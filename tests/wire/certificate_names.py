"""Encoded names of certificates, generated from a seed: every attribute, tag and odd character."""

from __future__ import annotations

from random import Random
from typing import Final

_ATTRIBUTES: Final = (
    "550403", "550406", "550407", "550408", "550409", "55040a", "55040b",  # those with a name
    "0992268993f22c640101", "0992268993f22c640119",  # UID and DC
    "2a864886f70d010901", "55040c", "550405", "55042a",  # mail, title, serial number, given name
)  # fmt: skip
_TEXT_TAGS: Final = (0x0C, 0x0C, 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C)
_PIECES: Final = (
    "alice", "Acme", " ", "  ", "\r", "\n", "\t", "\0", ",", "=", "+", "<", ">", "#", ";", '"',
    "\\", "/", "*", "é", "ß", "名", "😀", "\u200b", "K", "\u212a", "a.b", "$1", "'", "(x)",
    "\x7f", "\x85",
)  # fmt: skip


def encoded_name(random: Random) -> bytes:
    """One name of up to four parts."""
    parts = [
        element(0x31, *(_attribute(random) for _ in range(random.choice((1, 1, 1, 2, 3)))))
        for _ in range(random.randint(0, 4))
    ]
    return element(0x30, *parts)


def _attribute(random: Random) -> bytes:
    tag = random.choice(_TEXT_TAGS)
    text = "".join(random.choice(_PIECES) for _ in range(random.randint(0, 5)))
    match tag:
        case 0x1E:
            value = text.encode("utf-16-be")
        case 0x1C:
            value = text.encode("utf-32-be")
        case 0x0C:
            value = text.encode()
        case _:
            value = text.encode("latin-1", "replace")
    type_id = element(0x06, bytes.fromhex(random.choice(_ATTRIBUTES)))
    return element(0x30, type_id, element(tag, value))


def element(tag: int, *contents: bytes) -> bytes:
    """An ASN.1 value."""
    content = b"".join(contents)
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = (len(content).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(content).to_bytes(size, "big") + content
