"""Reads the one topic configuration that the controller needs: unclean leader election.

Source: Kafka ``ZkPartitionStateMachine.collectUncleanLeaderElectionState``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_common.errors import ZnodeCorrupt
from zkcontroller.core.effects import Procedure
from zkcontroller.core.journal import PARTITION_STATE_MACHINE
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.znodes import ConfigZnode

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"


def read_unclean_election_flags(
    tools: ControllerTools, topics: Iterable[str], default: bool
) -> Procedure[dict[str, bool | None]]:
    """Topic to whether an unclean election is allowed: its own setting or the default.

    False for a topic whose configuration is corrupt, because records may be lost only if that is
    configured.  None if ZooKeeper refused the read, so that the caller can retry.
    """
    names = list(topics)
    flags: dict[str, bool | None] = {}
    results = yield from tools.try_read([ConfigZnode.topic_path(name) for name in names])
    for name, znode in zip(names, results, strict=True):
        if znode is ZkCode.NO_NODE:
            flags[name] = default
            continue
        if isinstance(znode, ZkCode):
            tools.journal.error(
                f"Cannot read the configuration of topic {name}: {znode.name}",
                PARTITION_STATE_MACHINE,
            )
            flags[name] = None
            continue
        try:
            config = ConfigZnode.decode(ConfigZnode.topic_path(name), znode.data).config
        except ZnodeCorrupt as corrupt:
            tools.journal.error(str(corrupt), PARTITION_STATE_MACHINE)
            flags[name] = False
            continue
        override = config.get(UNCLEAN_LEADER_ELECTION_ENABLE)
        flags[name] = default if override is None else override.strip().lower() == "true"
    return flags
