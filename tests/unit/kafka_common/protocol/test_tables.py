"""What our tables say against what Kafka 3.9.1's classes say.

``tests/wire/data/tables-3.9.1.tsv`` was printed from ``ApiKeys``, ``Errors`` and
``MetadataVersion`` of the 3.9.1 jars.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import (
    ConfigInvalid,
    ControllerMoved,
    InvalidFrame,
    SessionExpired,
    UnsupportedVersion,
)
from kafka_common.protocol import inter_broker_versions as ibp
from kafka_common.protocol.api_versions import (
    APIS,
    ApiKey,
    api,
    api_versions_error,
    api_versions_response,
    is_valid_software,
    request_header_version,
    response_header_version,
    unsupported_api_versions_response,
)
from kafka_common.protocol.error_codes import error_code_for, error_name
from kafka_common.protocol.inter_broker_versions import transaction_verification_version, version_of
from kafka_common.protocol.messages import read_response, request_type, response_type, write
from tests.support.kafka_versions import all_versions
from tests.support.paths import WIRE_DATA

_TABLES: Final = [
    line.split("\t") for line in (WIRE_DATA / "tables-3.9.1.tsv").read_text("utf-8").splitlines()
]


def _rows(kind: str) -> list[list[str]]:
    return [row[1:] for row in _TABLES if row[0] == kind]


def test_every_api_of_kafka_has_its_row() -> None:
    rows = {row[0]: row[1:6] for row in _rows("api")}

    assert {
        str(int(row.key)): [
            row.key.name,
            row.name,
            str(row.min_version),
            str(row.max_version),
            str(row.is_advertised).lower(),
        ]
        for row in APIS.values()
        if str(int(row.key)) in rows
    } == rows
    assert len(APIS) == len(ApiKey) == 88


def test_header_versions_are_those_of_kafka_for_every_api_and_version() -> None:
    for row in _rows("api"):
        key = int(row[0])
        for version, headers in enumerate(row[6].rstrip(",").split(",")):
            ours = f"{request_header_version(key, version)}{response_header_version(key, version)}"
            assert ours == headers, (row[2], version)


def test_every_advertised_version_has_its_classes() -> None:
    assert len(all_versions()) == 62
    for key, (least, most) in all_versions().items():
        for version in range(least, most + 1):
            assert request_type(key, version).__flexible__ == api(key).is_flexible(version)
            assert response_type(key, version).__flexible__ == api(key).is_flexible(version)


def test_a_header_is_readable_for_unknown_versions() -> None:
    assert request_header_version(ApiKey.API_VERSIONS, 99) == 2
    assert response_header_version(ApiKey.API_VERSIONS, 99) == 0
    assert request_header_version(ApiKey.CONTROLLED_SHUTDOWN, 0) == 0


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_offered_and_nothing_kafka_does_not_have(version: int) -> None:
    offered: dict[int, tuple[int, int]] = {ApiKey.FETCH: (4, 99), ApiKey.PRODUCE: (3, 9)}

    response: Any = api_versions_response(version, offered, finalized_features_epoch=6)

    listed = [(key.api_key, key.min_version, key.max_version) for key in response.api_keys]
    assert listed == [(0, 3, 9), (1, 4, 17)]
    assert response.error_code is ErrorCode.none
    assert getattr(response, "finalized_features_epoch", 6) == 6
    assert read_response(ApiKey.API_VERSIONS, version, write(response)) == response


def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones_in_version_0() -> None:
    encoded = write(unsupported_api_versions_response())

    assert encoded == bytes.fromhex("0023 00000001 0012 0000 0004")


def test_a_client_whose_name_is_refused_gets_no_api_keys() -> None:
    response: Any = api_versions_error(3, ErrorCode.invalid_request)

    assert (response.error_code, response.api_keys) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize("name", ["apache-kafka-java", "librdkafka", "a", "2.6.1", "A-b.C"])
def test_names_of_software_that_kafka_takes(name: str) -> None:
    assert is_valid_software(name)


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a_b", "ä", "a\n", ".1"])
def test_names_of_software_that_kafka_refuses(name: str) -> None:
    assert not is_valid_software(name)


def test_every_error_code_has_kafkas_name() -> None:
    for code, name in _rows("error"):
        assert error_name(int(code)) == name
    assert error_name(1234) == "1234"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnsupportedVersion("x"), "UNSUPPORTED_VERSION"),
        (InvalidFrame("x"), "INVALID_REQUEST"),
        (ControllerMoved("x"), "STALE_CONTROLLER_EPOCH"),
        (ConfigInvalid("k", 1, "2"), "INVALID_CONFIG"),
        (SessionExpired("x"), "UNKNOWN_SERVER_ERROR"),
        (ValueError("x"), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_exceptions_have_one_code(error: Exception, code: str) -> None:
    assert error_name(error_code_for(error)) == code


def test_every_dialect_of_kafka_is_known_in_order() -> None:
    assert [version.name for version in ibp.VERSIONS] == [row[0] for row in _rows("ibp")]
    assert all(older < newer for older, newer in pairwise(ibp.VERSIONS))
    assert ibp.LATEST.name == "3.9-IV0"


@pytest.mark.parametrize(("text", "expected"), _rows("parse"))
def test_a_dialect_is_parsed_as_kafka_parses_it(text: str, expected: str) -> None:
    if expected == "refused":
        with pytest.raises(ConfigInvalid):
            ibp.version_of(text)
    else:
        assert ibp.version_of(text).name == expected


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        # LeaderAndIsr, UpdateMetadata, StopReplica, ControlledShutdown, broker znode, feature znode
        ("3.9-IV0", (7, 8, 4, 3, 5, 2)),
        ("3.4-IV0", (7, 8, 4, 3, 5, 2)),
        ("3.3-IV3", (6, 7, 3, 3, 5, 2)),
        ("3.2-IV0", (6, 7, 3, 3, 5, 1)),
        ("3.1-IV0", (5, 7, 3, 3, 5, 1)),
        ("2.8-IV1", (5, 7, 3, 3, 5, 1)),
        ("2.8-IV0", (4, 6, 3, 3, 5, 1)),
        ("2.6-IV0", (4, 6, 3, 3, 4, 1)),
        ("2.4-IV1", (4, 6, 2, 3, 4, 1)),
        ("2.4-IV0", (3, 5, 1, 2, 4, 1)),
        ("2.2-IV0", (2, 5, 1, 2, 4, 1)),
        ("1.0-IV0", (1, 4, 0, 1, 4, 1)),
        ("0.10.2-IV0", (0, 3, 0, 1, 4, 1)),
        ("0.10.0-IV1", (0, 2, 0, 1, 4, 1)),
        ("0.10.0-IV0", (0, 1, 0, 1, 2, 1)),
        ("0.9.0", (0, 1, 0, 1, 2, 1)),
        ("0.8.2", (0, 0, 0, 0, 2, 1)),
    ],
)
def test_a_dialect_decides_the_version_of_everything(
    name: str, versions: tuple[int, int, int, int, int, int]
) -> None:
    version = ibp.version_of(name)

    assert (
        ibp.leader_and_isr_version(version),
        ibp.update_metadata_version(version),
        ibp.stop_replica_version(version),
        ibp.controlled_shutdown_version(version),
        ibp.broker_znode_version(version),
        ibp.feature_znode_version(version),
    ) == versions


@pytest.mark.parametrize(
    ("supports", "first", "last_without"),
    [
        (ibp.is_feature_versioning_supported, "2.7-IV0", "2.6-IV0"),
        (ibp.is_alter_partition_supported, "2.7-IV2", "2.7-IV1"),
        (ibp.is_topic_id_supported, "2.8-IV0", "2.7-IV2"),
        (ibp.is_allocate_producer_ids_supported, "3.0-IV0", "2.8-IV1"),
        (ibp.is_leader_recovery_supported, "3.2-IV0", "3.1-IV0"),
    ],
)
def test_a_dialect_decides_what_is_supported(supports: Any, first: str, last_without: str) -> None:
    assert supports(ibp.version_of(first))
    assert not supports(ibp.version_of(last_without))


@pytest.mark.parametrize(
    ("inter_broker_version", "version"),
    [("3.4-IV0", None), ("3.5-IV0", 4), ("3.7-IV4", 4), ("3.8-IV0", 5), ("3.9-IV0", 5)],
)
def test_how_brokers_ask_about_transactions_follows_from_the_protocol_between_them(
    inter_broker_version: str, version: int | None
) -> None:
    found = version_of(inter_broker_version)
    assert found is not None

    assert transaction_verification_version(found) == version
