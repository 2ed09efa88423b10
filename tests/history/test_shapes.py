"""Every shape of a log line: recognised, taken apart, found by the readers' table."""

from __future__ import annotations

import csv
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafka_history.event_schema import EVENT_COLUMNS, SOURCE_COLUMNS
from kafka_history.readers.patterns import full_name
from kafka_history.readers.selection import candidates_of
from kafka_history.shapes.catalogue import Shape, shapes
from kafka_history.shapes.template import SPEAKER, compile_template
from tests.support.paths import DATA

HERE = Path(__file__).parent
REFERENCE = DATA / "kafka-log-lines.tsv"
EXAMPLES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (HERE / "data" / "shape-examples.jsonl").read_text(encoding="utf-8").splitlines()
]
"""``from`` a version: a line of a real broker; else made from the template."""


SCENARIOS = sorted({shape.story for shape in shapes()})
"""The files the shapes stand in."""


@functools.cache
def examples(scenario: str) -> list[dict[str, Any]]:
    ids = {shape.id for shape in shapes() if shape.story == scenario}
    return [example for example in EXAMPLES if example["shape"] in ids]


@functools.cache
def references() -> dict[str, str]:
    """Expressions drawn from Kafka's sources, independently of the templates."""
    with REFERENCE.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["id"]: re.sub(r"\(\?<(\w+)>", r"(?P<\1>", row["regex"]) for row in rows}


def reference(shape: str) -> re.Pattern[str]:
    return re.compile(references()[shape])


@functools.cache
def matcher(pattern: str) -> re.Pattern[str]:
    # re's own cache is smaller than the number of shapes.
    return re.compile(pattern)


def recognised(
    logger: str, line: str, candidates: tuple[Shape, ...]
) -> tuple[str, dict[str, str]] | None:
    """The first of the shapes that fits, with the fields that hold text."""
    for shape in candidates:
        if not shape.is_said_by(logger):
            continue
        match = matcher(shape.expression.pattern).match(line)
        if match is not None:
            texts = {
                name: "".join(match[number] or "" for number in numbers)
                for name, numbers in shape.expression.groups
            }
            return shape.id, {name: text for name, text in texts.items() if text}
    return None


def test_every_shape_has_an_example_and_a_place_in_the_reference() -> None:
    ids = [shape.id for shape in shapes()]

    assert [example["shape"] for example in EXAMPLES] == ids
    assert list(references()) == ids
    assert len(ids) == 392


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_line_has_its_shape_and_its_fields(scenario: str) -> None:
    expected = {
        example["shape"]: (example["shape"], example["fields"]) for example in examples(scenario)
    }

    found = {
        example["shape"]: recognised(example["logger"], example["line"], shapes())
        for example in examples(scenario)
    }

    assert found == expected


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_line_fits_the_expression_drawn_from_kafkas_sources(scenario: str) -> None:
    assert [
        example["shape"]
        for example in examples(scenario)
        if not reference(example["shape"]).match(example["line"])
    ] == []


@pytest.mark.parametrize(
    ("shape", "logger", "line", "fields"),
    [
        (
            # Of a listener on port 0; reported beside "Awaiting socket connections".
            "socket-server",
            "kafka.network.DataPlaneAcceptor",
            "Opened wildcard endpoint 127.0.0.1:33001",
            {},
        ),
        (
            "epoch-cache-updated",
            "kafka.server.epoch.LeaderEpochFileCache",
            "Updated PartitionLeaderEpoch. New: {epoch:1, offset:100}, Current: {epoch:0, "
            "offset:0} for Partition: unsafe-0. Cache now contains 1 entries.",
            {},
        ),
        (
            "net-connect-failed",
            "org.apache.kafka.clients.NetworkClient",
            "Connection to node 2 could not be established. Broker may not be available.",
            {"peer": "2"},
        ),
        (
            "group-offsets-removed",
            "kafka.coordinator.group.GroupMetadataManager",
            "[Group Metadata Manager on Broker 1]: Removed 0 expired offsets in 6 milliseconds.",
            {"prefix": "Group Metadata Manager on Broker 1", "count": "0", "elapsed_ms": "6"},
        ),
        (
            "broker-registration",
            "kafka.utils.ZKCheckedEphemeral",
            "Creating /controller (is it secure? false)",
            {"path": "/controller", "secure": "false"},
        ),
        (
            # Of our brokers, whose ZooKeeper client has its own words.
            "zk-session",
            "org.apache.zookeeper.ClientCnxn",
            "Connecting to 127.0.0.1(127.0.0.1):58753, use_ssl: False",
            {"server": "127.0.0.1(127.0.0.1):58753"},
        ),
        (
            "zk-session",
            "org.apache.zookeeper.ClientCnxn",
            "Zookeeper connection established, state: CONNECTED",
            {},
        ),
        (
            "server-start-error",
            "kafka.server.KafkaServer",
            "Broker id 2 is registered by session 0x10000cd784f0003 (CLIENTS://127.0.0.1:36075), "
            "which is not this process. If that is this broker before its last restart, the "
            "session ends by itself; waiting at most 10.0 s for it.",
            {},
        ),
        (
            "log-manager-error",
            "kafka.log.LogManager",
            "Upkeep of /data found a file gone: [Errno 2] No such file or directory: '/data/a-0/x'",
            {},
        ),
        (
            "producer-id-block",
            "kafka.controller.KafkaController",
            "[Controller id=1] There is no producerId block yet (Zk path version 0), creating the "
            "first block",
            {"prefix": "Controller id=1"},
        ),
        (
            "quota",
            "kafka.server.ControllerMutationQuotaManager",
            "Removing CONTROLLER_MUTATION quota for user alice",
            {},
        ),
        (
            "transaction-markers",
            "kafka.coordinator.transaction.TxnMarkerQueue",
            "Creating new marker queue for txn partition 0 to destination broker 1",
            {},
        ),
        (
            "net-disconnected",
            "org.apache.kafka.clients.NetworkClient",
            "[AddPartitionsToTxnManager broker=1]Node 1 disconnected.",
            {"prefix": "AddPartitionsToTxnManager broker=1", "peer": "1"},
        ),
        (
            "zk-timeout",
            "org.apache.zookeeper.ClientCnxn",
            "Connection dropped: outstanding heartbeat ping not received",
            {},
        ),
        (
            "zk-timeout",
            "org.apache.zookeeper.ClientCnxn",
            "Socket error occurred: localhost/127.0.0.1:2181: Connection reset",
            {},
        ),
    ],
)
def test_lines_beside_the_example_have_the_shape(
    shape: str, logger: str, line: str, fields: dict[str, str]
) -> None:
    assert recognised(logger, line, shapes()) == (shape, fields)


@functools.cache
def table() -> dict[tuple[str, str], tuple[Shape, ...]]:
    known, _ = kinds_of_loggers()
    return {(name, entry.words): entry.shapes for name in known for entry in candidates_of(name)}


@functools.cache
def kinds_of_loggers() -> tuple[frozenset[str], list[str]]:
    known = frozenset(name for shape in shapes() for name in shape.loggers)
    return known, sorted((name for name in known if "*" in name), key=lambda n: (-len(n), n))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_logger_and_first_words_select_the_shape(scenario: str) -> None:
    found = {}
    for example in examples(scenario):
        selected = recognised(example["logger"], example["line"], candidates_for(example))
        found[example["shape"]] = selected and selected[0]

    assert found == {example["shape"]: example["shape"] for example in examples(scenario)}


def candidates_for(example: dict[str, Any]) -> tuple[Shape, ...]:
    """As the readers select them: by two words, else by one, else by the logger."""
    known, patterns = kinds_of_loggers()
    logger = example["logger"]
    kind = logger if logger in known else next(
        p for p in patterns if re.fullmatch(re.escape(p).replace(r"\*", ".*"), logger)
    )  # fmt: skip
    body = re.sub(SPEAKER, "", example["line"][:400])
    words = "#" if body[:1].isdigit() else " ".join(body.split(" ")[:2])
    return next(
        entry
        for key in (words, words.split(" ")[0], "")
        if (entry := table().get((kind, key))) is not None
    )


def test_the_page_on_the_schema_names_every_column() -> None:
    page = (HERE.parents[1] / "docs" / "history-schema.md").read_text(encoding="utf-8")

    assert [
        column.name
        for column in (*EVENT_COLUMNS, *SOURCE_COLUMNS)
        if f"| `{column.name}` | {column.type} | {column.meaning} |" not in page
    ] == []


def test_constants_are_columns_of_the_schema() -> None:
    columns = {column.name for column in EVENT_COLUMNS}

    assert {name for shape in shapes() for name, _ in shape.sets} <= columns


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("<leader:nonsense> leads", "no type 'nonsense'"),
        ("<NOBODY>says nothing", "no part <NOBODY>"),
        ("⟨one|other", "unclosed choice"),
        ("<leader:int> and <leader:int>", "twice in one line"),
    ],
)
def test_a_wrong_template_is_refused(template: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        compile_template(template)


def test_old_and_new_wording_fill_the_same_field() -> None:
    expression = compile_template("⟨leader=<leader:int>|Leader:<leader:int>⟩!")

    assert expression.groups == (("leader", (1, 2)),)
    for line in ("leader=3!", "Leader:3!"):
        match = re.match(expression.pattern, line)
        assert match is not None
        assert "".join(match[number] or "" for number in (1, 2)) == "3"


def test_the_last_part_of_a_loggers_name_is_enough_to_know_it() -> None:
    """``%c{1}`` prints no more; classes that moved are known by the package of 3.9."""
    found = {
        name: full_name(name.rpartition(".")[2].encode(), is_audit="authorizer" in name).decode()
        for shape in shapes()
        for name in shape.loggers
        if "*" not in name
    }

    unlike = {name: other for name, other in found.items() if other != name}
    assert {name.rpartition(".")[2] for name in unlike} == {
        "KafkaScheduler", "LeaderEpochFileCache", "LogDirFailureChannel",
    }  # fmt: skip
    assert all(other.startswith("org.apache.kafka.") for other in unlike.values())
