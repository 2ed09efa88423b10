"""The kit for tests that are coroutines: the methods of a cluster, each awaited.

Each runs in a thread of asyncio, so the test's other tasks continue meanwhile.  If a wait is
cancelled, its thread still runs until the wait's timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from zkcontroller_testing.cluster import KafkaCluster

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    verb: Callable[Concatenate[KafkaCluster, P], R],
) -> Callable[Concatenate[AsyncKafkaCluster, P], Coroutine[Any, Any, R]]:
    @wraps(verb)
    async def in_a_thread(self: AsyncKafkaCluster, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self.blocking, *args, **kwargs)

    return in_a_thread


class AsyncKafkaCluster:
    """A :class:`KafkaCluster` with awaited methods; an ``async with`` block starts and ends it.

    Names and arguments are those of :class:`KafkaCluster`.  Use :attr:`blocking` for the methods
    ``ledger``, ``history``, ``znode`` and ``at``, and call the methods of what they return in
    ``asyncio.to_thread``.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        """``cluster``: a running one, such as a fixture, or one for ``async with`` to start."""
        self.blocking = cluster

    async def __aenter__(self) -> AsyncKafkaCluster:
        await asyncio.to_thread(self.blocking.__enter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,host:port`` for clients; the same for as long as the cluster lives."""
        return self.blocking.bootstrap_servers

    @property
    def zookeeper_connect(self) -> str:
        """The connect string of this cluster, chroot included."""
        return self.blocking.zookeeper_connect

    @property
    def directory(self) -> Path:
        """Holds ``broker-N/logs``, ``broker-N/data``; ``zkctl --dir`` takes it."""
        return self.blocking.directory

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """The ids of all brokers of the cluster, also of stopped ones."""
        return self.blocking.broker_ids

    def client_config(self) -> dict[str, str]:
        """The configuration of a librdkafka client: addresses and security."""
        return self.blocking.client_config()

    async def controller_id(self) -> int | None:
        """The broker that ``/controller`` names; None while there is none."""
        return await asyncio.to_thread(lambda: self.blocking.controller_id)

    async def controller_epoch(self) -> int:
        """The controller epoch, which is the number of controller elections; 0 before the first."""
        return await asyncio.to_thread(lambda: self.blocking.controller_epoch)

    async def live_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that are registered in ZooKeeper, in order."""
        return await asyncio.to_thread(lambda: self.blocking.live_brokers)

    close = _awaited(KafkaCluster.close)
    start = _awaited(KafkaCluster.start)
    stop = _awaited(KafkaCluster.stop)
    kill = _awaited(KafkaCluster.kill)
    pause = _awaited(KafkaCluster.pause)
    resume = _awaited(KafkaCluster.resume)
    bounce = _awaited(KafkaCluster.bounce)
    expire_session = _awaited(KafkaCluster.expire_session)
    is_alive = _awaited(KafkaCluster.is_alive)
    broker_epoch = _awaited(KafkaCluster.broker_epoch)
    metadata = _awaited(KafkaCluster.metadata)
    delete_controller = _awaited(KafkaCluster.delete_controller)
    elect_controller = _awaited(KafkaCluster.elect_controller)
    create_topic = _awaited(KafkaCluster.create_topic)
    leader = _awaited(KafkaCluster.leader)
    partition_state = _awaited(KafkaCluster.partition_state)
    wait_controller = _awaited(KafkaCluster.wait_controller)
    wait_registered = _awaited(KafkaCluster.wait_registered)
    wait_unregistered = _awaited(KafkaCluster.wait_unregistered)
    wait_stopped = _awaited(KafkaCluster.wait_stopped)
    wait_leader = _awaited(KafkaCluster.wait_leader)
    wait_isr = _awaited(KafkaCluster.wait_isr)
    cut = _awaited(KafkaCluster.cut)
    heal = _awaited(KafkaCluster.heal)
    delay = _awaited(KafkaCluster.delay)
    drop = _awaited(KafkaCluster.drop)
    fail = _awaited(KafkaCluster.fail)
    remove = _awaited(KafkaCluster.remove)
    offer_versions = _awaited(KafkaCluster.offer_versions)
    versions_used = _awaited(KafkaCluster.versions_used)
    lose_zookeeper_response = _awaited(KafkaCluster.lose_zookeeper_response)
    disk_full = _awaited(KafkaCluster.disk_full)
    free_disk = _awaited(KafkaCluster.free_disk)
    make_disk_read_only = _awaited(KafkaCluster.make_disk_read_only)
    lose_page_cache = _awaited(KafkaCluster.lose_page_cache)
    mend_disk = _awaited(KafkaCluster.mend_disk)
    set_clock = _awaited(KafkaCluster.set_clock)
    no_acknowledged_record_lost = _awaited(KafkaCluster.no_acknowledged_record_lost)
    epochs_monotonic = _awaited(KafkaCluster.epochs_monotonic)
    state_changes = _awaited(KafkaCluster.state_changes)
    write_artefacts = _awaited(KafkaCluster.write_artefacts)
