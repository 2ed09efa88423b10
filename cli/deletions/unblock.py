"""Carries out the plan of ``deletion unblock``, and proves its result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import Check, Delete, RolledBack, ZkCode, ZkTransaction
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    TopicZnode,
)
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.deletions.blockers import Deletion
from zkcontroller_cli.deletions.plan import UnblockAction, UnblockPlan
from zkcontroller_cli.topics.presence import topics_in_znodes
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.admin import ongoing_reassignments, reassign
from zkcontroller_cli.wire.requests import Deadline, delete_topics_named, raise_for_code, run
from zkcontroller_cli.znodes.cluster_view import ControllerView, read_controller
from zkcontroller_cli.znodes.partitions import partitions_of, read_topics
from zkcontroller_cli.znodes.session import ZooKeeper

_POLL_S: Final = 0.1


class Unblocking:
    """Makes one deletion continue, or cancels it."""

    def __init__(
        self,
        given: Settings,
        zookeeper: ZooKeeper,
        deletion: Deletion,
        controller: ControllerView,
        plan: UnblockPlan,
    ) -> None:
        self._given = given
        self._zookeeper = zookeeper
        self._deletion = deletion
        self._before = controller
        self._plan = plan
        self._deadline = Deadline(given.deadline_s)

    def dry_run(self) -> dict[str, Any]:
        """The record of what would be done."""
        return self._record(is_dry_run=True, is_deleted=False, is_marked=True)

    def run(self) -> dict[str, Any]:
        """Carry out the plan; returns the record of the state read afterwards.

        Refused if the controller has moved since the plan was made, or refuses a step; TimedOut if
        the expected state is not reached in time.
        """
        self._deadline = Deadline(self._given.deadline_s)  # begins after the user's answer
        match self._plan.action:
            case UnblockAction.ELECT:
                self._elect()
                return self._await_end()
            case UnblockAction.KEEP:
                self._unmark()
                if self._before.controller_id is not None:
                    self._await_controller()
                return self._await_leaders()
            case UnblockAction.CANCEL:
                self._unmark()
                self._cancel_and_delete()
                return self._await_end()

    def _cancel_and_delete(self) -> None:
        """Cancel the moves and request the deletion again.

        An error adds that the topic is not marked any more, and how to continue.
        """
        topic = self._deletion.topic
        try:
            self._await_controller()
            say(f"topic {topic} is back; its moves are cancelled now")
            bootstrap = self._given.bootstrap()
            self._cancel(bootstrap)
            self._await_end_of_moves(bootstrap)
            [result] = run(delete_topics_named(bootstrap, self._deadline, [topic]))
            if result.error_code is not ErrorCode.request_timed_out:
                raise_for_code(f"topic {topic}", result.error_code, result.error_message)
        except CommandFailed as error:
            cancel = command_line("reassign cancel", f"{topic}-0")
            raise type(error)(
                f"{error}; topic {topic} is not marked any more, and was to be deleted again: "
                f"zkctl reassign status, {cancel} and so on, then "
                f"{command_line('topic delete', topic)}"
            ) from error

    def _elect(self) -> None:
        """Delete ``/controller``, and wait for the next controller."""
        self._write([Delete(ControllerZnode.PATH)])
        self._await_controller()

    def _unmark(self) -> None:
        """Delete the mark and ``/controller``, so that the next controller sees no deletion."""
        path = DeleteTopicZnode.path(self._deletion.topic)
        operations = [Delete(path, self._deletion.mark.zk_version)]
        if self._before.controller_id is not None:
            operations.append(Delete(ControllerZnode.PATH))
        self._write(operations)

    def _write(self, deletes: Sequence[Delete]) -> None:
        """Delete all in one transaction; Refused if the controller is not that of the plan.

        TimedOut if the connection broke before ZooKeeper's response, so that the result is not
        known.
        """
        version = self._before.controller_epoch_zk_version
        check = [] if version is None else [Check(ControllerEpochZnode.PATH, version)]
        result = self._zookeeper.transaction(ZkTransaction([*check, *deletes]))
        if isinstance(result, RolledBack):
            if result.code not in (ZkCode.NO_NODE, ZkCode.BAD_VERSION):
                raise ZooKeeperRefused(deletes[0].path, result.code.name)
            if result.is_repeated:
                raise TimedOut(
                    "the connection to ZooKeeper broke before the answer: whether it was done is "
                    "not known; look again with zkctl deletion status"
                )
            raise Refused(
                "nothing was done: the controller or the deletion has changed meanwhile "
                f"({result.code.name}); look again with zkctl deletion status"
            )

    def _await_controller(self) -> None:
        epoch = self._before.controller_epoch or 0
        while True:
            view = read_controller(self._zookeeper)
            if view.controller_id is not None and (view.controller_epoch or 0) > epoch:
                say(f"controller: broker {view.controller_id}, epoch {view.controller_epoch}")
                return
            if self._deadline.is_over:
                raise TimedOut(
                    "/controller was deleted, and no broker took over in time: zkctl broker list "
                    "shows which are there"
                )
            time.sleep(min(_POLL_S, self._deadline.left_s))

    def _cancel(self, bootstrap: Bootstrap) -> None:
        topic = self._deletion.topic
        moving = [NamedPartition(topic, view.partition) for view in self._deletion.moving]
        while True:
            verdicts = run(reassign(bootstrap, self._deadline, [(each, None) for each in moving]))
            refused = [
                verdict
                for verdict in verdicts
                # The move may have ended by itself; after a timeout _await_end_of_moves looks.
                if verdict.error_code
                not in (
                    ErrorCode.none,
                    ErrorCode.no_reassignment_in_progress,
                    ErrorCode.request_timed_out,
                )
            ]
            if not refused:
                break
            # The next controller may not have read the topic yet.
            is_early = all(
                verdict.error_code is ErrorCode.unknown_topic_or_partition for verdict in refused
            )
            if not is_early or self._deadline.is_over:
                raise Refused(
                    f"the move of {topic}-{refused[0].partition} was not cancelled: "
                    f"{refused[0].reason} ({refused[0].error})"
                )
            time.sleep(min(_POLL_S, self._deadline.left_s))

    def _await_end_of_moves(self, bootstrap: Bootstrap) -> None:
        topic = self._deletion.topic
        while True:
            ongoing = run(ongoing_reassignments(bootstrap, self._deadline))
            if all(each.topic != topic for each in ongoing):
                return
            if self._deadline.is_over:
                raise TimedOut(f"the moves of {topic} are cancelled and have not ended in time")
            time.sleep(min(_POLL_S, self._deadline.left_s))

    def _await_end(self) -> dict[str, Any]:
        topic = self._deletion.topic
        while True:
            if not topics_in_znodes(self._zookeeper, [topic])[topic]:
                return self._record(is_dry_run=False, is_deleted=True, is_marked=False)
            if self._deadline.is_over:
                look = command_line("deletion status", topic)
                raise TimedOut(
                    f"topic {topic} is still there: {look} names what holds its deletion up now"
                )
            time.sleep(min(_POLL_S, self._deadline.left_s))

    def _await_leaders(self) -> dict[str, Any]:
        """Wait until every partition with a live in-sync replica has a leader.

        Refused if the topic is gone or marked again.
        """
        topic = self._deletion.topic
        path, mark = TopicZnode.path(topic), DeleteTopicZnode.path(topic)
        while True:
            there, marked = map(optional, (path, mark), self._zookeeper.stats([path, mark]))
            if there is None or marked is not None:
                raise Refused(
                    f"topic {topic} is {'gone' if there is None else 'marked again'}: its deletion "
                    "went on meanwhile"
                )
            views = partitions_of(self._zookeeper, read_topics(self._zookeeper, [topic]))
            live = self._deletion.live_brokers
            waiting = [
                view
                for view in views
                if view.is_offline
                and view.state is not None
                and any(broker in live for broker in view.state.in_sync_replicas)
            ]
            if not waiting or self._before.controller_id is None:
                return self._record(is_dry_run=False, is_deleted=False, is_marked=False)
            if self._deadline.is_over:
                first = f"{topic}-{waiting[0].partition}"
                wait = command_line("wait", options=[f"--for=leader={first}"])
                raise TimedOut(
                    f"topic {topic} is kept, and {len(waiting)} of its partitions have no leader "
                    f"yet: {wait}"
                )
            time.sleep(min(_POLL_S, self._deadline.left_s))

    def _record(self, *, is_dry_run: bool, is_deleted: bool, is_marked: bool) -> dict[str, Any]:
        after = self._before if is_dry_run else read_controller(self._zookeeper)
        return {
            "topic": self._deletion.topic,
            "action": str(self._plan.action),
            "steps": list(self._plan.steps),
            "is_dry_run": is_dry_run,
            "is_deleted": is_deleted,
            "is_marked_for_deletion": is_marked,
            "controller_id_before": self._before.controller_id,
            "controller_epoch_before": self._before.controller_epoch,
            "controller_id": after.controller_id,
            "controller_epoch": after.controller_epoch,
        }
