"""Ledgers: records that were acknowledged, to be read again later."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.serving.served_clusters import KeptLedger
from zkcontroller_testing.serving.served_request import ServedRequest, valid_topic


def new_ledger(request: ServedRequest[bodies.NewLedgerFields]) -> bodies.LedgerBody:
    """Creates a ledger, which writes records with acks=all and remembers acknowledged ones."""
    topic = valid_topic(request.body.topic, "topic")
    served = request.cluster
    with served.lock:
        served.ledgers.check_room()
        kept = KeptLedger(served.kafka.ledger(topic, request.body.partition))
        return _ledger_response(served.ledgers.add(kept), kept)


def _ledger_response(number: int, kept: KeptLedger) -> bodies.LedgerBody:
    return bodies.LedgerBody(
        ledger=number,
        topic=kept.ledger.topic,
        partition=kept.ledger.partition,
        is_producing=kept.producing is not None,
        acknowledged=len(kept.ledger.acknowledged),
    )


def _kept_ledger(request: ServedRequest[Any]) -> KeptLedger:
    return request.cluster.ledgers.get(request.number("ledger"))


def show_ledger(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
    """A ledger, and how many of its records were acknowledged."""
    return _ledger_response(request.number("ledger"), _kept_ledger(request))


def produce(request: ServedRequest[bodies.ProduceFields]) -> bodies.OffsetsBody:
    """Writes records one after the other; returns their offsets once all are acknowledged."""
    ledger = _kept_ledger(request).ledger
    return bodies.OffsetsBody(offsets=ledger.produce(request.body.count, request.body.timeout_s))


def start_producing(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
    """Writes one record after the other in the background, whatever happens to brokers."""
    kept = _kept_ledger(request)
    with request.cluster.lock:
        if kept.producing is not None:
            raise refusal("wrong_state", "the ledger is producing already")
        kept.producing = contextlib.ExitStack()
        kept.producing.enter_context(kept.ledger.producing())
    return _ledger_response(request.number("ledger"), kept)


def stop_producing(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
    """Ends the writes that start_producing began."""
    kept = _kept_ledger(request)
    with request.cluster.lock:
        if kept.producing is None:
            raise refusal("wrong_state", "the ledger is not producing")
        producing, kept.producing = kept.producing, None
    producing.close()
    return _ledger_response(request.number("ledger"), kept)


def _records(records: Mapping[int, bytes]) -> bodies.LedgerRecords:
    return bodies.LedgerRecords(
        records=[
            bodies.LedgerRecord(offset=offset, value=value.decode(errors="replace"))
            for offset, value in sorted(records.items())
        ]
    )


def acknowledged(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerRecords:
    """The acknowledged records of a ledger."""
    return _records(dict(_kept_ledger(request).ledger.acknowledged))


def read(request: ServedRequest[bodies.WaitFields]) -> bodies.LedgerRecords:
    """All records of the ledger's partition that consumers can read now."""
    return _records(_kept_ledger(request).ledger.read(request.body.timeout_s))


def lost(request: ServedRequest[bodies.WaitFields]) -> bodies.LedgerRecords:
    """The acknowledged records that are no longer at their offset."""
    return _records(_kept_ledger(request).ledger.lost(request.body.timeout_s))
