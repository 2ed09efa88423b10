"""The table of the API: method, path, function, and the members of the kit that it offers.

A function's docstring, the class of its body or query parameters and the class of its response make
the path's entries in the OpenAPI document and in docs/serve.md.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints

from kafka_common.errors import ConfigInvalid
from kafka_common.topic_names import invalid_name_reason
from zkcontroller.runtime.hold_points import HOLD_POINTS
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.faults import Fault
from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.serving.served_clusters import KeptLedger, ServedCluster, ServedClusters
from zkcontroller_testing.waiting import NotInTime

BodyT = TypeVar("BodyT", bound=bodies.NoFields | Any)

_MOST_INT32: Final = 2**31 - 1
PATH_PARAMETERS: Final = {
    "cluster": "A cluster's number, from POST /clusters.",
    "broker": "A broker's id.",
    "topic": "A topic's name.",
    "partition": "A partition's number.",
    "fault": "A fault's number, from POST …/delay, …/drop or …/fail.",
    "hold": "A hold's number, from POST …/holds.",
    "ledger": "A ledger's number, from POST …/ledgers.",
    "watch": "A watch's number, from POST …/watches.",
}
"""The names in braces in paths, and their descriptions.  All but ``topic`` are integers."""


@dataclass(frozen=True)
class ServedRequest(Generic[BodyT]):
    """A request whose body or query parameters are checked."""

    clusters: ServedClusters
    path: Mapping[str, str]
    """The texts in the path, by the names in braces."""
    body: BodyT

    def number(self, name: str) -> int:
        """A number of the path; ApiRefusal ``invalid`` if the text is none."""
        text = self.path[name]
        if not (text.isascii() and text.isdecimal() and len(text) <= 10) or int(text) > _MOST_INT32:
            raise refusal("invalid", f"{text[:100]!r} is not from 0 to 2^31 - 1", name)
        return int(text)

    @functools.cached_property
    def cluster(self) -> ServedCluster:
        """The cluster of the path; ApiRefusal unless it is running."""
        return self.clusters.running(self.number("cluster"))

    @property
    def broker(self) -> int:
        """The broker of the path; ApiRefusal ``not_found`` if the cluster has none of this id."""
        broker, known = self.number("broker"), self.cluster.kafka.broker_ids
        if broker not in known:
            raise refusal(
                "not_found", f"there is no broker {broker}, only brokers 1 to {known[-1]}"
            )
        return broker

    @property
    def topic(self) -> str:
        """The topic of the path; ApiRefusal ``invalid`` if it is not a valid topic name."""
        return _topic(self.path["topic"], "topic")


def _topic(name: str, field: str) -> str:
    reason = invalid_name_reason(name)
    if reason is not None:
        raise refusal("invalid", reason, field)
    return name


def _known(request: ServedRequest[Any], field: str, *broker_ids: int | str | None) -> None:
    """Raises ApiRefusal ``invalid`` if a number is not the id of a broker of the cluster."""
    known = request.cluster.kafka.broker_ids
    for each in broker_ids:
        if isinstance(each, int) and each not in known:
            raise refusal("invalid", f"there is no broker {each}, only 1 to {known[-1]}", field)


# The server and its clusters


def _server(request: ServedRequest[bodies.NoFields]) -> bodies.ServerBody:
    """The server's version, its number of clusters, and their limit."""
    return bodies.ServerBody(
        version=version("zkcontroller"),
        clusters=len(request.clusters.numbers),
        most_clusters=request.clusters.most,
    )


def _openapi(_request: ServedRequest[bodies.NoFields]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of this API."""
    from zkcontroller_testing.serving.openapi import document

    return document(ROUTES)


def _hold_points(_request: ServedRequest[bodies.NoFields]) -> bodies.HoldPointsBody:
    """The hold points: steps at which a controller can be held."""
    return bodies.HoldPointsBody(
        hold_points=[
            bodies.HoldPointBody(name=name, meaning=meaning)
            for name, meaning in HOLD_POINTS.items()
        ]
    )


def _clusters(request: ServedRequest[bodies.NoFields]) -> bodies.ClustersBody:
    """The numbers of all clusters."""
    return bodies.ClustersBody(clusters=request.clusters.numbers)


def _create_cluster(request: ServedRequest[bodies.NewClusterFields]) -> bodies.ClusterBody:
    """Starts a cluster, and responds when its brokers serve requests."""
    return _described(*request.clusters.start(request.body))


def _cluster(request: ServedRequest[bodies.NoFields]) -> bodies.ClusterBody:
    """The current state of a cluster."""
    return _described(request.number("cluster"), request.cluster)


def _described(number: int, served: ServedCluster) -> bodies.ClusterBody:
    kafka = served.kafka
    return bodies.ClusterBody(
        cluster=number,
        state=served.state if kafka.is_running else "removing",
        bootstrap_servers=kafka.bootstrap_servers,
        client_config=kafka.client_config(),
        zookeeper_connect=kafka.zookeeper_connect,
        directory=str(kafka.directory),
        broker_ids=list(kafka.broker_ids),
        live_brokers=list(kafka.live_brokers),
        controller_id=kafka.controller_id,
        controller_epoch=kafka.controller_epoch,
    )


def _remove_cluster(request: ServedRequest[bodies.RemovalFields]) -> bodies.RemovedBody:
    """Kills every process of a cluster, and deletes its files unless ``keep_files`` is true."""
    kept = request.clusters.remove(request.number("cluster"), keep_files=request.body.keep_files)
    return bodies.RemovedBody(directory=None if kept is None else str(kept))


# Brokers


def _broker(request: ServedRequest[bodies.NoFields]) -> bodies.BrokerBody:
    """The current state of a broker."""
    broker, kafka = request.broker, request.cluster.kafka
    return bodies.BrokerBody(
        broker_id=broker,
        is_alive=kafka.is_alive(broker),
        pid=_pid(kafka, broker),
        broker_epoch=kafka.broker_epoch(broker),
        logs_directory=str(kafka.logs_directory(broker)),
    )


def _pid(kafka: KafkaCluster, broker: int) -> int | None:
    try:
        return kafka.pid(broker)
    except ConfigInvalid:  # it has ended
        return None


def _start(request: ServedRequest[bodies.StartFields]) -> None:
    """Starts a stopped broker again, with its data and its port."""
    broker = request.broker
    with request.cluster.starting(broker):
        request.cluster.kafka.start(broker, wait=request.body.wait)


def _stop(request: ServedRequest[bodies.StopFields]) -> None:
    """Stops the broker by controlled shutdown: its leaderships move first."""
    request.cluster.kafka.stop(
        request.broker, wait=request.body.wait, timeout_s=request.body.timeout_s
    )


def _kill(request: ServedRequest[bodies.NoFields]) -> None:
    """Kills the broker's process (SIGKILL), as a power cut would; its session expires later."""
    request.cluster.kafka.kill(request.broker)


def _pause(request: ServedRequest[bodies.NoFields]) -> None:
    """Pauses the broker's process (SIGSTOP), as a long garbage collection does."""
    request.cluster.kafka.pause(request.broker)


def _resume(request: ServedRequest[bodies.NoFields]) -> None:
    """Continues a paused broker (SIGCONT)."""
    request.cluster.kafka.resume(request.broker)


def _bounce(request: ServedRequest[bodies.BounceFields]) -> None:
    """Restarts the broker: after a controlled shutdown, or if not ``clean``, a kill."""
    broker = request.broker
    with request.cluster.starting(broker):
        request.cluster.kafka.bounce(broker, clean=request.body.clean)


def _expire_session(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends the broker's ZooKeeper session; at the response its ephemeral znodes are gone."""
    request.cluster.kafka.expire_session(request.broker)


def _disk_full(request: ServedRequest[bodies.NoFields]) -> None:
    """Until free_disk, the broker's own disk is full; without one, all its writes to files fail."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.disk_full(broker)


def _free_disk(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends the effect of disk_full: the broker can write again."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.free_disk(broker)


def _make_disk_read_only(request: ServedRequest[bodies.NoFields]) -> None:
    """Makes every write to the broker's own disk fail, as after a disk error."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.make_disk_read_only(broker)


def _lose_page_cache(request: ServedRequest[bodies.NoFields]) -> None:
    """Simulates a power cut: kills the broker; its own disk loses data without an fsync."""
    broker = request.broker
    # No other request may start the broker while its disk is unmounted: its files would then be in
    # the folder below the mount point.
    with request.cluster.starting(broker), request.cluster.using_disk(broker):
        request.cluster.kafka.lose_page_cache(broker)


def _mend_disk(request: ServedRequest[bodies.NoFields]) -> None:
    """Makes the own disk of a stopped broker writable again, with free space."""
    broker = request.broker
    # As in _lose_page_cache: no other request may start the broker without its disk.
    with request.cluster.starting(broker), request.cluster.using_disk(broker):
        request.cluster.kafka.mend_disk(broker)


def _set_clock(request: ServedRequest[bodies.ClockFields]) -> None:
    """Sets the broker's wall clock ahead of the machine's or behind it, also after a restart."""
    request.cluster.kafka.set_clock(request.broker, request.body.ahead_ms)


def _wait_stopped(request: ServedRequest[bodies.WaitFields]) -> None:
    """Waits until the broker's process has ended."""
    request.cluster.kafka.wait_stopped(request.broker, request.body.timeout_s)


def _wait_unregistered(request: ServedRequest[bodies.WaitFields]) -> None:
    """Waits until the broker is no longer registered, because its session has ended."""
    request.cluster.kafka.wait_unregistered(request.broker, request.body.timeout_s)


def _wait_registered(request: ServedRequest[bodies.RegisteredFields]) -> bodies.EpochBody:
    """Waits until these brokers are registered, with ``after_epoch`` by a higher broker epoch."""
    body = request.body
    _known(request, "broker_ids", *body.broker_ids)
    return bodies.EpochBody(
        broker_epoch=request.cluster.kafka.wait_registered(
            *body.broker_ids, after_epoch=body.after_epoch, timeout_s=body.timeout_s
        )
    )


def _lose_zookeeper_response(request: ServedRequest[bodies.LostResponseFields]) -> None:
    """ZooKeeper executes the broker's next requests, but the broker gets no response to them."""
    with request.cluster.lock:
        request.cluster.kafka.lose_zookeeper_response(
            request.broker, request.body.operation, times=request.body.times
        )


# The controller


def _wait_controller(request: ServedRequest[bodies.ControllerFields]) -> bodies.ControllerBody:
    """Waits for a controller, with ``after_epoch`` for one of a higher controller epoch."""
    kafka = request.cluster.kafka
    found = kafka.wait_controller(
        after_epoch=request.body.after_epoch, timeout_s=request.body.timeout_s
    )
    return bodies.ControllerBody(controller_id=found, controller_epoch=kafka.controller_epoch)


def _delete_controller(request: ServedRequest[bodies.NoFields]) -> None:
    """Deletes /controller: the controller resigns, and the brokers elect another one."""
    request.cluster.kafka.delete_controller()


def _elect_controller(request: ServedRequest[bodies.WaitFields]) -> bodies.ControllerBody:
    """Deletes /controller, waits for the election, and returns the elected controller."""
    kafka = request.cluster.kafka
    found = kafka.elect_controller(request.body.timeout_s)
    return bodies.ControllerBody(controller_id=found, controller_epoch=kafka.controller_epoch)


def _hold(request: ServedRequest[bodies.NewHoldFields]) -> bodies.HoldBody:
    """From now on, holds every controller that reaches this hold point."""
    body = request.body
    _known(request, "broker", body.broker)
    with request.cluster.lock:
        request.cluster.holds.check_room()
        point = request.cluster.kafka.at(body.name, broker=body.broker)
        return bodies.HoldBody(hold=request.cluster.holds.add(point.hold()))


def _wait_reached(request: ServedRequest[bodies.WaitFields]) -> bodies.ReachedBody:
    """Waits until a controller is held at the hold point; returns the first one."""
    point = request.cluster.holds.get(request.number("hold"))
    reached = point.wait_reached(request.body.timeout_s)
    return bodies.ReachedBody(broker_id=reached.broker_id, name=reached.name, detail=reached.detail)


def _release(request: ServedRequest[bodies.NoFields]) -> None:
    """Releases the held controllers, and ends the hold."""
    with request.cluster.lock:
        request.cluster.holds.pop(request.number("hold")).release()


# Topics


def _create_topic(request: ServedRequest[bodies.NewTopicFields]) -> None:
    """Creates a topic; at the response its leaders accept records."""
    body = request.body
    request.cluster.kafka.create_topic(
        _topic(body.name, "name"),
        body.partitions,
        body.replication_factor,
        body.configs,
        replicas=body.replicas,
        timeout_s=body.timeout_s,
    )


def _partition(request: ServedRequest[bodies.NoFields]) -> bodies.PartitionBody:
    """A partition's leader, ISR and epochs in ZooKeeper."""
    topic, partition = request.topic, request.number("partition")
    state = request.cluster.kafka.partition_state(topic, partition)
    if state is None:
        raise refusal("not_found", f"ZooKeeper has no state of {topic}-{partition}")
    return bodies.PartitionBody(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.in_sync_replicas),
        controller_epoch=state.controller_epoch,
    )


def _wait_leader(request: ServedRequest[bodies.LeaderFields]) -> bodies.LeaderBody:
    """Waits until the partition has a leader, with ``among`` one of these brokers."""
    body = request.body
    _known(request, "among", *(body.among or ()))
    leader = request.cluster.kafka.wait_leader(
        request.topic, request.number("partition"), among=body.among, timeout_s=body.timeout_s
    )
    return bodies.LeaderBody(leader=leader)


def _wait_isr(request: ServedRequest[bodies.IsrFields]) -> bodies.IsrBody:
    """Waits until the ISR has exactly these brokers (default: all of the cluster)."""
    body = request.body
    _known(request, "brokers", *(body.brokers or ()))
    isr = request.cluster.kafka.wait_isr(
        request.topic, request.number("partition"), body.brokers, timeout_s=body.timeout_s
    )
    return bodies.IsrBody(isr=list(isr))


# The network


def _cut(request: ServedRequest[bodies.CutFields]) -> None:
    """Cuts the network between two brokers, or a broker and zookeeper or clients."""
    body = request.body
    _known(request, "a", body.a)
    _known(request, "b", body.b)
    with request.cluster.lock:
        request.cluster.kafka.cut(body.a, body.b, one_way=body.one_way, silent=body.silent)


def _heal(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends all cuts and faults, lost ZooKeeper responses and limited versions."""
    with request.cluster.lock:
        request.cluster.kafka.heal()


def _delay(request: ServedRequest[bodies.DelayFields]) -> bodies.FaultReport:
    """Delays requests of this API, and later requests on the same connection."""
    body = request.body
    with _arranging(request) as fields:
        return _kept(request, request.cluster.kafka.delay(body.api, body.delay_ms, **fields))


def _drop(request: ServedRequest[bodies.DropFields]) -> bodies.FaultReport:
    """Breaks the connection before the request, or with ``answer``, before its response."""
    body = request.body
    with _arranging(request) as fields:
        return _kept(request, request.cluster.kafka.drop(body.api, answer=body.answer, **fields))


def _fail(request: ServedRequest[bodies.FailFields]) -> bodies.FaultReport:
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
    _known(request, "broker", body.broker)
    _known(request, "sender", body.sender)
    if body.topic is not None:
        _topic(body.topic, "topic")
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


def _fault(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReport:
    """A fault, and how many requests it has affected."""
    number = request.number("fault")
    return _reported(number, request.cluster.faults.get(number))


def _faults(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReports:
    """All faults that were not removed, also those that heal has ended."""
    found = request.cluster.faults.items()
    return bodies.FaultReports(faults=[_reported(number, fault) for number, fault in found])


def _remove_fault(request: ServedRequest[bodies.NoFields]) -> bodies.FaultReport:
    """Ends and removes a fault; returns how many requests it has affected."""
    number = request.number("fault")
    with request.cluster.lock:
        fault = request.cluster.faults.pop(number)
        request.cluster.kafka.remove(fault)
    return _reported(number, fault)


def _offer_versions(request: ServedRequest[bodies.VersionsFields]) -> None:
    """Limits the versions of an API that brokers offer in ApiVersions on new connections."""
    body = request.body
    _known(request, "broker", body.broker)
    with request.cluster.lock:
        request.cluster.kafka.offer_versions(body.api, body.least, body.most, broker=body.broker)


def _versions_used(request: ServedRequest[bodies.ApiFields]) -> bodies.VersionsBody:
    """The versions of an API in clients' requests since the last heal."""
    api = request.body.api
    if isinstance(api, str) and api.isascii() and api.isdecimal():
        api = int(api)  # a query parameter is text
    used = request.cluster.kafka.versions_used(api)
    return bodies.VersionsBody(versions=sorted(used))


# Znodes


def _znode(request: ServedRequest[bodies.PathFields]) -> bodies.ZnodeBody:
    """A znode's data and version."""
    handle = request.cluster.kafka.znode(request.body.path)
    return _shown(handle.path, handle.get(), handle.version)


def _shown(path: str, data: bytes | None, zk_version: int | None) -> bodies.ZnodeBody:
    text = None
    with contextlib.suppress(UnicodeDecodeError):
        text = None if data is None else data.decode()
    encoded = None if data is None else base64.b64encode(data).decode()
    return bodies.ZnodeBody(path=path, text=text, base64=encoded, version=zk_version)


def _data(body: bodies.DataFields) -> bytes | None:
    """The data of a body, None if it has none; ApiRefusal ``invalid`` for both or bad base64."""
    if body.text is not None and body.base64 is not None:
        raise refusal("invalid", "give text or base64, not both", "base64")
    try:
        if body.base64 is not None:
            return base64.b64decode(body.base64, validate=True)
        return None if body.text is None else body.text.encode()
    except ValueError as error:
        field = "text" if body.base64 is None else "base64"
        raise refusal("invalid", f"cannot be converted to bytes: {error}", field) from None


def _set_znode(request: ServedRequest[bodies.DataFields]) -> bodies.ZnodeBody:
    """Overwrites a znode's data, whatever its version; creates the znode if it is missing."""
    data = _data(request.body)
    if data is None:
        raise refusal("invalid", "give text or base64", "text")
    handle = request.cluster.kafka.znode(request.body.path)
    handle.set(data)
    return _shown(handle.path, data, handle.version)


def _corrupt_znode(request: ServedRequest[bodies.DataFields]) -> bodies.ZnodeBody:
    """Overwrites a znode with invalid JSON or with the given data; returns the data before."""
    data = _data(request.body)
    handle = request.cluster.kafka.znode(request.body.path)
    before_version = handle.version
    before = handle.corrupt() if data is None else handle.corrupt(data)
    return _shown(handle.path, before, before_version)


def _delete_znode(request: ServedRequest[bodies.PathFields]) -> bodies.DeletedBody:
    """Deletes a znode; ``deleted`` is false if it did not exist or has children."""
    return bodies.DeletedBody(deleted=request.cluster.kafka.znode(request.body.path).delete())


def _watch(request: ServedRequest[bodies.PathFields]) -> bodies.WatchBody:
    """Creates a watch for changes of a znode after this moment."""
    request.cluster.watches.check_room()
    watch = request.cluster.kafka.znode(request.body.path).watch()
    return bodies.WatchBody(watch=request.cluster.watches.add(watch))


def _wait_change(request: ServedRequest[bodies.WaitFields]) -> bodies.ZnodeBody:
    """Waits for the next change since the watch's last one; returns the data after it."""
    watch = request.cluster.watches.get(request.number("watch"))
    data = watch.wait(request.body.timeout_s)
    return _shown(watch.path, data, watch.version)


def _remove_watch(request: ServedRequest[bodies.NoFields]) -> None:
    """Removes a watch."""
    request.cluster.watches.pop(request.number("watch"))


# Records and epochs


def _ledger(request: ServedRequest[bodies.NewLedgerFields]) -> bodies.LedgerBody:
    """Creates a ledger, which writes records with acks=all and remembers acknowledged ones."""
    topic = _topic(request.body.topic, "topic")
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


def _show_ledger(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
    """A ledger, and how many of its records were acknowledged."""
    return _ledger_response(request.number("ledger"), _kept_ledger(request))


def _produce(request: ServedRequest[bodies.ProduceFields]) -> bodies.OffsetsBody:
    """Writes records one after the other; returns their offsets once all are acknowledged."""
    ledger = _kept_ledger(request).ledger
    return bodies.OffsetsBody(offsets=ledger.produce(request.body.count, request.body.timeout_s))


def _start_producing(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
    """Writes one record after the other in the background, whatever happens to brokers."""
    kept = _kept_ledger(request)
    with request.cluster.lock:
        if kept.producing is not None:
            raise refusal("wrong_state", "the ledger is producing already")
        kept.producing = contextlib.ExitStack()
        kept.producing.enter_context(kept.ledger.producing())
    return _ledger_response(request.number("ledger"), kept)


def _stop_producing(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerBody:
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


def _acknowledged(request: ServedRequest[bodies.NoFields]) -> bodies.LedgerRecords:
    """The acknowledged records of a ledger."""
    return _records(dict(_kept_ledger(request).ledger.acknowledged))


def _read(request: ServedRequest[bodies.WaitFields]) -> bodies.LedgerRecords:
    """All records of the ledger's partition that consumers can read now."""
    return _records(_kept_ledger(request).ledger.read(request.body.timeout_s))


def _lost(request: ServedRequest[bodies.WaitFields]) -> bodies.LedgerRecords:
    """The acknowledged records that are no longer at their offset."""
    return _records(_kept_ledger(request).ledger.lost(request.body.timeout_s))


def _checked(check: Callable[[], None]) -> bodies.CheckBody:
    try:
        check()
    except NotInTime:
        raise
    except AssertionError as failure:
        return bodies.CheckBody(holds=False, reason=str(failure))
    return bodies.CheckBody(holds=True, reason=None)


def _no_acknowledged_record_lost(
    request: ServedRequest[bodies.LedgersFields],
) -> bodies.CheckBody:
    """Checks that each acknowledged record of the ledgers is at its offset."""
    served, body = request.cluster, request.body
    ledgers = [served.ledgers.get(each).ledger for each in body.ledgers]
    return _checked(
        lambda: served.kafka.no_acknowledged_record_lost(*ledgers, timeout_s=body.timeout_s)
    )


def _epochs_monotonic(request: ServedRequest[bodies.NoFields]) -> bodies.CheckBody:
    """Checks that no epoch decreases in a broker's log, and that none belongs to two brokers."""
    return _checked(request.cluster.kafka.epochs_monotonic)


def _state_changes(request: ServedRequest[bodies.PageFields]) -> bodies.StateChangesBody:
    """The newest state changes of all brokers, in order of time."""
    rows = request.cluster.kafka.state_changes()
    return bodies.StateChangesBody(
        total=len(rows), state_changes=[dict(row) for row in rows[-request.body.last :]]
    )


def _journal(request: ServedRequest[bodies.PageFields]) -> bodies.JournalBody:
    """The newest steps of the cluster's journal, in order of time."""
    entries = list(request.cluster.kafka.journal)
    return bodies.JournalBody(
        total=len(entries),
        journal=[
            bodies.JournalEntry(at_ms=round(at_s * 1000), text=text)
            for at_s, text in entries[-request.body.last :]
        ],
    )


def _write_artefacts(request: ServedRequest[bodies.NoFields]) -> bodies.ArtefactsBody:
    """Writes state-changes.txt and journal.txt into the cluster's folder."""
    folder: Path = request.cluster.kafka.write_artefacts()
    return bodies.ArtefactsBody(
        directory=str(folder),
        files=sorted(str(each) for each in folder.glob("*.txt")),
    )


@dataclass(frozen=True)
class ApiRoute:
    """One row of the table of routes."""

    operation: str
    """The operationId in the OpenAPI document."""
    method: str
    path: str
    do: Callable[[ServedRequest[Any]], Any]
    kit: tuple[str, ...] = ()
    """The members of the kit that it offers: of KafkaCluster, or ``Class.member``."""
    status: HTTPStatus = HTTPStatus.OK
    """The status of a success; NO_CONTENT if the response has no body."""

    @functools.cached_property
    def body(self) -> type[Any]:
        """The class of the body; for GET and DELETE, of the query parameters."""
        found: type[Any] = get_args(next(iter(get_type_hints(self.do).values())))[0]
        return found

    @functools.cached_property
    def response(self) -> type[Any] | None:
        """The class of the response; None if it has no body."""
        found: type[Any] = get_type_hints(self.do)["return"]
        return None if found is type(None) else found

    @property
    def summary(self) -> str:
        """The function's docstring on one line."""
        return " ".join((self.do.__doc__ or "").split())

    @property
    def has_body(self) -> bool:
        """Whether the fields are in a body, not in the query."""
        return self.method in ("POST", "PUT")

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the route's paths before they are percent-decoded."""
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in braces, in their order."""
        return tuple(self.pattern.groupindex)


_AT: Final = "/clusters/{cluster}"
_BROKER: Final = f"{_AT}/brokers/{{broker}}"
_PARTITION: Final = f"{_AT}/topics/{{topic}}/partitions/{{partition}}"
_LEDGER: Final = f"{_AT}/ledgers/{{ledger}}"
_NONE: Final = HTTPStatus.NO_CONTENT
_NEW: Final = HTTPStatus.CREATED

ROUTES: Final = (
    ApiRoute("server", "GET", "/", _server),
    ApiRoute("openapi", "GET", "/openapi.json", _openapi),
    ApiRoute("hold_points", "GET", "/hold_points", _hold_points),
    ApiRoute("clusters", "GET", "/clusters", _clusters),
    ApiRoute("create_cluster", "POST", "/clusters", _create_cluster, ("start",), _NEW),
    ApiRoute(
        *("cluster", "GET", _AT, _cluster),
        kit=(
            *("bootstrap_servers", "client_config", "zookeeper_connect", "directory", "broker_ids"),
            *("live_brokers", "controller_id", "controller_epoch", "is_running"),
        ),
    ),
    ApiRoute("remove_cluster", "DELETE", _AT, _remove_cluster, ("close",)),
    ApiRoute(
        "broker", "GET", _BROKER, _broker, ("is_alive", "pid", "broker_epoch", "logs_directory")
    ),
    ApiRoute("start", "POST", f"{_BROKER}/start", _start, ("start",), _NONE),
    ApiRoute("stop", "POST", f"{_BROKER}/stop", _stop, ("stop",), _NONE),
    ApiRoute("kill", "POST", f"{_BROKER}/kill", _kill, ("kill",), _NONE),
    ApiRoute("pause", "POST", f"{_BROKER}/pause", _pause, ("pause",), _NONE),
    ApiRoute("resume", "POST", f"{_BROKER}/resume", _resume, ("resume",), _NONE),
    ApiRoute("bounce", "POST", f"{_BROKER}/bounce", _bounce, ("bounce",), _NONE),
    ApiRoute("disk_full", "POST", f"{_BROKER}/disk_full", _disk_full, ("disk_full",), _NONE),
    ApiRoute("free_disk", "POST", f"{_BROKER}/free_disk", _free_disk, ("free_disk",), _NONE),
    ApiRoute(
        *("make_disk_read_only", "POST", f"{_BROKER}/make_disk_read_only", _make_disk_read_only),
        *(("make_disk_read_only",), _NONE),
    ),
    ApiRoute(
        *("lose_page_cache", "POST", f"{_BROKER}/lose_page_cache", _lose_page_cache),
        *(("lose_page_cache",), _NONE),
    ),
    ApiRoute("mend_disk", "POST", f"{_BROKER}/mend_disk", _mend_disk, ("mend_disk",), _NONE),
    ApiRoute("set_clock", "POST", f"{_BROKER}/set_clock", _set_clock, ("set_clock",), _NONE),
    ApiRoute(
        *("expire_session", "POST", f"{_BROKER}/expire_session", _expire_session),
        *(("expire_session",), _NONE),
    ),
    ApiRoute(
        *("wait_stopped", "POST", f"{_BROKER}/wait_stopped", _wait_stopped),
        *(("wait_stopped",), _NONE),
    ),
    ApiRoute(
        *("wait_unregistered", "POST", f"{_BROKER}/wait_unregistered", _wait_unregistered),
        *(("wait_unregistered",), _NONE),
    ),
    ApiRoute(
        *("lose_zookeeper_response", "POST", f"{_BROKER}/lose_zookeeper_response"),
        *(_lose_zookeeper_response, ("lose_zookeeper_response",), _NONE),
    ),
    ApiRoute(
        *("wait_registered", "POST", f"{_AT}/wait_registered", _wait_registered),
        kit=("wait_registered",),
    ),
    ApiRoute(
        *("wait_controller", "POST", f"{_AT}/wait_controller", _wait_controller),
        kit=("wait_controller",),
    ),
    ApiRoute(
        *("delete_controller", "POST", f"{_AT}/delete_controller", _delete_controller),
        *(("delete_controller",), _NONE),
    ),
    ApiRoute(
        *("elect_controller", "POST", f"{_AT}/elect_controller", _elect_controller),
        kit=("elect_controller",),
    ),
    ApiRoute("hold", "POST", f"{_AT}/holds", _hold, ("at", "HoldPoint.hold"), _NEW),
    ApiRoute(
        *("wait_reached", "POST", f"{_AT}/holds/{{hold}}/wait_reached", _wait_reached),
        kit=("HoldPoint.wait_reached",),
    ),
    ApiRoute(
        *("release", "DELETE", f"{_AT}/holds/{{hold}}", _release),
        *(("HoldPoint.release",), _NONE),
    ),
    ApiRoute("create_topic", "POST", f"{_AT}/topics", _create_topic, ("create_topic",), _NONE),
    ApiRoute("partition", "GET", _PARTITION, _partition, ("partition_state", "leader")),
    ApiRoute("wait_leader", "POST", f"{_PARTITION}/wait_leader", _wait_leader, ("wait_leader",)),
    ApiRoute("wait_isr", "POST", f"{_PARTITION}/wait_isr", _wait_isr, ("wait_isr",)),
    ApiRoute("cut", "POST", f"{_AT}/cut", _cut, ("cut",), _NONE),
    ApiRoute("heal", "POST", f"{_AT}/heal", _heal, ("heal",), _NONE),
    ApiRoute("delay", "POST", f"{_AT}/delay", _delay, ("delay",), _NEW),
    ApiRoute("drop", "POST", f"{_AT}/drop", _drop, ("drop",), _NEW),
    ApiRoute("fail", "POST", f"{_AT}/fail", _fail, ("fail",), _NEW),
    ApiRoute("faults", "GET", f"{_AT}/faults", _faults),
    ApiRoute("fault", "GET", f"{_AT}/faults/{{fault}}", _fault),
    ApiRoute("remove_fault", "DELETE", f"{_AT}/faults/{{fault}}", _remove_fault, ("remove",)),
    ApiRoute(
        *("offer_versions", "POST", f"{_AT}/offer_versions", _offer_versions),
        *(("offer_versions",), _NONE),
    ),
    ApiRoute(
        *("versions_used", "GET", f"{_AT}/versions_used", _versions_used),
        kit=("versions_used",),
    ),
    ApiRoute(
        *("znode", "GET", f"{_AT}/znode", _znode),
        kit=("znode", "ZnodeHandle.get", "ZnodeHandle.version"),
    ),
    ApiRoute("set_znode", "PUT", f"{_AT}/znode", _set_znode, ("ZnodeHandle.set",)),
    ApiRoute("delete_znode", "DELETE", f"{_AT}/znode", _delete_znode, ("ZnodeHandle.delete",)),
    ApiRoute(
        *("corrupt_znode", "POST", f"{_AT}/znode/corrupt", _corrupt_znode),
        kit=("ZnodeHandle.corrupt",),
    ),
    ApiRoute("watch", "POST", f"{_AT}/watches", _watch, ("ZnodeHandle.watch",), _NEW),
    ApiRoute(
        *("wait_change", "POST", f"{_AT}/watches/{{watch}}/wait_change", _wait_change),
        kit=("ZnodeWatch.wait",),
    ),
    ApiRoute(*("remove_watch", "DELETE", f"{_AT}/watches/{{watch}}", _remove_watch), status=_NONE),
    ApiRoute("new_ledger", "POST", f"{_AT}/ledgers", _ledger, ("ledger",), _NEW),
    ApiRoute("ledger", "GET", _LEDGER, _show_ledger),
    ApiRoute("produce", "POST", f"{_LEDGER}/produce", _produce, ("Ledger.produce",)),
    ApiRoute(
        *("start_producing", "POST", f"{_LEDGER}/start_producing", _start_producing),
        kit=("Ledger.producing",),
    ),
    ApiRoute(
        *("stop_producing", "POST", f"{_LEDGER}/stop_producing", _stop_producing),
        kit=("Ledger.producing",),
    ),
    ApiRoute("acknowledged", "GET", f"{_LEDGER}/acknowledged", _acknowledged),
    ApiRoute("read", "POST", f"{_LEDGER}/read", _read, ("Ledger.read",)),
    ApiRoute("lost", "POST", f"{_LEDGER}/lost", _lost, ("Ledger.lost",)),
    ApiRoute(
        *("no_acknowledged_record_lost", "POST", f"{_AT}/checks/no_acknowledged_record_lost"),
        *(_no_acknowledged_record_lost, ("no_acknowledged_record_lost",)),
    ),
    ApiRoute(
        *("epochs_monotonic", "POST", f"{_AT}/checks/epochs_monotonic", _epochs_monotonic),
        kit=("epochs_monotonic",),
    ),
    ApiRoute("state_changes", "GET", f"{_AT}/state_changes", _state_changes, ("state_changes",)),
    ApiRoute("journal", "GET", f"{_AT}/journal", _journal, ("journal",)),
    ApiRoute(
        *("write_artefacts", "POST", f"{_AT}/artefacts", _write_artefacts),
        kit=("write_artefacts",),
    ),
)
"""Every route of the API."""
