"""The gauges of the process and of its sockets say what there is at the moment of asking."""

from __future__ import annotations

from pathlib import Path

from kafka_common.observability.metrics import Metrics
from replica_manager.broker.broker_gauges import register_network_gauges, register_process_gauges
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.network.listener import ServerLimits, SocketServer

SERVER = "kafka.server:type=KafkaServer,name="
NETWORK = "kafka.network:type=SocketServer,name="


def test_disk_bytes_are_those_that_the_system_counts_for_the_process(tmp_path: Path) -> None:
    io = tmp_path / "io"
    io.write_text("rchar: 7\nread_bytes: 4096\nwrite_bytes: 8192\n")
    metrics = Metrics()

    register_process_gauges(metrics, io)
    before = metrics.snapshot()
    io.write_text("rchar: 7\nread_bytes: 4097\nwrite_bytes: 8192\n")

    assert before[f"{SERVER}linux-disk-read-bytes"] == {"Value": 4096}
    assert before[f"{SERVER}linux-disk-write-bytes"] == {"Value": 8192}
    assert before[f"{SERVER}yammer-metrics-count"] == {"Value": 3}
    assert metrics.snapshot()[f"{SERVER}linux-disk-read-bytes"] == {"Value": 4097}


def test_where_the_system_does_not_count_there_are_no_disk_bytes(tmp_path: Path) -> None:
    metrics = Metrics()

    register_process_gauges(metrics, tmp_path / "nothing")

    assert metrics.snapshot() == {f"{SERVER}yammer-metrics-count": {"Value": 1}}


async def test_the_memory_of_requests_is_used_until_they_are_answered() -> None:
    async def respond(data: bytes, _: Peer) -> ResponseFrame:
        return ResponseFrame(data)

    limits = ServerLimits(max_queued_request_bytes=1000)
    server = SocketServer((), limits, respond, broker_id=1, protected_listener="")
    metrics = Metrics()
    register_network_gauges(metrics, server)
    share = server.request_memory.share(Reading())
    share.arrived(300)
    during = memory(metrics)
    share.release()

    assert [during, memory(metrics)] == [(300, 700), (0, 1000)]


class Reading:
    """A connection on which a request arrives."""

    address = "127.0.0.1"

    def has_more(self) -> bool:
        return True

    def disconnect(self) -> None:
        raise AssertionError("there is memory enough")


def memory(metrics: Metrics) -> tuple[object, object]:
    shown = metrics.snapshot()
    return (
        shown[f"{NETWORK}MemoryPoolUsed"]["Value"],
        shown[f"{NETWORK}MemoryPoolAvailable"]["Value"],
    )
