"""Responses whose points in time are numbers, as they are on the wire: milliseconds since 1970.

Kio makes moments of them, which have no room for -1: Kafka's word for no time at all.

Source: Kafka ``DelegationTokenManager.ErrorTimestamp`` (KIP-48).
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final, cast

from kio.static.primitive import i64
from kio.static.protocol import ResponsePayload

from zkcontroller.protocol.messages import response_type

NO_TIME: Final = -1
_KAFKA_TYPE: Final = "kafka_type"
_MOMENT: Final = "datetime_i64"
_NUMBER: Final = "int64"
_OF_THE_CLASS: Final = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)


@cache
def numeric_response_type(api_key: int, version: int) -> type[ResponsePayload]:
    """Kio's class of that response, with numbers for moments.

    UnsupportedVersion if there is no such response.
    """
    original = response_type(api_key, version)
    made = dataclasses.make_dataclass(
        original.__name__,
        [_numeric(field) for field in dataclasses.fields(original)],
        namespace={name: getattr(original, name) for name in _OF_THE_CLASS},
        frozen=True,
        slots=True,
        kw_only=True,
    )
    return cast("type[ResponsePayload]", made)


def _numeric(field: dataclasses.Field[Any]) -> tuple[str, Any, Any]:
    if field.metadata.get(_KAFKA_TYPE) == _MOMENT:
        return field.name, i64, dataclasses.field(metadata={_KAFKA_TYPE: _NUMBER})
    same: Any = dataclasses.field(default=field.default, metadata=field.metadata)
    return field.name, field.type, same
