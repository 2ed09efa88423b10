"""Current leaders in Produce and Fetch responses, to save a Metadata request (KIP-951).

Source: Kafka ``KafkaApis.getCurrentLeader``.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH, NO_LEADER, TopicPartition
from kafka_common.protocol.produce import NodeEndpoint
from replica_manager.server.context import BrokerContext


class CurrentLeaders:
    """Collects the endpoints of the leaders for one response."""

    def __init__(self, broker: BrokerContext, listener_name: str) -> None:
        self._broker = broker
        self._listener_name = listener_name
        self._endpoints: dict[int, NodeEndpoint] = {}

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """The endpoints on the client's listener of the leaders found so far by :meth:`of`."""
        return list(self._endpoints.values())

    def of(self, tp: TopicPartition) -> tuple[int, int]:
        """The partition's leader and leader epoch, -1 each if unknown; adds the endpoint."""
        snapshot = self._broker.metadata_cache.snapshot
        hosted = self._broker.records.replica_manager.get_partition_or_error(tp)
        if isinstance(hosted, ErrorCode):
            known = snapshot.partition(*tp)
            leader, epoch = (
                (NO_LEADER, NO_EPOCH) if known is None else (known.leader, known.leader_epoch)
            )
        else:
            leader = NO_LEADER if hosted.leader is None else hosted.leader
            epoch = hosted.leader_epoch
        live = snapshot.live_brokers.get(leader)
        endpoint = None if live is None else live.endpoint(self._listener_name)
        if live is not None and endpoint is not None:
            self._endpoints[leader] = NodeEndpoint(leader, endpoint.host, endpoint.port, live.rack)
        return leader, epoch
