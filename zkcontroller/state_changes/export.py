"""State changes as ``state-changes.jsonl``: one typed JSON object a line.

An object holds ``schema_version``, ``time_ms``, ``host`` and the fields of the record that are not
None, under their own names and with their own types.  ``docs/state-changes-schema.md`` is the
reference for readers.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import orjson

from zkcontroller.state_changes.kafka_values import topic_id
from zkcontroller.state_changes.record import StateChange

SCHEMA_VERSION: Final = 1
"""Raised when a field is removed or changes its meaning, not when a field is added."""

FILE_NAME: Final = "state-changes.jsonl"


def json_line(record: StateChange, *, time_ms: int, host: str) -> bytes:
    """The record as one line of JSON, newline included.

    ``time_ms``: milliseconds since 1970, UTC.  ``host``: name of the machine that writes.
    """
    fields: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "time_ms": time_ms,
        "host": host,
    }
    for name, value in zip(StateChange._fields, record, strict=True):
        if value is not None:
            # orjson would print a UUID with dashes; Kafka's tools and logs have base64.
            fields[name] = topic_id(value) if isinstance(value, UUID) else value
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
