"""The bit fields of authorized operations: without an authorizer, everything that exists.

Source: Kafka ``AuthHelper.authorizedOperations``, ``AclEntry.supportedOperations`` (KIP-430).
"""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(2**31)
"""The client did not ask for the field."""

# Bits are the codes of AclOperation.
_CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = 5, 6, 7, 8, 9
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 10, 11, 12
_READ, _WRITE = 3, 4

CLUSTER_OPERATIONS: Final = sum(
    1 << operation
    for operation in (
        _CREATE,
        _CLUSTER_ACTION,
        _DESCRIBE_CONFIGS,
        _ALTER_CONFIGS,
        _IDEMPOTENT_WRITE,
        _ALTER,
        _DESCRIBE,
    )
)
TOPIC_OPERATIONS: Final = sum(
    1 << operation
    for operation in (
        _READ,
        _WRITE,
        _CREATE,
        _DESCRIBE,
        _DELETE,
        _ALTER,
        _DESCRIBE_CONFIGS,
        _ALTER_CONFIGS,
    )
)
