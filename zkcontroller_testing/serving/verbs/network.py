"""Cuts between brokers, faults of single requests, and the versions of APIs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from zkcontroller_testing.faults import Fault
from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_request import ServedRequest, check_brokers, valid_topic


def cut(request: ServedRequest[bodies.CutFields]) -> None:
    """Cuts the network between two brokers, or a broker and zookeeper or clients."""
    body = request.body
    check_brokers(request, "a", body.a)
    check_brokers(request, "b", body.b)
    with request.cluster.lock:
        request.cluster.kafka.cut(body.a, body.b, one_way=body.one_way, silent=body.silent)


def heal(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends all cuts and faults, lost ZooKeeper responses and limited versions."""
    with request.cluster.lock:
        request.cluster.kafka.heal()


def delay(request: ServedRequest[bodies.DelayFields]) -> bodies.FaultReport:
    """Delays requests of this API, and later requests on the same connection."""
    body = request.body
    with _arranging(request) as fields:
        return _kept(request, request.cluster.kafka.delay(body.api, body.delay_ms, **fields))


def drop(request: ServedRequest[bodies.DropFields]) -> bodies.FaultReport:
    """Breaks the connection before the request, or with ``answer``, before its response."""
    body = request.body
    with _arranging(request) as fields:
        return _kept(request, request.cluster.kafka.drop(body.api, answer=body.answer, **fields))


def fail(request: ServedRequest[bodies.FailFields]) -> bodies.FaultReport:
    """Requests of this API get an error response; the broker never receives them."""
    body = request.body
    with _arranging(request) as fields:
        return _kept(request, request.cluster.kafka.fail(body.api, body.error, **fields))


@contextlib.contextmanager
def _arranging(
    request: ServedRequest[bodies.DelayFields]
    | ServedRequest[bodies.DropFields]
    | ServedRequest[bodies.FailFields],
) -> Iterator[dict[str, Any]]:
    """Checks and yields the fields of any fault; holds the lock, as the fault list is replaced."""
    body = request.body
    check_brokers(request, "broker", body.broker)
    check_brokers(request, "sender", body.sender)
    if body.topic is not None:
        valid_topic(body.topic, "topic")
    with request.cluster.lock:
        request.cluster.faults.check_room()
        yield {
            "broker": body.broker,
            "sender": body.sender,
            "client_id": body.client_id,
            "topic": body.topic,
            "times": body.times,
        }


def _kept(request: ServedRequest[Any], fault: Fault) -> bodies.FaultReport:
    return _reported(request.cluster.faults.add(fault), fault)


def _reported(number: int, fault: Fault) -> bodies.FaultReport:
    action: Any = fault.action.name.lower()
    return bodies.FaultReport(
        fault=number,
        action=action,
        api=fault.api_key.name.title().replace("_", ""),
        count=fault.count,
    )


def fault(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReport:
    """A fault, and how many requests it has affected."""
    number = request.number("fault")
    return _reported(number, request.cluster.faults.get(number))


def faults(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReports:
    """All faults that were not removed, also those that heal has ended."""
    found = request.cluster.faults.items()
    return bodies.FaultReports(faults=[_reported(number, fault) for number, fault in found])


def remove_fault(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReport:
    """Ends and removes a fault; returns how many requests it has affected."""
    number = request.number("fault")
    with request.cluster.lock:
        fault = request.cluster.faults.pop(number)
        request.cluster.kafka.remove(fault)
    return _reported(number, fault)


def offer_versions(request: ServedRequest[bodies.VersionsFields]) -> None:
    """Limits the versions of an API that brokers offer in ApiVersions on new connections."""
    body = request.body
    check_brokers(request, "broker", body.broker)
    with request.cluster.lock:
        request.cluster.kafka.offer_versions(body.api, body.least, body.most, broker=body.broker)


def versions_used(request: ServedRequest[bodies.ApiFields]) -> bodies.VersionsBody:
    """The versions of an API in clients' requests since the last heal."""
    api = request.body.api
    if isinstance(api, str) and api.isascii() and api.isdecimal():
        api = int(api)  # a query parameter is text
    used = request.cluster.kafka.versions_used(api)
    return bodies.VersionsBody(versions=sorted(used))
