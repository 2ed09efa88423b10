"""Turns texts into columns of the schema; Arrow converts a whole column at a time.

A text is the bytes of one group of a shape's expression.  An empty text becomes null.  A text that
does not fit the column's type becomes null, too, because no log line may end an ingest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from kafka_history.event_schema import EVENT_COLUMNS, Column

Texts = Sequence[bytes]
Value = TypeVar("Value", bound=tuple[Any, ...])

PLACE: Final = ("cluster", "file", "line")
"""Columns of the schema that depend on the file and are added when rows are read."""

TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "array<bigint>": pa.list_(pa.int64()),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""Arrow's type for each type of the schema."""

EVENTS: Final = pa.schema(
    [
        ("line_id", pa.int64()),
        ("stream", pa.string()),
        *((c.name, TYPES[c.type]) for c in EVENT_COLUMNS if c.name not in PLACE),
    ]
)
"""The schema of rows while a file is read, without the columns :data:`PLACE`."""

CONSTANTS_MAX: Final = 4_096
"""Most constants, such as ids of shapes, whose converted values are cached."""
_BROKER_STATE: Final = re.compile(rb"BrokerState\(brokerId=(\d+), brokerEpoch=-?\d+\)")
_BITS: Final = {"int": 32, "bigint": 64}


def strings(texts: Sequence[bytes | None]) -> pa.Array:
    """The texts as strings; invalid UTF-8 is replaced, None becomes null."""
    array = pa.array(texts, pa.binary())
    nulls_at, offsets, data = array.buffers()
    if data is None or np.frombuffer(data, np.uint8).max(initial=0) < 128:
        # All ASCII: the bytes are valid strings already.
        return pa.StringArray.from_buffers(len(array), offsets, data, nulls_at, array.null_count)
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if text is None else text.decode(errors="replace") for text in texts],
            pa.string(),
        )


def shortened(texts: Texts, capacity: int) -> pa.Array:
    """The texts as strings, each cut to at most ``capacity`` characters."""
    if max(map(len, texts), default=0) > capacity:
        texts = [_cut(text, capacity) for text in texts]
    return strings(texts)


def _cut(text: bytes, capacity: int) -> bytes:
    if len(text) <= capacity:
        return text
    return text[: 4 * capacity].decode(errors="replace")[:capacity].encode()


def column(name: str, texts: Texts) -> pa.Array:
    """The texts as the column ``name`` of the schema."""
    return _CONVERSION_OF[name](texts)


def constant(name: str, text: str, count: int) -> pa.Array:
    """The column ``name`` with the same text in all ``count`` rows."""
    return pa.repeat(_value(name, text), count)


@lru_cache(CONSTANTS_MAX)
def _value(name: str, text: str) -> pa.Scalar:
    return column(name, [text.encode()])[0]


def mapped(texts: Texts, values: Mapping[bytes, bytes]) -> pa.Array:
    """The texts as strings, those in ``values`` replaced; an empty one becomes null."""
    return by_value(pa.string(), lambda text: values.get(text, text).decode() or None)(texts)


def _strings(texts: Texts) -> pa.Array:
    return strings([text or None for text in texts] if b"" in texts else texts)


def _numbers(kind: str) -> Callable[[Texts], pa.Array]:
    def convert(texts: Texts) -> pa.Array:
        given = _strings(texts)
        try:
            return given.cast(TYPES[kind])
        except pa.ArrowInvalid:  # too large for the type
            return pa.array([_number(text, _BITS[kind]) for text in texts], TYPES[kind])

    return convert


def _number(text: bytes, bits: int) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def by_value(kind: pa.DataType, value: Callable[[bytes], Any]) -> Callable[[Texts], pa.Array]:
    """A conversion that runs ``value`` once for each different text; for few different texts."""

    def convert(texts: Texts) -> pa.Array:
        places: dict[bytes, int] = {}
        taken = [places.setdefault(text, len(places)) for text in texts]
        values = pa.array([value(text) for text in places], kind)
        return values.take(pa.array(taken, pa.int32()))

    return convert


def _int_list(text: bytes) -> list[int | None] | None:
    """``1,2`` or ``1, 2``; ``BrokerState(brokerId=1, brokerEpoch=-1), …`` since 3.5."""
    if not text:
        return None
    return [_number(part, 32) for part in _BROKER_STATE.sub(rb"\1", text).split(b",")]


def _recovery_state(text: bytes) -> int | None:
    return None if not text else int(text not in (b"RECOVERED", b"0"))


_CONVERSIONS: Final[dict[str, Callable[[Texts], pa.Array]]] = {
    "string": _strings,
    "int": _numbers("int"),
    "bigint": _numbers("bigint"),
    "boolean": by_value(pa.bool_(), lambda text: {b"true": True, b"false": False}.get(text)),
    "array<int>": by_value(pa.list_(pa.int32()), _int_list),
}
_CONVERSION_OF: Final = {
    **{c.name: _CONVERSIONS[c.type] for c in EVENT_COLUMNS if c.type in _CONVERSIONS},
    "leader_recovery_state": by_value(pa.int32(), _recovery_state),
}


def pairs(names: Sequence[str], columns: Sequence[Texts]) -> pa.Array:
    """Several columns of texts as one column of maps; an empty text has no entry."""
    count = len(columns[0])
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), count)))
    texts = [text for row in zip(*columns, strict=True) for text in row]
    offsets = np.arange(0, len(texts) + 1, len(names), dtype=np.int32)
    if b"" in texts:
        is_there = np.fromiter(map(bool, texts), np.bool_, len(texts))
        offsets = np.concatenate([[0], np.cumsum(is_there)])[offsets].astype(np.int32)
        keys = keys.filter(pa.array(is_there))
        texts = [text for text in texts if text]
    return pa.MapArray.from_arrays(pa.array(offsets), keys, strings(texts))


def table_of(found: Iterable[tuple[Any, ...]], columns: Sequence[Column]) -> pa.Table:
    """The values as a table with these columns, one for each field."""
    rows = list(found)
    return pa.table(
        {
            column.name: pa.array([row[at] for row in rows], TYPES[column.type])
            for at, column in enumerate(columns)
        }
    )


def values_of(kind: type[Value], rows: pa.Table | pa.RecordBatch) -> list[Value]:
    """The rows as values of one type; a field whose column the rows lack has its default."""
    make: Any = kind
    columns: list[Iterable[Any]] = []
    for name in make._fields:
        if name not in rows.schema.names:
            columns.append(repeat(make._field_defaults[name], rows.num_rows))
        elif rows[name].null_count == rows.num_rows:
            columns.append(repeat(None, rows.num_rows))  # as are most columns of most events
        else:
            columns.append(rows[name].to_pylist(maps_as_pydicts="strict"))
    return list(map(make._make, zip(*columns, strict=True)))
