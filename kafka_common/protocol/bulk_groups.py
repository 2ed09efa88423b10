"""The response to ListGroups, written straight to bytes: a broker may coordinate 10,000 groups.

As in :mod:`.bulk_metadata`, a message object for each group would cost ten times what the bytes
cost.

Versions 0-5.  Source: Kafka ``ListGroupsResponse.json``.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from struct import Struct
from typing import Final

from kafka_common.protocol.primitives import pieces

LIST_GROUPS_VERSIONS: Final = range(6)
_INT16: Final = Struct(">h").pack
_INT32: Final = Struct(">i").pack


def encoded_groups(
    version: int, error_code: int, groups: Collection[tuple[str, str, str, str]]
) -> bytes:
    """The response after its throttle time; ``groups``: (group id, protocol type, state, type)."""
    assert version in LIST_GROUPS_VERSIONS
    wire = pieces(is_flexible=version >= 3)
    string = wire.string

    @cache  # most groups differ only in their ids
    def tail(protocol_type: str, state: str, group_type: str) -> bytes:
        return b"%b%b%b%b" % (
            string(protocol_type),
            string(state) if version >= 4 else b"",
            string(group_type) if version >= 5 else b"",
            wire.tags,
        )

    listed = [
        string(group_id) + tail(protocol_type, state, group_type)
        for group_id, protocol_type, state, group_type in groups
    ]
    return b"".join((_INT16(error_code), wire.length(len(listed)), *listed, wire.tags))


def encoded_throttle_time(version: int, throttle_ms: int) -> bytes:
    """The throttle time, the first field of the response; empty in version 0."""
    return _INT32(throttle_ms) if version >= 1 else b""
