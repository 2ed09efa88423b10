"""Validates client metrics subscriptions: metrics, interval and client match (KIP-714).

Source: Kafka ``ClientMetricsConfigs`` (KIP-714).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.java import parse_int, split_by_commas

LEAST_INTERVAL_MS: Final = 100
MOST_INTERVAL_MS: Final = 3_600_000
_METRICS: Final = "metrics"
_INTERVAL_MS: Final = "interval.ms"
_MATCH: Final = "match"
_MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_UNKNOWN_ESCAPE: Final = "bad escape"


def validate_client_metrics(configs: Mapping[str, str]) -> None:
    """ApiException(INVALID_REQUEST or INVALID_CONFIG) for an invalid subscription."""
    for name in configs:
        if name not in (_METRICS, _INTERVAL_MS, _MATCH):
            raise ApiException(
                ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}"
            )
    if _INTERVAL_MS in configs:
        _check_interval(configs[_INTERVAL_MS])
    for pattern in split_by_commas(configs[_MATCH]) if _MATCH in configs else ():
        if not _is_pattern(pattern):
            raise ApiException(
                ErrorCode.invalid_config, f"Illegal client matching pattern: {pattern}"
            )


def _check_interval(text: str) -> None:
    number = parse_int(text)
    if number is None or not LEAST_INTERVAL_MS <= number <= MOST_INTERVAL_MS:
        raise ApiException(
            ErrorCode.invalid_request,
            f"Invalid value {text} for {_INTERVAL_MS}, interval must be between "
            f"{LEAST_INTERVAL_MS} and {MOST_INTERVAL_MS} (1 hour)",
        )


def _is_pattern(text: str) -> bool:
    """Whether the text is ``property=regex`` with a known client property."""
    parts = text.rstrip("=").split("=")
    if len(parts) != 2 or parts[0].strip() not in _MATCHED:
        return False
    try:
        re.compile(parts[1].strip())
    except re.error as wrong:
        # The brokers apply the pattern, and Java has escapes that Python does not know.
        return _UNKNOWN_ESCAPE in str(wrong)
    except (OverflowError, RecursionError):
        return False
    return True
