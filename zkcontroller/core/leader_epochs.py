"""Raises leader epochs without an election: brokers obey only a higher leader epoch.

Source: Kafka ``KafkaController.updateLeaderEpoch``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_common.model import LeaderAndIsr
from zkcontroller.core.effects import Procedure
from zkcontroller.core.journal import keeper_exception
from zkcontroller.core.state_znodes import read_states, report_unreadable, write_states
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import ZkCode


def bump_leader_epochs(
    tools: ControllerTools, rows: Sequence[int]
) -> Procedure[dict[int, LeaderAndIsr]]:
    """Raises leader epochs by 1 in ZooKeeper and in memory; retries a lost race.

    A row is missing in the result if its state znode cannot be read or was written by a later
    controller.  Refused reads and writes are noted in the context, for a retry.
    """
    context, table = tools.context, tools.context.table
    raised: dict[int, LeaderAndIsr] = {}
    remaining = list(rows)
    for row in remaining:
        tools.journal.debug(f"Updating leader epoch for partition {table.text(row)}")
    while remaining:
        states = yield from read_states(tools, remaining)
        report_unreadable(tools, states)
        for row, reason in states.unreadable.items():
            if reason is not ZkCode.NO_NODE:
                context.refused_states[table.topic_partition(row)] = None
        verdicts = yield from write_states(
            tools,
            {
                row: state._replace(
                    leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch
                )
                for row, state in states.found.items()
                if state.controller_epoch <= context.epoch
            },
        )
        table.put_leader_and_isr(verdicts.written)
        for row, state in verdicts.written.items():
            tools.journal.info(
                f"Updated leader epoch for partition {table.text(row)} to"
                f" {state.leader_epoch}, zkVersion={state.zk_version}"
            )
        for row, code in verdicts.refused.items():
            tools.journal.error(
                f"Error while updating leader epoch for partition {table.text(row)}",
                exception=keeper_exception(code, table.text(row)),
            )
        raised.update(verdicts.written)
        remaining = verdicts.lost
    return raised
