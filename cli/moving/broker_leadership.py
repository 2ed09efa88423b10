"""``zkctl broker drain --leadership-only``: makes other replicas leaders, without any copy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.moving.leadership_plan import LedPartition, PlannedHandover, plan_handovers
from zkcontroller_cli.moving.reassign_options import IN_DRY_RUN, IN_ROWS, partition_name, show
from zkcontroller_cli.values.moves import Move, NamedPartition, write_moves

if TYPE_CHECKING:
    from zkcontroller_cli.moving.moves_reading import MovesReading

_PLAN: Final = Layout(partition_name, (), PlannedHandover._fields)
_KEYS: Final = ("topic", "partition", "leader", "replicas", "is_handed_over", "error", "reason")
_LAYOUT: Final = Layout(partition_name, (), _KEYS)
_POLL_S: Final = 0.2


def hand_over(
    given: Settings,
    broker_id: int,
    exclude: tuple[str, ...],
    save_current: Path | None,
    *,
    is_dry_run: bool,
    yes: bool,
) -> None:
    """Make other replicas leaders of each partition that the broker leads or should lead.

    It should lead a partition if it is the preferred leader.  Refused at the end if the broker
    still leads or should lead one.
    """
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    question = f"Take every leadership from broker {broker_id}?"
    if not is_dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    plans = run(_planned(given, bootstrap, broker_id, exclude))
    show([_text(each) for each in plans], IN_ROWS if is_dry_run else IN_DRY_RUN)
    if is_dry_run:
        given.renderer.rows([each.row() for each in plans], _PLAN)
        return
    able = [each for each in plans if each.reason is None]
    if save_current is not None:
        write_moves(save_current, [Move(*e.name, e.current_replicas) for e in able])
    if able:
        given.confirm(question, yes=yes)
    refused, reading = run(_handed_over(given, bootstrap, broker_id, able))
    rows = [_row(each, reading, refused, broker_id) for each in plans]
    given.renderer.rows(rows, _LAYOUT)
    left = [row for row in rows if not row["is_handed_over"]]
    if left:
        first = left[0]
        why = first["reason"] or f"broker {first['leader']} leads it"
        raise Refused(
            f"{partition_name(first)}: {why}; {len(left)} of {len(rows)} leaderships are still "
            f"with broker {broker_id}"
        )
    say(f"broker {broker_id} leads nothing more: metadata, read again")


async def _planned(
    given: Settings, bootstrap: Bootstrap, broker_id: int, exclude: tuple[str, ...]
) -> list[PlannedHandover]:
    from zkcontroller_cli.moving.moves_reading import read_moving
    from zkcontroller_cli.moving.reassign_plan import chosen_replicas
    from zkcontroller_cli.wire.requests import Deadline

    reading = await read_moving(bootstrap, Deadline(given.deadline_s))
    chosen = chosen_replicas(reading, (), exclude)
    partitions = {
        name: LedPartition(
            reading.leaders[name],
            replicas,
            tuple(map(int, reading.partitions[name].isr_nodes)),
        )
        for name, replicas in chosen.items()
    }
    return plan_handovers(partitions, broker_id, reading.live, set(reading.ongoing))


async def _handed_over(
    given: Settings, bootstrap: Bootstrap, broker_id: int, plans: Sequence[PlannedHandover]
) -> tuple[dict[NamedPartition, tuple[str, str]], MovesReading]:
    """Reorder replicas and elect leaders; returns the refusals, and the reading afterwards."""
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.moving.moves_reading import read_moving
    from zkcontroller_cli.wire.admin import elect, reassign
    from zkcontroller_cli.wire.requests import Deadline

    deadline = Deadline(given.deadline_s)
    refused: dict[NamedPartition, tuple[str, str]] = {}
    orders = [(e.name, e.replicas) for e in plans if e.replicas != e.current_replicas]
    verdicts = await reassign(bootstrap, deadline, orders) if orders else []
    for verdict in verdicts:
        if verdict.error is not None:
            name = NamedPartition(verdict.topic, verdict.partition)
            refused[name] = verdict.error, verdict.reason or ""
    names = [each.name for each in plans if each.elected is not None and each.name not in refused]
    if names:
        for verdict in await elect(bootstrap, deadline, names, is_unclean=False):
            if verdict.error_code not in (ErrorCode.none, ErrorCode.election_not_needed):
                name = NamedPartition(verdict.topic, verdict.partition)
                refused[name] = verdict.error or "", verdict.reason or ""
    wanted = {each.name: each.replicas for each in plans if each.name not in refused}
    topics = sorted({name.topic for name in wanted})
    while True:
        reading = await read_moving(bootstrap, Deadline(given.deadline_s), topics)
        is_done = all(
            reading.leaders.get(name) != broker_id and reading.current.get(name) == replicas
            for name, replicas in wanted.items()
        )
        if is_done:
            return refused, reading
        if deadline.is_over:
            left = sum(reading.leaders.get(name) == broker_id for name in wanted)
            raise TimedOut(f"broker {broker_id} still leads {left} of these partitions")
        await asyncio.sleep(_POLL_S)


def _text(plan: PlannedHandover) -> str:
    name = f"  {plan.topic}-{plan.partition}"
    if plan.reason is not None:
        return f"{name}: {plan.reason}"
    replicas = ",".join(map(str, plan.replicas))
    leader = "" if plan.elected is None else f", leader {plan.leader} -> {plan.elected}"
    return f"{name}: replicas in the order {replicas}{leader}"


def _row(
    plan: PlannedHandover,
    reading: MovesReading,
    refused: dict[NamedPartition, tuple[str, str]],
    broker_id: int,
) -> dict[str, Any]:
    error, reason = refused.get(plan.name, (None, plan.reason))
    leader = reading.leaders.get(plan.name, plan.leader)
    replicas = reading.current.get(plan.name, plan.current_replicas)
    return {
        "topic": plan.topic,
        "partition": plan.partition,
        "leader": leader,
        "replicas": replicas,
        "is_handed_over": leader != broker_id and replicas[:1] != (broker_id,),
        "error": error,
        "reason": reason,
    }
