"""Writes kafka_common/protocol/request_types.pyi: the request messages as mypy sees them.

    .venv/bin/python scripts/write_request_types.py            writes the file anew
    .venv/bin/python scripts/write_request_types.py --check    only says whether it is stale

Kio has a class for each version of a request.  The file has one class for all versions of it that
are answered here: a field that every one of them has is an attribute, any other is read by
``field_or``.  ``tests/test_house.py`` fails when the file is stale.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Final, NewType, Union, get_args, get_origin
from uuid import UUID

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_type
from kraft.node.controller_apis.table import OFFERED_BY_CONTROLLER
from replica_manager.server.context import versions_of
from replica_manager.server.zookeeper_handlers import HANDLERS

STUB: Final = Path(__file__).parent.parent / "kafka_common" / "protocol" / "request_types.pyi"
_READ_BY_OURSELVES: Final = {ApiKey.PRODUCE, ApiKey.FETCH}
_BASES: Final = (bool, int, float, str, bytes, UUID, timedelta, datetime)

HEAD: Final = """\
# scripts/write_request_types.py writes this file.

from datetime import timedelta
from typing import Literal, TypeVar, overload
from uuid import UUID

_D = TypeVar("_D")
"""


@dataclass
class Message:
    """One message, or a part of one, in all its versions."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    """How many versions have each field."""
    types: dict[str, dict[str, None]] = field(default_factory=dict)
    """A field's type in every version: the members of its union, in Python's words."""
    versions: int = 0

    def type_of(self, name: str) -> str:
        """The field's type in any version."""
        members = self.types[name]
        return " | ".join(sorted(members, key=lambda member: member == "None"))

    @property
    def everywhere(self) -> list[str]:
        """The fields of every version."""
        return [name for name in self.counts if self.counts[name] == self.versions]

    @property
    def sometimes(self) -> list[str]:
        """The fields that some versions lack."""
        return [name for name in self.counts if self.counts[name] < self.versions]


class Api:
    """The request of one API with its parts, in the versions that are answered."""

    def __init__(self, api_key: int, first: int, last: int) -> None:
        self._wholes = [read_type(api_key, version) for version in range(first, last + 1)]
        self._entities = [
            entity for whole in self._wholes for entity in dict.fromkeys(_entities(whole))
        ]
        self.class_names = dict.fromkeys(entity.__name__ for entity in self._entities)

    def messages(self, shared: Collection[str]) -> Iterable[Message]:
        """The request and its parts; a ``shared`` name gets the name of the API before it."""
        prefix = self._wholes[0].__name__.removesuffix("Request")
        names = {
            name: prefix + name.removeprefix(prefix) if name in shared else name
            for name in self.class_names
        }
        messages = {name: Message(shown) for name, shown in names.items()}
        for entity in self._entities:
            message = messages[entity.__name__]
            message.versions += 1
            for each in _fields(entity):
                message.counts[each.name] += 1
                members = dict.fromkeys(_members(each.type, names))
                message.types.setdefault(each.name, {}).update(members)
        return messages.values()


def _fields(entity: type) -> tuple[Field[object], ...]:
    assert is_dataclass(entity)
    return fields(entity)


def _entities(entity: type) -> Iterator[type]:
    """The parts of a message, innermost first, and the message."""
    for each in _fields(entity):
        for inner in _inside(each.type):
            yield from _entities(inner)
    yield entity


def _inside(annotation: object) -> Iterator[type]:
    if isinstance(annotation, type) and is_dataclass(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)


def _members(annotation: object, names: Mapping[str, str]) -> Iterator[str]:
    """The members of a union, or the type itself, in Python's words."""
    if get_origin(annotation) in (UnionType, Union):
        for member in get_args(annotation):
            yield from _members(member, names)
    elif get_origin(annotation) is tuple:
        yield f"tuple[{' | '.join(_members(get_args(annotation)[0], names))}, ...]"
    elif annotation is NoneType:
        yield "None"
    elif isinstance(annotation, NewType):  # TopicName is a str
        yield from _members(annotation.__supertype__, names)
    else:
        assert isinstance(annotation, type), annotation
        yield names[annotation.__name__] if is_dataclass(annotation) else _base(annotation)


def _base(annotation: type) -> str:
    """Python's own type: an ``i16`` is read as an ``int``."""
    return next(base for base in _BASES if issubclass(annotation, base)).__name__


def _class(message: Message) -> str:
    lines = [f"    {name}: {message.type_of(name)}" for name in message.everywhere]
    return "\n".join([f"class {message.name}:", *(lines or ["    ..."])])


def _overloads(messages: Iterable[Message]) -> Iterator[str]:
    """One for each field and its type, whichever messages have it."""
    owners: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        for name in message.sometimes:
            owners.setdefault((name, message.type_of(name)), []).append(message.name)
    for (name, field_type), having in owners.items():
        # The default of what may be null is null.
        default = "None" if field_type.endswith("None") else "_D"
        result = field_type if default == "None" else f"_D | {field_type}"
        yield (
            f"@overload\ndef field_or(message: {' | '.join(having)}, name: Literal[{name!r}], "
            f"default: {default}) -> {result}: ..."
        )


def answered() -> dict[int, tuple[int, int]]:
    """API key to first and last version that a broker or a controller answers."""
    offered = versions_of(HANDLERS)
    keys = sorted({*offered, *OFFERED_BY_CONTROLLER} - _READ_BY_OURSELVES)
    ranges = {key: [r[key] for r in (offered, OFFERED_BY_CONTROLLER) if key in r] for key in keys}
    return {
        key: (min(first for first, _ in found), max(last for _, last in found))
        for key, found in ranges.items()
    }


def written() -> str:
    """The whole file as it should be now."""
    apis = [Api(key, *versions) for key, versions in answered().items()]
    counts = Counter(chain.from_iterable(api.class_names for api in apis))
    shared = {name for name, count in counts.items() if count > 1}
    messages = [message for api in apis for message in api.messages(shared)]
    text = "\n\n".join([HEAD, *map(_class, messages), *_overloads(messages)])
    command = [sys.executable, "-m", "ruff", "format", "-q", "--stdin-filename", STUB.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main(arguments: list[str]) -> int:
    """Write the file, or only check it; returns the exit code."""
    fresh = written()
    if "--check" in arguments:
        is_fresh = STUB.exists() and STUB.read_text(encoding="utf-8") == fresh
        print("up to date" if is_fresh else "stale: run scripts/write_request_types.py")
        return int(not is_fresh)
    STUB.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
