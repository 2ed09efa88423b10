"""Reads and writes znodes' JSON like Jackson in Kafka; refuses malformed JSON.

Unknown keys are ignored.  A missing key or a value of another type raises
:class:`~kafka_common.errors.ZnodeCorrupt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from kafka_common.errors import ZnodeCorrupt
from kafka_common.json_values import JsonObject, JsonValue

INT16_MAX: Final = 0x7FFF
INT32_MIN: Final = -0x80000000
INT32_MAX: Final = 0x7FFFFFFF
INT64_MIN: Final = -0x8000000000000000
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF

_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def json_string(text: str) -> bytes:
    """A JSON string as Jackson writes it: UTF-8, upper-case hexadecimal for control characters."""
    return b'"%s"' % text.translate(_ESCAPES).encode()


def json_integers(values: Iterable[int]) -> bytes:
    """A JSON array of integers, without spaces."""
    return b"[%s]" % b",".join([b"%d" % value for value in values])


def json_object(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """A JSON object of encoded values, keys in the given order."""
    return b"{%s}" % b",".join([b"%s:%s" % (json_string(key), value) for key, value in pairs])


def integer_text(path: str, data: bytes, minimum: int, maximum: int) -> int:
    """The integer in a znode that holds decimal text, such as ``/controller_epoch``."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise ZnodeCorrupt(path, "not a number") from None
    return _bounded_text(path, "number", text, minimum, maximum)


def _bounded_text(path: str, what: str, text: str, minimum: int, maximum: int) -> int:
    digits = text.removeprefix("-")
    # A 64-bit number has at most 19 digits; int() takes long for a text with very many.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise ZnodeCorrupt(path, f"{what} is not a whole number: {text[:40]!r}")
    value = int(text)
    if not minimum <= value <= maximum:
        raise ZnodeCorrupt(path, f"{what} is out of range: {value}")
    return value


def parse_json(path: str, data: bytes) -> object:
    """The JSON value in ``data``; ZnodeCorrupt if it is not JSON in UTF-8."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ZnodeCorrupt(path, f"not JSON: {error}") from None


class JsonFields:
    """The fields of one JSON object of a znode; every getter raises ZnodeCorrupt on a mismatch."""

    __slots__ = ("_path", "_values")

    def __init__(self, path: str, values: object, what: str = "data") -> None:
        if type(values) is not dict:
            raise ZnodeCorrupt(path, f"{what} is not a JSON object")
        self._path = path
        self._values: JsonObject = values

    @classmethod
    def parse(cls, path: str, data: bytes) -> JsonFields:
        """The object in ``data``; ZnodeCorrupt if it is not JSON in UTF-8 or no object."""
        return cls(path, parse_json(path, data))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def has(self, key: str) -> bool:
        """Whether the key exists with a value other than null."""
        return self._values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def corrupt(self, reason: str) -> ZnodeCorrupt:
        """An error for the caller to raise, if fields contradict each other."""
        return ZnodeCorrupt(self._path, reason)

    def _value(self, key: str) -> object:
        try:
            value: object = self._values[key]
        except KeyError:
            raise self.corrupt(f"{key} is missing") from None
        return value

    def integer(self, key: str, minimum: int = 0, maximum: int = INT32_MAX) -> int:
        value = self._value(key)
        if type(value) is not int:
            raise self.corrupt(f"{key} is not a whole number")
        if not minimum <= value <= maximum:
            raise self.corrupt(f"{key} is out of range: {value}")
        return value

    def text(self, key: str) -> str:
        value = self._value(key)
        if type(value) is not str:
            raise self.corrupt(f"{key} is not a string")
        return value

    def long_text(self, key: str, minimum: int = 0) -> int:
        """A 64-bit number that Kafka writes as a JSON string (timestamps, producer ids)."""
        return _bounded_text(self._path, key, self.text(key), minimum, INT64_MAX)

    def array(self, key: str) -> list[JsonValue]:
        value = self._value(key)
        if type(value) is not list:
            raise self.corrupt(f"{key} is not an array")
        return value

    def object(self, key: str) -> JsonFields:
        return JsonFields(self._path, self._value(key), key)

    def objects(self, key: str) -> list[JsonFields]:
        return [JsonFields(self._path, value, f"an item of {key}") for value in self.array(key)]

    def broker_ids(self, key: str) -> tuple[int, ...]:
        """A list of distinct broker ids; empty is allowed."""
        return broker_ids(self._path, key, self.array(key))


def broker_ids(path: str, what: str, values: list[Any]) -> tuple[int, ...]:
    """The values as broker ids: 32-bit numbers, not negative, none twice; else ZnodeCorrupt."""
    for value in values:
        if type(value) is not int or not 0 <= value <= INT32_MAX:
            raise ZnodeCorrupt(path, f"{what} holds what is not a broker id: {shown(value)}")
    if len(set(values)) != len(values):
        raise ZnodeCorrupt(path, f"{what} names a broker twice: {str(values)[:200]}")
    return tuple(values)


def shown(value: object) -> str:
    """A JSON value for an error text; of arrays and objects only the type."""
    return str(value)[:100] if isinstance(value, str | int | float) else f"a {type(value).__name__}"
