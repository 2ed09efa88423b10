"""Encodes the DescribeConfigs response, resource by resource.

A request of 15 KB can name this broker 3,000 times, and each result has 300 keys.  So the encoded
entries of the last resource of each type are reused, and the response has a maximum size.

Source: Kafka ``DescribeConfigsResponse``.  Kafka has no maximum; its response would have 90 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.serial.writers import write_compact_array_length, write_legacy_array_length
from kio.static.primitive import i32

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import write
from kafka_common.protocol.responses import write_response
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.configs.config_entries import DescribedEntry
from replica_manager.server.configs.config_rows import config_result, config_rows
from replica_manager.server.context import EncodedBody

_NO_TAGS: Final = b"\0"


class _Written(NamedTuple):
    """The encoded configuration entries of a resource, which are the end of its result."""

    entries: Sequence[DescribedEntry]
    wanted: tuple[str, ...]
    data: bytes


class ConfigResults:
    """The encoded results of one DescribeConfigs request."""

    def __init__(
        self, request: request_types.DescribeConfigsRequest, version: int, max_bytes: int
    ) -> None:
        self._request = request
        self._schema = response_schema(ApiKey.DESCRIBE_CONFIGS, version)
        self._is_flexible = APIS[ApiKey.DESCRIBE_CONFIGS].is_flexible(version)
        self._max_bytes = max_bytes
        self._results = bytearray()
        self._errors = Counter[ErrorCode]()
        self._last: dict[int, _Written] = {}
        """The encoded entries of the last resource of each resource type."""

    def add(
        self,
        resource: request_types.DescribeConfigsResource,
        error: ErrorCode,
        message: str,
        entries: Sequence[DescribedEntry] = (),
    ) -> None:
        """Adds a result; RequestRefused(INVALID_REQUEST) if the response becomes too large."""
        self._errors[error] += 1
        head = write_response(config_result(self._schema, resource, error, message))
        end = self._end_of(resource, entries)
        if len(self._results) + len(head) + len(end) > self._max_bytes:
            raise RequestRefused(
                ErrorCode.invalid_request, f"an answer of more than {self._max_bytes} bytes"
            )
        self._results += head[: -self._empty_end_bytes]
        self._results += end

    def response(self) -> EncodedBody:
        """The body of the response with all added results."""
        count = BytesIO()
        if self._is_flexible:
            write_compact_array_length(count, self._errors.total())
        else:
            write_legacy_array_length(count, i32(self._errors.total()))
        rest = (count.getvalue(), bytes(self._results), _NO_TAGS if self._is_flexible else b"")

        def with_throttle_time(throttle_ms: int) -> Sequence[bytes]:
            return (throttle_ms.to_bytes(4, "big"), *rest)

        return EncodedBody(
            with_throttle_time(0), errors=lambda: self._errors, throttled=with_throttle_time
        )

    @property
    def _empty_end_bytes(self) -> int:
        """The encoded size of an empty list of entries and no tagged fields."""
        return 2 if self._is_flexible else 4

    def _end_of(
        self, resource: request_types.DescribeConfigsResource, entries: Sequence[DescribedEntry]
    ) -> bytes:
        wanted = resource.configuration_keys or ()
        last = self._last.get(resource.resource_type)
        if last is not None and last.entries is entries and last.wanted == wanted:
            return last.data
        rows = config_rows(self._schema, entries, self._request, wanted)
        # A result begins with error and names, which are the same with and without entries.
        without = write(config_result(self._schema, resource, ErrorCode.none, None))
        with_rows = write(config_result(self._schema, resource, ErrorCode.none, None, rows))
        data = with_rows[len(without) - self._empty_end_bytes :]
        self._last[resource.resource_type] = _Written(entries, wanted, data)
        return data
