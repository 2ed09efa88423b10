"""Reads and changes the levels of this broker's loggers.

A change is not stored and ends with the broker.  The level of the state change logger cannot be
changed: whether state changes are traced is decided at the broker's start.

Source: Kafka ``RuntimeLoggerManager``, ``Log4jController`` (KIP-412).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.java import parse_int
from kafka_common.model import OpType
from replica_manager.request_errors import RequestRefused
from replica_manager.server.configs.key_changes import KeyChange
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER
from zkcontroller.state_changes.log_files import LEVELS

ROOT: Final = "root"
_NAMES: Final = {number: name for name, number in LEVELS.items()}


def log_levels() -> dict[str, str]:
    """Every logger with its level, its own or an inherited one."""
    loggers = {ROOT: logging.getLogger()}
    loggers.update(
        (name, logger)
        for name, logger in sorted(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger)
    )
    return {
        name: _NAMES.get(logger.getEffectiveLevel(), str(logger.getEffectiveLevel()))
        for name, logger in loggers.items()
    }


def check_node(name: str, node_id: int, unexpected: str = "Unexpected node id. Expected") -> None:
    """RequestRefused(INVALID_REQUEST) unless the resource's name is the node's id.

    ``unexpected`` begins the error message for another id.
    Source: Kafka 3.9 ``RuntimeLoggerManager``, whose message has the node's own id twice, and
    ``ConfigAdminManager``.
    """
    named = parse_int(name)
    if named is None:
        raise RequestRefused(
            ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}"
        )
    if named != node_id:
        raise RequestRefused(
            ErrorCode.invalid_request,
            f"{unexpected} {node_id}, but received {name}",
        )


def check_levels(changes: Sequence[KeyChange]) -> None:
    """RequestRefused unless each logger exists and its level can be changed so."""
    existing = log_levels()
    for name, number, value in changes:
        operation = OpType(number) if number in set(OpType) else None
        if operation not in (OpType.SET, OpType.DELETE):
            what = f"Unknown operation type {number}" if operation is None else operation.name
            said = "is not allowed" if operation is None else "operation is not allowed"
            raise RequestRefused(
                ErrorCode.invalid_request, f"{what} {said} for the BROKER_LOGGER resource"
            )
        if name not in existing:
            raise RequestRefused(ErrorCode.invalid_config, f"Logger {name} does not exist!")
        if operation is OpType.SET and value not in LEVELS:
            raise RequestRefused(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {name} to {value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )
        if operation is OpType.DELETE and name == ROOT:
            raise RequestRefused(
                ErrorCode.invalid_request,
                f"Removing the log level of the {ROOT} logger is not allowed",
            )
        if name == STATE_CHANGE_LOGGER:
            raise RequestRefused(
                ErrorCode.invalid_config,
                f"The log level of {name} is chosen when the broker starts (--trace-state-changes)",
            )


def change_levels(changes: Sequence[KeyChange]) -> None:
    """Applies changes that :func:`check_levels` accepted."""
    for name, number, value in changes:
        logger = logging.getLogger(None if name == ROOT else name)
        if number == OpType.DELETE:
            logger.setLevel(logging.NOTSET)
        else:
            assert value is not None
            logger.setLevel(LEVELS[value])
