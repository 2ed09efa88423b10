"""Checks a message's lengths before kio reads it, so that no peer can exhaust the process.

kio's native reader is fast and trusts its input in five ways that a server must not:

* it reserves memory for as many array items as the peer announces: five bytes make it ask for
  34 GB, and Rust ends the whole process when that fails;
* it raises for tagged fields it does not know, which KIP-482 obliges every reader to skip;
* it does not compare a tagged field with the size written before it;
* it reads null as None where the schema does not allow null;
* it reads strings of any length, where Kafka allows 32,767 bytes.

For each message type a *walk* is made once, from the same schema classes.  A walk is a function
that goes over the bytes without making values, checks every length against the bytes that are left,
and lists the bytes that must be cut out for kio.  Source: KIP-482, Kafka ``MessageDataGenerator``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple, TypeAlias, get_origin

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.static.protocol import Entity

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.primitives import MAX_STRING_BYTES, unsigned_varint

MOST_TAGS: Final = 1_000
"""Limit of tagged fields in one section.

Kafka's messages have a handful, and each costs time to skip.
"""

Cut: TypeAlias = tuple[int, int, bytes]
"""(start, end, the bytes that replace that range)."""

Walk: TypeAlias = Callable[[bytes, int, list[Cut]], int]
"""Maps (data, position, cuts) to the position after the field; at most the end of data."""

_FIXED_SIZES: Final = {
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from


class _Step(NamedTuple):
    """How to skip one field: by a fixed number of bytes, or by walking."""

    size: int
    """Bytes of a field of fixed size; otherwise the least bytes that the field can have."""
    walk: Walk | None


def checked(entity_type: type[Entity], data: bytes, offset: int) -> tuple[bytes, int]:
    """The bytes that kio's reader can read, and the position in them where the message starts.

    Raises InvalidFrame if a length is not allowed.  The data is copied only if a tagged field that
    kio does not know had to be cut out.
    """
    cuts: list[Cut] = []
    try:
        _entity_walk(entity_type, False)(data, offset, cuts)
    except (IndexError, struct_error):
        raise InvalidFrame(f"{entity_type.__name__} ends too early") from None
    if not cuts:
        return data, offset
    kept, position = [], offset
    for start, end, instead in sorted(cuts):
        kept += [data[position:start], instead]
        position = end
    return b"".join([*kept, data[position:]]), 0


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while shift < 35:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position + 1
        shift += 7
    raise InvalidFrame("a variable-length number is longer than five bytes")


def skip_tagged_fields(data: Buffer, position: int) -> int:
    """The position after a section of tagged fields, all of which are skipped."""
    count, position = read_unsigned_varint(data, position)
    for _ in range(_tag_count(count, data, position)):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position = _beyond(data, position, size)
    return position


def check_string_size(size: int) -> None:
    """InvalidFrame for a string that Kafka would not read.

    Source: Kafka ``MessageDataGenerator.generateVariableLengthReader``.
    """
    if size > MAX_STRING_BYTES:
        raise InvalidFrame(f"a string of {size} bytes, {MAX_STRING_BYTES} are allowed")


def _beyond(data: Buffer, position: int, size: int) -> int:
    if size > len(data) - position:
        raise InvalidFrame(f"{size} bytes announced, {max(len(data) - position, 0)} left")
    return position + size


def _tag_count(count: int, data: Buffer, position: int) -> int:
    if count > MOST_TAGS:
        raise InvalidFrame(f"{count} tagged fields in one place, {MOST_TAGS} are allowed")
    return _bounded(count, 2, data, position)


def _bounded(count: int, item_size: int, data: Buffer, position: int) -> int:
    if count * item_size > len(data) - position:
        raise InvalidFrame(
            f"{count} items announced, {max(len(data) - position, 0)} bytes left for them"
        )
    return count


@cache
def _entity_walk(entity_type: type[Entity], is_nullable: bool) -> Walk:
    plain, tagged = _steps(entity_type)
    merged = _merged(plain)
    tags_walk = _tags_walk(tagged) if entity_type.__flexible__ else None

    def walk(data: bytes, position: int, cuts: list[Cut]) -> int:
        for size, field_walk in merged:
            if field_walk is None:
                position += size
            else:
                position = field_walk(data, position, cuts)
        if tags_walk is not None:
            # Nearly always there is no tagged field: the section is one byte 0.
            position = position + 1 if data[position] == 0 else tags_walk(data, position, cuts)
        if position > len(data):
            raise InvalidFrame(f"{entity_type.__name__} ends too early")
        return position

    def walk_nullable(data: bytes, position: int, cuts: list[Cut]) -> int:
        if data[position] == 0xFF:  # KIP-893: -1 is null
            return position + 1
        return walk(data, position + 1, cuts)

    return walk_nullable if is_nullable else walk


def _steps(entity_type: type[Entity]) -> tuple[list[_Step], dict[int, _Step]]:
    plain: list[_Step] = []
    tagged: dict[int, _Step] = {}
    is_request_header = entity_type.__name__ == "RequestHeader"
    for field in fields(entity_type):
        tag = get_field_tag(field)
        is_flexible = entity_type.__flexible__ and not (
            is_request_header and field.name == "client_id"
        )
        step = _field_step(
            field, is_flexible, is_nullable=is_optional(field), is_tag=tag is not None
        )
        if tag is None:
            plain.append(step)
        else:
            tagged[tag] = step
    return plain, tagged


def _merged(steps: list[_Step]) -> list[_Step]:
    """Merges neighbouring steps of fixed size."""
    merged: list[_Step] = []
    for step in steps:
        if merged and step.walk is None and merged[-1].walk is None:
            merged[-1] = _Step(merged[-1].size + step.size, None)
        else:
            merged.append(step)
    return merged


def _field_step(field: Field[Any], is_flexible: bool, *, is_nullable: bool, is_tag: bool) -> _Step:
    kind = classify_field(field)
    # A tagged field that is None is absent; only tagged arrays, strings and bytes can be null.
    match kind:
        case EntityField(entity_type):
            item = _entity_step(entity_type, is_nullable and not is_tag)
        case EntityTupleField(entity_type):
            item = _entity_step(entity_type, False)
        case _:
            item = _primitive_step(
                get_schema_field_type(field), is_flexible, is_nullable and not kind.is_array
            )
    if not kind.is_array:
        return item
    array = _compact_array_walk if is_flexible else _fixed_array_walk
    # tuple[X | None, ...] has items that may be null; only tuple[...] | None is itself nullable.
    may_be_null = is_nullable and get_origin(field.type) is not tuple
    return _Step(1 if is_flexible else 4, array(item, may_be_null))


def _entity_step(entity_type: type[Entity], is_nullable: bool) -> _Step:
    plain, _ = _steps(entity_type)
    least = sum(step.size for step in plain) + entity_type.__flexible__
    return _Step(1 if is_nullable else least, _entity_walk(entity_type, is_nullable))


def _primitive_step(kafka_type: str, is_flexible: bool, is_nullable: bool) -> _Step:
    if kafka_type in _FIXED_SIZES:
        return _Step(_FIXED_SIZES[kafka_type], None)
    if is_flexible:
        most = MAX_STRING_BYTES if kafka_type == "string" else None
        return _Step(1, _compact_bytes_walk(is_nullable, most))
    if kafka_type == "string":
        return _Step(2, _fixed_bytes_walk(is_nullable, _INT16, 2))
    assert kafka_type in ("bytes", "records"), kafka_type
    return _Step(4, _fixed_bytes_walk(is_nullable, _INT32, 4))


def _null(is_nullable: bool) -> None:
    if not is_nullable:
        raise InvalidFrame("null where the schema has none")


def _compact_bytes_walk(is_nullable: bool, most: int | None) -> Walk:
    """Walks a compact string or bytes; ``most``: the longest allowed length, None: no limit."""

    def walk(data: bytes, position: int, _cuts: list[Cut]) -> int:
        size, position = read_unsigned_varint(data, position)
        if size == 0:
            _null(is_nullable)
            return position
        if most is not None and size > most:
            check_string_size(size - 1)
        return _beyond(data, position, size - 1)

    return walk


def _fixed_bytes_walk(
    is_nullable: bool, unpack: Callable[[bytes, int], tuple[Any, ...]], length_size: int
) -> Walk:
    def walk(data: bytes, position: int, _cuts: list[Cut]) -> int:
        size: int = unpack(data, position)[0]
        if size >= 0:
            return _beyond(data, position + length_size, size)
        if size < -1:
            raise InvalidFrame(f"a length of {size}")
        _null(is_nullable)
        return position + length_size

    return walk


def _compact_array_walk(item: _Step, is_nullable: bool) -> Walk:
    size, item_walk = item

    def walk(data: bytes, position: int, cuts: list[Cut]) -> int:
        count, position = read_unsigned_varint(data, position)
        if count == 0:
            _null(is_nullable)
            return position
        _bounded(count - 1, size, data, position)
        if item_walk is None:
            return position + (count - 1) * size
        for _ in range(count - 1):
            position = item_walk(data, position, cuts)
        return position

    return walk


def _fixed_array_walk(item: _Step, is_nullable: bool) -> Walk:
    size, item_walk = item

    def walk(data: bytes, position: int, cuts: list[Cut]) -> int:
        count: int = _INT32(data, position)[0]
        position += 4
        if count < 0:
            if count < -1:
                raise InvalidFrame(f"an array of {count} items")
            _null(is_nullable)
            return position
        _bounded(count, size, data, position)
        if item_walk is None:
            return position + count * size
        for _ in range(count):
            position = item_walk(data, position, cuts)
        return position

    return walk


def _tags_walk(known: dict[int, _Step]) -> Walk:
    def walk(data: bytes, start: int, cuts: list[Cut]) -> int:
        count, position = read_unsigned_varint(data, start)
        count_end, last_tag, skipped = position, -1, 0
        for _ in range(_tag_count(count, data, position)):
            tag_start = position
            tag, position = read_unsigned_varint(data, position)
            size, position = read_unsigned_varint(data, position)
            end = _beyond(data, position, size)
            if tag <= last_tag:
                raise InvalidFrame(f"tag {tag} behind tag {last_tag}")
            last_tag = tag
            step = known.get(tag)
            if step is None:
                cuts.append((tag_start, end, b""))
                skipped += 1
            elif _walked(step, data, position, cuts) != end:
                raise InvalidFrame(f"tagged field {tag} is not of its announced size {size}")
            position = end
        if skipped:
            cuts.append((start, count_end, unsigned_varint(count - skipped)))
        return position

    return walk


def _walked(step: _Step, data: bytes, position: int, cuts: list[Cut]) -> int:
    return position + step.size if step.walk is None else step.walk(data, position, cuts)
