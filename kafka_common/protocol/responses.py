"""Encodes responses and shortens error messages that are too long for the wire.

An error message often quotes what the client sent, and that may be as long as a string of the wire
can be.  The message is then longer than one, and the whole response could not be sent, or not be
read by its client.  So such a message is clipped where the response is encoded, in one place for
all APIs.

Source: Kafka ``MessageDataGenerator.generateStringToBytes``: Kafka gives up the whole response.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

from kio.serial._introspect import EntityField, EntityTupleField, classify_field
from kio.serial.errors import OutOfBoundValue
from kio.static.protocol import Entity

from kafka_common.protocol.messages import write
from kafka_common.protocol.primitives import MAX_STRING_BYTES

E = TypeVar("E", bound=Entity)

LONGEST_MESSAGE: Final = 8_000
"""Characters that are left of a clipped message; each has at most four bytes."""
_MESSAGE: Final = "error_message"
"""How the name of a field ends that holds such a sentence."""


class _Places(NamedTuple):
    """The fields of a message class that may hold an error message."""

    messages: tuple[str, ...]
    entities: tuple[str, ...]
    arrays: tuple[str, ...]


def write_response(response: Entity) -> bytes:
    """The bytes of the response; OutOfBoundValue if another field than a message does not fit."""
    try:
        body = write(response)
    except OutOfBoundValue:
        return write(with_clipped_messages(response))
    # A compact string may be longer here than any client of Kafka reads.
    if len(body) > MAX_STRING_BYTES:
        fitting = with_clipped_messages(response)
        if fitting is not response:
            return write(fitting)
    return body


def clipped(message: str) -> str:
    """The text, cut to the longest string of the wire."""
    if len(message) <= LONGEST_MESSAGE or len(message.encode()) <= MAX_STRING_BYTES:
        return message
    return message[:LONGEST_MESSAGE] + "…"


def with_clipped_messages(entity: E) -> E:
    """The message with every error message clipped; the same object if all of them fit."""
    places = _places(type(entity))
    changes: dict[str, object] = {}
    for name in places.messages:
        message = getattr(entity, name)
        if message is not None and (fitting := clipped(message)) is not message:
            changes[name] = fitting
    for name in places.entities:
        inner = getattr(entity, name)
        if inner is not None and (fitting := with_clipped_messages(inner)) is not inner:
            changes[name] = fitting
    for name in places.arrays:
        items = getattr(entity, name) or ()
        fitting_items = tuple(map(with_clipped_messages, items))
        if any(new is not old for new, old in zip(fitting_items, items, strict=True)):
            changes[name] = fitting_items
    return cast(E, replace(cast(Any, entity), **changes)) if changes else entity


@cache
def _places(entity_type: type[Entity]) -> _Places:
    messages, entities, arrays = [], [], []
    for field in fields(cast(Any, entity_type)):
        match classify_field(field):
            case EntityField(inner) if any(_places(inner)):
                entities.append(field.name)
            case EntityTupleField(inner) if any(_places(inner)):
                arrays.append(field.name)
            case _ if field.name.endswith(_MESSAGE):
                messages.append(field.name)
            case _:
                pass
    return _Places(tuple(messages), tuple(entities), tuple(arrays))
