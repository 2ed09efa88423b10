"""``zkctl user``: SCRAM credentials of users, by brokers, or in ZooKeeper before brokers run."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused, TimedOut
from zkcontroller_cli.console.options import Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout

if TYPE_CHECKING:
    from zkcontroller_cli.configurations.credential_stores import CredentialStore
    from zkcontroller_cli.values.users import CredentialChange, HeldCredential, PlannedCredential

MECHANISM_NAMES: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD: Final = "ZKCTL_USER_PASSWORD"
_DEFAULT_ITERATIONS: Final = 4096
_POLL_S: Final = 0.2
_LIST_KEYS: Final = ("user", "mechanism", "iterations")
_LIST: Final = Layout(lambda row: str(row["user"]), _LIST_KEYS, _LIST_KEYS)
_CHANGE_KEYS: Final = (
    "user",
    "mechanism",
    "operation",
    "old_iterations",
    "new_iterations",
    "iterations",
    "is_done",
    "is_compared",
    "error",
    "reason",
    "is_dry_run",
)
_CHANGES: Final = Layout(
    lambda row: str(row["user"]),
    tuple(
        key for key in _CHANGE_KEYS if key not in ("is_compared", "is_dry_run", "old_iterations")
    ),
    _CHANGE_KEYS,
)

_mechanisms = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISM_NAMES),
    help="This one  [default: both, or all that the user has]",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group("user", cls=VerbGroup)
def command() -> None:
    """SCRAM credentials of users: list, describe, set and delete them."""


@command.command("list")
def list_() -> None:
    """Every user with SCRAM credentials: a line for each mechanism.

    Examples:
      zkctl user list
    """
    from zkcontroller_cli.configurations.reading import read_credentials

    given = settings()
    given.renderer.rows([each.row() for each in read_credentials(given)], _LIST)


@command.command("describe")
@click.argument("users", nargs=-1, required=True, metavar="USER…")
def describe(users: tuple[str, ...]) -> None:
    """The credentials of USER: mechanism and iterations, never a key.

    Examples:
      zkctl user describe alice
    """
    from zkcontroller_cli.configurations.reading import read_credentials

    given = settings()
    names = list(dict.fromkeys(users))
    found = read_credentials(given, names)
    for name in names:
        if all(each.user != name for each in found):
            raise Refused(f"user {name} has no SCRAM credential; zkctl user list shows all")
    given.renderer.rows([each.row() for each in found], _LIST)


@command.command("set")
@click.argument("user")
@_mechanisms
@click.option(
    "--iterations",
    type=int,
    default=_DEFAULT_ITERATIONS,
    show_default=True,
    help="How often the password is hashed.",
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help=f"One line with the password, - is stdin.  [env: {_PASSWORD}; else it is asked for]",
)
@click.option("--password", hidden=True)
@_dry_run
@_yes
def set_(
    user: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
    password: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give USER a password for SCRAM logins.

    The password comes from --password-file, from the environment, or from a question: never from an
    argument, which others can see. With ZooKeeper alone (-z) it is written there, as before brokers
    run. The password itself is sent nowhere: brokers get it salted.

    Examples:
      zkctl user set alice
      zkctl user set alice --password-file /run/secrets/alice
    """
    from zkcontroller_cli.configurations.credential_stores import credential_store
    from zkcontroller_cli.values.users import CredentialChange, plan_set, salted

    if password is not None:
        raise BadUsage(
            "a password is no argument here: arguments can be seen by others, and stay in the "
            f"history of a shell; say --password-file FILE, set {_PASSWORD}, or be asked"
        )
    if not user:
        raise BadUsage("the name of the user is empty")
    chosen = list(dict.fromkeys(mechanisms or MECHANISM_NAMES))
    plan_set(user, chosen, iterations, [])
    given = settings()
    question = f"Set the {' and '.join(chosen)} password of user {user}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    secret = None if dry_run else _password(password_file)
    with credential_store(given) as store:
        plan = plan_set(user, chosen, iterations, store.held([user]))
        if secret is None:
            _show_plan(given, plan)
            return
        for each in plan:
            say(f"  {each.text}")
        given.confirm(question, yes=yes)
        changes = [
            CredentialChange(user, each, salted(each, secret, iterations, secrets.token_bytes))
            for each in chosen
        ]
        _carry_out(given, store, plan, changes)


@command.command("delete")
@click.argument("users", nargs=-1, required=True, metavar="USER…")
@_mechanisms
@_dry_run
@_yes
def delete(users: tuple[str, ...], mechanisms: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete the credentials of USER, who can then not log in anew; quotas stay.

    Connections that are logged in stay until they end or log in again.

    Examples:
      zkctl user delete alice --dry-run
      zkctl user delete alice --mechanism SCRAM-SHA-256
    """
    from zkcontroller_cli.configurations.credential_stores import credential_store
    from zkcontroller_cli.values.users import CredentialChange, plan_delete

    names = list(dict.fromkeys(users))
    given = settings()
    question = f"Delete the SCRAM credentials of {', '.join(names)}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    with credential_store(given) as store:
        plan = plan_delete(names, mechanisms, store.held(names))
        if dry_run:
            _show_plan(given, plan)
            return
        for each in plan:
            say(f"  {each.text}")
        given.confirm(question, yes=yes)
        changes = [CredentialChange(each.user, each.mechanism, None) for each in plan]
        _carry_out(given, store, plan, changes)


def _password(file: Path | None) -> str:
    """The new password, from the file, the environment, or a question that is asked twice."""
    from zkcontroller_cli.values.users import MAX_PASSWORD_BYTES, password_in

    if file is not None and str(file) == "-":
        return password_in(sys.stdin.buffer.read(MAX_PASSWORD_BYTES + 1), "stdin")
    if file is not None:
        try:
            with file.open("rb") as opened:
                return password_in(opened.read(MAX_PASSWORD_BYTES + 1), str(file))
        except OSError as error:
            raise BadUsage(f"cannot read {file}: {error.strerror}") from error
    if (text := os.environ.get(_PASSWORD)) is not None:
        return password_in(text.encode(), _PASSWORD)
    if not sys.stdin.isatty():
        raise BadUsage(
            f"which password? Say --password-file FILE (- is stdin) or set {_PASSWORD}: "
            "this is no terminal, so it cannot be asked for"
        )
    asked: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return password_in(asked.encode(), "the password")


def _show_plan(given: Settings, plan: Sequence[PlannedCredential]) -> None:
    rows = [_row(each, each.old_iterations, is_dry_run=True) for each in plan]
    given.renderer.rows(rows, _CHANGES)


def _carry_out(
    given: Settings,
    store: CredentialStore,
    plan: Sequence[PlannedCredential],
    changes: Sequence[CredentialChange],
) -> None:
    """Send the changes, and show the credentials read afterwards.

    Refused or TimedOut if one is not as planned.
    """
    refusals = store.change(changes)
    accepted = [each for each in plan if refusals.get(each.user) is None]
    after = _wait_for(given, store, accepted, list(dict.fromkeys(each.user for each in plan)))
    rows, failed = [], []
    for each, change in zip(plan, changes, strict=True):
        refusal = refusals.get(each.user)
        compared = None if refusal is not None else store.is_stored(change)
        now = _iterations(each, after)
        is_done = refusal is None and now == each.new_iterations and compared is not False
        error, reason = (None, None) if refusal is None else refusal
        rows.append(
            _row(each, now, is_done=is_done, is_compared=compared, error=error, reason=reason)
        )
        if not is_done:
            failed.append((each, reason))
    given.renderer.rows(rows, _CHANGES)
    if not failed:
        return
    first, reason = failed[0]
    said = f"user {first.user}: {first.mechanism}: {reason or 'it is not as it was sent'}"
    more = f"; {len(failed)} of {len(plan)} credentials are not as planned"
    if reason is not None:
        raise Refused(said + more)
    raise TimedOut(
        f"{said}{more}: another change may have come in between; "
        f"{command_line('user describe', first.user)} shows what is there"
    )


def _wait_for(
    given: Settings,
    store: CredentialStore,
    wanted: Sequence[PlannedCredential],
    users: Sequence[str],
) -> list[HeldCredential]:
    end = time.monotonic() + given.deadline_s
    while True:
        now = store.held(users)
        if all(_iterations(each, now) == each.new_iterations for each in wanted):
            return now
        left_s = end - time.monotonic()
        if left_s <= 0:
            return now
        time.sleep(min(_POLL_S, left_s))


def _iterations(planned: PlannedCredential, held: Sequence[HeldCredential]) -> int | None:
    from zkcontroller_cli.values.users import iterations_of

    return iterations_of(planned.user, planned.mechanism, held)


def _row(
    each: PlannedCredential,
    now: int | None,
    *,
    is_done: bool = False,
    is_compared: bool | None = None,
    error: str | None = None,
    reason: str | None = None,
    is_dry_run: bool = False,
) -> dict[str, Any]:
    return {
        **each._asdict(),
        "iterations": now,
        "is_done": is_done,
        "is_compared": is_compared,
        "error": error,
        "reason": reason,
        "is_dry_run": is_dry_run,
    }
