"""The texts of authorization errors, where a response has a field for them.

Source: Kafka ``Errors``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiError

CLUSTER_REFUSED: Final = ApiError(
    ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
)
TOPIC_REFUSED: Final = ApiError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
