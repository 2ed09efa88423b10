"""The faults of the network: delays in milliseconds, and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkcontroller_simulation.timeline import Bounds


@dataclass(frozen=True, slots=True)
class Weather:
    """Delays (least, most) in milliseconds, and probabilities of faults."""

    zookeeper_delay_ms: Bounds = (1, 1)
    network_delay_ms: Bounds = (1, 1)
    thinking_ms: Bounds = (0, 0)
    """Delay between two steps of a controller."""
    reconnect_ms: Bounds = (50, 50)
    split_batch: float = 0.0
    """Probability that a batch reaches ZooKeeper in parts, with time between them."""
    lost_request: float = 0.0
    """Probability that a control request does not reach the broker."""
    lost_response: float = 0.0
    """Probability that a broker's response is lost; the controller then sends again."""
    repeated_question: float = 0.0
    """Probability that a request to the controller (such as AlterPartition) arrives twice."""
    late_question: float = 0.0
    """Probability that such a request or its response takes ``lateness_ms`` more."""
    lateness_ms: Bounds = (0, 0)
    lost_connection: float = 0.0
    """Probability that the connection to ZooKeeper breaks before or after a request is done."""
    refused: float = 0.0
    """Probability that ZooKeeper refuses a path, operation or fence of a controller's question."""
    partial_answer: float = 0.0
    """Probability that a broker handles only a part of a StopReplica."""


CALM: Final = Weather()

STORMY: Final = Weather(
    zookeeper_delay_ms=(0, 40),
    network_delay_ms=(0, 200),
    thinking_ms=(0, 20),
    reconnect_ms=(10, 1000),
    split_batch=0.3,
    lost_request=0.03,
    lost_response=0.03,
    repeated_question=0.1,
    late_question=0.1,
    lateness_ms=(200, 10_000),
    lost_connection=0.01,
)

DRIZZLE: Final = Weather(
    zookeeper_delay_ms=(0, 10),
    network_delay_ms=(0, 20),
    thinking_ms=(0, 5),
    reconnect_ms=(10, 200),
    split_batch=0.3,
    lost_connection=0.15,
)

REFUSING: Final = Weather(
    zookeeper_delay_ms=(0, 20),
    network_delay_ms=(0, 100),
    thinking_ms=(0, 10),
    reconnect_ms=(10, 500),
    split_batch=0.3,
    lost_request=0.02,
    lost_response=0.02,
    lost_connection=0.03,
    refused=0.01,
    partial_answer=0.1,
)
