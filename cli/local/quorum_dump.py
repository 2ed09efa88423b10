"""Prints the files of a metadata log as JSON lines, one line for each record.

``data`` of a metadata record is the same as with ``kafka-dump-log --cluster-metadata-decoder``;
``data`` of a control record has the field names of its schema.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID

import orjson

from kafka_common.errors import RecordsRefused
from kafka_common.protocol.uuid_text import uuid_text
from kraft.metadata.metadata_batches import (
    ControlBatch,
    MetadataBatch,
    read_metadata_batch,
)
from kraft.metadata.record_json import record_json
from kraft.raft.control_records import ControlRecord
from zkcontroller_cli.console.options import say

WINDOW_BYTES: Final = 16 * 1024 * 1024
"""Files are read in pieces of this size, twice that of the largest batch in a metadata log."""

_WORD_END: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_DIRECTORY: Final = UUID(int=0)


def dump_file(path: Path, out: BinaryIO) -> bool:
    """Print the records of a file; False if it is damaged, which is also said on stderr."""
    position = 0
    with path.open("rb") as file:
        while window := _read(file, position):
            taken = 0
            for line, end in _lines(path, window):
                out.write(line)
                taken = end
            if not taken:
                # Zeros up to the end are no damage, as segments are preallocated.
                return not any(window) or _complain(path, position, window)
            position += taken
    return True


def _read(file: BinaryIO, position: int) -> bytes:
    file.seek(position)
    return file.read(WINDOW_BYTES)


def _lines(path: Path, window: bytes) -> Iterator[tuple[bytes, int]]:
    """A line for each record of the complete batches in the window, and the end of its batch."""
    position = 0
    while position < len(window):
        try:
            batch = read_metadata_batch(window, position)
        except RecordsRefused:
            return
        position += batch.place.size_in_bytes
        for row in _rows(path, batch):
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE), position


def _complain(path: Path, position: int, window: bytes) -> bool:
    try:
        read_metadata_batch(window)
    except RecordsRefused as wrong:
        say(f"{path}, from byte {position} on: {wrong}")
    return False


def _rows(path: Path, batch: MetadataBatch) -> Iterator[dict[str, Any]]:
    is_control = isinstance(batch, ControlBatch)
    place = batch.place
    contents = (
        map(_control_json, batch.records)
        if isinstance(batch, ControlBatch)
        else map(record_json, batch.records)
    )
    for offset, content in enumerate(contents, place.base_offset):
        yield {
            "file": path.name,
            "offset": offset,
            "epoch": place.epoch,
            "timestamp": place.append_timestamp,
            "is_control": is_control,
            **content,
        }


def _control_json(record: ControlRecord) -> dict[str, Any]:
    name = _WORD_END.sub("_", type(record).__name__).upper()
    return {"type": name, "version": 0, "data": _fields(record)}


def _fields(value: Any) -> Any:
    match value:
        case UUID():
            return uuid_text(value)
        case tuple():
            return [_fields(each) for each in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                _camel(field.name): _fields(
                    _NO_DIRECTORY
                    if field.name.endswith("directory_id") and getattr(value, field.name) is None
                    else getattr(value, field.name)
                )
                for field in dataclasses.fields(value)
            }
        case _:
            return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
