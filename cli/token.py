"""``zkctl token``: delegation tokens, with which clients log in for their owner.

An HMAC is the password of its token.  It is printed once, when the token is created, and is never
an argument: on the command line a token is named by its id, or by a file that holds the HMAC.
"""

from __future__ import annotations

import base64
import binascii
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zkcontroller_cli.console.errors import BadUsage, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import named

if TYPE_CHECKING:
    from replica_manager.security.principals import Principal
    from zkcontroller_cli.wire.proofs import BrokersProof
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.wire.tokens import DelegationToken

F = TypeVar("F", bound=Callable[..., Any])

_KEYS: Final = (
    "token_id",
    "owner",
    "requester",
    "renewers",
    "issued_at_ms",
    "expires_at_ms",
    "max_at_ms",
    "hmac",
)
_LIST: Final = named("token_id", *_KEYS[:-1], keys=_KEYS)
_CREATED: Final = named("token_id", keys=(*_KEYS, "is_shown"))
_CHANGED: Final = named(
    "token_id",
    keys=("token_id", "owner", "previous_expires_at_ms", "expires_at_ms", "max_at_ms", "is_shown"),
)
_MASK: Final = "[*******]"
_LONGEST_MS: Final = 100 * 365 * 24 * 60 * 60 * 1000
"""The longest time for a token, one hundred years, in milliseconds."""
_MOST_HMAC_BYTES: Final = 4096
_OWN_LIMIT: Final = -1
_HIDDEN_S: Final = 3.0
"""Seconds for which brokers are asked for a new token, which its requester may not see."""


@click.group("token", cls=VerbGroup)
def command() -> None:
    """Delegation tokens: create, list, renew and expire them."""


_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def _which_token(function: F) -> F:
    file = click.option(
        "--hmac-file",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="The token whose HMAC, in base64, this file holds; - is stdin.",
    )
    return click.argument("token_id", required=False)(file(function))


@command.command("create")
@click.option("--owner", metavar="TYPE:NAME", help="For this user.  [default: you] [Kafka 3.3]")
@click.option("--renewer", "renewers", multiple=True, metavar="TYPE:NAME", help="May renew it too.")
@click.option(
    "--max-lifetime",
    type=click.IntRange(_OWN_LIMIT, _LONGEST_MS),
    default=_OWN_LIMIT,
    metavar="MS",
    help="The token ends then, however often it is renewed.  "
    "[default: delegation.token.max.lifetime.ms]",
)
@_dry_run
@_yes
def create(
    owner: str | None, renewers: tuple[str, ...], max_lifetime: int, dry_run: bool, yes: bool
) -> None:
    """Create a token, and show its HMAC this once.

    A client logs in with it by SCRAM: the token's id is the name, the HMAC the password, and
    tokenauth=true stands in its sasl.jaas.config. Afterwards every broker is asked until it knows
    the token.

    Examples:
      zkctl token create
      zkctl token create --renewer User:alice --max-lifetime 3600000
    """
    from zkcontroller_cli.values.acls import parse_user
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.tokens import create_token, describe_tokens

    user = None if owner is None else parse_user(owner, "--owner")
    those = [parse_user(each, "--renewer") for each in renewers]
    given = settings()
    question = f"Create a token{'' if user is None else f' for {user}'}?"
    bootstrap, deadline = _target(given, question, dry_run=dry_run, yes=yes)
    # Asks for the tokens of no owner, only to see whether tokens are enabled and allowed.
    run(describe_tokens(bootstrap, deadline, ()))
    life = "as long as brokers allow" if max_lifetime <= 0 else f"{max_lifetime} ms"
    may_renew = ", ".join(map(str, those)) or "its owner alone"
    say(f"  create: owner {user or 'you'}, renewed by {may_renew}, lives {life}")
    if dry_run:
        planned = dict.fromkeys(_KEYS) | {
            "owner": owner,
            "renewers": list(map(str, those)),
            "is_shown": False,
        }
        given.renderer.record(planned, _CREATED)
        return
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    token = run(create_token(bootstrap, deadline, user, those, max_lifetime))
    is_visible = token.requester in (None, token.owner, *token.renewers)
    if not is_visible:
        deadline = Deadline(min(deadline.left_s, _HIDDEN_S))
    is_shown: bool | None = None
    try:
        proof = _proof(bootstrap, deadline, token.token_id, token.expires_at_ms)
        is_shown = not proof.brokers_without(token.token_id) or (False if is_visible else None)
    finally:
        # Print the HMAC even if the proof failed, because it exists nowhere else.
        hmac = base64.b64encode(token.hmac).decode()
        given.renderer.record({**_row(token, hmac=hmac), "is_shown": is_shown}, _CREATED)
        say("the HMAC is the token's password, and is not shown again: keep it now")
    if is_shown is None:
        say(f"{token.requester} may not see the token of {token.owner}: not proved at brokers")
        return
    _end(proof, token.token_id, "do not know the token yet")


@command.command("list")
@click.option(
    "--owner", "owners", multiple=True, metavar="TYPE:NAME", help="Who owns or renews it."
)
@click.option(
    "--requester", "requesters", multiple=True, metavar="TYPE:NAME", help="Who created it."
)
def list_(owners: tuple[str, ...], requesters: tuple[str, ...]) -> None:
    """The tokens that you own, renew, or may describe. Their HMACs are not shown.

    Examples:
      zkctl token list
      zkctl token list --owner User:alice
    """
    from zkcontroller_cli.values.acls import parse_user
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.tokens import describe_tokens

    users = [parse_user(each, "--owner") for each in owners]
    creators = [str(parse_user(each, "--requester")) for each in requesters]
    given = settings()
    wanted: list[Principal] | None = users or None
    tokens = run(describe_tokens(given.bootstrap(), Deadline(given.deadline_s), wanted))
    if creators and any(each.requester is None for each in tokens):
        raise Refused("brokers before Kafka 3.3 do not say who requested a token")
    given.renderer.rows(
        [_row(each, hmac=_MASK) for each in tokens if not creators or each.requester in creators],
        _LIST,
    )


@command.command("renew")
@_which_token
@click.option(
    "--period",
    type=click.IntRange(_OWN_LIMIT, _LONGEST_MS),
    default=_OWN_LIMIT,
    metavar="MS",
    help="The token expires this long from now.  [default: delegation.token.expiry.time.ms]",
)
@_dry_run
@_yes
def renew(
    token_id: str | None, hmac_file: Path | None, period: int, dry_run: bool, yes: bool
) -> None:
    """Prolong the life of TOKEN_ID, up to its longest life; its owner and renewers may.

    Examples:
      zkctl token renew yD0sDXzDRVasQGR_bBcgVw
      zkctl token renew --hmac-file hmac --period 86400000
    """
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.wire.tokens import renew_token

    when = "as long as brokers allow" if period < 0 else f"for {period} ms from now"
    hmac = _hmac_in(token_id, hmac_file)
    given = settings()
    question = "Renew the token?"
    bootstrap, deadline = _target(given, question, dry_run=dry_run, yes=yes)
    token = _token_named(bootstrap, deadline, token_id, hmac)
    if 0 <= period < token.expires_at_ms - time.time_ns() // 1_000_000:
        say("note: it expires sooner by this than without it")
    elif token.expires_at_ms >= token.max_at_ms:
        say("note: it expires at the end of its longest life: to renew it changes nothing")
    say(f"  renew: token {token.token_id} of {token.owner} {when}")
    if dry_run:
        given.renderer.record(_changed(token, None, is_shown=False), _CHANGED)
        return
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    _change(given, bootstrap, deadline, token, renew_token(bootstrap, deadline, token.hmac, period))


@command.command("expire")
@_which_token
@click.option(
    "--period",
    type=click.IntRange(_OWN_LIMIT, _LONGEST_MS),
    default=_OWN_LIMIT,
    metavar="MS",
    help="The token expires this long from now.  [default: at once]",
)
@_dry_run
@_yes
def expire(
    token_id: str | None, hmac_file: Path | None, period: int, dry_run: bool, yes: bool
) -> None:
    """End TOKEN_ID, at once or later; its owner and renewers may.

    Clients that are logged in with it stay until their session ends (connections.max.reauth.ms).

    Examples:
      zkctl token expire yD0sDXzDRVasQGR_bBcgVw
      zkctl token expire --hmac-file hmac --period 600000
    """
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.wire.tokens import expire_token

    hmac = _hmac_in(token_id, hmac_file)
    given = settings()
    question = "End the token?"
    bootstrap, deadline = _target(given, question, dry_run=dry_run, yes=yes)
    token = _token_named(bootstrap, deadline, token_id, hmac)
    when = "at once" if period < 0 else f"{period} ms from now"
    say(f"  expire: token {token.token_id} of {token.owner} {when}")
    if dry_run:
        given.renderer.record(_changed(token, None, is_shown=False), _CHANGED)
        return
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    asking = expire_token(bootstrap, deadline, token.hmac, period)
    _change(given, bootstrap, deadline, token, asking, is_ended=period < 0)


def _target(
    given: Settings, question: str, *, dry_run: bool, yes: bool
) -> tuple[Bootstrap, Deadline]:
    """The brokers for the write, after they were named on stderr, and a deadline.

    Refused if the user must be asked and cannot be.
    """
    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.wire.target import brokers_to_change

    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    return brokers_to_change(given), deadline


def _hmac_in(token_id: str | None, file: Path | None) -> bytes | None:
    """The HMAC in the file, None without a file; BadUsage unless exactly one of both is given."""
    if (token_id is None) == (file is None):
        raise BadUsage("which token? Say TOKEN_ID or --hmac-file FILE")
    if file is None:
        return None
    try:
        if str(file) == "-":
            text = sys.stdin.read(_MOST_HMAC_BYTES)
        else:
            with file.open(encoding="ascii", errors="replace") as stream:
                text = stream.read(_MOST_HMAC_BYTES)
        return base64.b64decode(text.strip(), validate=True)
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror}") from error
    except (binascii.Error, ValueError):
        raise BadUsage(f"{file} does not hold an HMAC in base64") from None


def _token_named(
    bootstrap: Bootstrap, deadline: Deadline, token_id: str | None, hmac: bytes | None
) -> DelegationToken:
    """The token with that id or HMAC; Refused if this user may not see it."""
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.tokens import describe_tokens

    for each in run(describe_tokens(bootstrap, deadline)):
        if each.token_id == token_id or each.hmac == hmac:
            return each
    which = "with that HMAC" if token_id is None else token_id
    raise Refused(f"you see no token {which}; zkctl token list shows those that you do")


def _change(
    given: Settings,
    bootstrap: Bootstrap,
    deadline: Deadline,
    token: DelegationToken,
    asking: Coroutine[Any, Any, int],
    *,
    is_ended: bool = False,
) -> None:
    """Send the change, prove it at every broker, and show the result."""
    from zkcontroller_cli.wire.requests import run

    expires_at_ms = run(asking)
    proof = _proof(bootstrap, deadline, token.token_id, None if is_ended else expires_at_ms)
    is_shown = not proof.brokers_without(token.token_id)
    given.renderer.record(_changed(token, expires_at_ms, is_shown=is_shown), _CHANGED)
    _end(proof, token.token_id, "still know the token" if is_ended else "show another end of it")


def _proof(
    bootstrap: Bootstrap, deadline: Deadline, token_id: str, expires_at_ms: int | None
) -> BrokersProof[str]:
    from zkcontroller_cli.wire.proofs import asked_until_shown
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.tokens import missed_token

    return run(asked_until_shown(bootstrap, deadline, missed_token(token_id, expires_at_ms)))


def _end(proof: BrokersProof[str], token_id: str, what: str) -> None:
    """Raise TimedOut if a broker did not show the change, or could not be asked."""
    proof.warn_of_silent()
    without = proof.brokers_without(token_id)
    if without:
        raise TimedOut(
            f"brokers {', '.join(map(str, without))} {what}: they learn of it from ZooKeeper, "
            "look at their sessions with zkctl broker list, then zkctl token list again"
        )
    if proof.silent:
        raise TimedOut(
            f"brokers {', '.join(map(str, sorted(proof.silent)))} did not prove the change; "
            "when they answer again, zkctl token list -b HOST:PORT asks one of them"
        )


def _row(token: DelegationToken, *, hmac: str) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_at_ms": token.issued_at_ms,
        "expires_at_ms": token.expires_at_ms,
        "max_at_ms": token.max_at_ms,
        "hmac": hmac,
    }


def _changed(
    token: DelegationToken, expires_at_ms: int | None, *, is_shown: bool
) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "previous_expires_at_ms": token.expires_at_ms,
        "expires_at_ms": expires_at_ms,
        "max_at_ms": token.max_at_ms,
        "is_shown": is_shown,
    }
