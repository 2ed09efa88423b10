"""``zkctl log-dirs move``: moves replicas to another log directory of their broker."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.moving.reassign_options import (
    RATES,
    dry_run_option,
    limit_of,
    partition_name,
    show,
    yes_option,
)
from zkcontroller_cli.values.moves import NamedPartition, distinct, parse_partition

if TYPE_CHECKING:
    from zkcontroller_cli.values.move_state import Placement
    from zkcontroller_cli.values.throttles import ConfigEdit

_KEYS: Final = (
    "broker_id",
    "topic",
    "partition",
    "log_dir",
    "future_log_dir",
    "size_bytes",
    "status",
    "error",
)
_LAYOUT: Final = Layout(partition_name, (), _KEYS)
_POLL_S: Final = 0.5
_SAY_EVERY_S: Final = 10.0


@click.command("move")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="BROKER")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION]…")
@click.option("--from", "source", metavar="DIR", help="Every replica in this log directory.")
@click.option("--to", "target", metavar="DIR", help="The log directory that they go to.")
@click.option("--cancel", is_flag=True, help="They stay where they are; --to is left out.")
@click.option(
    "--throttle",
    type=RATES,
    metavar="BYTES/S",
    help="The most that the broker moves between log directories; --wait removes it at the end.",
)
@click.option("--wait", is_flag=True, help="Wait until they are there.")
@dry_run_option
@yes_option
def move(
    broker_id: int,
    partitions: tuple[str, ...],
    source: str | None,
    target: str | None,
    cancel: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move the replicas that BROKER has of TOPIC-PARTITION to another of its log directories.

    Directories are absolute, as zkctl log-dirs sizes shows them. The broker copies while it goes on
    serving, and exchanges the logs when the copy has everything.

    Examples:
      zkctl log-dirs move 1 orders-0 orders-1 --to /data/2 --dry-run
      zkctl log-dirs move 1 --from /data/1 --to /data/2 --throttle 50000000 --wait
      zkctl log-dirs move 1 orders-0 --cancel
    """
    if (target is None) != cancel:
        raise BadUsage("say --to DIR, or --cancel")
    if bool(partitions) == (source is not None):
        raise BadUsage("name replicas as TOPIC-PARTITION, or say --from DIR")
    if throttle is not None and cancel:
        raise BadUsage("--throttle is for moves, not for --cancel")
    names = [parse_partition(text) for text in partitions]
    distinct(names)
    given = settings()
    question = f"Cancel these moves on broker {broker_id}?" if cancel else "Begin these moves?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    _Mover(given, broker_id, target, throttle).run(
        names, source, question, is_waiting=wait, is_dry_run=dry_run, yes=yes
    )


async def settled_placements(
    look: Callable[[], Awaitable[dict[NamedPartition, Placement]]],
    target: str | None,
    *,
    is_waiting: bool,
    on_left: Callable[[int], None],
    poll_s: float = _POLL_S,
) -> dict[NamedPartition, Placement]:
    """What ``look`` finds at once, or with ``is_waiting`` when no replica is on its way any more.

    ``on_left`` gets the number of those on their way before each further look, and may raise.

    A replica that seems to be neither in ``target`` nor on its way is looked at once more: a broker
    lists its current logs before its future ones, so that one that is exchanged in between is
    listed in its old directory alone.  Source: Kafka ``LogManager.allLogs``.
    """
    import asyncio

    astray_before: set[NamedPartition] = set()
    while True:
        placed = await look()
        left = sum(where.future_log_dir is not None for where in placed.values())
        astray = {
            name
            for name, where in placed.items()
            if where.future_log_dir is None and target not in (None, where.log_dir)
        }
        if astray <= astray_before and not (is_waiting and left):
            return placed
        astray_before = astray
        on_left(left)
        await asyncio.sleep(poll_s)


class _Mover:
    """One run of ``log-dirs move``; without ``target`` it cancels moves."""

    def __init__(
        self, given: Settings, broker_id: int, target: str | None, rate: int | None
    ) -> None:
        self._given = given
        self._broker_id = broker_id
        self._target = target
        self._rate = rate
        self._bootstrap: Bootstrap
        self._sizes: dict[NamedPartition, int] = {}

    def run(
        self,
        names: Sequence[NamedPartition],
        source: str | None,
        question: str,
        *,
        is_waiting: bool,
        is_dry_run: bool,
        yes: bool,
    ) -> None:
        from zkcontroller_cli.wire.requests import run
        from zkcontroller_cli.wire.target import brokers_to_change

        given = self._given
        self._bootstrap = brokers_to_change(given)
        wanted = run(self._checked(names, source))
        edits = run(self._throttle()) if self._rate is not None else []
        lines = [f"  {edit.text}" for edit in edits]
        lines += [
            f"  {name.topic}-{name.partition} on {self._broker_id}: "
            f"{where.log_dir} -> {self._target or where.log_dir}"
            for name, where in wanted.items()
        ]
        if is_dry_run:
            for line in lines:
                say(line)
            rows = [self._row(name, where, None) for name, where in wanted.items()]
            given.renderer.rows(rows, _LAYOUT)
            return
        show(lines)
        if wanted:
            given.confirm(question, yes=yes)
        self._carry_out(wanted, edits, is_waiting=is_waiting)

    def _carry_out(
        self,
        wanted: Mapping[NamedPartition, Placement],
        edits: list[ConfigEdit],
        *,
        is_waiting: bool,
    ) -> None:
        from zkcontroller_cli.wire.requests import run

        errors: dict[NamedPartition, str | None] = {}
        placed: dict[NamedPartition, Placement] = {}
        late: CommandFailed | None = None
        try:
            run(self._set(edits))
            errors = run(self._ask(wanted))
            begun = [name for name in wanted if errors[name] is None]
            try:
                placed = run(self._followed(begun, is_waiting=is_waiting))
            except TimedOut as error:
                late = error
                placed = run(self._placed(begun))
        except BaseException:
            if edits:
                self._say_throttle(edits)
            raise
        rows = [self._row(n, placed.get(n, where), errors[n]) for n, where in wanted.items()]
        self._given.renderer.rows(rows, _LAYOUT)
        left: list[tuple[ConfigEdit, str]] = []
        if edits and is_waiting and late is None:
            left = run(self._set_back(edits))
        elif edits:
            self._say_throttle(edits)
        self._raise_for(rows, late, left)

    def _raise_for(
        self,
        rows: Sequence[Mapping[str, Any]],
        late: CommandFailed | None,
        left: Sequence[tuple[ConfigEdit, str]],
    ) -> None:
        refused = [row for row in rows if row["error"] is not None]
        if refused:
            first = refused[0]
            raise Refused(
                f"{partition_name(first)} on {self._broker_id}: {first['error']}; "
                f"{len(refused)} of {len(rows)} moves were refused"
            )
        if late is not None:
            raise late
        wrong = [row for row in rows if row["status"] == "not_as_planned"]
        if wrong:
            first = wrong[0]
            raise Refused(
                f"{partition_name(first)} on {self._broker_id} is in {first['log_dir']}, and "
                f"{len(wrong)} of {len(rows)} are not as asked: see its log, and ask again"
            )
        if left:
            edit, why = left[0]
            self._say_throttle([edit])
            raise Refused(f"all has moved, but the throttle is left on {edit.where}: {why}")

    async def _checked(
        self, names: Sequence[NamedPartition], source: str | None
    ) -> dict[NamedPartition, Placement]:
        """The replicas to move and their current directories; Refused if one cannot move."""
        from zkcontroller_cli.moving.moves_reading import placements_in
        from zkcontroller_cli.wire.log_dirs import LogDirsOfBrokers, log_dirs_of
        from zkcontroller_cli.wire.requests import Deadline

        deadline = Deadline(self._given.deadline_s)
        read = await log_dirs_of(self._bootstrap, deadline, [self._broker_id])
        known = {each.log_dir: each.error for each in read}
        for path in filter(None, (source, self._target)):
            if path not in known:
                listed = ", ".join(sorted(known))
                raise Refused(f"broker {self._broker_id} has no log directory {path}, but {listed}")
            if known[path] is not None:
                raise Refused(f"{path} of broker {self._broker_id} is not usable: {known[path]}")
        placed = {n: p for (_, n), p in placements_in(LogDirsOfBrokers(read, {}), ()).items()}
        self._sizes = {r.name: r.size_bytes for d in read for r in d.replicas if not r.is_future}
        if source is not None:
            names = [name for name, where in placed.items() if where.log_dir == source]
        for name in names:
            if name not in placed or placed[name].log_dir is None:
                raise Refused(
                    f"broker {self._broker_id} has no replica of {name.topic}-{name.partition}; "
                    "nothing was done"
                )
        chosen = {name: placed[name] for name in names}
        if self._target is None:
            return {n: where for n, where in chosen.items() if where.future_log_dir is not None}
        self._warn_of_room(
            sum(self._sizes[n] for n in chosen if chosen[n].log_dir != self._target),
            next(each.usable_bytes for each in read if each.log_dir == self._target),
        )
        return chosen

    def _warn_of_room(self, size: int, room: int | None) -> None:
        from zkcontroller_cli.console.quantities import size_text

        say(f"{size_text(size)} are copied")
        if room is not None and size > room:
            say(f"warning: {self._target} has room for {size_text(room)}")

    async def _throttle(self) -> list[ConfigEdit]:
        from zkcontroller_cli.values.throttles import log_dir_throttle_edits
        from zkcontroller_cli.wire.requests import Deadline, metadata
        from zkcontroller_cli.wire.throttles import standing_throttles

        deadline = Deadline(self._given.deadline_s)
        known = await metadata(self._bootstrap, deadline, ())
        standing = await standing_throttles(self._bootstrap, deadline, known, (), [self._broker_id])
        assert self._rate is not None, "asked for with a rate only"
        return log_dir_throttle_edits([self._broker_id], standing, self._rate)

    async def _set(self, edits: Sequence[ConfigEdit]) -> None:
        from zkcontroller_cli.wire.requests import Deadline
        from zkcontroller_cli.wire.throttles import change_throttles

        deadline = Deadline(self._given.deadline_s)
        for edit, why in await change_throttles(self._bootstrap, deadline, edits):
            raise Refused(f"the throttle could not be set on {edit.where}: {why}; nothing began")

    async def _set_back(self, edits: Sequence[ConfigEdit]) -> list[tuple[ConfigEdit, str]]:
        """Restore the throttle that was set before; returns the changes that failed, and why."""
        from zkcontroller_cli.wire.requests import Deadline
        from zkcontroller_cli.wire.throttles import change_throttles

        back = [each._replace(before=each.value, value=each.before) for each in edits]
        left = await change_throttles(self._bootstrap, Deadline(self._given.deadline_s), back)
        if not left:
            say("the throttle is as it was before, read again")
        return left

    def _say_throttle(self, edits: Sequence[ConfigEdit]) -> None:
        from zkcontroller_cli.values.throttles import removal_command

        for edit in edits:
            back = edit._replace(before=edit.value, value=edit.before)
            say(
                f"the throttle stands on {edit.where}; this takes it away:  {removal_command(back)}"
            )

    async def _ask(
        self, wanted: Mapping[NamedPartition, Placement]
    ) -> dict[NamedPartition, str | None]:
        from zkcontroller_cli.wire.log_dirs import HostedReplica, move_to_log_dirs
        from zkcontroller_cli.wire.requests import Deadline

        paths = {
            HostedReplica(self._broker_id, *name): self._target or where.log_dir or ""
            for name, where in wanted.items()
        }
        deadline = Deadline(self._given.deadline_s)
        responses = await move_to_log_dirs(self._bootstrap, deadline, paths)
        return {NamedPartition(r.topic, r.partition): error for r, error in responses.items()}

    async def _followed(
        self, names: Sequence[NamedPartition], *, is_waiting: bool
    ) -> dict[NamedPartition, Placement]:
        """The directories of the replicas, read at once, or with ``is_waiting`` after all moves."""
        limit_s = limit_of(self._given)
        began_s = said_s = time.monotonic()

        def say_left(left: int) -> None:
            nonlocal said_s
            now_s = time.monotonic()
            if limit_s is not None and now_s - began_s > limit_s:
                raise TimedOut(
                    f"{left} of {len(names)} replicas are still on their way: "
                    f"{command_line('log-dirs moves', self._broker_id)}"
                )
            if now_s - said_s > _SAY_EVERY_S:
                said_s = now_s
                say(f"{left} of {len(names)} replicas are on their way")

        async def look() -> dict[NamedPartition, Placement]:
            return await self._placed(names)

        return await settled_placements(look, self._target, is_waiting=is_waiting, on_left=say_left)

    async def _placed(self, names: Sequence[NamedPartition]) -> dict[NamedPartition, Placement]:
        from zkcontroller_cli.moving.moves_reading import placements_in
        from zkcontroller_cli.wire.log_dirs import readable_log_dirs
        from zkcontroller_cli.wire.logs import addresses_in
        from zkcontroller_cli.wire.requests import Deadline, metadata

        deadline = Deadline(self._given.deadline_s)
        known = await metadata(self._bootstrap, deadline, ())
        found = await readable_log_dirs(
            addresses_in(known), deadline, self._bootstrap.security, {self._broker_id: names}
        )
        if found.unread:
            raise Refused(f"broker {self._broker_id}: {found.unread[self._broker_id]}")
        return {name: where for (_, name), where in placements_in(found, ()).items()}

    def _row(self, name: NamedPartition, where: Placement, error: str | None) -> dict[str, Any]:
        if self._target is None:
            status = "cancelled" if where.future_log_dir is None else "in_progress"
        elif where.log_dir == self._target and where.future_log_dir is None:
            status = "done"
        else:
            status = "in_progress" if where.future_log_dir == self._target else "not_as_planned"
        return {
            "broker_id": self._broker_id,
            "topic": name.topic,
            "partition": name.partition,
            "log_dir": where.log_dir,
            "future_log_dir": where.future_log_dir,
            "size_bytes": self._sizes.get(name),
            "status": status,
            "error": error,
        }
