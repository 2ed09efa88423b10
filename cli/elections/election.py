"""Makes the brokers elect another controller, and proves that it was elected.

``/controller`` is deleted in one transaction with a check of the version of ``/controller_epoch``.
Only this detects a controller that was elected after the user saw the plan: the version of
``/controller`` itself is 0 after every election.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import (
    Check,
    Delete,
    RolledBack,
    Stat,
    WatchFired,
    WatchKind,
    ZkCode,
    ZkTransaction,
)
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, ControllerZnode, TopicsZnode
from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Settings, say
from zkcontroller_cli.elections.election_evidence import (
    FirstUpdate,
    StateChangeLogs,
    from_logs,
    from_metadata,
    unseen,
)
from zkcontroller_cli.wire.polls import CacheHistory, record_caches
from zkcontroller_cli.wire.requests import Deadline, run
from zkcontroller_cli.znodes.cluster_view import ControllerView, read_controller
from zkcontroller_cli.znodes.registrations import read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, decoded, now_ms, open_zookeeper

_SETTLE_S: Final = 10.0
"""Seconds that zkctl waits for brokers to learn of the new controller."""
_LOG_POLL_S: Final = 0.05
_EPOCH_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The znode to delete, and the controller and versions that must still be the same."""

    path: str
    zk_version: int
    controller_id_before: int
    controller_epoch_before: int
    controller_epoch_zk_version_before: int

    def record(self) -> dict[str, Any]:
        """The record of a dry run: the keys of :meth:`Outcome.record`, with null for results."""
        nothing = dict.fromkeys(("controller_id", "controller_epoch", *_MEASURED))
        return {"is_dry_run": True, **asdict(self), **nothing}


_MEASURED: Final = (
    "controller_epoch_zk_version",
    "elected_at_ms",
    "elapsed_ms",
    "first_update_metadata_ms",
    "first_update_metadata_broker_id",
    "first_update_metadata_source",
    "first_update_metadata_reason",
    "all_brokers_updated_ms",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The newly elected controller, and how long the election took."""

    plan: ElectionPlan
    after: ControllerView
    elapsed_ms: float
    """From sending the deletion to the first sign of the next controller."""
    first_update: FirstUpdate

    def record(self) -> dict[str, Any]:
        """The result as JSON values."""
        after = asdict(self.after)
        del after["controller_session_id"]
        return {
            "is_dry_run": False,
            **asdict(self.plan),
            **after,
            "elapsed_ms": self.elapsed_ms,
            **asdict(self.first_update),
        }


class Election:
    """One deliberate election: :meth:`begin` reads the plan, :meth:`run` carries it out."""

    def __init__(
        self,
        settings: Settings,
        zookeeper: ZooKeeper,
        plan: ElectionPlan,
        created: queue.SimpleQueue[float],
    ) -> None:
        self.plan = plan
        self.zookeeper = zookeeper
        self._settings = settings
        self._created = created

    @classmethod
    @contextmanager
    def begin(cls, settings: Settings) -> Iterator[Election]:
        """Read the current controller; Refused if there is none, or if it is a KRaft controller."""
        created: queue.SimpleQueue[float] = queue.SimpleQueue()

        def on_watch(fired: WatchFired) -> None:
            if fired.kind is WatchKind.NODE_CREATED:
                created.put(time.monotonic())

        with open_zookeeper(settings, on_watch) as zookeeper:
            before = read_controller(zookeeper)
            znode = optional(ControllerZnode.PATH, zookeeper.read([ControllerZnode.PATH])[0])
            if before.controller_epoch is None or before.controller_epoch_zk_version is None:
                raise Refused(
                    "/controller_epoch is missing or corrupt, so no election can be proven: "
                    "zkctl znode get /controller_epoch"
                )
            if znode is None or before.controller_id is None:
                raise Refused(
                    "there is no controller to move: /controller is missing or corrupt; "
                    "zkctl broker list shows the brokers that could be it"
                )
            claim = decoded(ControllerZnode.decode, znode.data)
            if claim is not None and claim.kraft_controller_epoch >= 0:
                raise Refused(
                    f"/controller belongs to KRaft controller {claim.broker_id}, which migrates "
                    "this cluster from ZooKeeper: without its claim a broker would become a second "
                    "controller beside it. The quorum elects its controllers itself: zkctl quorum "
                    "describe --bootstrap-controller HOST:PORT"
                )
            plan = ElectionPlan(
                zookeeper.full(ControllerZnode.PATH),
                znode.zk_version,
                before.controller_id,
                before.controller_epoch,
                before.controller_epoch_zk_version,
            )
            yield cls(settings, zookeeper, plan, created)

    def run(self, timeout_s: float) -> Outcome:
        """Delete ``/controller``, wait for the next controller, and for brokers to learn of it.

        Refused if the controller has moved since the plan was made, TimedOut if no broker takes
        over.  If the connection broke before ZooKeeper confirmed the deletion, stderr says that it
        is not known who deleted ``/controller``.
        """
        return run(self._run(Deadline(timeout_s)))

    async def _run(self, deadline: Deadline) -> Outcome:
        security = self._settings.security
        addresses = {
            registration.broker.broker_id: registration.address_by(security.protocol)
            for registration in await asyncio.to_thread(read_registrations, self.zookeeper)
        }
        reachable = {broker: address for broker, address in addresses.items() if address}
        history, logs = CacheHistory(), self._logs()
        polls = asyncio.create_task(record_caches(reachable, history, security))
        try:
            # First wait until each broker has named the old controller, so that changes are seen.
            await _until(
                lambda: all(history.seen.get(broker) for broker in reachable), Deadline(0.5)
            )
            deleted_at_ms, deleted_at, after, noticed_at = await asyncio.to_thread(
                self._delete_and_wait, deadline
            )
            first = await self._first_update(
                after, reachable, history, logs, deleted_at, deleted_at_ms
            )
        finally:
            polls.cancel()
            with suppress(asyncio.CancelledError):
                await polls
        elapsed_ms = _ms_between(deleted_at, noticed_at)
        if first.first_update_metadata_ms is not None:
            # If a broker received UpdateMetadata before the watch fired, the controller existed
            # already.
            elapsed_ms = min(elapsed_ms, first.first_update_metadata_ms)
        return Outcome(self.plan, after, elapsed_ms, first)

    def _delete_and_wait(self, deadline: Deadline) -> tuple[int, float, ControllerView, float]:
        # Both in one call: a change of threads in between would count as election time.
        deleted_at_ms, deleted_at = self._delete()
        return deleted_at_ms, deleted_at, *self._await_controller(deadline)

    def _delete(self) -> tuple[int, float]:
        at_ms, at = now_ms(), time.monotonic()
        result = self.zookeeper.transaction(
            ZkTransaction(
                [
                    Check(ControllerEpochZnode.PATH, self.plan.controller_epoch_zk_version_before),
                    Delete(ControllerZnode.PATH, self.plan.zk_version),
                ]
            )
        )
        if isinstance(result, RolledBack):
            if result.code not in (ZkCode.NO_NODE, ZkCode.BAD_VERSION):
                raise ZooKeeperRefused(ControllerZnode.PATH, result.code.name)
            if result.is_repeated:
                say(
                    "the connection to ZooKeeper broke before the answer: whether this command "
                    "deleted /controller, or it went by itself, is not known"
                )
                return at_ms, at
            raise Refused(
                f"nothing was deleted: the controller has moved meanwhile ({result.code.name}); "
                "zkctl controller show says who it is now"
            )
        return at_ms, at

    def _await_controller(self, deadline: Deadline) -> tuple[ControllerView, float]:
        """The next controller, and when it was seen (monotonic seconds)."""
        while True:
            is_there = isinstance(self.zookeeper.stats([ControllerZnode.PATH], watch=True)[0], Stat)
            try:
                # If /controller does not exist yet, the time at which the watch fires counts.
                noticed_at = (
                    time.monotonic() if is_there else self._created.get(timeout=deadline.left_s)
                )
            except queue.Empty:
                raise TimedOut(
                    "/controller is gone, and no broker took over in time; "
                    "zkctl controller watch shows whether one does"
                ) from None
            view = read_controller(self.zookeeper)
            if view.controller_id is None or view.controller_epoch is None:
                continue  # that controller is gone again: wait for the next one
            if view.controller_epoch > self.plan.controller_epoch_before:
                return view, noticed_at
            # A controller before Kafka 2.2 writes its epoch after /controller (KAFKA-6082).
            if deadline.is_over:
                raise Refused(
                    f"broker {view.controller_id} is controller in epoch {view.controller_epoch}, "
                    f"which is not after {self.plan.controller_epoch_before}: no valid election"
                )
            time.sleep(_EPOCH_POLL_S)

    async def _first_update(
        self,
        after: ControllerView,
        brokers: dict[int, tuple[str, int]],
        history: CacheHistory,
        logs: StateChangeLogs | None,
        deleted_at: float,
        deleted_at_ms: int,
    ) -> FirstUpdate:
        controller_id, epoch = after.controller_id, after.controller_epoch
        assert controller_id is not None, "_await_controller returns a controller"
        assert epoch is not None, "_await_controller returns its epoch"
        deadline = Deadline(_SETTLE_S)
        if controller_id != self.plan.controller_id_before:
            await _until(
                lambda: len(history.first_naming(controller_id, deleted_at)) == len(brokers),
                deadline,
            )
            named_at = history.first_naming(controller_id, deleted_at)
            after_ms = {broker: _ms_between(deleted_at, at) for broker, at in named_at.items()}
            return from_metadata(after_ms, len(brokers))
        if logs is None:
            return unseen("the same broker was elected, and its logs are not known: say --dir")
        [result] = await asyncio.to_thread(self.zookeeper.children, [TopicsZnode.PATH])
        has_topics = bool(optional(TopicsZnode.PATH, result))
        # Without partitions only the controller logs that it sends UpdateMetadata.
        kind = Kind.METADATA_CACHED if has_topics else Kind.UPDATE_METADATA_SENDING
        wanted = len(brokers) if has_topics else 1
        await _until(lambda: len(logs.first_of(kind, epoch)) >= wanted, deadline, _LOG_POLL_S)
        return from_logs(logs, epoch, deleted_at_ms)

    def _logs(self) -> StateChangeLogs | None:
        cluster = self._settings.cluster_file
        if cluster is None or cluster.zookeeper_connect != self._settings.zookeeper():
            return None
        return StateChangeLogs(cluster)


async def _until(condition: Any, deadline: Deadline, poll_s: float = 0.005) -> None:
    while not condition() and not deadline.is_over:
        await asyncio.sleep(poll_s)


def _ms_between(start: float, end: float) -> float:
    return round((end - start) * 1000, 1)
