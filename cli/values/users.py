"""SCRAM credentials: what a user has, what a change would do, and how a password becomes one.

Pure; random salts are handed in.

Source: Kafka ``ScramFormatter``, ``ConfigCommand``, KIP-554.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka_common.protocol.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    salt_password,
)
from kafka_common.sanitizer import sanitize
from zkcontroller_cli.console.errors import BadUsage, Refused

MAX_PASSWORD_BYTES: Final = 4096
SALT_BYTES: Final = 32
"""As many as Kafka's tool takes for SCRAM-SHA-256; any number is legal."""


class HeldCredential(NamedTuple):
    """A credential that a user has."""

    user: str
    mechanism: str
    iterations: int

    def row(self) -> dict[str, Any]:
        """The credential as every format shows it."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class SaltedSecret:
    """A password, salted: enough to log in, so it is never printed."""

    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    iterations: int

    def credential(self, mechanism: str) -> ScramCredential:
        """What a server stores of it."""
        return ScramCredential.of_salted_password(
            MECHANISMS[mechanism], self.salt, self.salted_password, self.iterations
        )


class CredentialChange(NamedTuple):
    """A credential to set, or to delete where there is no secret."""

    user: str
    mechanism: str
    secret: SaltedSecret | None


class PlannedCredential(NamedTuple):
    """What a change would do to one credential of a user."""

    user: str
    mechanism: str
    operation: str
    old_iterations: int | None
    new_iterations: int | None

    @property
    def text(self) -> str:
        """One line for the user."""
        old, new = (
            "none" if each is None else f"{each} iterations"
            for each in (self.old_iterations, self.new_iterations)
        )
        return f"user {self.user}: {self.mechanism} {old} -> {new}"


def plan_set(
    user: str, mechanisms: Sequence[str], iterations: int, held: Sequence[HeldCredential]
) -> list[PlannedCredential]:
    """What setting a password would do; BadUsage if brokers refuse so many iterations."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise BadUsage(f"--iterations must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    return [
        PlannedCredential(user, mechanism, "set", iterations_of(user, mechanism, held), iterations)
        for mechanism in mechanisms or MECHANISMS
    ]


def plan_delete(
    users: Sequence[str], mechanisms: Sequence[str], held: Sequence[HeldCredential]
) -> list[PlannedCredential]:
    """What deleting would do; Refused if one of the users has no such credential."""
    planned = []
    for user in users:
        own = [each for each in held if each.user == user]
        for mechanism in mechanisms or [each.mechanism for each in own] or [""]:
            before = iterations_of(user, mechanism, held)
            if before is None:
                what = f"{mechanism} credential" if mechanism else "SCRAM credential"
                has = ", ".join(each.mechanism for each in own) or "none"
                raise Refused(
                    f"user {user} has no {what} (it has {has}); nothing was done: "
                    "zkctl user list shows all"
                )
            planned.append(PlannedCredential(user, mechanism, "delete", before, None))
    return planned


def salted(
    mechanism: str, password: str, iterations: int, random_bytes: Callable[[int], bytes]
) -> SaltedSecret:
    """The password, salted for that mechanism; takes some milliseconds."""
    salt = random_bytes(SALT_BYTES)
    salted_password = salt_password(MECHANISMS[mechanism], password, salt, iterations)
    return SaltedSecret(salt, salted_password, iterations)


def with_names_of_users(
    listed: Sequence[HeldCredential], meant: Sequence[HeldCredential]
) -> list[HeldCredential]:
    """A list in which names of znodes may stand, with the names of users in their place.

    ``meant``: the credentials of the users whose znodes would have such names, as far as there are
    any.  The same credentials under both names are one user's.
    """
    names = {sanitize(each.user): each.user for each in meant}
    known = {each.user for each in listed}
    return [
        each._replace(user=names[each.user])
        if each.user in names and names[each.user] not in known
        else each
        for each in listed
    ]


def iterations_of(user: str, mechanism: str, held: Sequence[HeldCredential]) -> int | None:
    """Of that credential; None if the user does not have it."""
    found = (each.iterations for each in held if (each.user, each.mechanism) == (user, mechanism))
    return next(found, None)


def password_in(data: bytes, where: str) -> str:
    """The password in a file or in stdin: its text without the end of the line.

    BadUsage if there is none, or more than one line.
    """
    if len(data) > MAX_PASSWORD_BYTES:
        raise BadUsage(f"{where} is longer than {MAX_PASSWORD_BYTES} bytes: it is no password")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadUsage(f"{where} is not UTF-8") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise BadUsage(f"{where} is empty: an empty password is not set")
    if "\n" in password:
        raise BadUsage(f"{where} has more than one line: a password is one line")
    return password
