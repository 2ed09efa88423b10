"""Answers of our brokers and Kafka's, to be compared."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from kafka_common.net.connection import Connection
from tests.peers.cluster import Cluster


def answer_to(cluster: Cluster, request: Any) -> Any:
    """What broker 1 answers."""

    async def exchange() -> Any:
        host, _, port = cluster.bootstrap(1).rpartition(":")
        connection = await Connection.open(host, int(port), client_id="peers")
        try:
            return await connection.request(request)
        finally:
            await connection.close()

    return asyncio.run(exchange())


def ask(cluster: Cluster, request: Any) -> Any:
    """The broker's answer as a dictionary."""
    return asdict(answer_to(cluster, request))


def told(response: Any) -> Any:
    """An answer without order, where Kafka's comes out of a hash map."""
    if isinstance(response, dict):
        return {key: told(value) for key, value in response.items() if key != "throttle_time"}
    if isinstance(response, tuple | list):
        return sorted(map(told, response), key=repr)
    return response


def differing(ours: dict[str, Any], kafkas: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The values that differ, by name: first ours, then Kafka's."""
    return {
        name: (ours.get(name), kafkas.get(name))
        for name in {**ours, **kafkas}
        if ours.get(name) != kafkas.get(name)
    }
