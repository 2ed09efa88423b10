"""Bodies of requests."""

from __future__ import annotations

from kafka_common.protocol.api_versions import APIS, ApiKey


def empty_body(api_key: int, version: int) -> bytes:
    """A body that parses where one exists: empty lists, empty names, zeros."""
    row = APIS.get(api_key)
    if row is None or not row.is_flexible(version):
        return b"\0" * 120
    size = 120
    if api_key == ApiKey.FETCH:
        # The tagged fields at the end are known ones: there must be none.
        size = 24 if version >= 15 else 28
    elif api_key == ApiKey.CREATE_DELEGATION_TOKEN:
        size = 3 if version >= 3 else 1  # then its life in milliseconds: kio reads no 0x0101…
    elif api_key in (ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN):
        size = 1
    return b"\1" * size + b"\0" * (120 - size)
