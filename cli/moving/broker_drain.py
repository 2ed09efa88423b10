"""``zkctl broker drain``: moves all replicas or leaderships off a broker, and proves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, CommandFailed, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, say, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.moving.reassign_options import (
    IN_DRY_RUN,
    IN_ROWS,
    dry_run_option,
    estimate_lines,
    limit_of,
    moved_row,
    partition_name,
    raise_for,
    say_end,
    say_what_stands,
    show,
    wave_options,
    yes_option,
)
from zkcontroller_cli.values.moves import Move, NamedPartition, write_moves

if TYPE_CHECKING:
    from zkcontroller_cli.moving.move_costs import MoveCosts
    from zkcontroller_cli.moving.move_runner import MoveRunner
    from zkcontroller_cli.moving.throttle_end import ThrottleEnd

Replicas = tuple[int, ...]
IN_FLIGHT: Final = 20
_PLAN: Final = Layout(
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
_DRAINED: Final = named("broker_id")


@click.command("drain")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
@click.option(
    "--to", "receivers", multiple=True, type=int, metavar="ID", help="Only to these brokers."
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave these topics there.")
@click.option(
    "--leadership-only",
    is_flag=True,
    help="Hand over its leaderships, and keep the replicas: quick, nothing is copied.",
)
@click.option("--ignore-racks", is_flag=True, help="As if no broker named its rack.")
@wave_options
@click.option(
    "--max-moves-in-flight",
    "at_once",
    type=click.IntRange(1),
    metavar="N",
    help=f"How many partitions are moved at once.  [default: {IN_FLIGHT}]",
)
@click.option(
    "--save-current",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write where these replicas are now, to move them back (reassign start --file).",
)
@dry_run_option
@yes_option
def drain(
    broker_id: int,
    receivers: tuple[int, ...],
    exclude: tuple[str, ...],
    leadership_only: bool,
    ignore_racks: bool,
    throttle: int | None,
    patience: float | None,
    at_once: int | None,
    save_current: Path | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Empty broker ID: every replica goes to another broker, with the fewest copies.

    The plan is shown first. The moves run in waves and are followed to their end; the same command
    goes on where one was interrupted. In the end metadata and the broker's own log directories
    prove that nothing is left. A topic that is created meanwhile may be placed on the broker: run
    the same command again then.

    Examples:
      zkctl broker drain 1 --dry-run
      zkctl broker drain 1 --throttle 50000000 --save-current back.json
      zkctl broker drain 1 --leadership-only
    """
    from zkcontroller_cli.moving.reassign_plan import check_files

    check_files(save_current, None)
    given = settings()
    if leadership_only:
        if receivers or throttle or patience or at_once or ignore_racks:
            raise BadUsage(
                "--leadership-only copies nothing: leave --to, --throttle, --patience, "
                "--max-moves-in-flight and --ignore-racks out"
            )
        from zkcontroller_cli.moving.broker_leadership import hand_over

        hand_over(given, broker_id, exclude, save_current, is_dry_run=dry_run, yes=yes)
        return
    question = f"Move every replica off broker {broker_id}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    from zkcontroller_cli.moving.move_runner import DEFAULT_PATIENCE_S, MoveOrder, MoveRunner
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    bootstrap = brokers_to_change(given)
    planned = run(_planned(given, bootstrap, broker_id, receivers, exclude, ignore_racks))
    order = MoveOrder(
        moves=planned.moves,
        at_once=at_once or IN_FLIGHT,
        rate=throttle,
        is_waiting=True,
        patience_s=patience or DEFAULT_PATIENCE_S,
        limit_s=limit_of(given),
    )
    runner = MoveRunner(bootstrap, order, given.deadline_s)
    planned.say(throttle, IN_ROWS if dry_run else IN_DRY_RUN)
    if dry_run:
        given.renderer.rows(planned.rows(), _PLAN)
        return
    if save_current is not None:
        write_moves(save_current, [Move(*n, planned.before[n]) for n in planned.to_begin])
    if planned.moves:
        given.confirm(question, yes=yes)
    _Drain(given, runner, broker_id, exclude).carry_out()


class DrainPlan:
    """The moves that empty the broker: those to start, and those in progress."""

    def __init__(
        self,
        broker_id: int,
        before: dict[NamedPartition, Replicas],
        to_begin: dict[NamedPartition, Replicas],
        under_way: dict[NamedPartition, Replicas],
        costs: MoveCosts,
    ) -> None:
        self.before = before
        self.to_begin = to_begin
        self._broker_id = broker_id
        self._under_way = under_way
        self._costs = costs

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves in progress off this broker, and those to start."""
        return tuple(
            Move(*name, target)
            for name, target in sorted({**self._under_way, **self.to_begin}.items())
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row for every move, as ``--dry-run`` shows them."""
        from zkcontroller_cli.moving.reassign_plan import planned_row

        return [
            planned_row(move.name, self.before[move.name], move.replicas, self._costs)
            for move in self.moves
        ]

    def say(self, rate: int | None, where_all_are: str) -> None:
        """Show the plan and its costs on stderr; ``rate``: bytes per second, None: no throttle."""
        if self._under_way:
            say(f"{len(self._under_way)} moves off broker {self._broker_id} are under way already")
        if not self.to_begin:
            return
        show(
            [
                f"  {name.topic}-{name.partition}: {_listed(self.before[name])} -> "
                f"{_listed(target)}"
                for name, target in self.to_begin.items()
            ],
            where_all_are,
        )
        for line in estimate_lines(self._costs.estimate, self._costs.usable, rate):
            say(line)


async def _planned(
    given: Settings,
    bootstrap: Bootstrap,
    broker_id: int,
    receivers: tuple[int, ...],
    exclude: tuple[str, ...],
    ignore_racks: bool,
) -> DrainPlan:
    from zkcontroller_cli.moving.move_costs import costs_of
    from zkcontroller_cli.moving.moves_reading import read_moving
    from zkcontroller_cli.moving.reassign_plan import chosen_replicas
    from zkcontroller_cli.moving.replica_planner import CannotPlan, Goal, PlanMode, plan_replicas
    from zkcontroller_cli.wire.requests import Deadline

    reading = await read_moving(bootstrap, Deadline(given.deadline_s))
    if receivers and broker_id in receivers:
        raise BadUsage(f"--to {broker_id} is the broker that is emptied")
    is_used = any(broker_id in replicas for replicas in reading.current.values())
    if broker_id not in reading.live and not is_used:
        raise Refused(f"there is no broker {broker_id}: it is not alive, and holds no replica")
    before = chosen_replicas(reading, (), exclude)
    # A partition that is being moved counts with its target replicas.
    goal = {
        name: reading.ongoing[name].target if name in reading.ongoing else replicas
        for name, replicas in before.items()
    }
    for name in sorted(set(reading.ongoing) & set(before)):
        if broker_id in goal[name]:
            raise Refused(
                f"{name.topic}-{name.partition} is being moved to {_listed(goal[name])}: wait "
                "(zkctl reassign status), or cancel (zkctl reassign cancel); nothing was done"
            )
    under_way = {
        name: goal[name]
        for name, move in reading.ongoing.items()
        if name in before and broker_id in move.removing
    }
    racks = dict.fromkeys(reading.racks) if ignore_racks else reading.racks
    drain = Goal(PlanMode.DRAIN, frozenset({broker_id}), receivers=frozenset(receivers))
    try:
        planned = plan_replicas(goal, racks, drain)
    except CannotPlan as error:
        raise Refused(f"{error}; nothing was done") from error
    if not planned.is_best:
        say("the search was ended at its limit: there may be a more even plan")
    costs = await costs_of(bootstrap, reading, planned.replicas)
    return DrainPlan(broker_id, before, planned.replicas, under_way, costs)


class _Drain:
    """Carries out the plan, and proves that the broker is empty."""

    def __init__(
        self,
        given: Settings,
        runner: MoveRunner,
        broker_id: int,
        exclude: tuple[str, ...],
    ) -> None:
        self._given = given
        self._runner = runner
        self._broker_id = broker_id
        self._exclude = exclude

    def carry_out(self) -> None:
        from zkcontroller_cli.wire.requests import run

        progress, end = [], None
        late: CommandFailed | None = None
        try:
            if self._runner.order.moves:
                progress = run(self._runner.run())
        except CommandFailed as error:
            late = error
            _, progress = run(self._runner.look())
        except BaseException:
            self._say_interrupted()
            raise
        if late is None:
            end = run(self._end())
        record = run(self._proof())
        record["moves"] = [moved_row(each, self._runner.refused) for each in progress]
        self._given.renderer.record(record, _DRAINED)
        if end is not None:
            say_end(end)
        if late is not None:
            self._say_interrupted()
            raise late
        raise_for(progress, self._runner.refused, end, was_followed=True)
        self._raise_unless_empty(record)

    def _say_interrupted(self) -> None:
        runner, broker = self._runner, self._broker_id
        again = [] if runner.order.rate is None else ["--throttle", runner.order.rate]
        again += [word for pattern in self._exclude for word in ("--exclude", pattern)]
        say_what_stands(runner)
        say(
            "this goes on where it stopped, and removes the throttle:  "
            f"{command_line('broker drain', broker, options=again)}"
        )
        say("this cancels every move, and removes the throttle:  zkctl reassign cancel --all")

    async def _end(self) -> ThrottleEnd:
        """Remove the throttle, also that of moves that an earlier run started and that ended."""
        from zkcontroller_cli.moving.moves_reading import read_moving
        from zkcontroller_cli.moving.throttle_end import carry_out_end, planned_end
        from zkcontroller_cli.values.throttles import (
            FOLLOWER_RATE,
            LEADER_RATE,
            partitions_throttled_from,
        )
        from zkcontroller_cli.wire.throttles import standing_throttles

        runner = self._runner
        reading = await read_moving(runner.bootstrap, runner.deadline())
        topics = sorted({name.topic for name in reading.partitions})
        standing = await standing_throttles(
            runner.bootstrap, runner.deadline(), reading.known, topics, ()
        )
        also = partitions_throttled_from(standing, self._broker_id)
        is_throttled = bool(also) or runner.order.rate is not None
        end = await planned_end(
            runner.bootstrap,
            runner.deadline(),
            reading,
            runner.order.moves,
            broker_keys=(LEADER_RATE, FOLLOWER_RATE) if is_throttled else (),
            also=also,
        )
        return await carry_out_end(runner.bootstrap, runner.deadline(), end)

    async def _proof(self) -> dict[str, Any]:
        from zkcontroller_cli.moving.drain_proof import proof_of

        runner = self._runner
        return await proof_of(runner.bootstrap, runner.request_s, self._broker_id, self._exclude)

    def _raise_unless_empty(self, record: dict[str, Any]) -> None:
        broker = self._broker_id
        if record["is_drained"]:
            say(
                f"broker {broker} holds nothing more: metadata"
                + (" and its log directories" if record["log_count"] is not None else "")
            )
            return
        if record["replica_count"]:
            raise Refused(
                f"broker {broker} still has {record['replica_count']} replicas, which came "
                f"meanwhile: {command_line('broker drain', broker)} moves them, too"
            )
        if record["log_count"] is None:
            raise Refused(
                f"no replica is assigned to broker {broker}, but its log directories were not "
                f"read: {record['reason']}"
            )
        raise Refused(
            f"no replica is assigned to broker {broker}, but it still has "
            f"{record['log_count']} logs: {command_line('log-dirs strays', broker)} names them"
        )


def _listed(brokers: Replicas) -> str:
    return ",".join(map(str, brokers))
