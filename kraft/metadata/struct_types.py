"""Structures on the wire: a record in one version, and the elements of its arrays.

A :class:`StructLayout` is made once for each class and version; then reading and writing is a walk
over its fields.

Source: KIP-482, Kafka ``MessageDataGenerator``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kafka_common.errors import InvalidFrame, UnsupportedVersion
from kafka_common.json_values import JsonObject
from kafka_common.observability.java_values import camel_case
from kafka_common.protocol.primitives import unsigned_varint
from kafka_common.protocol.wire_guard import read_unsigned_varint
from kraft.metadata.wire_types import WireType

_LEAST_TAGGED_BYTES: Final = 2
"""A tag and a size."""


class Field(NamedTuple):
    """A field of a schema, by its attribute name."""

    name: str
    type: WireType
    since: int = 0
    """The first version that has it."""
    tag: int | None = None
    """Of a tagged field."""


class StructLayout:
    """Writes, reads and prints a class in one version."""

    __slots__ = (
        "_absent",
        "_constructor",
        "_defaults",
        "_known_tags",
        "_places",
        "_plain",
        "_plain_readers",
        "_present",
        "_tagged",
        "_version",
    )

    def __init__(self, constructor: type[Any], fields: Sequence[Field], version: int) -> None:
        self._constructor = constructor
        self._version = version
        self._defaults = {field.name: field.default for field in dataclasses.fields(constructor)}
        present = [field for field in fields if field.since <= version]
        self._present = tuple(present)
        self._plain = tuple(field for field in present if field.tag is None)
        tagged = [(field.tag, field) for field in present if field.tag is not None]
        self._tagged = tuple(sorted(tagged, key=lambda pair: pair[0]))
        self._absent = tuple(field.name for field in fields if field.since > version)
        self._places = {name: place for place, name in enumerate(self._defaults)}
        self._plain_readers = tuple(
            (self._places[field.name], field.type.decode) for field in self._plain
        )
        self._known_tags = {field.tag: field for field in fields if field.tag is not None}

    def encode(self, value: Any) -> bytes:
        """The bytes of a value of the class.

        UnsupportedVersion if a field that this version lacks is not at its default.
        """
        self._check_absent(value)
        pieces = [field.type.encode(getattr(value, field.name)) for field in self._plain]
        tagged = [
            (tag, field.type.encode(content))
            for tag, field in self._tagged
            if (content := getattr(value, field.name)) != self._defaults[field.name]
        ]
        pieces.append(unsigned_varint(len(tagged)))
        for tag, content in tagged:
            pieces += (unsigned_varint(tag), unsigned_varint(len(content)), content)
        return b"".join(pieces)

    def decode(self, data: bytes, at: int) -> tuple[Any, int]:
        """The value that begins at ``at``, and the position behind it."""
        values = list(self._defaults.values())
        for place, decode in self._plain_readers:
            values[place], at = decode(data, at)
        if data[at]:
            at = self._decode_tagged(data, at, values)
        else:
            at += 1
        return self._constructor(*values), at

    def to_json(self, value: Any) -> JsonObject:
        """The value as Kafka's JSON converters print it; default tagged fields are left out.

        UnsupportedVersion as from :meth:`encode`.
        """
        self._check_absent(value)
        return {
            camel_case(field.name): field.type.to_json(content)
            for field in self._present
            if (content := getattr(value, field.name)) != self._defaults[field.name]
            or field.tag is None
        }

    def _check_absent(self, value: Any) -> None:
        for name in self._absent:
            if getattr(value, name) != self._defaults[name]:
                raise UnsupportedVersion(
                    f"{self._constructor.__name__}: attempted to write a non-default {name} "
                    f"at version {self._version}"
                )

    def _decode_tagged(self, data: bytes, at: int, values: list[Any]) -> int:
        count, at = read_unsigned_varint(data, at)
        if count * _LEAST_TAGGED_BYTES > len(data) - at:
            raise InvalidFrame(f"{count} tagged fields announced, {len(data) - at} bytes left")
        for _ in range(count):
            tag, at = read_unsigned_varint(data, at)
            size, at = read_unsigned_varint(data, at)
            end = at + size
            if end > len(data):
                raise InvalidFrame(f"tag {tag} has {size} bytes, {len(data) - at} are left")
            field = self._known_tags.get(tag)
            if field is not None:
                if field.since > self._version:
                    raise InvalidFrame(f"tag {tag} is not valid for version {self._version}")
                values[self._places[field.name]], read_to = field.type.decode(data, at)
                if read_to != end:
                    raise InvalidFrame(f"tag {tag} is not of its announced size {size}")
            at = end
        return at


def struct(constructor: type[Any], *fields: Field) -> WireType:
    """The type of a structure inside a record, the same in all versions."""
    layout = StructLayout(constructor, fields, 0)
    least_bytes = sum(field.type.least_bytes for field in fields) + 1
    return WireType(layout.encode, layout.decode, layout.to_json, least_bytes)
