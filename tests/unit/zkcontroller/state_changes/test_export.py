"""The typed export, and the page that describes it."""

from __future__ import annotations

import json
import re
import types
import typing
from uuid import UUID

from tests.support.paths import ROOT
from zkcontroller.state_changes.export import SCHEMA_VERSION, json_line
from zkcontroller.state_changes.record import Kind, Reason, StateChange

SCHEMA = ROOT / "docs" / "state-changes-schema.md"

JSON_TYPES = {
    int: "integer",
    bool: "boolean",
    str: "string",
    Kind: "string",
    UUID: "string",
    tuple[int, ...]: "integers",
    tuple[str, ...]: "strings",
}


def test_a_record_is_one_line_with_only_the_fields_that_apply() -> None:
    record = StateChange(
        Kind.PARTITION_STATE_CHANGED,
        "controller",
        1,
        controller_epoch=4,
        topic="orders",
        partition=0,
        from_state="NewPartition",
        to_state="OnlinePartition",
        leader=2,
        isr=(2, 3),
        leader_recovery_state=0,
        is_new=False,
    )

    line = json_line(record, time_ms=1_795_199_834_287, host="broker-1.example")

    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "schema_version": SCHEMA_VERSION,
        "time_ms": 1_795_199_834_287,
        "host": "broker-1.example",
        "kind": "partition_state_changed",
        "component": "controller",
        "broker_id": 1,
        "controller_epoch": 4,
        "topic": "orders",
        "partition": 0,
        "from_state": "NewPartition",
        "to_state": "OnlinePartition",
        "leader": 2,
        "isr": [2, 3],
        "leader_recovery_state": 0,
        "is_new": False,
    }


def test_a_topic_id_is_written_as_kafkas_tools_print_it() -> None:
    record = StateChange(
        Kind.LEADER_STARTED, "broker", 1, topic_id=UUID("3de57b87-b854-4605-abf9-5b0674da3cc1")
    )

    assert json.loads(json_line(record, time_ms=0, host="h"))["topic_id"] == (
        "PeV7h7hURgWr-VsGdNo8wQ"
    )


def test_a_line_end_in_a_cause_does_not_end_the_record() -> None:
    record = StateChange(Kind.PARTITION_STATE_FAILED, "controller", 1, cause="a: b\n\tat c")

    line = json_line(record, time_ms=0, host="h")

    assert line.count(b"\n") == 1
    assert json.loads(line)["cause"] == "a: b\n\tat c"


def documented_fields() -> dict[str, str]:
    known = "|".join(sorted(set(JSON_TYPES.values()), key=len, reverse=True))
    rows = re.findall(rf"^\| `(\w+)` \| ({known}) \|", SCHEMA.read_text(), re.MULTILINE)
    return dict(rows)


def test_the_schema_page_describes_every_field_with_its_type() -> None:
    hints = typing.get_type_hints(StateChange)
    expected = {"schema_version": "integer", "time_ms": "integer", "host": "string"}
    for name in StateChange._fields:
        hint = hints[name]
        if isinstance(hint, types.UnionType):
            hint = next(each for each in typing.get_args(hint) if each is not type(None))
        expected[name] = JSON_TYPES[hint]

    assert documented_fields() == expected


def test_the_schema_page_names_every_kind_and_every_reason() -> None:
    text = SCHEMA.read_text()

    assert [kind for kind in Kind if f"`{kind}`" not in text] == []
    assert [reason for reason in Reason if f"`{reason}`" not in text] == []
    assert f"Schema version {SCHEMA_VERSION}" in text
