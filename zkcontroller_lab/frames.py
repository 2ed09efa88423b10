"""The state of a simulated world at one moment, as a recording's map from keys to values.

Each value is read from its owner: znodes from ZooKeeper, sessions from the links, controllers from
the processes, roles of replicas from the brokers, requests from the channels.

* ``znode/<path without its first slash>``: version, data, owner (broker id of an ephemeral).
* ``broker/<id>``: process, session, its controller and the event being processed.
* ``partition/<topic>-<n>``: the state znode and the assignment, and what each broker believes.
* ``request/<from>><to>``: the control requests without a response.
"""

from __future__ import annotations

from typing import Any

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import TopicPartition
from zkcontroller.core.effects import SendControlRequest
from zkcontroller.zookeeper.znodes import PartitionStateZnode
from zkcontroller_lab.recording import State
from zkcontroller_simulation.channel import NAMES
from zkcontroller_simulation.process import BrokerProcess
from zkcontroller_simulation.world import World


def frame_of(world: World) -> State:
    """The current state of the world for the page; the keys are in a fixed order."""
    owners = {
        process.link.session_id: process.broker_id
        for process in world.processes
        if process.link.session_id
    }
    state: State = {}
    for process in world.processes:  # a later incarnation takes the place of an earlier one
        state[f"broker/{process.broker_id}"] = _broker(world, process)
    state.update(_partitions(world))
    for process in world.processes:
        for broker_id, channel in process.channels.items():
            unanswered = channel.unanswered
            if unanswered and process.is_alive:
                key = f"request/{process.broker_id}>{broker_id}"
                state[key] = _request(unanswered[0], len(unanswered) - 1)
    _add_znodes(world, "/", owners, state)
    return state


def _broker(world: World, process: BrokerProcess) -> dict[str, Any]:
    link, controller = process.link, process.controller
    is_held = bool(link.session_id) and world.zookeeper.is_alive(link.session_id)
    return {
        "incarnation": process.incarnation,
        "process": process.state.value,
        "is_connected": link.is_connected,
        "is_cut_off": link.is_cut_off,
        "session": "alive" if is_held else "over",
        "broker_epoch": process.broker.broker_epoch,
        "is_controller": controller.is_active and process.is_alive,
        "controller_epoch": controller.context.epoch,
        "controller_epoch_zk_version": controller.context.epoch_zk_version,
        "highest_controller_epoch_seen": process.broker.latest_controller_epoch,
        "task": process.task if process.is_alive else "",
        "queued_events": len(process.queue),
    }


def _partitions(world: World) -> State:
    found: State = {}
    for topic, znode in world.topics().items():
        for partition, assignment in znode.partitions.items():
            tp = TopicPartition(topic, partition)
            found[f"partition/{tp}"] = {
                "replicas": list(assignment.replicas),
                "adding_replicas": list(assignment.adding_replicas),
                "removing_replicas": list(assignment.removing_replicas),
                **_partition_state(world, tp),
                "brokers": _beliefs(world, tp),
            }
    return found


def _partition_state(world: World, tp: TopicPartition) -> dict[str, Any]:
    path = PartitionStateZnode.path(tp.topic, tp.partition)
    znode = world.zookeeper.peek(path)
    if znode is None:
        return {"leader": None}
    try:
        state = PartitionStateZnode.decode(path, znode.data)
    except ZnodeCorrupt as corrupt:
        return {"leader": None, "corrupt": str(corrupt)}
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.in_sync_replicas),
        "controller_epoch": state.controller_epoch,
        "zk_version": znode.zk_version,
    }


def _beliefs(world: World, tp: TopicPartition) -> dict[str, dict[str, Any]]:
    beliefs = {}
    for broker_id, process in world.living.items():
        hosted = process.broker.hosted.get(tp)
        if hosted is not None:
            beliefs[str(broker_id)] = {
                "leader": hosted.leader,
                "leader_epoch": hosted.leader_epoch,
                "isr": list(hosted.isr),
            }
    return beliefs


def _request(send: SendControlRequest, queued: int) -> dict[str, Any]:
    return {
        "request": NAMES[send.api_key],
        "controller_epoch": send.controller_epoch,
        "queued_behind": queued,
    }


def _add_znodes(world: World, path: str, owners: dict[int, int], state: State) -> None:
    znode = world.zookeeper.peek(path)
    assert znode is not None, path
    if path != "/":
        value: dict[str, Any] = {
            "version": znode.zk_version,
            "data": znode.data.decode(errors="replace"),
        }
        if znode.ephemeral_owner:
            value["owner"] = owners.get(znode.ephemeral_owner, "an earlier session")
        state[f"znode{path}"] = value
    for name in world.zookeeper.peek_children(path):
        _add_znodes(world, f"{path.rstrip('/')}/{name}", owners, state)
