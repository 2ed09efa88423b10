"""Topics, and the state of their partitions in ZooKeeper."""

from __future__ import annotations

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.serving.served_request import ServedRequest, check_brokers, valid_topic


def create_topic(request: ServedRequest[bodies.NewTopicFields]) -> None:
    """Creates a topic; at the response its leaders accept records."""
    body = request.body
    request.cluster.kafka.create_topic(
        valid_topic(body.name, "name"),
        body.partitions,
        body.replication_factor,
        body.configs,
        replicas=body.replicas,
        timeout_s=body.timeout_s,
    )


def partition(request: ServedRequest[bodies.NoFields]) -> bodies.PartitionBody:
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


def wait_leader(request: ServedRequest[bodies.LeaderFields]) -> bodies.LeaderBody:
    """Waits until the partition has a leader, with ``among`` one of these brokers."""
    body = request.body
    check_brokers(request, "among", *(body.among or ()))
    leader = request.cluster.kafka.wait_leader(
        request.topic, request.number("partition"), among=body.among, timeout_s=body.timeout_s
    )
    return bodies.LeaderBody(leader=leader)


def wait_isr(request: ServedRequest[bodies.IsrFields]) -> bodies.IsrBody:
    """Waits until the ISR has exactly these brokers (default: all of the cluster)."""
    body = request.body
    check_brokers(request, "brokers", *(body.brokers or ()))
    isr = request.cluster.kafka.wait_isr(
        request.topic, request.number("partition"), body.brokers, timeout_s=body.timeout_s
    )
    return bodies.IsrBody(isr=list(isr))
