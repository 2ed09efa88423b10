"""Records of the metadata log as Kafka prints them: ``kafka-dump-log --cluster-metadata-decoder``.

Source: Kafka 3.9 ``DumpLogSegments.ClusterMetadataLogMessageParser``,
``MetadataJsonConverters``; the text is that of Jackson's ``ObjectNode.toString``.
"""

from __future__ import annotations

from kafka_common.json_values import JsonObject
from kafka_common.observability.java_values import upper_snake_case
from kraft.metadata.codec import layout_of
from kraft.metadata.records import VersionedRecord


def record_json(versioned: VersionedRecord) -> JsonObject:
    """Type, version and fields, under Kafka's names; ids and bytes in base64.

    A field that the version lacks is left out, and so is a tagged field at its default.
    UnsupportedVersion if a field that the version lacks is not at its default.
    """
    record, version = versioned
    return {
        "type": upper_snake_case(type(record).__name__),
        "version": version,
        "data": layout_of(record, version).to_json(record),
    }
