"""Counts the errors in a response for ``ErrorsPerSec``, NONE included.

Each API has its error codes in other fields: in the response itself, and in its lists.  If a
version has no error code in the response itself, one NONE is counted for it, as in Kafka.

Source: Kafka ``AbstractResponse.errorCounts`` and its overrides, ``RequestChannel
.updateErrorMetrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey

ErrorCounts: TypeAlias = Mapping[ErrorCode, int]

_TOP: Final[tuple[str, ...]] = ()

_PLACES: Final[Mapping[ApiKey, tuple[tuple[str, ...], ...]]] = {
    ApiKey.PRODUCE: (("responses", "partition_responses"),),
    ApiKey.FETCH: (_TOP, ("responses", "partitions")),
    ApiKey.LIST_OFFSETS: (("topics", "partitions"),),
    ApiKey.METADATA: (("topics",), ("topics", "partitions")),
    ApiKey.LEADER_AND_ISR: (_TOP, ("partition_errors",), ("topics", "partition_errors")),
    ApiKey.STOP_REPLICA: (_TOP, ("partition_errors",)),
    ApiKey.OFFSET_COMMIT: (("topics", "partitions"),),
    ApiKey.DESCRIBE_GROUPS: (("groups",),),
    ApiKey.LEAVE_GROUP: (_TOP, ("members",)),
    ApiKey.CREATE_TOPICS: (("topics",),),
    ApiKey.DELETE_TOPICS: (("responses",),),
    ApiKey.DELETE_RECORDS: (("topics", "partitions"),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (("topics", "partitions"),),
    ApiKey.WRITE_TXN_MARKERS: (("markers", "topics", "partitions"),),
    ApiKey.TXN_OFFSET_COMMIT: (("topics", "partitions"),),
    ApiKey.CREATE_ACLS: (("results",),),
    ApiKey.DELETE_ACLS: (("filter_results",),),
    ApiKey.DESCRIBE_CONFIGS: (("results",),),
    ApiKey.ALTER_CONFIGS: (("responses",),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (("results", "partitions"),),
    ApiKey.DESCRIBE_LOG_DIRS: (_TOP, ("results",)),
    ApiKey.CREATE_PARTITIONS: (("results",),),
    ApiKey.DELETE_GROUPS: (("results",),),
    ApiKey.ELECT_LEADERS: (_TOP, ("replica_election_results", "partition_result")),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (("responses",),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_TOP, ("responses", "partitions")),
    ApiKey.OFFSET_DELETE: (_TOP, ("topics", "partitions")),
    ApiKey.ALTER_CLIENT_QUOTAS: (("entries",),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (("results",),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (("results",),),
    ApiKey.ALTER_PARTITION: (_TOP, ("topics", "partitions")),
    ApiKey.UPDATE_FEATURES: (_TOP, ("results",)),
    ApiKey.DESCRIBE_PRODUCERS: (("topics", "partitions"),),
    ApiKey.DESCRIBE_TRANSACTIONS: (("transaction_states",),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (("groups",),),
}
"""The lists with error codes of each API; any other API has only that of the response itself."""

_TOP_STANDS_FOR_ALL: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA)
"""In these responses, an error of the response itself counts once for each entry."""


def error_counts(api_key: int, response: Any) -> Counter[ErrorCode]:
    """How often each error code occurs in a response message."""
    key = ApiKey(api_key)
    if key is ApiKey.FIND_COORDINATOR and getattr(response, "coordinators", None):
        return Counter(_errors(response, ("coordinators",)))
    if key is ApiKey.OFFSET_FETCH:
        return _of_offset_fetch(response)
    if key is ApiKey.ADD_PARTITIONS_TO_TXN:
        return _of_add_partitions_to_txn(response)
    counts = Counter[ErrorCode]()
    for place in _PLACES.get(key, (_TOP,)):
        counts.update(_errors(response, place))
    top = getattr(response, "error_code", ErrorCode.none)
    if key in _TOP_STANDS_FOR_ALL and top is not ErrorCode.none:
        return Counter({top: counts.total()})
    return counts


def _of_offset_fetch(response: Any) -> Counter[ErrorCode]:
    """From version 8 on, a response has several groups with an error each."""
    if not hasattr(response, "groups"):
        return Counter((*_errors(response, _TOP), *_errors(response, ("topics", "partitions"))))
    partitions = _errors(response, ("groups", "topics", "partitions"))
    return Counter((*_errors(response, ("groups",)), *partitions))


def _of_add_partitions_to_txn(response: Any) -> Counter[ErrorCode]:
    """From version 4 on, a response has several transactions and an error of the request."""
    partition_error = "partition_error_code"
    if hasattr(response, "results_by_topic_v3_and_below"):
        place: tuple[str, ...] = ("results_by_topic_v3_and_below", "results_by_partition")
        return Counter(_errors(response, place, partition_error))
    place = ("results_by_transaction", "topic_results", "results_by_partition")
    return Counter((*_errors(response, _TOP), *_errors(response, place, partition_error)))


def _errors(
    response: Any, place: tuple[str, ...], error_name: str = "error_code"
) -> Iterator[ErrorCode]:
    items = [response]
    for name in place:
        items = [below for item in items for below in getattr(item, name, None) or ()]
    for item in items:
        yield getattr(item, error_name, ErrorCode.none)
