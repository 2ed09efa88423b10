"""What a client is told that may not do something, where an answer has a place for it.

Source: Kafka ``Errors``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from zkcontroller.kraft.controller.api_error import ApiError

CLUSTER_REFUSED: Final = ApiError(
    ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
)
TOPIC_REFUSED: Final = ApiError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
