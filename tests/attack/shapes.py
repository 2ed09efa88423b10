"""Requests of any API and version, written from kio's schemas: minimal, or with one field huge.

The bytes are written here and not by kio: a hostile client sends what a library would refuse to
build, and 100,000 items must not take longer to write than to attack with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, fields
from enum import Enum
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from kafka_common.protocol.api_versions import APIS
from kafka_common.protocol.messages import request_type
from kafka_common.protocol.primitives import unsigned_varint
from tests.support.frames import request_header

_FORMATS: Final = {
    "int8": ">b",
    "uint8": ">B",
    "bool": ">?",
    "int16": ">h",
    "uint16": ">H",
    "error_code": ">h",
    "int32": ">i",
    "uint32": ">I",
    "timedelta_i32": ">i",
    "int64": ">q",
    "uint64": ">Q",
    "float64": ">d",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}
_NUMBER: Final = b"\x5e\x5d\x5c\x5b"
"""Stands in an item where its number belongs."""
_NAME_NUMBER: Final = b"@#%&@#%&"
"""Stands in an item's strings where its number belongs, in eight digits."""
_NUMBERED: Final = ("partition_index", "partition", "index", "partitions")

Value: TypeAlias = Callable[[str, str, str], Any]
"""(API's name, path of a field, Kafka's type) to its value; None is null where that may be."""


class Kind(Enum):
    """What can be blown up."""

    ARRAY = "array"
    STRING = "string"
    BYTES = "bytes"


class Slot(NamedTuple):
    """A field of a request that can be huge."""

    path: str
    kind: Kind


class Blow(NamedTuple):
    """Which field is huge, and how."""

    path: str
    size: int
    """Items of an array, bytes of anything else."""
    is_distinct: bool = True
    """Whether an array's items differ from one another."""


@dataclass(frozen=True)
class Message:
    """One request, ready to be sent, and how to call it in a table or a failure."""

    api_key: int
    version: int
    shape: str
    data: bytes
    """Header and body, without the size in front."""

    @property
    def name(self) -> str:
        """``Metadata v12 array topics x 100000``."""
        row = APIS.get(self.api_key)
        api = row.name if row else str(self.api_key)
        return f"{api} v{self.version} {self.shape}"

    def framed(self) -> bytes:
        return struct.pack(">i", len(self.data)) + self.data


def slots(api_key: int, version: int) -> list[Slot]:
    """Every array, string and run of bytes of that request, outermost first."""
    return list(_slots(request_type(api_key, version), ""))


def _slots(entity_type: type, prefix: str) -> Iterator[Slot]:
    for field in fields(entity_type):
        path = prefix + field.name
        kind = classify_field(field)
        if kind.is_array:
            yield Slot(path, Kind.ARRAY)
        if isinstance(kind, EntityField | EntityTupleField):
            yield from _slots(kind.type_, path + ".")
        elif (kafka_type := get_schema_field_type(field)) == "string":
            if not kind.is_array:
                yield Slot(path, Kind.STRING)
        elif kafka_type in ("bytes", "records") and not kind.is_array:
            yield Slot(path, Kind.BYTES)


def message(
    api_key: int,
    version: int,
    value: Value,
    *,
    blow: Blow | None = None,
    client_id: str = "attacker",
    shape: str | None = None,
) -> Message:
    """A request whose fields have those values, one of them perhaps blown up."""
    writer = _Writer(APIS[api_key].name, value, blow)
    body = writer.entity(request_type(api_key, version), "")
    if shape is None:
        shape = "minimal"
        if blow is not None:
            kind = next(slot.kind for slot in slots(api_key, version) if slot.path == blow.path)
            same = "" if blow.is_distinct or kind is not Kind.ARRAY else " the same"
            shape = f"{kind.value} {blow.path} x {blow.size}{same}"
    return Message(api_key, version, shape, request_header(api_key, version, 7, client_id) + body)


class _Writer:
    def __init__(self, api: str, value: Value, blow: Blow | None) -> None:
        self._api = api
        self._value = value
        self._blow = blow
        self._in_numbered_item = False

    def entity(self, entity_type: Any, prefix: str) -> bytes:
        is_flexible = entity_type.__flexible__
        plain: list[bytes] = []
        tagged: dict[int, bytes] = {}
        for field in fields(entity_type):
            path = prefix + field.name
            tag: int | None = get_field_tag(field)
            if tag is None:
                plain.append(self._field(field, path, is_flexible))
            elif self._is_on_the_way_to_the_blow(path):
                tagged[tag] = self._field(field, path, is_flexible)
        if is_flexible:
            plain.append(unsigned_varint(len(tagged)))
            for tag, data in sorted(tagged.items()):
                plain += [unsigned_varint(tag), unsigned_varint(len(data)), data]
        return b"".join(plain)

    def _is_on_the_way_to_the_blow(self, path: str) -> bool:
        return self._blow is not None and f"{self._blow.path}.".startswith(f"{path}.")

    def _field(self, field: Field[Any], path: str, is_flexible: bool) -> bytes:
        kind = classify_field(field)
        if not kind.is_array:
            return self._item(field, kind, path, is_flexible)
        if self._blow is not None and self._blow.path == path:
            return self._blown_array(field, kind, path, is_flexible)
        if not self._is_on_the_way_to_the_blow(path):
            count = self._value(self._api, path, "array")
            if count is None and is_optional(field):
                return b"\0" if is_flexible else b"\xff\xff\xff\xff"
            if count == 0:
                return _count(0, is_flexible)
        return _count(1, is_flexible) + self._item(field, kind, path, is_flexible)

    def _blown_array(self, field: Field[Any], kind: Any, path: str, is_flexible: bool) -> bytes:
        assert self._blow is not None
        count = self._blow.size
        self._in_numbered_item = self._blow.is_distinct
        item = self._item(field, kind, path, is_flexible)
        self._in_numbered_item = False
        if not self._blow.is_distinct:
            return _count(count, is_flexible) + item * count
        items = (
            item.replace(_NAME_NUMBER, b"%08d" % number).replace(_NUMBER, number.to_bytes(4, "big"))
            for number in range(count)
        )
        return _count(count, is_flexible) + b"".join(items)

    def _item(self, field: Field[Any], kind: Any, path: str, is_flexible: bool) -> bytes:
        if isinstance(kind, EntityField | EntityTupleField):
            entity = self.entity(kind.type_, path + ".")
            # KIP-893: a struct that may be null has a byte in front.
            return b"\1" + entity if is_optional(field) and not kind.is_array else entity
        kafka_type = get_schema_field_type(field)
        if kafka_type == "uuid":
            uuid: bytes = self._value(self._api, path, kafka_type)
            return uuid
        if kafka_type in _FORMATS:
            if self._in_numbered_item and _is_numbered(field, kafka_type):
                return _NUMBER
            number = self._value(self._api, path, kafka_type)
            return struct.pack(_FORMATS[kafka_type], number)
        return self._text(field, path, kafka_type, is_flexible)

    def _text(self, field: Field[Any], path: str, kafka_type: str, is_flexible: bool) -> bytes:
        given: bytes | None = self._value(self._api, path, kafka_type)
        is_array = classify_field(field).is_array
        if self._blow is not None and self._blow.path == path and not is_array:
            given = b"x" * self._blow.size
        if given is None and (is_array or not is_optional(field)):
            given = b"attack"
        if given is not None and self._in_numbered_item and kafka_type == "string":
            given = given + b"-" + _NAME_NUMBER
        if is_flexible:
            return b"\0" if given is None else unsigned_varint(len(given) + 1) + given
        if kafka_type == "string":
            if given is None:
                return b"\xff\xff"
            return struct.pack(">H", min(len(given), 0xFFFF)) + given
        return b"\xff\xff\xff\xff" if given is None else struct.pack(">i", len(given)) + given


def _is_numbered(field: Field[Any], kafka_type: str) -> bool:
    return kafka_type == "int32" and field.name in _NUMBERED


def _count(count: int, is_flexible: bool) -> bytes:
    return unsigned_varint(count + 1) if is_flexible else struct.pack(">i", count)


def with_tagged_fields(whole: Message, count: int, size: int) -> Message:
    """The same with so many unknown tagged fields at its end, each of that size."""
    assert APIS[whole.api_key].is_flexible(whole.version)
    tags = b"".join(
        unsigned_varint(1000 + number) + unsigned_varint(size) + b"t" * size
        for number in range(count)
    )
    data = whole.data[:-1] + unsigned_varint(count) + tags
    return Message(whole.api_key, whole.version, f"{count} unknown tags of {size} bytes", data)


def with_tagged_header(whole: Message, count: int) -> Message:
    """The same with so many unknown tagged fields in its header, none of which holds anything."""
    client_end = 10 + int.from_bytes(whole.data[8:10], "big")
    assert whole.data[client_end] == 0, "the header has no tagged fields"
    tags = b"".join(unsigned_varint(1000 + number) + b"\0" for number in range(count))
    head = whole.data[:client_end] + unsigned_varint(count) + tags
    shape = f"{count} unknown tags in the header"
    return Message(whole.api_key, whole.version, shape, head + whole.data[client_end + 1 :])


def mutated(whole: Message, random: Random) -> Message:
    """The same with some bytes changed, cut out, repeated or put in; the API stays."""
    data = bytearray(whole.data)
    done = []
    for _ in range(random.randint(1, 4)):
        at = random.randrange(8, max(len(data), 9))
        match random.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
                done.append(f"bit of {at}")
            case 1:
                del data[at : at + random.randint(1, 20)]
                done.append(f"cut at {at}")
            case 2:
                data[at:at] = data[at : at + random.randint(1, 40)]
                done.append(f"repeated at {at}")
            case 3:
                put = random.choice(_NASTY)
                data[at:at] = put
                done.append(f"{put.hex()} at {at}")
            case _:
                put = random.choice(_NASTY)
                data[at : at + len(put)] = put
                done.append(f"{put.hex()} over {at}")
    return Message(whole.api_key, whole.version, f"mutated ({', '.join(done)})", bytes(data))


_NASTY: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\0" * 9,
    b"\x7f\xff",
    b"\xff\xfe",
)
