"""Every request and response of Kafka 3.9, in every version: written, looked over, read.

The guard in front of kio's reader is made from the same schemas; here it must let pass, to the last
byte, whatever kio's writer writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from random import Random
from types import UnionType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import Entity

from zkcontroller.errors import InvalidFrame
from zkcontroller.protocol.messages import read, request_type, response_type, write
from zkcontroller.protocol.wire_guard import checked

MESSAGES_EACH: Final = 4

_PRIMITIVES: Final[dict[str, Callable[[Random], object]]] = {
    "int8": lambda r: r.randint(-(2**7), 2**7 - 1),
    "int16": lambda r: r.randint(-(2**15), 2**15 - 1),
    "uint16": lambda r: r.randint(0, 2**16 - 1),
    "int32": lambda r: r.randint(-(2**31), 2**31 - 1),
    "uint32": lambda r: r.randint(0, 2**32 - 1),
    "int64": lambda r: r.randint(-(2**63), 2**63 - 1),
    "float64": lambda r: r.random(),
    "bool": lambda r: r.random() < 0.5,
    "string": lambda r: "".join(r.choices("aé😀", k=r.choice((0, 1, 5, 200)))),
    "bytes": lambda r: r.randbytes(r.choice((0, 3, 300))),
    "records": lambda r: r.randbytes(r.choice((0, 3, 300))),
    "uuid": lambda r: UUID(int=r.getrandbits(128) | 1),
    "error_code": lambda r: r.choice(list(ErrorCode)),
    "timedelta_i32": lambda r: timedelta(milliseconds=r.randint(-1, 10**9)),
    "timedelta_i64": lambda r: timedelta(milliseconds=r.randint(-1, 10**12)),
    "datetime_i64": lambda r: datetime.fromtimestamp(r.randint(0, 10**9), UTC),
}


def _message(random: Random, schema: type[Entity]) -> Entity:
    return schema(**{field.name: _value(random, field, field.type) for field in fields(schema)})


def _value(random: Random, field: Field[Any], declared: Any) -> object:
    if get_origin(declared) is UnionType or type(None) in get_args(declared):
        # A tag that is absent is its field's null: kio cannot write a tagged null.
        if "tag" in field.metadata or random.random() < 0.7:
            (declared,) = (t for t in get_args(declared) if t is not type(None))
        else:
            return None
    if get_origin(declared) is tuple:
        item = get_args(declared)[0]
        return tuple(_value(random, field, item) for _ in range(random.choice((0, 1, 3))))
    if hasattr(declared, "__dataclass_fields__"):
        return _message(random, declared)
    return _PRIMITIVES[field.metadata["kafka_type"]](random)


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_the_guard_lets_pass_what_kio_writes_and_nothing_shorter(api_key: int) -> None:
    random = Random(api_key)
    for version in schema_name_map[api_key_map[api_key]]:
        for schema in (request_type(api_key, version), response_type(api_key, version)):
            for _ in range(MESSAGES_EACH):
                message = _message(random, schema)
                data = write(message)

                assert checked(schema, data, 0) == (data, 0)
                assert read(schema, b"##" + data + b"behind", 2) == message
                if data:
                    with pytest.raises(InvalidFrame):
                        checked(schema, data[: random.randrange(len(data))], 0)
