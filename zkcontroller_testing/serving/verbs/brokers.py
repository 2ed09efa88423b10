"""A cluster's brokers: their processes, disks, clocks and sessions."""

from __future__ import annotations

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_request import ServedRequest, check_brokers


def broker(request: ServedRequest[bodies.NoFields]) -> bodies.BrokerBody:
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


def start(request: ServedRequest[bodies.StartFields]) -> None:
    """Starts a stopped broker again, with its data and its port."""
    broker = request.broker
    with request.cluster.starting(broker):
        request.cluster.kafka.start(broker, wait=request.body.wait)


def stop(request: ServedRequest[bodies.StopFields]) -> None:
    """Stops the broker by controlled shutdown: its leaderships move first."""
    request.cluster.kafka.stop(
        request.broker, wait=request.body.wait, timeout_s=request.body.timeout_s
    )


def kill(request: ServedRequest[bodies.NoFields]) -> None:
    """Kills the broker's process (SIGKILL), as a power cut would; its session expires later."""
    request.cluster.kafka.kill(request.broker)


def pause(request: ServedRequest[bodies.NoFields]) -> None:
    """Pauses the broker's process (SIGSTOP), as a long garbage collection does."""
    request.cluster.kafka.pause(request.broker)


def resume(request: ServedRequest[bodies.NoFields]) -> None:
    """Continues a paused broker (SIGCONT)."""
    request.cluster.kafka.resume(request.broker)


def bounce(request: ServedRequest[bodies.BounceFields]) -> None:
    """Restarts the broker: after a controlled shutdown, or if not ``clean``, a kill."""
    broker = request.broker
    with request.cluster.starting(broker):
        request.cluster.kafka.bounce(broker, clean=request.body.clean)


def expire_session(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends the broker's ZooKeeper session; at the response its ephemeral znodes are gone."""
    request.cluster.kafka.expire_session(request.broker)


def disk_full(request: ServedRequest[bodies.NoFields]) -> None:
    """Until free_disk, the broker's own disk is full; without one, all its writes to files fail."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.disk_full(broker)


def free_disk(request: ServedRequest[bodies.NoFields]) -> None:
    """Ends the effect of disk_full: the broker can write again."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.free_disk(broker)


def make_disk_read_only(request: ServedRequest[bodies.NoFields]) -> None:
    """Makes every write to the broker's own disk fail, as after a disk error."""
    broker = request.broker
    with request.cluster.using_disk(broker):
        request.cluster.kafka.make_disk_read_only(broker)


def lose_page_cache(request: ServedRequest[bodies.NoFields]) -> None:
    """Simulates a power cut: kills the broker; its own disk loses data without an fsync."""
    broker = request.broker
    # No other request may start the broker while its disk is unmounted: its files would then be in
    # the folder below the mount point.
    with request.cluster.starting(broker), request.cluster.using_disk(broker):
        request.cluster.kafka.lose_page_cache(broker)


def mend_disk(request: ServedRequest[bodies.NoFields]) -> None:
    """Makes the own disk of a stopped broker writable again, with free space."""
    broker = request.broker
    # As in lose_page_cache: no other request may start the broker without its disk.
    with request.cluster.starting(broker), request.cluster.using_disk(broker):
        request.cluster.kafka.mend_disk(broker)


def set_clock(request: ServedRequest[bodies.ClockFields]) -> None:
    """Sets the broker's wall clock ahead of the machine's or behind it, also after a restart."""
    request.cluster.kafka.set_clock(request.broker, request.body.ahead_ms)


def wait_stopped(request: ServedRequest[bodies.WaitFields]) -> None:
    """Waits until the broker's process has ended."""
    request.cluster.kafka.wait_stopped(request.broker, request.body.timeout_s)


def wait_unregistered(request: ServedRequest[bodies.WaitFields]) -> None:
    """Waits until the broker is no longer registered, because its session has ended."""
    request.cluster.kafka.wait_unregistered(request.broker, request.body.timeout_s)


def wait_registered(request: ServedRequest[bodies.RegisteredFields]) -> bodies.EpochBody:
    """Waits until these brokers are registered, with ``after_epoch`` by a higher broker epoch."""
    body = request.body
    check_brokers(request, "broker_ids", *body.broker_ids)
    return bodies.EpochBody(
        broker_epoch=request.cluster.kafka.wait_registered(
            *body.broker_ids, after_epoch=body.after_epoch, timeout_s=body.timeout_s
        )
    )


def lose_zookeeper_response(request: ServedRequest[bodies.LostResponseFields]) -> None:
    """ZooKeeper executes the broker's next requests, but the broker gets no response to them."""
    with request.cluster.lock:
        request.cluster.kafka.lose_zookeeper_response(
            request.broker, request.body.operation, times=request.body.times
        )
