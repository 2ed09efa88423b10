"""Decides from one reading what ``deletion unblock`` may do: pure.

It never deletes the znodes of a topic (KIP-688 calls that risky).  The controller has the topic in
memory and would write some of them again, and brokers would keep the logs as strays of the next
topic of that name.  The controller deletes the topic; this only makes it continue.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.deletions.blockers import (
    PATIENCE_MS,
    Blocker,
    BlockerKind,
    Deletion,
    blockers_of,
)


class UnblockAction(StrEnum):
    """How a deletion is unblocked."""

    ELECT = "elect_controller"
    CANCEL = "cancel_reassignment"
    KEEP = "keep_topic"


class UnblockPlan(NamedTuple):
    """The action, and its steps as texts for the user."""

    action: UnblockAction
    steps: tuple[str, ...]


_BROKER_BLOCKERS: Final = frozenset(
    (BlockerKind.DEAD_BROKER, BlockerKind.SILENT_BROKER, BlockerKind.OFFLINE_LOG_DIR)
)
_BEYOND_ZKCTL: Final = frozenset((BlockerKind.NO_CONTROLLER, BlockerKind.DELETION_DISABLED))
_NEXT_CONTROLLER: Final = "have another controller elected: delete /controller"
_UNMARK: Final = (
    "in one transaction, if the controller is still the same: delete the deletion mark {mark} and "
    "/controller, so that the next controller does not know of the deletion"
)


def plan_unblock(deletion: Deletion, *, kept: str | None) -> UnblockPlan:
    """The safe plan; Refused, with the next step, if there is none.

    ``kept``: None, or the topic's name typed again, to delete the mark and keep the topic.
    BadUsage if it is another name.
    """
    if kept is not None:
        return _plan_to_keep(deletion, kept)
    blockers = blockers_of(deletion)
    if not blockers:
        wait = command_line("wait", options=[f"--for=deleted={deletion.topic}"])
        raise Refused(
            f"nothing holds the deletion of {deletion.topic} up: it was ordered "
            f"{deletion.age_ms / 1000:.0f} s ago; {wait}"
        )
    kinds = {blocker.kind for blocker in blockers}
    is_moving = BlockerKind.REASSIGNMENT in kinds
    # A broker that a cancel removes from the assignment does not have to work.
    needed = [
        blocker
        for blocker in blockers
        if blocker.kind in _BEYOND_ZKCTL
        or (
            blocker.kind in _BROKER_BLOCKERS
            and not (is_moving and blocker.broker_id in deletion.only_added)
        )
    ]
    if needed:
        raise Refused(_refusal(deletion, needed))
    if is_moving:
        return UnblockPlan(UnblockAction.CANCEL, _steps_to_cancel(deletion))
    again = "it carries the deletion on, and asks the brokers again"
    return UnblockPlan(UnblockAction.ELECT, (f"{_NEXT_CONTROLLER}; {again}",))


def _refusal(deletion: Deletion, needed: list[Blocker]) -> str:
    first = needed[0]
    more = f" ({len(needed) - 1} more: {command_line('deletion status', deletion.topic)})"
    return (
        f"{deletion.topic}: {first.what}{more if len(needed) > 1 else ''}; nothing that is safe "
        f"can be done from here: {first.next_step}"
    )


def _steps_to_cancel(deletion: Deletion) -> tuple[str, ...]:
    names = ", ".join(f"{deletion.topic}-{view.partition}" for view in deletion.moving)
    return (
        _UNMARK.format(mark=_mark_text(deletion)) + ": the topic is back for a moment",
        f"cancel the moves of {names}, and wait for their end",
        f"delete topic {deletion.topic} again",
    )


def _plan_to_keep(deletion: Deletion, kept: str) -> UnblockPlan:
    topic = deletion.topic
    if kept != topic:
        raise BadUsage(f"--keep-topic {kept} is not the topic {topic}: type its name again")
    if not deletion.has_znode:
        raise Refused(f"topic {topic} cannot be kept: its znode is gone, or cannot be read")
    if deletion.age_ms < PATIENCE_MS:
        raise Refused(
            f"the deletion of {topic} was ordered {deletion.age_ms / 1000:.0f} s ago: its replicas "
            "may be deleted at this moment; look again in some seconds"
        )
    for broker in deletion.brokers:
        found = deletion.held.get(broker)
        if broker not in deletion.live_brokers:
            continue  # a dead broker deletes no replicas
        count = len(deletion.replicas_of(broker))
        if found is None or found.left is None:
            why = "is not asked" if found is None else f"does not tell: {found.error}"
            raise Refused(f"whether broker {broker} has its replicas still is not known: it {why}")
        if len(found.left) < count:
            raise Refused(
                f"broker {broker} has deleted {count - len(found.left)} of its {count} replicas of "
                f"{topic}: the topic would be back without their records, and brokers that return "
                "would delete theirs; let the deletion end"
            )
    steps = [_UNMARK.format(mark=_mark_text(deletion))]
    if deletion.controller_id is None:
        steps = [f"delete the deletion mark {_mark_text(deletion)}, while there is no controller"]
    return UnblockPlan(UnblockAction.KEEP, (*steps, f"topic {topic} stays, with its records"))


def _mark_text(deletion: Deletion) -> str:
    return f"/admin/delete_topics/{deletion.topic} at version {deletion.mark.zk_version}"
