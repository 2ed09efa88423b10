"""Every line of INFO and above that our own brokers write has a shape."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka_history.shapes.catalogue import shapes
from tests.support.paths import ROOT
from zkcontroller.core import journal

PACKAGES = ("kafka_common", "zkcontroller", "replica_manager")
LEVELS = {"info", "warning", "error", "exception", "critical"}
OF_JOURNAL = {"info", "warn", "error"}
CONVERSION = re.compile(r"%[-\d.]*([sdfg])")
WRITER_AND_VALUES = re.compile(rf"\[[^]]*\]|{CONVERSION.pattern}")

PREFIXES = {
    "ReplicaFetcherManager": "[ReplicaFetcherManager on broker 7] ",
    "ReplicaFetcherThread": "[ReplicaFetcher replicaId=7, leaderId=8, fetcherId=0] ",
    "LogLoader": "[LogLoader partition=orders-0, dir=/data]",
    "UnifiedLog": "[UnifiedLog partition=orders-0, dir=/data]",
    "ZooKeeperClient": "[ZooKeeperClient Kafka server] ",
}
"""The writer of a line, where shapes ask for more than brackets; by the logger's class."""

SAMPLES = {
    r"self\._session\(\)": "0x100",
    r"_joined\(.*\)": "1,2",
    r"cluster_id|value|.*topic_id|error_name\(.*\)|number\.name": "word",
    r"tp|.*partition": "orders-0",
    r".*\.upper\(\)": "UNKNOWN_ERROR",
    r".*(path|dir|directory|file).*": "/data/orders-0",
}
"""A value for an argument of a log call, by its expression; others are ``some words``."""

OF_THE_CORE = {
    r"corrupt|reason": "znode /brokers/topics/orders is corrupt: some words",
    r"contradiction": "topic orders has id 7, not 8",
    r"refused": "ZooKeeper answered NO_AUTH for /brokers/ids/7",
    r"subject": "Leader 7 for partition orders-0 being reassigned, is",
    r"text": "orders-0",
    r"name": "seven",
    r"kind": "new",
    r"target\.label": "OnlinePartition",
    r"targets": "ArrayBuffer(1, 2)",
    r"assignment_text\(.*": "ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=)",
    r".*trigger(\.value)?": "AutoTriggered",
    r"scala_map\(.*": journal.scala_map([(1, 72)]),
    r"scala_set\(.*": journal.scala_set([1, 2]),
    r"scala_hash_set\(.*": journal.scala_hash_set([1, 2]),
    r"scala_seq\(.*": journal.scala_seq("List", [1, 2]),
    r"csv\(.*(table\.text|\{p\}).*": "orders-0,orders-1",
    r"csv\(.*(topics|queued|ineligible|unknown|deleting).*": "orders,payments",
    r"csv\(.*(pending|finished).*": "orders-0,orders-1",
    r"csv\(.*": "1,2",
    r"table\.text\(row\)|partition|state_path\(.*": "orders-0",
    r"topic": "orders",
    r"(?i).*path.*": "/brokers/topics/orders",
    r".*(_id|epoch|version|_owner|_MS|_ms|LENGTH)|len\(.*|leader|cached|preferred|start": "7",
    r".*election_type\.name": "PREFERRED",
    r".*\.name": "NO_NODE",
}
"""A value for an expression in a line of the controller's core; others are ``some words``."""


class Call(NamedTuple):
    logger: str
    line: str
    where: str


@functools.cache
def calls() -> tuple[Call, ...]:
    """The log calls of INFO and above whose words are written out, each with a possible line."""
    return tuple(
        Call(logger, line, f"{path.relative_to(ROOT)}:{number}")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if re.search(r"getLogger|journal\.", source := path.read_text(encoding="utf-8"))
        for tree in [ast.parse(source)]
        for logger, line, number in itertools.chain(calls_in(tree), journal_calls_in(tree))
    )


def journal_calls_in(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """What the core writes by its journal, with the writer that it puts before."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in OF_JOURNAL
            and ast.unparse(node.func.value).endswith("journal")
            and (text := formatted(node.args[0]))
        ):
            [line] = journaled(
                text, *(getattr(journal, ast.unparse(each)) for each in node.args[1:])
            )
            yield line.logger, line.message, node.lineno


def journaled(*arguments: str) -> list[Any]:
    outbox: list[Any] = []
    journal.Journal(outbox, 7, is_tracing=False).info(*arguments)
    return outbox


def formatted(node: ast.expr) -> str:
    """A text with values in its braces; empty if it is computed."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "str":
        return sample_of_core(node.args[0])
    if not isinstance(node, ast.JoinedStr):
        return text_of(node)
    return "".join(
        sample_of_core(part.value) if isinstance(part, ast.FormattedValue) else text_of(part)
        for part in node.values
    )


def sample_of_core(argument: ast.expr) -> str:
    code = ast.unparse(argument)
    return next(
        (each for pattern, each in OF_THE_CORE.items() if re.fullmatch(pattern, code)), "some words"
    )


def calls_in(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    loggers = dict(named_loggers(tree))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and (logger := loggers.get(ast.unparse(node.func.value)))
            and re.search("[a-z]", WRITER_AND_VALUES.sub("", text := text_of(node.args[0])))
        ):
            yield logger, filled(logger, text, node.args[1:]), node.lineno


def named_loggers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "logging.getLogger"
        ):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield ast.unparse(target), text_of(node.value.args[0])


def text_of(node: ast.expr) -> str:
    """The text that is written there; empty if it is computed."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def filled(logger: str, text: str, arguments: list[ast.expr]) -> str:
    last = len(arguments) - 1  # the last may be starred, and stand for several
    numbers = itertools.count()
    return CONVERSION.sub(
        lambda found: sample(logger, found[1], arguments[min(next(numbers), last)]), text
    )


def sample(logger: str, conversion: str, argument: ast.expr) -> str:
    if conversion != "s":
        return "7"
    if isinstance(argument, ast.IfExp) and isinstance(argument.body, ast.Constant):
        return str(argument.body.value)
    code = ast.unparse(argument).strip("*")
    if "prefix" in code:
        name = logger.rpartition(".")[2]
        return PREFIXES.get(name, f"[{name} id=7] ")
    return next(
        (value for pattern, value in SAMPLES.items() if re.fullmatch(pattern, code)), "some words"
    )


def has_shape(logger: str, line: str) -> bool:
    return any(
        shape.is_said_by(logger) and re.match(shape.expression.pattern, line) for shape in shapes()
    )


def test_calls_are_found_with_their_loggers_and_values() -> None:
    updated = "Updated broker 7 at path /data/orders-0 with addresses: some words"

    assert ("kafka.zk.KafkaZkClient", updated) in {call[:2] for call in calls()}


def test_every_line_of_our_brokers_has_a_shape() -> None:
    assert [call for call in calls() if not has_shape(call.logger, call.line)] == []
