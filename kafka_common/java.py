"""Functions of Java whose exact results Kafka's behaviour depends on.

Source: Java ``String.hashCode``, ``String.split``, ``Integer.parseInt``, Kafka ``Utils.abs``.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from struct import unpack
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 1 << 31
# 19 digits hold every 64-bit number; int() would raise ValueError for thousands of digits.
_WHOLE: Final = re.compile(r"([+-]?)0*(\d{1,19})")


def string_hash(text: str) -> int:
    """``text.hashCode()``, over UTF-16 units, as an unsigned 32-bit number."""
    code = 0
    if text.isascii():
        for byte in text.encode():
            code = (31 * code + byte) & _MASK
        return code
    raw = text.encode("utf-16-be", "surrogatepass")
    for unit in unpack(f">{len(raw) // 2}H", raw):
        code = (31 * code + unit) & _MASK
    return code


def signed(code: int) -> int:
    """A 32-bit number as Java's ``int``."""
    code &= _MASK
    return code - (1 << 32) if code & _SIGN else code


def kafka_abs(number: int) -> int:
    """Kafka's ``Utils.abs``: the absolute value, but 0 for the smallest ``int``."""
    return 0 if number == -_SIGN else abs(number)


def parse_int(text: str, bits: int = 32) -> int | None:
    """``Integer.parseInt``: accepts an optional sign and digits of any script, nothing else.

    None for any other text, and for a number of more than ``bits`` bits.  Python's ``int`` would
    accept blanks and underscores too.
    """
    whole = _WHOLE.fullmatch(text)
    # Java reads UTF-16 units: a digit beyond U+FFFF takes two of them and counts as no digit.
    if whole is None or max(text) > "\uffff":
        return None
    number = int(whole[1] + whole[2])
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None


def split_by_commas(value: str) -> list[str]:
    """The parts of a list, as Java's ``split(",")`` gives them.

    Empty parts at the end are dropped, except from a text without commas.
    """
    parts = value.split(",")
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


def java_address(host: str) -> str:
    """A client's address as Java prints it and records store it: ``/127.0.0.1``, ``/0:0:…:1``."""
    literal, percent, scope = host.partition("%")
    try:
        address = ip_address(literal)
    except ValueError:
        return f"/{host}"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return f"/{address.ipv4_mapped}"
        literal = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return f"/{literal}{percent}{scope}"
