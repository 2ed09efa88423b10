"""Encodes responses and shortens error messages that are too long for the wire.

An error message often quotes what the client sent, and that may be as long as a string on the wire
can be.  The message is then longer than that limit, and the response could not be written, or the
client could not read it.  So such a message is clipped when the response is encoded, in one place
for all APIs.

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
"""Characters of a clipped message; each has at most four bytes in UTF-8."""
_MESSAGE: Final = "error_message"
"""The ending of the names of fields that hold an error message."""


class _Places(NamedTuple):
    """The fields of a message class that hold an error message, directly or in nested messages."""

    messages: tuple[str, ...]
    entities: tuple[str, ...]
    arrays: tuple[str, ...]


def write_response(response: Entity) -> bytes:
    """The bytes of the response, with error messages clipped if they are too long.

    Raises OutOfBoundValue if another field does not fit.
    """
    try:
        body = write(response)
    except OutOfBoundValue:
        return write(with_clipped_messages(response))
    # kio writes compact strings that are longer than Kafka's clients read.
    if len(body) > MAX_STRING_BYTES:
        fitting = with_clipped_messages(response)
        if fitting is not response:
            return write(fitting)
    return body


def clipped(message: str) -> str:
    """The text, cut to LONGEST_MESSAGE characters if it is too long for a string on the wire."""
    if len(message) <= LONGEST_MESSAGE or len(message.encode()) <= MAX_STRING_BYTES:
        return message
    return message[:LONGEST_MESSAGE] + "…"


def with_clipped_messages(entity: E) -> E:
    """The entity with every error message clipped; the same object if all of them fit."""
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
