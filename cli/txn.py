"""``zkctl txn``: shows transactions and producers, and finds and ends hanging transactions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Bootstrap, VerbGroup, reads, say, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.coordinators.transactions import hanging, open_longer_than
from zkcontroller_cli.values.moves import NamedPartition, distinct, parse_partition

if TYPE_CHECKING:
    from kio.schema.metadata.v12.response import MetadataResponse

    from zkcontroller_cli.wire.requests import Deadline
    from zkcontroller_cli.wire.transactions import Producer, TransactionDescription

_DEFAULT_MAX_AGE_MIN: Final = 15
"""The default of ``transaction.max.timeout.ms``, as in Kafka's tool."""

_LIST_KEYS: Final = ("transactional_id", "coordinator_id", "producer_id", "state")
_LIST: Final = named("transactional_id", *_LIST_KEYS, keys=_LIST_KEYS)
_DESCRIBE: Final = named("transactional_id")
_PRODUCER_KEYS: Final = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "last_sequence",
    "last_record_at_ms",
    "start_offset",
)
_HANGING_KEYS: Final = (*_PRODUCER_KEYS, "open_ms", "transactional_id")
_ABORTED_KEYS: Final = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "start_offset",
    "is_aborted",
)


def _name(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


_PRODUCERS: Final = Layout(lambda row: str(row["producer_id"]), (), _PRODUCER_KEYS)
_HANGING: Final = Layout(
    _name,
    (
        "topic",
        "partition",
        "producer_id",
        "producer_epoch",
        "start_offset",
        "open_ms",
        "transactional_id",
    ),
    _HANGING_KEYS,
)
_ABORTED: Final = Layout(_name, (), _ABORTED_KEYS)


@click.group("txn", cls=VerbGroup)
def command() -> None:
    """Transactions: list, describe, find those that hang, abort them."""


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=int, help="Only of this producer."
)
@click.option(
    "--longer-than",
    type=click.IntRange(0),
    metavar="MS",
    help="Only transactions open for longer.  [needs Kafka 3.8]",
)
def list_(states: tuple[str, ...], producer_ids: tuple[int, ...], longer_than: int | None) -> None:
    """Every transactional id, with its coordinator and its state. Needs Kafka 3.0.

    Examples:
      zkctl txn list
      zkctl txn list --state Ongoing --longer-than 60000
    """
    from zkcontroller_cli.wire.requests import Deadline, run, say_what_is_hidden
    from zkcontroller_cli.wire.transactions import list_transactions

    given = settings()
    bootstrap = given.bootstrap()
    listed = run(
        list_transactions(
            bootstrap,
            Deadline(given.deadline_s),
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than,
        )
    )
    if not listed and not states and not producer_ids and longer_than is None:
        say_what_is_hidden(bootstrap, "transactional ids")
    given.renderer.rows([each._asdict() for each in listed], _LIST)


@command.command("describe")
@click.argument("transactional_ids", nargs=-1, required=True, metavar="ID…")
def describe(transactional_ids: tuple[str, ...]) -> None:
    """The transactional ID as its coordinator has it. Needs Kafka 3.0.

    One ID is one object, several are a list.

    Examples:
      zkctl txn describe payments-1
    """
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.transactions import describe_transactions

    given = settings()
    described = run(
        describe_transactions(given.bootstrap(), Deadline(given.deadline_s), transactional_ids)
    )
    missing = [name for name, found in described.items() if found is None]
    if missing:
        raise Refused(f"no transactional id {', '.join(missing)}; zkctl txn list shows all")
    records = [_transaction_record(each) for each in described.values() if each is not None]
    if len(records) == 1:
        given.renderer.record(records[0], _DESCRIBE)
    else:
        given.renderer.descriptions(records, _DESCRIBE)


def _transaction_record(each: TransactionDescription) -> dict[str, Any]:
    started = each.started_at_ms
    return {
        "transactional_id": each.transactional_id,
        "coordinator_id": each.coordinator.broker_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "started_at_ms": started,
        "open_ms": None if started is None else _now_ms() - started,
        "partitions": [f"{topic}-{partition}" for topic, partition in each.partitions],
    }


@command.command("producers")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC-PARTITION…")
@click.option("--broker", "broker_id", type=int, help="Ask this replica, not the leader.")
@reads
def producers(partitions: tuple[str, ...], broker_id: int | None) -> None:
    """The producers that the leader of TOPIC-PARTITION remembers. Needs Kafka 2.8.

    Examples:
      zkctl txn producers orders-0
    """
    from zkcontroller_cli.wire.requests import Deadline, run

    wanted = [parse_partition(text) for text in partitions]
    distinct(wanted)
    given = settings()
    found = run(
        _producers_of(given.bootstrap(), Deadline(given.deadline_s), wanted, broker_id=broker_id)
    )
    given.renderer.rows([each._asdict() for each in found], _PRODUCERS)


@command.command("find-hanging")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only in this topic.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="TOPIC-PARTITION",
    help="Only in this partition.",
)
@click.option("--broker", "broker_id", type=int, help="Only on this broker, as it has them.")
@click.option(
    "--max-age",
    type=click.FloatRange(0),
    default=_DEFAULT_MAX_AGE_MIN,
    show_default=True,
    metavar="MINUTES",
    help="Only transactions whose last record is older: transaction.max.timeout.ms.",
)
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
@reads
def find_hanging(
    topics: tuple[str, ...],
    partitions: tuple[str, ...],
    broker_id: int | None,
    max_age: float,
    check: bool,
) -> int:
    """Open transactions that no coordinator is going to end. Needs Kafka 3.0.

    Consumers with isolation.level=read_committed wait for them, and compaction as well. Without
    --topic, --partition and --broker every partition is looked at.

    Examples:
      zkctl txn find-hanging --check
      zkctl txn find-hanging --topic orders --max-age 5
    """
    from zkcontroller_cli.console.errors import ExitCode
    from zkcontroller_cli.wire.requests import Deadline, run

    named_ones = [parse_partition(text) for text in partitions]
    distinct(named_ones)
    given = settings()
    rows = run(
        _hanging_rows(
            given.bootstrap(), Deadline(given.deadline_s), topics, named_ones, broker_id, max_age
        )
    )
    given.renderer.rows(rows, _HANGING)
    if rows:
        first = rows[0]
        start = ("--start-offset", first["start_offset"])
        say(f"next: {command_line('txn abort', _name(first), options=(*start, '--dry-run'))}")
    return ExitCode.FINDING if check and rows else ExitCode.OK


async def _hanging_rows(
    bootstrap: Bootstrap,
    deadline: Deadline,
    topics: Sequence[str],
    partitions: Sequence[NamedPartition],
    broker_id: int | None,
    max_age_min: float,
) -> list[dict[str, Any]]:
    from zkcontroller_cli.wire.requests import say_what_is_hidden, visible_metadata
    from zkcontroller_cli.wire.transactions import describe_transactions, list_transactions

    is_narrowed = bool(topics or partitions)
    names = sorted({*topics, *(each.topic for each in partitions)}) if is_narrowed else None
    known = await visible_metadata(bootstrap, deadline, names)
    if not known.topics:
        say_what_is_hidden(bootstrap, "topics")
    wanted = _partitions_of(known, topics if is_narrowed else None, partitions, broker_id)
    found = await _producers_of(bootstrap, deadline, wanted, broker_id=broker_id, known=known)
    now_ms = _now_ms()
    candidates = open_longer_than(found, round(max_age_min * 60_000), now_ms)
    # Send ListTransactions even without candidates, so that a broker before 3.0 always refuses.
    listed = await list_transactions(
        bootstrap, deadline, producer_ids=sorted({each.producer_id for each in candidates})
    )
    ids = {each.producer_id: each.transactional_id for each in listed} if candidates else {}
    transactions = await describe_transactions(bootstrap, deadline, list(ids.values()))
    return [
        {
            **each.producer._asdict(),
            "open_ms": now_ms - each.producer.last_record_at_ms,
            "transactional_id": each.transactional_id,
        }
        for each in hanging(candidates, ids, transactions)
    ]


def _partitions_of(
    known: MetadataResponse,
    topics: Sequence[str] | None,
    partitions: Sequence[NamedPartition],
    broker_id: int | None,
) -> list[NamedPartition]:
    """The named partitions and those of ``topics`` (None: all), only on ``broker_id`` if given.

    Refused if a topic is missing.
    """
    found = set(partitions)
    for topic in known.topics:
        name = str(topic.name)
        if not topic.partitions:
            raise Refused(f"there is no topic {name}; zkctl topic list shows all")
        for each in topic.partitions:
            is_there = broker_id is None or broker_id in each.replica_nodes
            if is_there and (topics is None or name in topics):
                found.add(NamedPartition(name, int(each.partition_index)))
    return sorted(found)


@command.command("abort")
@click.argument("partition", metavar="TOPIC-PARTITION")
@click.option("--start-offset", type=click.IntRange(0), help="Where it starts.  [Kafka 2.8]")
@click.option("--producer-id", type=click.IntRange(0), help="With both epochs.")
@click.option("--producer-epoch", type=click.IntRange(0, 32_767))
@click.option("--coordinator-epoch", type=click.IntRange(-1, (1 << 31) - 1))
@click.option("--force", is_flag=True, help="Also if its coordinator knows it.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def abort(
    partition: str,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """End a hanging transaction in TOPIC-PARTITION: its records will not be read.

    Say --start-offset, or --producer-id with --producer-epoch and --coordinator-epoch. A
    transaction that its coordinator knows does not hang, and is refused without --force: its
    producer may commit in other partitions what is aborted here.

    Examples:
      zkctl txn abort orders-0 --start-offset 1234 --dry-run
    """
    from zkcontroller_cli.wire.requests import Deadline, run, visible_metadata
    from zkcontroller_cli.wire.target import brokers_to_change
    from zkcontroller_cli.wire.transactions import write_abort_marker

    where = parse_partition(partition)
    epochs = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (None in epochs) or (
        start_offset is not None and epochs != (None, None, None)
    ):
        raise BadUsage(
            "say --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch"
        )
    given = settings()
    question = f"Abort this transaction in {partition}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap = brokers_to_change(given)
    known = run(visible_metadata(bootstrap, deadline, [where.topic]))
    state = run(_producer_to_end(bootstrap, deadline, known, where, start_offset, producer_id))
    if state is not None and start_offset is not None:
        epochs = (state.producer_id, state.producer_epoch, state.coordinator_epoch)
    ended_id, ended_epoch, by_epoch = epochs
    assert ended_id is not None, "checked above"
    assert ended_epoch is not None, "checked above"
    assert by_epoch is not None, "checked above"
    if not force:
        run(_must_hang(bootstrap, deadline, where, ended_id))
    row: dict[str, Any] = {
        "topic": where.topic,
        "partition": where.partition,
        "producer_id": ended_id,
        "producer_epoch": ended_epoch,
        "coordinator_epoch": max(0, by_epoch),
        "start_offset": None if state is None else state.start_offset,
    }
    if dry_run:
        given.renderer.record({**row, "is_aborted": False}, _ABORTED)
        return
    say(
        f"  {partition}: producer {ended_id}, epoch {ended_epoch}, "
        f"open since offset {'unknown' if row['start_offset'] is None else row['start_offset']}"
    )
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    run(write_abort_marker(bootstrap, deadline, known, where, ended_id, ended_epoch, by_epoch))
    after = run(_open_of(bootstrap, deadline, known, where, ended_id))
    is_aborted = None if after is None else not after
    given.renderer.record({**row, "is_aborted": is_aborted}, _ABORTED)
    if is_aborted is False:
        raise Refused(
            f"{partition}: the leader has the marker and still an open transaction of producer "
            f"{ended_id}: it goes on writing, stop it ({command_line('txn producers', partition)})"
        )


async def _producer_to_end(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    where: NamedPartition,
    start_offset: int | None,
    producer_id: int | None,
) -> Producer | None:
    """The producer of the open transaction with that start offset or producer id.

    None if the broker does not have DescribeProducers and ``producer_id`` is given.  Refused if
    there is no such transaction.
    """
    from zkcontroller_cli.console.errors import ApiNotKnown

    try:
        found = await _producers_of(bootstrap, deadline, [where], known=known)
    except ApiNotKnown:
        if producer_id is not None:
            say("the leader does not tell its producers: what is open there is not checked")
            return None
        raise
    for each in found:
        if each.start_offset is not None and (
            each.start_offset == start_offset or each.producer_id == producer_id
        ):
            return each
    which = f"starts at offset {start_offset}" if producer_id is None else f"is of {producer_id}"
    name = _name(where._asdict())
    raise Refused(
        f"{name} has no open transaction that {which}; "
        f"{command_line('txn producers', name)} shows all"
    )


async def _must_hang(
    bootstrap: Bootstrap, deadline: Deadline, where: NamedPartition, producer_id: int
) -> None:
    """Refused if a coordinator will end the transaction; a warning if brokers cannot list them."""
    from zkcontroller_cli.console.errors import ApiNotKnown
    from zkcontroller_cli.wire.transactions import describe_transactions, list_transactions

    try:
        listed = await list_transactions(bootstrap, deadline, producer_ids=[producer_id])
    except ApiNotKnown as error:
        say(f"warning: whether the transaction hangs is not known: {error}")
        return
    names = [each.transactional_id for each in listed if each.producer_id == producer_id]
    for name, found in (await describe_transactions(bootstrap, deadline, names)).items():
        if found is not None and where in found.partitions:
            look = command_line("txn describe", name)
            raise Refused(
                f"the transaction does not hang: its coordinator has {name} as {found.state} and "
                f"ends it {found.timeout_ms} ms after its start ({look})"
            )


async def _open_of(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    where: NamedPartition,
    producer_id: int,
) -> bool | None:
    """Whether the producer has an open transaction now; None without DescribeProducers."""
    from zkcontroller_cli.console.errors import ApiNotKnown

    try:
        found = await _producers_of(bootstrap, deadline, [where], known=known)
    except ApiNotKnown:
        return None
    return any(each.producer_id == producer_id and each.start_offset is not None for each in found)


async def _producers_of(
    bootstrap: Bootstrap,
    deadline: Deadline,
    wanted: Sequence[NamedPartition],
    *,
    broker_id: int | None = None,
    known: MetadataResponse | None = None,
) -> list[Producer]:
    """The producers of those partitions; Refused if the broker refuses one of the partitions."""
    from zkcontroller_cli.wire.requests import visible_metadata
    from zkcontroller_cli.wire.transactions import describe_producers

    if known is None:
        known = await visible_metadata(bootstrap, deadline, sorted({each.topic for each in wanted}))
    described = await describe_producers(bootstrap, deadline, known, wanted, broker_id)
    for (topic, partition), response in described.items():
        if isinstance(response, str):
            raise Refused(f"{topic}-{partition}: its producers are not known: {response}")
    return [
        each
        for response in described.values()
        if not isinstance(response, str)
        for each in response
    ]


def _now_ms() -> int:
    return round(time.time() * 1000)
