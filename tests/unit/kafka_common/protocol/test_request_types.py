"""A request's fields in all its versions, and the file that says so to mypy."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_type, request_type
from kafka_common.protocol.request_types import field_or
from scripts.write_request_types import STUB, Message, answered, written


def heartbeat(version: int) -> Any:
    fields_of_version = {"group_instance_id": "home"} if version >= 3 else {}
    kind: Any = request_type(ApiKey.HEARTBEAT, version)
    return kind(group_id="g", generation_id=1, member_id="m", **fields_of_version)


def test_a_field_that_the_version_has_is_read() -> None:
    assert field_or(heartbeat(3), "group_instance_id", None) == "home"


def test_a_field_that_the_version_lacks_has_the_default() -> None:
    assert field_or(heartbeat(2), "group_instance_id", None) is None


@pytest.fixture(scope="module")
def attributes() -> dict[str, set[str]]:
    """Class of the file to its attributes."""
    return {
        node.name: {
            line.target.id
            for line in node.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize(("api_key", "versions"), answered().items())
def test_every_version_has_the_attributes_of_its_class(
    api_key: int, versions: tuple[int, int], attributes: dict[str, set[str]]
) -> None:
    first, last = versions
    kinds = [read_type(api_key, version) for version in range(first, last + 1)]

    of_all = set.intersection(*({each.name for each in fields(kind)} for kind in kinds))

    assert all(is_dataclass(kind) for kind in kinds)
    assert attributes[kinds[0].__name__] == of_all


def test_the_type_of_a_field_is_that_of_every_version() -> None:
    message = Message("Topic", types={"name": {"None": None, "str": None}})

    assert message.type_of("name") == "str | None"


def test_a_field_of_some_versions_is_no_attribute() -> None:
    [_, of_heartbeat] = written().split("class HeartbeatRequest:\n")

    assert "group_instance_id" not in of_heartbeat.split("class ")[0]
