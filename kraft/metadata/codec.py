"""Records of the metadata log as bytes: framed by their type and version, read back and checked.

A frame is the varint 1, the record's key, its version, and the record as a flexible message that
must fill the rest.  Any malformed frame raises InvalidRecord.  Unknown tagged fields are skipped,
so they are lost if the record is written again.

Source: Kafka ``MetadataRecordSerde``, ``AbstractApiMessageSerde``.
"""

from __future__ import annotations

from functools import cache
from struct import error as struct_error
from typing import Final

from kafka_common.errors import InvalidFrame, InvalidRecord, UnsupportedVersion
from kafka_common.protocol.primitives import unsigned_varint
from kafka_common.protocol.wire_guard import read_unsigned_varint
from kraft.metadata.records import MetadataRecord, VersionedRecord
from kraft.metadata.schemas import BY_API_KEY, BY_TYPE
from kraft.metadata.struct_types import StructLayout

FRAME_VERSION: Final = 1


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """The framed value of a data record.

    UnsupportedVersion if there is no such version, or a field that it lacks is not at its default;
    InvalidRecord if a value does not fit into its field.
    """
    layout = layout_of(record, version)
    frame = _frame(BY_TYPE[type(record)].api_key, version)
    try:
        return frame + layout.encode(record)
    except (struct_error, ValueError) as error:
        raise InvalidRecord(f"{type(record).__name__} cannot be written: {error}") from error


def layout_of(record: MetadataRecord, version: int) -> StructLayout:
    """The layout of the record in that version; UnsupportedVersion if there is none."""
    schema = BY_TYPE[type(record)]
    layout = _LAYOUTS.get((schema.api_key, version))
    if layout is None:
        raise UnsupportedVersion(
            f"{type(record).__name__} has versions 0 to {schema.newest_version}, not {version}"
        )
    return layout


def decode_record(data: bytes) -> VersionedRecord:
    """The record in these bytes; InvalidRecord if Kafka 3.9 does not know it."""
    name = "A metadata record"
    try:
        api_key, version, at = _read_frame(data)
        name = f"{_name_of(api_key)} version {version}"
        record, at = _reading(api_key, version).decode(data, at)
    except (IndexError, struct_error):
        raise InvalidRecord(f"{name} ends too early") from None
    except (InvalidFrame, ValueError) as error:
        raise InvalidRecord(f"{name}: {error}") from error
    if at != len(data):
        raise InvalidRecord(f"{name}: {len(data) - at} bytes of garbage after it")
    return VersionedRecord(record, version)


def type_of_record(data: bytes) -> type[MetadataRecord] | None:
    """The record class that these bytes name; None for an unknown type.

    InvalidRecord if not even that can be read.
    """
    try:
        api_key, _, _ = _read_frame(data)
    except (IndexError, InvalidFrame) as error:
        raise InvalidRecord(f"A metadata record: {error}") from error
    schema = BY_API_KEY.get(api_key)
    return None if schema is None else schema.record_type


def _read_frame(data: bytes) -> tuple[int, int, int]:
    """Key and version of the record, and the position of its fields."""
    frame_version, at = read_unsigned_varint(data, 0)
    if frame_version == 0:
        raise InvalidFrame("frame version 0 is that of the preview of KRaft in Kafka 2.8")
    if frame_version != FRAME_VERSION:
        raise InvalidFrame(f"unknown frame version {frame_version}")
    api_key, at = read_unsigned_varint(data, at)
    version, at = read_unsigned_varint(data, at)
    return api_key, version, at


def _name_of(api_key: int) -> str:
    schema = BY_API_KEY.get(api_key)
    return f"A metadata record of type {api_key}" if schema is None else schema.record_type.__name__


def _reading(api_key: int, version: int) -> StructLayout:
    layout = _LAYOUTS.get((api_key, version))
    if layout is not None:
        return layout
    if api_key not in BY_API_KEY:
        raise UnsupportedVersion("there is no such type")
    raise UnsupportedVersion(f"the newest version is {BY_API_KEY[api_key].newest_version}")


@cache
def _frame(api_key: int, version: int) -> bytes:
    return b"".join(map(unsigned_varint, (FRAME_VERSION, api_key, version)))


_LAYOUTS: Final = {
    (schema.api_key, version): StructLayout(schema.record_type, schema.fields, version)
    for schema in BY_API_KEY.values()
    for version in range(schema.newest_version + 1)
}
