"""The test kit: a real Kafka cluster in a test, and the faults that a test can cause in it.

``pip install 'zkcontroller[test]'`` brings the pytest plugin :mod:`.plugin` with its fixtures
``kafka_cluster``, ``kafka_cluster_session`` and ``kafka_cluster_factory``; docs/testing.md shows
all of it.  Without pytest, :class:`KafkaCluster` is a ``with`` block.

Read :mod:`.cluster` first; :mod:`.async_cluster` has the same methods for coroutines.  It uses
:mod:`.brokers` (processes), :mod:`.network` with the proxies :mod:`.kafka_door`, :mod:`.raw_door`
and :mod:`.zookeeper_door` (subclasses of :mod:`.door`), :mod:`.faults` (faults of requests),
:mod:`.holds` (stops the controller at a step), :mod:`.ledger` and :mod:`.checks` (check records and
epochs), :mod:`.zookeepers` with :mod:`.shared_server`, and :mod:`.disks`.  Histories of clients are
in :mod:`.operations` (values), :mod:`.client_history` (the recorder), :mod:`.recorded_clients` and
:mod:`.history_checks` (pure: finds violations).
:mod:`.containers` is another cluster, of Docker containers.
:mod:`.serving` offers the kit by HTTP, for tests in other languages.

The package uses ``zkcontroller_cli`` to start brokers.  Rules: before a test asks for a cluster,
:mod:`.plugin` imports nothing but pytest.  Brokers are started only in the way of ``zkctl``.
Nothing here changes a decision of a controller.
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
    """Imports a class only when it is used, because pytest imports this package in every run."""
    if name not in _MODULES:
        raise AttributeError(name)
    # Import kafka_common before kio, which would import Hypothesis (kafka_common.lean_kio).
    import_module("kafka_common")
    return getattr(import_module(_MODULES[name]), name)
