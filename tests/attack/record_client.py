"""Writes and reads single records, to see what a broker has kept."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4 import request as fetch
from kio.schema.list_offsets.v1 import request as list_offsets
from kio.schema.metadata.v4 import request as metadata
from kio.schema.produce.v7 import request as produce

from kafka_common.errors import CorruptRecord, InvalidRecord
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record
from tests.attack.connections import RawConnection

_BYTES: Final = 1_000_000
START_MS: Final = 1_700_000_000_000


class RecordClient:
    """One connection to a broker."""

    def __init__(self, address: str) -> None:
        self._connection = RawConnection(address)

    def close(self) -> None:
        self._connection.close()

    def leaders(self, topic: str) -> dict[int, int]:
        """Leader by partition, -1 for none; creates the topic if brokers may."""
        asked: Any = metadata.MetadataRequest(
            topics=(metadata.MetadataRequestTopic(name=topic),),  # type: ignore[arg-type]
            allow_auto_topic_creation=True,
        )
        response = self._ask(ApiKey.METADATA, 4, asked)
        return {
            int(partition.partition_index): int(partition.leader_id)
            for found in response.topics
            for partition in found.partitions
        }

    def produce(self, topic: str, partition: int, value: bytes, sequence: int) -> ErrorCode:
        """Writes a record of an idempotent producer, and waits for all replicas."""
        data = encode_batch(
            [Record(0, START_MS + sequence, b"key", value)],
            producer_id=1_000 + partition,
            producer_epoch=0,
            base_sequence=sequence,
        )
        parts: Any = (produce.PartitionProduceData(index=partition, records=data),)  # type: ignore[arg-type]
        asked: Any = produce.ProduceRequest(
            transactional_id=None,
            acks=-1,  # type: ignore[arg-type]
            timeout=timedelta(seconds=20),  # type: ignore[arg-type]
            topic_data=(produce.TopicProduceData(name=topic, partition_data=parts),),  # type: ignore[arg-type]
        )
        response = self._ask(ApiKey.PRODUCE, 7, asked)
        error: ErrorCode = response.responses[0].partition_responses[0].error_code
        return error

    def fetch(self, topic: str, partition: int, offset: int) -> tuple[ErrorCode, dict[int, bytes]]:
        """The next records, by their offsets, of batches that are whole."""
        parts: Any = (
            fetch.FetchPartition(
                partition=partition,  # type: ignore[arg-type]
                fetch_offset=offset,  # type: ignore[arg-type]
                partition_max_bytes=_BYTES,  # type: ignore[arg-type]
            ),
        )
        asked: Any = fetch.FetchRequest(
            replica_id=-1,  # type: ignore[arg-type]
            max_wait=timedelta(0),  # type: ignore[arg-type]
            min_bytes=0,  # type: ignore[arg-type]
            max_bytes=_BYTES,  # type: ignore[arg-type]
            isolation_level=0,  # type: ignore[arg-type]
            topics=(fetch.FetchTopic(topic=topic, partitions=parts),),  # type: ignore[arg-type]
        )
        [found] = self._ask(ApiKey.FETCH, 4, asked).responses[0].partitions
        data = bytes(found.records or b"")
        records: dict[int, bytes] = {}
        with suppress(CorruptRecord, InvalidRecord):  # a damaged log is sent as it is
            for position, header in iterate_batches(data):
                for record in iterate_batch(data, position, header):
                    records[record.offset] = record.value or b""
        return found.error_code, records

    def offset_at(self, topic: str, partition: int, timestamp: int) -> ErrorCode:
        """Asks for the first offset at that time."""
        parts: Any = (
            list_offsets.ListOffsetsPartition(
                partition_index=partition,  # type: ignore[arg-type]
                timestamp=timestamp,  # type: ignore[arg-type]
            ),
        )
        asked: Any = list_offsets.ListOffsetsRequest(
            replica_id=-1,  # type: ignore[arg-type]
            topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=parts),),  # type: ignore[arg-type]
        )
        response = self._ask(ApiKey.LIST_OFFSETS, 1, asked)
        error: ErrorCode = response.topics[0].partitions[0].error_code
        return error

    def read_all(self, topic: str, partition: int) -> dict[int, bytes]:
        """Every record from offset 0 on, as long as there is no error."""
        records: dict[int, bytes] = {}
        while True:
            error, more = self.fetch(topic, partition, max(records, default=-1) + 1)
            if error is not ErrorCode.none or not more.keys() - records.keys():
                return records
            records |= more

    def _ask(self, api_key: ApiKey, version: int, asked: Any) -> Any:
        return read_response(
            api_key, version, self._connection.call(api_key, version, write(asked))
        )
