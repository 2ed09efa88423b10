"""The kit: a real Kafka cluster in a test, and everything that can happen to it.

``pip install 'zkcontroller[test]'`` brings the pytest plugin :mod:`.plugin` with its fixtures
``kafka_cluster``, ``kafka_cluster_session`` and ``kafka_cluster_factory``; docs/testing.md shows
all of it.  Without pytest, :class:`KafkaCluster` is a ``with`` block.

Read :mod:`.cluster` first.  Around it: :mod:`.brokers` (processes), :mod:`.network` with proxies:
:mod:`.kafka_door`, :mod:`.raw_door` and :mod:`.zookeeper_door` (all of them a :mod:`.door`),
:mod:`.faults` (what shall happen to requests), :mod:`.holds` (the controller's steps),
:mod:`.ledger` and :mod:`.checks` (what must hold), :mod:`.zookeepers` with :mod:`.shared_server`,
:mod:`.disks`; and histories: :mod:`.operations` (values), :mod:`.client_history` (the recorder),
:mod:`.recorded_clients`, :mod:`.history_checks` (pure: what may not be in one).
:mod:`.containers` is another cluster, of Docker containers.
:mod:`.serving` is all of it by HTTP, for tests in other languages.

The package stands above ``zkcontroller_cli``, whose way of starting brokers it uses.  What must not
be done here: import anything but pytest in :mod:`.plugin` before a test asks for a cluster; start a
broker in another way than ``zkctl`` does; change a decision of a controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkcontroller_testing.cluster import KafkaCluster
    from zkcontroller_testing.containers import KafkaContainers
    from zkcontroller_testing.waiting import NotInTime

__all__ = ["KafkaCluster", "KafkaContainers", "NotInTime"]


def __getattr__(name: str) -> object:
    """Imports what a test asks for: pytest imports this package in every run."""
    if name == "KafkaCluster":
        from zkcontroller_testing.cluster import KafkaCluster

        return KafkaCluster
    if name == "KafkaContainers":
        from zkcontroller_testing.containers import KafkaContainers

        return KafkaContainers
    if name == "NotInTime":
        from zkcontroller_testing.waiting import NotInTime

        return NotInTime
    raise AttributeError(name)
