"""Makes kio's message classes with plain numbers instead of datetimes and long timedeltas.

On the wire both are 64-bit numbers of milliseconds, and a peer may send any value.  kio reads them
as ``datetime`` and ``timedelta``, which cannot hold -1 (no time) or the largest numbers.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final, TypeVar, cast

from kio.static.primitive import i64
from kio.static.protocol import Entity

E = TypeVar("E", bound=Entity)

_KAFKA_TYPE: Final = "kafka_type"
_REPLACED: Final = ("datetime_i64", "timedelta_i64")
_NUMBER: Final = "int64"
OF_THE_CLASS: Final = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)
"""The class attributes that kio's readers and writers need."""


@cache
def with_numbers(original: type[E]) -> type[E]:
    """The same message class, with times and 64-bit durations as numbers of milliseconds."""
    made = dataclasses.make_dataclass(
        original.__name__,
        [_numeric(field) for field in dataclasses.fields(original)],
        namespace={name: getattr(original, name) for name in OF_THE_CLASS},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    return cast("type[E]", made)


def _numeric(field: dataclasses.Field[Any]) -> tuple[str, Any, Any]:
    if field.metadata.get(_KAFKA_TYPE) in _REPLACED:
        return field.name, i64, dataclasses.field(metadata={_KAFKA_TYPE: _NUMBER})
    same: Any = dataclasses.field(default=field.default, metadata=field.metadata)
    return field.name, field.type, same
