"""Reads and writes many partition state znodes at once; writes check the version.

Every change of leadership has the same steps: read, decide, write with the version that was read.
The callers differ in how they handle a znode that cannot be read and a write that lost a race; so
these functions only sort the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import LeaderAndIsr
from zkcontroller.core.effects import Procedure
from zkcontroller.core.partition_table import PartitionTable
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import SetData, Written, ZkCode
from zkcontroller.zookeeper.znodes import PartitionStateZnode, encode_partition_state

Unreadable: TypeAlias = ZkCode | ZnodeCorrupt


class States(NamedTuple):
    """Rows with the state in their znode, and rows whose state cannot be read."""

    found: dict[int, LeaderAndIsr]
    unreadable: dict[int, Unreadable]


class Verdicts(NamedTuple):
    """The outcomes of written states."""

    written: dict[int, LeaderAndIsr]
    """Rows with the state as it stands in ZooKeeper now, its new zk_version in it."""
    lost: list[int]
    """Rows whose znode was at another version: it was written meanwhile."""
    refused: dict[int, ZkCode]


def state_path(table: PartitionTable, row: int) -> str:
    """Path of the partition's state znode."""
    return PartitionStateZnode.path(table.topic_of[row], table.partition_of[row])


def encode_state(state: LeaderAndIsr) -> bytes:
    """Content of the state znode."""
    leader, leader_epoch, isr, _, controller_epoch, recovery = state
    return encode_partition_state(leader, leader_epoch, isr, controller_epoch, recovery)


def held_states(tools: ControllerTools, rows: Iterable[int]) -> dict[int, LeaderAndIsr]:
    """The states in memory that can be changed without being read again.

    If leaders change their ISR with AlterPartition, only the controller writes state znodes, so its
    memory is up to date; a write by hand is detected by the version.  Below
    inter.broker.protocol.version 2.7-IV2 leaders write them too, so they must be read again.  So
    must a state that another controller has written.
    """
    if not tools.config.is_alter_partition_supported:
        return {}
    table, epoch = tools.context.table, tools.context.epoch
    return {
        row: table.leader_and_isr(row)
        for row in rows
        if table.has_leader_and_isr(row) and table.state_controller_epoch[row] <= epoch
    }


def read_states(
    tools: ControllerTools, rows: Sequence[int], *, watch: bool = False
) -> Procedure[States]:
    """The states of these partitions, in the order of the rows."""
    table = tools.context.table
    states = States({}, {})
    paths = [state_path(table, row) for row in rows]
    results = yield from tools.try_read(paths, watch=watch)
    for row, path, znode in zip(rows, paths, results, strict=True):
        if isinstance(znode, ZkCode):
            states.unreadable[row] = znode
            continue
        try:
            found = PartitionStateZnode.decode(path, znode.data)
        except ZnodeCorrupt as corrupt:
            states.unreadable[row] = corrupt
            continue
        states.found[row] = LeaderAndIsr(
            found.leader,
            found.leader_epoch,
            found.in_sync_replicas,
            znode.zk_version,
            found.controller_epoch,
            found.leader_recovery_state,
        )
    return states


def report_unreadable(tools: ControllerTools, states: States) -> None:
    """Logs each state that should exist and cannot be read."""
    for row, reason in states.unreadable.items():
        if isinstance(reason, ZnodeCorrupt):
            tools.journal.error(str(reason))
        elif reason is not ZkCode.NO_NODE:
            tools.journal.error(
                f"Cannot read {state_path(tools.context.table, row)}: {reason.name}"
            )


def write_states(tools: ControllerTools, states: Mapping[int, LeaderAndIsr]) -> Procedure[Verdicts]:
    """Write each state if its znode is still at the ``zk_version`` in it; fenced.

    Refused writes are noted in the context, for a retry (:mod:`.refused_partitions`).
    """
    table = tools.context.table
    results = yield from tools.write(
        [
            SetData(state_path(table, row), encode_state(state), state.zk_version)
            for row, state in states.items()
        ]
    )
    verdicts = Verdicts({}, [], {})
    for (row, state), result in zip(states.items(), results, strict=True):
        if isinstance(result, Written):
            leader, leader_epoch, isr, _, controller_epoch, recovery = state
            verdicts.written[row] = LeaderAndIsr(
                leader, leader_epoch, isr, result.zk_version, controller_epoch, recovery
            )
        elif result is ZkCode.BAD_VERSION:
            verdicts.lost.append(row)
        else:
            verdicts.refused[row] = result
            if result is not ZkCode.NO_NODE:
                tools.context.refused_states[table.topic_partition(row)] = None
    return verdicts
