"""The cluster for coroutines has what the cluster has."""

from __future__ import annotations

import inspect

from zkcontroller_testing.async_cluster import AsyncKafkaCluster
from zkcontroller_testing.cluster import KafkaCluster

ASKED_OF_THE_BLOCKING_ONE = {
    *("ledger", "history", "znode", "at"),  # have verbs of their own
    *("is_running", "pid", "logs_directory"),
}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_a_coroutine_has_every_verb_of_a_cluster() -> None:
    assert public(KafkaCluster) - public(AsyncKafkaCluster) == ASKED_OF_THE_BLOCKING_ONE
    assert public(AsyncKafkaCluster) - public(KafkaCluster) == {"broker_ids", "directory"}


def test_a_verb_keeps_its_arguments_and_its_docstring() -> None:
    assert inspect.signature(AsyncKafkaCluster.cut) == inspect.signature(KafkaCluster.cut)
    assert AsyncKafkaCluster.cut.__doc__ == KafkaCluster.cut.__doc__
