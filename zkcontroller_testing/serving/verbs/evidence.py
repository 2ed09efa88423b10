"""What a test asserts or keeps: checks, state changes, the journal, artefacts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_request import ServedRequest
from zkcontroller_testing.waiting import NotInTime


def _checked(check: Callable[[], None]) -> bodies.CheckBody:
    try:
        check()
    except NotInTime:
        raise
    except AssertionError as failure:
        return bodies.CheckBody(holds=False, reason=str(failure))
    return bodies.CheckBody(holds=True, reason=None)


def no_acknowledged_record_lost(
    request: ServedRequest[bodies.LedgersFields],
) -> bodies.CheckBody:
    """Checks that each acknowledged record of the ledgers is at its offset."""
    served, body = request.cluster, request.body
    ledgers = [served.ledgers.get(each).ledger for each in body.ledgers]
    return _checked(
        lambda: served.kafka.no_acknowledged_record_lost(*ledgers, timeout_s=body.timeout_s)
    )


def epochs_monotonic(request: ServedRequest[bodies.NoFields]) -> bodies.CheckBody:
    """Checks that no epoch decreases in a broker's log, and that none belongs to two brokers."""
    return _checked(request.cluster.kafka.epochs_monotonic)


def state_changes(request: ServedRequest[bodies.PageFields]) -> bodies.StateChangesBody:
    """The newest state changes of all brokers, in order of time."""
    rows = request.cluster.kafka.state_changes()
    return bodies.StateChangesBody(
        total=len(rows), state_changes=[dict(row) for row in rows[-request.body.last :]]
    )


def journal(request: ServedRequest[bodies.PageFields]) -> bodies.JournalBody:
    """The newest steps of the cluster's journal, in order of time."""
    entries = list(request.cluster.kafka.journal)
    return bodies.JournalBody(
        total=len(entries),
        journal=[
            bodies.JournalEntry(at_ms=round(at_s * 1000), text=text)
            for at_s, text in entries[-request.body.last :]
        ],
    )


def write_artefacts(request: ServedRequest[bodies.NoFields]) -> bodies.ArtefactsBody:
    """Writes state-changes.txt and journal.txt into the cluster's folder."""
    folder: Path = request.cluster.kafka.write_artefacts()
    return bodies.ArtefactsBody(
        directory=str(folder),
        files=sorted(str(each) for each in folder.glob("*.txt")),
    )
