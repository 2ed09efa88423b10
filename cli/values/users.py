"""SCRAM credentials: those of a user, planned changes, and how one is made from a password.

Pure; the caller passes in the source of random bytes.

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
"""The length of a new salt, as Kafka's tool has it for SCRAM-SHA-256; any length is valid."""


class HeldCredential(NamedTuple):
    """A credential of a user, without its secret."""

    user: str
    mechanism: str
    iterations: int

    def row(self) -> dict[str, Any]:
        """The credential as a row."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class SaltedSecret:
    """A salted password; it is enough to log in, so it is never printed."""

    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)
    iterations: int

    def credential(self, mechanism: str) -> ScramCredential:
        """The credential that a server stores for this password."""
        return ScramCredential.of_salted_password(
            MECHANISMS[mechanism], self.salt, self.salted_password, self.iterations
        )


class CredentialChange(NamedTuple):
    """A change of a credential; ``secret`` None deletes it."""

    user: str
    mechanism: str
    secret: SaltedSecret | None


class PlannedCredential(NamedTuple):
    """A planned change of one credential of a user; None for iterations without a credential."""

    user: str
    mechanism: str
    operation: str
    old_iterations: int | None
    new_iterations: int | None

    @property
    def text(self) -> str:
        """The change as one line of text."""
        old, new = (
            "none" if each is None else f"{each} iterations"
            for each in (self.old_iterations, self.new_iterations)
        )
        return f"user {self.user}: {self.mechanism} {old} -> {new}"


def plan_set(
    user: str, mechanisms: Sequence[str], iterations: int, held: Sequence[HeldCredential]
) -> list[PlannedCredential]:
    """Plan to set a password; BadUsage if brokers refuse this number of iterations."""
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise BadUsage(f"--iterations must be between {MIN_ITERATIONS} and {MAX_ITERATIONS}")
    return [
        PlannedCredential(user, mechanism, "set", iterations_of(user, mechanism, held), iterations)
        for mechanism in mechanisms or MECHANISMS
    ]


def plan_delete(
    users: Sequence[str], mechanisms: Sequence[str], held: Sequence[HeldCredential]
) -> list[PlannedCredential]:
    """Plan to delete credentials; Refused if one of the users has no such credential."""
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
    """Salt the password for that mechanism, which takes some milliseconds."""
    salt = random_bytes(SALT_BYTES)
    salted_password = salt_password(MECHANISMS[mechanism], password, salt, iterations)
    return SaltedSecret(salt, salted_password, iterations)


def with_names_of_users(
    listed: Sequence[HeldCredential], meant: Sequence[HeldCredential]
) -> list[HeldCredential]:
    """The list with encoded znode names replaced by the names of the users.

    ``meant``: the credentials of the users whose encoded names may be in ``listed``.  A name is not
    replaced if the user's own name is in ``listed`` too.
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
    """The number of iterations of a credential; None if the user does not have it."""
    found = (each.iterations for each in held if (each.user, each.mechanism) == (user, mechanism))
    return next(found, None)


def password_in(data: bytes, where: str) -> str:
    """The password in the content of a file or stdin, without the end of the line.

    BadUsage if the content is empty, or has more than one line.
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
