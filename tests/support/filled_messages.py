"""Messages of any API and version with something in every field."""

from __future__ import annotations

import datetime
from dataclasses import fields
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_schema_field_type,
)

_EMPTY: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": UUID(int=1),
    "bytes": b"",
    "records": b"",
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "datetime_i64": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
}


def filled(entity_type: Any, text: str) -> Any:
    """A message with one item in each array, and that text wherever a string stands."""
    values: dict[str, Any] = {}
    for field in fields(entity_type):
        kind = classify_field(field)
        match kind:
            case EntityField(nested) | EntityTupleField(nested):
                value = filled(nested, text)
            case _:
                name = get_schema_field_type(field)
                value = text if name == "string" else _EMPTY.get(name, 0)
        values[field.name] = (value,) if kind.is_array else value
    return entity_type(**values)
