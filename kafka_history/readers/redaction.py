"""Replaces names in rows: topics, hosts and free text become hashes, the same for one key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_history.readers.arrow_columns import EVENTS
from kafka_history.shapes.catalogue import shapes
from kafka_history.shapes.template import PARTS

_HARMLESS: Final = frozenset(
    ("id", "int", "number", "bool", "ints", "map", "collection", "brokers")
)
"""Types of fields that hold only numbers, booleans or broker lists, so no names."""

_FREE: Final = re.compile("^[0-9,.> -]*$|^(?i:handling|completed|true|false|null)$")
"""Values of the column ``values`` that contain no name."""
_ADDRESS: Final = re.compile("[0-9]+[.][0-9]+[.][0-9]+[.][0-9]+")
"""An IP address: a host that consists of numbers only."""
_ERROR: Final = re.compile("[A-Z_]*")
"""Kafka's name of an error."""
_REMEMBERED_MAX: Final = 10_000
"""Most names whose hashes are cached."""

_FIELD: Final = re.compile(r"<([A-Z][A-Z0-9_]*)>|<[a-z_][a-z0-9_]*(?::([^>]*))?>")


def redacted(rows: pa.Table, key: str) -> pa.Table:
    """The rows with every name replaced by ``r-`` and twelve hexadecimal digits.

    ``rows``: with the columns :data:`.arrow_columns.EVENTS`.  The same name and the same ``key``
    give the same digits.  Without the key, a name cannot be found by hashing guesses.  Hashed are
    topics, topic ids, streams, and fields that may contain names, such as messages of exceptions.
    The text is kept only for shapes that cannot contain a name.  Broker ids, epochs, times and the
    paths of the files remain.
    """
    secret = key.encode().hex().encode()

    @lru_cache(_REMEMBERED_MAX)
    def hashed(name: str) -> str:
        return f"r-{hashlib.sha256(secret + name.encode()).hexdigest()[:12]}"

    def unless(is_known: Callable[[str], object]) -> Callable[[str], str]:
        return lambda text: text if is_known(text) else hashed(text)

    changed = {
        "stream": _each(rows["stream"].combine_chunks(), hashed),
        "topic": _each(rows["topic"].combine_chunks(), hashed),
        "topic_id": _each(rows["topic_id"].combine_chunks(), hashed),
        "exception_message": _each(rows["exception_message"].combine_chunks(), hashed),
        "fingerprint": _fingerprints(rows, hashed),
        "error": _each(rows["error"].combine_chunks(), unless(_ERROR.fullmatch)),
        "values": _each_value(rows["values"], unless(_names_nothing)),
        "text": pc.if_else(pc.is_in(rows["shape"], _without_names()), rows["text"], None),
    }
    for name, column in changed.items():
        rows = rows.set_column(EVENTS.get_field_index(name), EVENTS.field(name), column)
    return rows


def _each(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """The texts changed by ``change``, called once for each different text; null stays null."""
    few = texts.dictionary_encode()
    return pa.array(map(change, few.dictionary.to_pylist()), pa.string()).take(few.indices)


def _each_value(maps: pa.ChunkedArray, change: Callable[[str], str]) -> pa.Array:
    """Applies ``change`` to every value of the maps; a map that is null stays null."""
    whole = maps.combine_chunks()
    values = _each(whole.items, change)
    return pa.MapArray.from_arrays(whole.offsets, whole.keys, values, mask=whole.is_null())


def _fingerprints(rows: pa.Table, hashed: Callable[[str], str]) -> pa.Array:
    """Class, hash of the fingerprint and first frame of each exception; null without one."""
    columns = [rows[f"exception_{name}"] for name in ("class", "frames")]
    if columns[0].null_count == len(rows):
        return pa.nulls(len(rows), pa.string())
    return pa.array(
        [
            name and " | ".join([name, *([hashed(said)] if said else []), *(frames or ())[:1]])
            for name, frames, said in zip(
                *(column.to_pylist() for column in (*columns, rows["fingerprint"])), strict=True
            )
        ],
        pa.string(),
    )


def _names_nothing(value: str) -> bool:
    return _FREE.match(value) is not None and _ADDRESS.search(value) is None


@cache
def _without_names() -> pa.Array:
    """The ids of shapes whose text cannot contain a name."""
    return pa.array([shape.id for shape in shapes() if _is_harmless(shape.template)], pa.string())


def _is_harmless(template: str) -> bool:
    """Whether all fields of the template, also in shared parts, have harmless types."""
    for part, kind in _FIELD.findall(template):
        if part:
            if not _is_harmless(PARTS[part]):
                return False
        elif kind not in _HARMLESS and "|" not in kind:
            return False
    return True
