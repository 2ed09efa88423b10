"""Runs a broker in a thread of this process, creates a topic on it, and asks who leads it.

    python examples/broker_in_a_thread.py

A broker is an asyncio server, so its thread is an event loop; whatever speaks Kafka's protocol can
connect to its port.  Needs Java for the ZooKeeper.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread

from kio.schema.create_topics.v5.request import CreatableTopic, CreateTopicsRequest
from kio.schema.metadata.v4.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v4.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from kafka_common.errors import ZkControllerError
from kafka_common.net.connection import Connection
from replica_manager.broker.zookeeper_broker import zookeeper_broker
from replica_manager.configuration.config import BrokerConfig
from zkcontroller.state_changes.log_files import install_log_files
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper


async def serve(config: BrokerConfig, logs: Path, port: Future[int]) -> None:
    """Serves until the task is cancelled; ``port`` becomes known when clients may come."""
    log_files = install_log_files(logs, broker_id=config.broker_id, stdout=False)
    broker = zookeeper_broker(config, state_changes=log_files.state_changes)
    try:
        await broker.start()
        port.set_result(broker.running.listeners.server.ports["PLAINTEXT"])
        await asyncio.Event().wait()
    except ZkControllerError as refused:
        port.set_exception(refused)
    finally:
        await broker.stop()
        log_files.close()


@contextmanager
def broker_thread(config: BrokerConfig, logs: Path) -> Iterator[int]:
    """A broker for the time of a ``with`` block, which gets its port."""
    port: Future[int] = Future()
    loop = asyncio.new_event_loop()
    serving = loop.create_task(serve(config, logs, port))
    thread = Thread(target=loop.run_until_complete, args=(asyncio.wait((serving,)),))
    thread.start()
    try:
        yield port.result()
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        loop.close()


async def metadata(client: Connection, *topics: str) -> MetadataResponse:
    """Who is in the cluster, and who leads these topics."""
    wanted = tuple(MetadataRequestTopic(name=TopicName(topic)) for topic in topics)
    response = await client.request(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    assert isinstance(response, MetadataResponse)
    return response


async def ask(port: int) -> None:
    """Creates a topic with three partitions, and shows who leads them."""
    client = await Connection.open("127.0.0.1", port, client_id="an example")
    try:
        # A broker takes requests before it is elected controller and has been named to itself.
        while not (await metadata(client)).brokers:
            await asyncio.sleep(0.05)
        topic = CreatableTopic(
            name=TopicName("orders"),
            num_partitions=i32(3),
            replication_factor=i16(1),
            assignments=(),
            configs=(),
        )
        wait = i32Timedelta.parse(timedelta(seconds=10))
        await client.request(CreateTopicsRequest(topics=(topic,), timeout=wait))
        for each in (await metadata(client, "orders")).topics[0].partitions:
            print(f"orders-{each.partition_index}: leader {each.leader_id}")
    finally:
        await client.close()


def main() -> None:
    """A ZooKeeper, a broker, a client."""
    with tempfile.TemporaryDirectory() as name, EmbeddedZooKeeper(Path(name, "zk")) as zookeeper:
        config = BrokerConfig.parse(
            {
                "broker.id": "1",
                "zookeeper.connect": zookeeper.connect,
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": f"{name}/data",
            }
        )
        with broker_thread(config, Path(name, "logs")) as port:
            asyncio.run(ask(port))


if __name__ == "__main__":
    main()
