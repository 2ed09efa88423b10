"""Builds kio's messages in any version and leaves out fields that the version lacks.

Kafka's schema calls such fields ignorable: the sender sets every field that it knows, and
an old version simply does not carry all of it.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from functools import cache
from typing import Any, Final, Literal, TypeAlias, cast

from kio.index import load_payload_module
from kio.static.constants import EntityType
from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_common.protocol.messages import request_type, response_type

NO_THROTTLE: Final = timedelta(0)

_Kind: TypeAlias = Literal[EntityType.request, EntityType.response]


class MessageSchema:
    """The classes of one version of one API's request or response."""

    def __init__(self, api_key: int, version: int, kind: _Kind) -> None:
        self.version = version
        self._module = load_payload_module(api_key, version, kind)
        type_of = request_type if kind is EntityType.request else response_type
        self._whole: type = type_of(api_key, version)

    def has(self, class_name: str) -> bool:
        """Whether this version has that nested class."""
        return hasattr(self._module, class_name)

    def part(self, class_name: str, **values: object) -> Any:
        """A nested message (``FetchTopic``) with those values that its version has fields for."""
        return made_of(getattr(self._module, class_name), values)

    def whole(self, **values: object) -> Any:
        """The request or response, with those values that its version has fields for."""
        return made_of(self._whole, values)


class RequestSchema(MessageSchema):
    """The classes of one version of one API's request."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(api_key, version, EntityType.request)

    def request(self, **values: object) -> RequestPayload:
        """The request, with those values that its version has fields for."""
        return cast(RequestPayload, self.whole(**values))


class ResponseSchema(MessageSchema):
    """The classes of one version of one API's response."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(api_key, version, EntityType.response)

    def response(self, **values: object) -> ResponsePayload:
        """The response, with the values its version has; ``throttle_time`` is zero unless given."""
        return cast(ResponsePayload, self.whole(**{"throttle_time": NO_THROTTLE} | values))


@cache
def request_schema(api_key: int, version: int) -> RequestSchema:
    """The schema of that request; UnsupportedVersion if there is none."""
    return RequestSchema(api_key, version)


@cache
def response_schema(api_key: int, version: int) -> ResponseSchema:
    """The schema of that response; UnsupportedVersion if there is none."""
    return ResponseSchema(api_key, version)


def made_of(entity_type: type, values: dict[str, object]) -> object:
    """A message of that class with those values that it has fields for."""
    known = _field_names(entity_type)
    return entity_type(**{name: value for name, value in values.items() if name in known})


@cache
def _field_names(entity_type: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(entity_type))
