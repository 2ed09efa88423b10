"""Every line of INFO and above that our own brokers write has a shape."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from kafka_history.shapes.catalogue import shapes
from tests.support.paths import ROOT

PACKAGES = ("kafka_common", "zkcontroller", "replica_manager")
LEVELS = {"info", "warning", "error", "exception", "critical"}
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
    r"cluster_id|value|.*topic_id|error_name\(.*\)|signal\..*": "word",
    r"tp|.*partition": "orders-0",
    r".*\.upper\(\)": "UNKNOWN_ERROR",
    r".*(path|dir|directory|file).*": "/data/orders-0",
}
"""A value for an argument, by its expression; others are ``some words``."""


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
        if "getLogger" in (source := path.read_text(encoding="utf-8"))
        for logger, line, number in calls_in(ast.parse(source))
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
