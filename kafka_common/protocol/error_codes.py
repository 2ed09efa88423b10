"""Kafka's error codes by name, and the one mapping from our exceptions to them.

Source: Kafka ``Errors``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import (
    ConfigInvalid,
    ControllerMoved,
    CorruptRecord,
    InconsistentClusterId,
    InconsistentTopicId,
    InvalidFrame,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    KafkaStorage,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordListTooLarge,
    TransactionCoordinatorFenced,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    ZkControllerError,
)

MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's message of INVALID_REQUEST where nothing more is said."""

_NAMES: Final[dict[int, str]] = {code.value: code.name.upper() for code in ErrorCode}

# Most specific first: UnsupportedVersion is an InvalidFrame, InvalidTimestamp an InvalidRecord.
_BY_EXCEPTION: Final[tuple[tuple[type[ZkControllerError], ErrorCode], ...]] = (
    (UnsupportedVersion, ErrorCode.unsupported_version),
    (InvalidFrame, ErrorCode.invalid_request),
    (ControllerMoved, ErrorCode.stale_controller_epoch),
    (ConfigInvalid, ErrorCode.invalid_config),
    (InconsistentClusterId, ErrorCode.inconsistent_cluster_id),
    (CorruptRecord, ErrorCode.corrupt_message),
    (InvalidTimestamp, ErrorCode.invalid_timestamp),
    (InvalidRecord, ErrorCode.invalid_record),
    (UnsupportedCompressionType, ErrorCode.unsupported_compression_type),
    (UnsupportedForMessageFormat, ErrorCode.unsupported_for_message_format),
    (MessageTooLarge, ErrorCode.message_too_large),
    (RecordListTooLarge, ErrorCode.record_list_too_large),
    (OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (InvalidProducerEpoch, ErrorCode.invalid_producer_epoch),
    (InvalidTxnState, ErrorCode.invalid_txn_state),
    (TransactionCoordinatorFenced, ErrorCode.transaction_coordinator_fenced),
    (OffsetOutOfRange, ErrorCode.offset_out_of_range),
    (InconsistentTopicId, ErrorCode.inconsistent_topic_id),
    (KafkaStorage, ErrorCode.kafka_storage_error),
)


def error_name(code: int) -> str:
    """``NOT_CONTROLLER`` for 41; the number itself for a code that Kafka 3.9 does not know."""
    return _NAMES.get(code, str(code))


def error_code_for(error: BaseException) -> ErrorCode:
    """The error code in the response to a request that ended with that exception.

    An exception that is not in the table becomes UNKNOWN_SERVER_ERROR, as in Kafka; errors of
    ZooKeeper are among them.
    """
    return next(
        (code for kind, code in _BY_EXCEPTION if isinstance(error, kind)),
        ErrorCode.unknown_server_error,
    )
