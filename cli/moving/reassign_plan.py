"""``zkctl reassign plan``: plans moves, and writes them as a file for ``reassign start``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.moving.reassign_options import RATES, estimate_lines, partition_name
from zkcontroller_cli.values.moves import Move, NamedPartition, write_moves

if TYPE_CHECKING:
    from zkcontroller_cli.moving.move_costs import MoveCosts
    from zkcontroller_cli.moving.moves_reading import MovesReading
    from zkcontroller_cli.moving.replica_planner import Goal, Racks, Replicas

_LAYOUT = Layout(
    partition_name,
    (),
    (
        "topic",
        "partition",
        "current_replicas",
        "replicas",
        "adding_replicas",
        "removing_replicas",
        "copied_bytes",
    ),
)


@click.command("plan")
@click.option("--balance", is_flag=True, help="Spread replicas and preferred leaders evenly.")
@click.option("--drain", multiple=True, type=int, metavar="ID", help="Empty this broker.")
@click.option(
    "--add", multiple=True, type=int, metavar="ID", help="Move a fair share to this new broker."
)
@click.option(
    "--replication-factor", type=click.IntRange(1), help="Give each partition this many replicas."
)
@click.option(
    "--to", "receivers", multiple=True, type=int, metavar="ID", help="Only to these brokers."
)
@click.option("--topic", "topics", multiple=True, metavar="GLOB", help="Only these topics.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Not these topics.")
@click.option("--ignore-racks", is_flag=True, help="As if no broker named its rack.")
@click.option(
    "--throttle", type=RATES, metavar="BYTES/S", help="Say how long the moves take at this rate."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the moves there, for reassign start --file.",
)
@click.option(
    "--save-current",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write where these replicas are now, to move them back.",
)
def plan(
    balance: bool,
    drain: tuple[int, ...],
    add: tuple[int, ...],
    replication_factor: int | None,
    receivers: tuple[int, ...],
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    ignore_racks: bool,
    throttle: int | None,
    save: Path | None,
    save_current: Path | None,
) -> None:
    """Plan moves of replicas with the fewest copies. Nothing is sent.

    Say one of --balance, --drain, --add and --replication-factor. Replicas stay on as many racks as
    possible where every live broker names its rack. Only the chosen topics are counted and moved.
    --balance --to puts them on those brokers alone.

    Examples:
      zkctl reassign plan --balance --save moves.json
      zkctl reassign plan --drain 3 --save moves.json --save-current back.json
    """
    from zkcontroller_cli.moving.move_costs import all_sizes, costs_of
    from zkcontroller_cli.moving.moves_reading import read_moving
    from zkcontroller_cli.moving.replica_planner import CannotPlan, plan_replicas
    from zkcontroller_cli.wire.requests import Deadline, run

    goal = _goal_of_options(balance, drain, add, replication_factor, receivers)
    check_files(save, save_current)
    given = settings()
    bootstrap = given.bootstrap()
    reading = run(read_moving(bootstrap, Deadline(given.deadline_s)))
    current = chosen_replicas(reading, topics, exclude)
    moving = sorted(set(reading.ongoing) & set(current))
    if moving:
        raise Refused(
            f"{len(moving)} of the partitions are being moved, {moving[0].topic}-"
            f"{moving[0].partition} among them: wait (zkctl reassign status), or cancel "
            "(zkctl reassign cancel)"
        )
    sizes = run(all_sizes(bootstrap, reading))
    racks = dict.fromkeys(reading.racks) if ignore_racks else reading.racks
    try:
        planned, is_best = plan_replicas(current, racks, goal, sizes)
    except CannotPlan as error:
        raise Refused(str(error)) from error
    costs = run(costs_of(bootstrap, reading, planned))
    if save is not None:
        write_moves(save, [Move(*each, replicas) for each, replicas in planned.items()])
    if save_current is not None:
        write_moves(save_current, [Move(*each, current[each]) for each in planned])
    say_summary(current, planned, racks)
    if planned:
        for line in estimate_lines(costs.estimate, costs.usable, throttle):
            say(line)
    if not is_best:
        say("the search was ended at its limit: there may be a more even plan, or a shorter one")
    if save is not None:
        say(f"next: {command_line('reassign start', options=('--file', save, '--dry-run'))}")
    rows = [planned_row(each, current[each], replicas, costs) for each, replicas in planned.items()]
    given.renderer.rows(rows, _LAYOUT)


def planned_row(
    partition: NamedPartition, before: Replicas, after: Replicas, costs: MoveCosts
) -> dict[str, Any]:
    """The row of one partition of a plan."""
    adding = [broker for broker in after if broker not in before]
    size = costs.sizes.get(partition) if adding else 0
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "current_replicas": before,
        "replicas": after,
        "adding_replicas": adding,
        "removing_replicas": [broker for broker in before if broker not in after],
        "copied_bytes": None if size is None else size * len(adding),
    }


def check_files(save: Path | None, save_current: Path | None) -> None:
    """BadUsage if a file to write exists already, or both paths are the same."""
    for file in (save, save_current):
        if file is not None and file.exists():
            raise BadUsage(f"{file} exists already: name another file")
    if save is not None and save == save_current:
        raise BadUsage("--save and --save-current name one file: name two")


def _goal_of_options(
    balance: bool,
    drain: tuple[int, ...],
    add: tuple[int, ...],
    replication_factor: int | None,
    receivers: tuple[int, ...],
) -> Goal:
    from zkcontroller_cli.moving.replica_planner import Goal, PlanMode

    wishes = [
        goal
        for goal, is_given in (
            (Goal(PlanMode.BALANCE), balance),
            (Goal(PlanMode.DRAIN, frozenset(drain)), bool(drain)),
            (Goal(PlanMode.ADD, frozenset(add)), bool(add)),
            (
                Goal(PlanMode.REPLICATION_FACTOR, replication_factor=replication_factor or 0),
                replication_factor is not None,
            ),
        )
        if is_given
    ]
    if len(wishes) != 1:
        raise BadUsage("say one of --balance, --drain, --add and --replication-factor")
    if add and receivers:
        raise BadUsage("--add names the receivers: leave --to out")
    return wishes[0]._replace(receivers=frozenset(receivers))


def chosen_replicas(
    reading: MovesReading, topics: Sequence[str], exclude: Sequence[str]
) -> dict[NamedPartition, Replicas]:
    """The replicas of the partitions whose topic matches; Refused if a glob matches no topic."""
    current = {
        each: replicas
        for each, replicas in sorted(reading.current.items())
        if _is_chosen(each.topic, topics, exclude)
    }
    for pattern in topics:
        if not any(fnmatchcase(each.topic, pattern) for each in current):
            raise Refused(f"no topic is left by --topic {pattern}; zkctl topic list shows all")
    return current


def _is_chosen(name: str, topics: Sequence[str], exclude: Sequence[str]) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in exclude):
        return False
    return not topics or any(fnmatchcase(name, pattern) for pattern in topics)


def say_summary(
    current: Mapping[NamedPartition, Replicas],
    planned: Mapping[NamedPartition, Replicas],
    racks: Racks,
) -> None:
    """Show on stderr how many replicas are copied, and each broker's load before and after."""
    copied = sum(len(set(replicas) - set(current[each])) for each, replicas in planned.items())
    say(f"{len(planned)} of {len(current)} partitions change, {copied} replicas are copied")
    if not planned:
        return
    after = {**current, **planned}
    for broker in sorted({*racks, *(b for replicas in current.values() for b in replicas)}):
        before, now = _held(current, broker), _held(after, broker)
        say(
            f"  broker {broker}: {before['replicas']} -> {now['replicas']} replicas, "
            f"first of {before['first']} -> {now['first']} partitions"
        )


def _held(assignment: Mapping[NamedPartition, Replicas], broker: int) -> Counter[str]:
    held: Counter[str] = Counter()
    for replicas in assignment.values():
        held["replicas"] += broker in replicas
        held["first"] += replicas[0] == broker
    return held
