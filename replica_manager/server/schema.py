"""Answers in any version: builds kio's message classes and leaves out what a version lacks.

Kafka's schema calls such fields ignorable: a handler says everything it knows, and an old version
simply does not carry all of it.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any, Final, cast

from kio.index import load_payload_module
from kio.static.constants import EntityType
from kio.static.protocol import ResponsePayload

from zkcontroller.protocol.messages import response_type
from zkcontroller.protocol.versioned_messages import made_of

NO_THROTTLE: Final = timedelta(0)


class ResponseSchema:
    """The classes of one version of one API's response."""

    def __init__(self, api_key: int, version: int) -> None:
        self.version = version
        self._response = response_type(api_key, version)
        self._module = load_payload_module(api_key, version, EntityType.response)

    def has(self, class_name: str) -> bool:
        """Whether this version has that nested class."""
        return hasattr(self._module, class_name)

    def part(self, class_name: str, **values: object) -> Any:
        """A nested message (``MetadataResponseTopic``) out of those values its version knows."""
        return made_of(getattr(self._module, class_name), values)

    def response(self, **values: object) -> ResponsePayload:
        """The response itself; ``throttle_time`` is zero."""
        return cast(
            ResponsePayload, made_of(self._response, {"throttle_time": NO_THROTTLE} | values)
        )


@cache
def response_schema(api_key: int, version: int) -> ResponseSchema:
    """The schema of that response; UnsupportedVersion if there is none."""
    return ResponseSchema(api_key, version)
