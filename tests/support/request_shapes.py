"""Well-formed requests with many elements: every array field of every API that is answered.

The schema says which arrays there are.  A shape puts all its elements into one of them; every other
array has one element, and every other field a value that the handlers accept.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.static.protocol import RequestPayload

from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import request_type
from replica_manager.server.context import versions_of
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.broker_world import BROKER_EPOCH, ORDERS_ID

ORDERS: Final = "orders"
GENEROUS: Final = timedelta(seconds=30)

Path: typing.TypeAlias = tuple[str, ...]

_VALUES: Final[Mapping[str, object]] = {
    "broker_epoch": BROKER_EPOCH,
    "controller_epoch": 1,
    "timeout": timedelta(0),
    "session_timeout": GENEROUS,
    "rebalance_timeout": GENEROUS,
    "member_id": "",
    "group_instance_id": None,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "protocol_type": "consumer",
    "producer_id": -1,
    "producer_epoch": -1,
    "replica_id": -1,
    "replication_factor": 1,
    "num_partitions": 1,
    "count": 2,
    "resource_type": 2,
    "resource_type_filter": 2,
    "pattern_type": 3,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:alice",
    "host": "*",
    "config_operation": 0,
    "entity_type": "client-id",
    "verify_only": True,
    "timestamp": -1,
}
"""Of fields whose value decides whether a request gets as far as its elements."""


OFFERED: Final = versions_of(HANDLERS)
"""API key to the first and last version that a broker answers."""


class Shape(NamedTuple):
    """One array of one version of an API's request."""

    api_key: ApiKey
    version: int
    path: Path

    @property
    def name(self) -> str:
        return f"{APIS[self.api_key].name}-v{self.version}-{'.'.join(self.path)}"

    def request(self, count: int, **values: object) -> RequestPayload:
        """The request with ``count`` elements in that array."""
        made = _made(request_type(self.api_key, self.version), self.path, count, 0, values)
        return typing.cast(RequestPayload, made)


def all_shapes(offered: Mapping[int, tuple[int, int]] = OFFERED) -> list[Shape]:
    """Every array field, in the latest version that has it at that place."""
    latest: dict[tuple[int, Path], Shape] = {}
    for api_key, (first, last) in offered.items():
        for version in range(first, last + 1):
            for path in _array_paths(request_type(api_key, version)):
                latest[api_key, path] = Shape(ApiKey(api_key), version, path)
    return list(latest.values())


def requests_with(text: str) -> Iterator[RequestPayload]:
    """One request for every field of every API that may hold that text, in its last versions.

    The last flexible version and the one before: their strings have different bounds.
    """
    for api_key, handler in HANDLERS.items():
        first, last = handler.VERSIONS
        flexible = [APIS[ApiKey(api_key)].is_flexible(each) for each in range(first, last + 1)]
        latest = {is_flexible: first + at for at, is_flexible in enumerate(flexible)}
        for version in latest.values():
            shape = Shape(ApiKey(api_key), version, ())
            for name, value in _texts(request_type(api_key, version), text).items():
                yield shape.request(1, **{"acks": 1, name: value})


def _texts(entity: Any, text: str) -> dict[str, object]:
    """What to put into each field of that class, and of those below it, that takes a text."""
    found: dict[str, object] = {}
    for name, hint in _fields(entity).items():
        item = _item_of(hint)
        below = hint if item is None else item
        if dataclasses.is_dataclass(below):
            found |= _texts(below, text)
        elif _base(below) is str:
            found[name] = text if item is None else (text,)
    return found


def _array_paths(entity: Any) -> Iterator[Path]:
    for name, hint in _fields(entity).items():
        item = _item_of(hint)
        if item is None:
            continue
        yield (name,)
        if dataclasses.is_dataclass(item):
            yield from ((name, *rest) for rest in _array_paths(item))


@cache
def _fields(entity: type) -> dict[str, Any]:
    return {
        name: hint
        for name, hint in get_type_hints(entity).items()
        if get_origin(hint) is not ClassVar and hint is not ClassVar
    }


@cache
def _item_of(hint: Any) -> Any | None:
    """The class of an array's elements; None if the field is no array."""
    if get_origin(hint) is tuple:
        return get_args(hint)[0]
    return next((item for each in get_args(hint) if (item := _item_of(each)) is not None), None)


def _made(entity: Any, path: Path, count: int, number: int, values: Mapping[str, object]) -> object:
    fields = {}
    for field in dataclasses.fields(entity):
        name, hint = field.name, _fields(entity)[field.name]
        item = _item_of(hint)
        if item is None or (name in values and path[:1] != (name,)):
            fields[name] = _scalar(name, hint, number, values)
            continue
        is_here = path[:1] == (name,)
        below = path[1:] if is_here else ()
        size = count if path == (name,) else 1
        fields[name] = tuple(_items(item, name, below, size, count, values))
    return entity(**fields)


def _items(
    item: Any, name: str, below: Path, size: int, count: int, values: Mapping[str, object]
) -> Iterator[object]:
    for number in range(size):
        if dataclasses.is_dataclass(item):
            yield _made(item, below, count, number, values)
        else:
            yield _scalar(name, item, number, {})


def _scalar(name: str, hint: Any, number: int, values: Mapping[str, object]) -> object:
    if name in values:
        return values[name]
    if name in _VALUES:
        return _VALUES[name]
    if dataclasses.is_dataclass(hint):
        return _made(hint, (), 1, number, values)
    base = _base(hint)
    if base is str:
        return ORDERS if number == 0 else f"t{number}"
    if base is bool:
        return False
    if base is UUID:
        return ORDERS_ID if number == 0 else UUID(int=number)
    if base is timedelta:
        return timedelta(0)
    if base is datetime:
        return datetime.fromtimestamp(0, UTC)
    if base is int:
        # Small enough for every width.
        return number if "partition" in name or "indexes" in name else number % 100
    if base is bytes:
        return b"\0" * 4
    if base is float:
        return 1.0
    return None


@cache
def _base(hint: Any) -> Any:
    """The plain class behind a NewType, an optional or one of kio's own types."""
    for each in (hint, *get_args(hint)):
        if each is type(None):
            continue
        while hasattr(each, "__supertype__"):
            each = each.__supertype__
        if isinstance(each, type):
            for plain in (bool, int, str, bytes, float, UUID, timedelta, datetime):
                if issubclass(each, plain):
                    return plain
            # kio's own numbers and times are phantom types of these.
            bound = getattr(each, "__bound__", None)
            if bound:
                return bound[0] if isinstance(bound, tuple) else bound
    return None
