"""``metadata.version``: what each level is called and allows, as Kafka says.

``data/metadata-versions-3.9.1.tsv`` was printed by Kafka 3.9.1's own class, with
``data/MetadataVersions.java``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.errors import ConfigInvalid, UnsupportedVersion
from kafka_common.protocol.inter_broker_versions import fetch_version, version_of
from kraft.metadata.metadata_version import (
    LATEST_PRODUCTION,
    MINIMUM_BOOTSTRAP_VERSION,
    MINIMUM_KRAFT_VERSION,
    VERSIONS,
    did_metadata_change_between,
    from_level,
    from_name,
)

HEADER, *LINES = (
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "metadata-versions-3.9.1.tsv")
    .read_text()
    .splitlines()
)
ROWS = [dict(zip(HEADER, line, strict=True)) for line in LINES]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_level_is_and_allows_what_kafka_says(row: dict[str, str]) -> None:
    version = from_level(int(row["level"]))
    no_way_back = [
        str(other.level)
        for other in VERSIONS
        if other < version and did_metadata_change_between(version, other)
    ]

    assert ",".join(no_way_back) == row["no_way_back_to"]
    for name in HEADER[:-1]:
        value = getattr(version, name)
        assert str(value() if callable(value) else value).lower() == row[name].lower(), name


def test_the_levels_are_those_of_kafka() -> None:
    assert [version.level for version in VERSIONS] == [int(row["level"]) for row in ROWS]
    assert (MINIMUM_KRAFT_VERSION.level, MINIMUM_BOOTSTRAP_VERSION.level) == (1, 4)
    assert LATEST_PRODUCTION.level == 21
    assert [version for version in VERSIONS if version.is_production][-1] == LATEST_PRODUCTION
    assert not did_metadata_change_between(LATEST_PRODUCTION, LATEST_PRODUCTION)
    assert did_metadata_change_between(from_level(4), from_level(7))


@pytest.mark.parametrize(
    ("name", "level"),
    [("3.0", 1), ("3.3", 7), ("3.3-IV0", 4), ("3.7", 19), ("3.9", 21), ("3.9.1", 21),
     ("4.0-IV0", 22)],
)  # fmt: skip
def test_a_name_means_the_last_production_level_of_its_release(name: str, level: int) -> None:
    assert from_name(name).level == level


@pytest.mark.parametrize("name", ["2.8", "3.0-IV0", "4.0", "5.0", "", "three"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"metadata.version: one of 3.0-IV1 to 4.0-IV1"):
        from_name(name)


@pytest.mark.parametrize("level", [-1, 0, 24])
def test_a_level_that_is_none_is_refused(level: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"No MetadataVersion with feature level {level}"):
        from_level(level)


def test_controllers_are_registered_from_the_level_on_that_allows_it() -> None:
    assert from_name("3.7-IV0").register_controller_record_version() == 0
    with pytest.raises(UnsupportedVersion, match=r"not supported in metadata.version 3.6-IV2"):
        from_name("3.6-IV2").register_controller_record_version()


def test_the_level_itself_is_in_the_log_from_3_3_on() -> None:
    assert not from_name("3.2").is_feature_level_record_supported
    assert from_name("3.3-IV0").is_feature_level_record_supported


@pytest.mark.parametrize(("name", "fetch"), [("3.5-IV1", 15), ("3.7-IV4", 16), ("3.9-IV0", 17)])
def test_requests_between_brokers_are_found_by_the_same_name(name: str, fetch: int) -> None:
    assert fetch_version(version_of(from_name(name).name)) == fetch
