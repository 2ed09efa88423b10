"""The kit: a real Kafka cluster in a test, and everything that can happen to it.

``pip install 'zkcontroller[test]'`` brings the pytest plugin :mod:`.plugin` with its fixtures
``kafka_cluster``, ``kafka_cluster_session`` and ``kafka_cluster_factory``; docs/testing.md shows
all of it.  Without pytest, :class:`KafkaCluster` is a ``with`` block.

Read :mod:`.cluster` first, which :mod:`.async_cluster` offers to coroutines.  Around it:
:mod:`.brokers` (processes), :mod:`.network` with proxies: :mod:`.kafka_door`, :mod:`.raw_door` and
:mod:`.zookeeper_door` (all of them a :mod:`.door`), :mod:`.faults` (what shall happen to requests),
:mod:`.holds` (the controller's steps), :mod:`.ledger` and :mod:`.checks` (what must hold),
:mod:`.zookeepers` with :mod:`.shared_server`,
:mod:`.disks`; and histories: :mod:`.operations` (values), :mod:`.client_history` (the recorder),
:mod:`.recorded_clients`, :mod:`.history_checks` (pure: what may not be in one).
:mod:`.containers` is another cluster, of Docker containers.
:mod:`.serving` is all of it by HTTP, for tests in other languages.

The package stands above ``zkcontroller_cli``, whose way of starting brokers it uses.  What must not
be done here: import anything but pytest in :mod:`.plugin` before a test asks for a cluster; start a
broker in another way than ``zkctl`` does; change a decision of a controller.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zkcontroller.zookeeper.container import ZooKeeperContainer
    from zkcontroller_testing.async_cluster import AsyncKafkaCluster
    from zkcontroller_testing.cluster import KafkaCluster
    from zkcontroller_testing.containers import KafkaClusterContainer
    from zkcontroller_testing.waiting import NotInTime

__all__ = [
    "AsyncKafkaCluster",
    "KafkaCluster",
    "KafkaClusterContainer",
    "NotInTime",
    "ZooKeeperContainer",
]
_MODULES: Final = {
    "AsyncKafkaCluster": "zkcontroller_testing.async_cluster",
    "KafkaCluster": "zkcontroller_testing.cluster",
    "KafkaClusterContainer": "zkcontroller_testing.containers",
    "NotInTime": "zkcontroller_testing.waiting",
    "ZooKeeperContainer": "zkcontroller.zookeeper.container",
}


def __getattr__(name: str) -> object:
    """Imports what a test asks for: pytest imports this package in every run."""
    if name not in _MODULES:
        raise AttributeError(name)
    # It must come before kio, which would import Hypothesis (kafka_common.lean_kio).
    import_module("kafka_common")
    return getattr(import_module(_MODULES[name]), name)
