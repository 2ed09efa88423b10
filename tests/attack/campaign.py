"""Sends shapes at a target one after the other, and says of each what it cost everyone else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Final, NamedTuple

from kafka_common.errors import UnsupportedVersion
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import request_type
from tests.attack.connections import Ending, Outcome
from tests.attack.shapes import (
    Blow,
    Kind,
    Message,
    message,
    mutated,
    slots,
    with_tagged_fields,
    with_tagged_header,
)
from tests.attack.targets import Target
from tests.attack.values import Extreme, useful
from tests.attack.watch import Bystander

ANSWER_S: Final = 15.0
"""After so long the attacker goes on; whether others were served is measured apart."""
HUGE_ITEMS: Final = 100_000
LONG_STRING_BYTES: Final = 32_767
"""What the protocol allows at most."""
TOO_LONG_STRING_BYTES: Final = 1_100_000
"""More than ZooKeeper takes; only a compact string can be so long on the wire."""
HUGE_BYTES: Final = 4_000_000

COSTLY: Final[Mapping[int, int]] = {
    # Each of these items is a folder, a znode or a thread of work by right.
    ApiKey.LEADER_AND_ISR: 500,
    ApiKey.UPDATE_METADATA: 20_000,
    ApiKey.CREATE_ACLS: 500,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 500,
    ApiKey.ALTER_CLIENT_QUOTAS: 500,
}
"""API key to items: an honest administrator's requests of that size take their time, too."""


class Row(NamedTuple):
    """One request, and what it did."""

    request: Message
    outcome: Outcome
    longest_wait_ms: float
    """Of another client."""
    loop_hold_ms: int
    """The longest callback that the target's own log names; 0 if none is worth a line."""
    took_ms: float
    rss_growth_bytes: int
    descriptors: int
    log_growth_bytes: int
    is_alive: bool
    tracebacks: tuple[str, ...]
    decoy_changes: tuple[str, ...]

    @property
    def problem(self) -> str | None:
        """What must never be, whatever was sent; None if all is well."""
        if not self.is_alive:
            return "the process has ended"
        if self.decoy_changes:
            return f"files outside of the log directories changed: {self.decoy_changes}"
        if self.tracebacks:
            return f"an error that the code does not foresee: {self.tracebacks}"
        return None


class Campaign:
    """One attacker at one target, with a bystander."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rows: list[Row] = []
        self._bystander = Bystander(target.bystander_address)
        self._bystander.take_longest_ms()

    def close(self) -> None:
        self._bystander.close()

    def send(self, asked: Message, *, patience_s: float = ANSWER_S) -> Row:
        """One request on a connection of its own, which is then reset."""

        def attack() -> Outcome:
            connection = self.target.connect()
            try:
                return connection.ask(asked, patience_s)
            finally:
                connection.reset()

        return self.measured(asked, attack)

    def measured(self, asked: Message, attack: Callable[[], Outcome]) -> Row:
        """What ``attack`` did; it uses ``asked``, perhaps many times."""
        watch = self.target.watch
        before = watch.read()
        started = time.monotonic()
        try:
            outcome = attack()
        except OSError:
            outcome = Outcome(Ending.CLOSED)
        took_ms = (time.monotonic() - started) * 1000
        longest_ms = self._bystander.take_longest_ms()
        is_alive = watch.is_alive
        after = watch.read() if is_alive else before
        row = Row(
            asked,
            outcome,
            longest_ms,
            watch.new_loop_hold_ms(),
            took_ms,
            after.rss_bytes - before.rss_bytes,
            after.descriptors,
            after.log_bytes - before.log_bytes,
            is_alive,
            tuple(watch.new_tracebacks()),
            tuple(watch.decoy_changes()),
        )
        self.rows.append(row)
        return row


def huge_messages(
    api_key: int, version: int, *, items: int = HUGE_ITEMS, is_flexible_only: bool = False
) -> Iterator[Message]:
    """Every shape of that request with one field huge, and the request with many unknown tags."""
    try:
        request_type(api_key, version)
    except UnsupportedVersion:
        return
    is_flexible = APIS[api_key].is_flexible(version)
    if is_flexible_only and not is_flexible:
        return
    count = min(items, COSTLY.get(api_key, items))
    yield message(api_key, version, useful)
    for path, kind in slots(api_key, version):
        match kind:
            case Kind.ARRAY:
                yield message(api_key, version, useful, blow=Blow(path, count))
                yield message(api_key, version, useful, blow=Blow(path, count, is_distinct=False))
            case Kind.STRING:
                yield message(api_key, version, useful, blow=Blow(path, LONG_STRING_BYTES))
                if is_flexible:
                    yield message(api_key, version, useful, blow=Blow(path, TOO_LONG_STRING_BYTES))
            case Kind.BYTES:
                yield message(api_key, version, useful, blow=Blow(path, HUGE_BYTES))
    if is_flexible:
        plain = message(api_key, version, useful)
        yield with_tagged_fields(plain, items, 10)
        yield with_tagged_header(plain, 10 * items)
        yield with_tagged_fields(plain, 1, HUGE_BYTES)
    yield message(
        api_key, version, useful, client_id="c" * LONG_STRING_BYTES, shape="a huge client id"
    )


def random_messages(
    versions: Mapping[int, tuple[int, int]], random: Random, count: int
) -> Iterator[Message]:
    """Requests with random values, half of them with bytes changed as well."""
    choices = [
        (api_key, version)
        for api_key, (first, last) in versions.items()
        for version in range(first, last + 1)
        if is_known(api_key, version)
    ]
    for number in range(count):
        api_key, version = random.choice(choices)
        made = message(api_key, version, Extreme(random), shape=f"random values, number {number}")
        yield mutated(made, random) if random.random() < 0.5 else made


def is_known(api_key: int, version: int) -> bool:
    """Whether there is a schema to write that request from."""
    try:
        request_type(api_key, version)
    except UnsupportedVersion:
        return False
    return True


def table(rows: Iterable[Row]) -> str:
    """The rows for a person to read, the longest wait first."""
    head = ("request", "sent", "ended", "answer", "took", "another's wait", "loop held", "RSS")
    lines = [
        f"| {' | '.join((*head, 'descriptors', 'log'))} |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    lines += map(_line, sorted(rows, key=lambda row: -row.longest_wait_ms))
    return "\n".join(lines)


def _line(row: Row) -> str:
    cells = (
        row.request.name,
        _size(len(row.request.data)),
        row.outcome.ending.value,
        _size(row.outcome.answer_bytes),
        f"{row.took_ms:.0f} ms",
        f"{row.longest_wait_ms:.0f} ms",
        f"{row.loop_hold_ms} ms",
        _size(row.rss_growth_bytes),
        str(row.descriptors),
        _size(row.log_growth_bytes),
    )
    return f"| {' | '.join(cells)} |"


def _size(size: int) -> str:
    if abs(size) >= 100_000:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e3:.1f} kB" if abs(size) >= 1_000 else f"{size} B"
