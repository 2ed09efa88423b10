"""``zkctl controller``: shows the controller, elects another one, and watches for changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import click

from zkcontroller_cli.console.errors import ExitCode, TimedOut
from zkcontroller_cli.console.options import VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout, named

_SHOW_KEYS: Final = (
    "controller_id",
    "host",
    "port",
    "controller_epoch",
    "controller_epoch_zk_version",
    "elected_at_ms",
    "controller_session_id",
)
_ELECT: Final = named("controller_id")
_WATCH: Final = Layout(
    lambda row: str(row["controller_id"]),
    ("time_ms", "change", "controller_id", "controller_epoch", "controller_epoch_zk_version"),
    (
        "time_ms",
        "change",
        "controller_id",
        "controller_epoch",
        "controller_epoch_zk_version",
        "elected_at_ms",
    ),
)


@click.group("controller", cls=VerbGroup)
def command() -> None:
    """Show, elect and watch the controller."""


@command.command("show")
@click.option("--check", is_flag=True, help="Exit with 1 if there is no controller.")
def show(check: bool) -> int:
    """The controller: its broker, epoch and session; nulls if there is none.

    Examples:
      zkctl controller show
      zkctl controller show --check -o name
    """
    from zkcontroller_cli.znodes.cluster_view import read_controller
    from zkcontroller_cli.znodes.registrations import read_registrations
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(settings()) as zookeeper:
        controller = read_controller(zookeeper)
        broker_id = controller.controller_id
        found = [] if broker_id is None else read_registrations(zookeeper, [broker_id])
    endpoint = found[0].broker.endpoints[0] if found else None
    values: dict[str, Any] = {
        **asdict(controller),
        "host": endpoint.host if endpoint else None,
        "port": endpoint.port if endpoint else None,
    }
    record = {key: values[key] for key in _SHOW_KEYS}
    settings().renderer.record(record, named("controller_id"))
    return ExitCode.FINDING if check and broker_id is None else ExitCode.OK


@command.command("elect")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
def elect(yes: bool, dry_run: bool) -> None:
    """Make the brokers elect a controller: delete /controller, wait, and prove the new one.

    The deletion is checked: nothing happens if another controller was elected since the one shown.
    first_update_metadata_ms is the time from the deletion to the first moment a broker was seen to
    have taken an UpdateMetadata of the new controller; null, with the reason, where that cannot be
    seen.

    Examples:
      zkctl controller elect --dry-run
      zkctl controller elect --yes -o json
    """
    from zkcontroller_cli.elections import election
    from zkcontroller_cli.wire.target import name_zookeeper_to_change

    given = settings()
    with election.Election.begin(given) as under_way:
        plan = under_way.plan
        name_zookeeper_to_change(given, under_way.zookeeper)
        say(
            f"controller: broker {plan.controller_id_before}, "
            f"epoch {plan.controller_epoch_before}\n"
            f"to delete:  {plan.path} at zk_version {plan.zk_version}, if /controller_epoch is "
            f"still at zk_version {plan.controller_epoch_zk_version_before}"
        )
        if dry_run:
            given.renderer.record(plan.record(), _ELECT)
            return
        given.confirm("Delete it?", yes=yes)
        outcome = under_way.run(given.deadline_s)
    given.renderer.record(outcome.record(), _ELECT)


@command.command("watch")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N lines.")
def watch(count: int | None) -> int:
    """One line for the controller as it is, then one for each change, until Ctrl-C.

    --timeout ends it too: with exit code 4 if --count lines had not come by then.

    Examples:
      zkctl controller watch
      zkctl controller watch --count 2 --timeout 60 -o jsonl
    """
    from zkcontroller_cli.elections.controller_watch import changes

    given = settings()
    stream = given.renderer.stream(_WATCH)
    shown = 0
    try:
        for row in changes(given, given.timeout_s):
            stream.write(row)
            shown += 1
            if shown == count:
                return ExitCode.OK
    finally:
        stream.close()
    if count is not None:
        raise TimedOut(f"only {shown} of {count} changes came in {given.timeout_s:g} s")
    return ExitCode.OK
