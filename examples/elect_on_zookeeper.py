"""Elects a controller on a real ZooKeeper, and another one when ``/controller`` is deleted.

    python examples/elect_on_zookeeper.py

The core and its driver are those of elect_in_memory.py; here each candidate has a thread, a real
session, and events that kazoo's thread puts into its queue.  Needs Java.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from threading import Thread
from uuid import uuid4

from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.controller import KafkaController
from zkcontroller.core.effects import Effect
from zkcontroller.core.events import Event, Startup
from zkcontroller.core.watches import event_for_watch
from zkcontroller.runtime.driver import Driver
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Create,
    Delete,
    UnfencedBatch,
    WatchFired,
    Written,
)
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ControllerZnode
from zkcontroller_simulation.registration import broker_of, create_persistent_paths


class Candidate:
    """A broker's controller in a thread of its own."""

    def __init__(self, connect: str, broker_id: int) -> None:
        self.broker_id = broker_id
        self._events: Queue[Event | None] = Queue()
        self.session = ZooKeeperSession(ZooKeeperConfig(connect), on_watch=self._watch_fired)
        self.session.start()
        self.controller = KafkaController(ControllerConfig(broker_id), uuid4)
        self._driver = Driver(self.controller.outbox, self.session, self._register, self._perform)
        self._driver.run(create_persistent_paths())
        self._register()
        self._events.put(Startup())
        self._thread = Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, then the session: ``/brokers/ids/<id>`` goes with it."""
        self._events.put(None)
        self._thread.join()
        self.session.close()

    def _register(self) -> int:
        znode = BrokerIdZnode(broker_of(self.broker_id), timestamp_ms=0).encode()
        create = Create(BrokerIdZnode.path(self.broker_id), znode, ephemeral=True)
        (written,) = self.session.perform(UnfencedBatch([create]))
        assert isinstance(written, Written), written
        return written.czxid

    def _watch_fired(self, fired: WatchFired) -> None:
        if (event := event_for_watch(fired)) is not None:
            self._events.put(event)

    def _perform(self, effects: Sequence[Effect]) -> None:
        """Requests to brokers, above all; there are none here."""

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            self._driver.run(self.controller.handle(event, int(time.time() * 1000)))


def controller_of(candidates: list[Candidate], not_in_epoch: int = 0) -> tuple[int, int]:
    """The id and the epoch of the controller, once there is one of another epoch."""
    while True:
        for each in candidates:
            epoch = each.controller.context.epoch
            if each.controller.is_active and epoch != not_in_epoch:
                return each.broker_id, epoch
        time.sleep(0.01)


def main() -> None:
    """Three candidates; ``/controller`` is deleted once."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder)) as zookeeper:
        candidates = [Candidate(zookeeper.connect, broker_id) for broker_id in (1, 2, 3)]
        try:
            first, epoch = controller_of(candidates)
            print(f"controller {first} in epoch {epoch}")

            delete = Delete(ControllerZnode.PATH, ANY_VERSION)
            candidates[0].session.perform(UnfencedBatch([delete]))
            then, epoch = controller_of(candidates, epoch)
            print(f"/controller was deleted: controller {then} in epoch {epoch}")
        finally:
            for each in candidates:
                each.close()


if __name__ == "__main__":
    main()
