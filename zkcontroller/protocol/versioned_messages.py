"""Builds kio's messages in any version and leaves out fields that the version lacks.

Kafka's schema calls such fields ignorable: the sender sets every field that it knows, and
an old version simply does not carry all of it.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, cast

from kio.index import load_payload_module
from kio.static.constants import EntityType
from kio.static.protocol import RequestPayload

from zkcontroller.protocol.messages import request_type


class RequestSchema:
    """The classes of one version of one API's request."""

    def __init__(self, api_key: int, version: int) -> None:
        self.version = version
        self._request = request_type(api_key, version)
        self._module = load_payload_module(api_key, version, EntityType.request)

    def has(self, class_name: str) -> bool:
        """Whether this version has that nested class."""
        return hasattr(self._module, class_name)

    def part(self, class_name: str, **values: object) -> Any:
        """A nested message (``FetchTopic``) with those values that its version has fields for."""
        return made_of(getattr(self._module, class_name), values)

    def request(self, **values: object) -> RequestPayload:
        """The request itself."""
        return cast(RequestPayload, made_of(self._request, values))


@cache
def request_schema(api_key: int, version: int) -> RequestSchema:
    """The schema of that request; UnsupportedVersion if there is none."""
    return RequestSchema(api_key, version)


def made_of(entity_type: type, values: dict[str, object]) -> object:
    """A message of that class with those values that it has fields for."""
    known = _field_names(entity_type)
    return entity_type(**{name: value for name, value in values.items() if name in known})


@cache
def _field_names(entity_type: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(entity_type))
