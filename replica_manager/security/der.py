"""Reads ASN.1 values in DER: tag, length and content.

Source: ITU-T X.690.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_common.errors import ZkControllerError


class InvalidDer(ZkControllerError):
    """The bytes are not what they should be, such as a certificate."""


class Element(NamedTuple):
    """One ASN.1 value."""

    tag: int
    content: bytes
    encoded: bytes
    """The encoded bytes with tag and length."""


def elements(encoded: bytes) -> Iterator[Element]:
    """The ASN.1 values in the bytes, in order.  Raises InvalidDer."""
    position = 0
    while position < len(encoded):
        start = position
        if len(encoded) - position < 2:
            raise InvalidDer("an ASN.1 value without a length")
        tag, length = encoded[position], encoded[position + 1]
        position += 2
        if length >= 0x80:
            size = length & 0x7F
            length = int.from_bytes(encoded[position : position + size], "big")
            position += size
        end = position + length
        if end > len(encoded):
            raise InvalidDer("an ASN.1 value is cut off")
        yield Element(tag, encoded[position:end], encoded[start:end])
        position = end


def only(encoded: bytes) -> Element:
    """The first ASN.1 value in the bytes.  Raises InvalidDer if there is none."""
    first = next(elements(encoded), None)
    if first is None:
        raise InvalidDer("nothing there")
    return first
