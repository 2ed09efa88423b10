"""Random messages of Kafka's protocol, made from kio's schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from random import Random
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

E = TypeVar("E", bound=Entity)

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

_LENGTHS: Final = (0, 1, 3)


def random_message(
    random: Random,
    schema: type[E],
    fixed: Mapping[str, object] | None = None,
    lengths: Sequence[int] = _LENGTHS,
) -> E:
    """A message of that class; ``fixed`` are fields whose value is given, by name, at any depth.

    ``lengths`` are those that an array may have.
    """
    given = fixed or {}
    return schema(
        **{
            field.name: given[field.name]
            if field.name in given
            else _value(random, field, field.type, given, lengths)
            for field in fields(schema)
        }
    )


def _value(
    random: Random,
    field: Field[Any],
    declared: Any,
    fixed: Mapping[str, object],
    lengths: Sequence[int],
) -> object:
    if get_origin(declared) is UnionType or type(None) in get_args(declared):
        # A tag that is absent is its field's null: kio cannot write a tagged null.
        if "tag" in field.metadata or random.random() < 0.7:
            (declared,) = (t for t in get_args(declared) if t is not type(None))
        else:
            return None
    if get_origin(declared) is tuple:
        item = get_args(declared)[0]
        return tuple(
            _value(random, field, item, fixed, lengths) for _ in range(random.choice(lengths))
        )
    if hasattr(declared, "__dataclass_fields__"):
        return random_message(random, declared, fixed, lengths)
    return _PRIMITIVES[field.metadata["kafka_type"]](random)
