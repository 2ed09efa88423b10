"""The QuorumController: one manager per concern generates records, and replays what was committed.

How to read it:

1. :mod:`.quorum_controller`: the steps of a write, and what a standby does;
2. :mod:`.quorum_controller_requests` (every request), :mod:`.quorum_controller_operations`
   (which manager handles it), :mod:`.quorum_controller_log` (append and replay);
3. :mod:`.quorum_controller_state`: every manager, and the registry that they share;
4. the managers: :mod:`.cluster_control`, :mod:`.replication_control`,
   :mod:`.configuration_control`, :mod:`.features`, :mod:`.client_quota_control`,
   :mod:`.acl_control`, :mod:`.scram_control`, :mod:`.delegation_token_control`,
   :mod:`.producer_id_control`;
5. :mod:`.partition_change_builder`: how one partition changes;
6. :mod:`.timeline` and :mod:`.snapshot_registry`: the state as it was at an earlier offset.

Pure: no asyncio, socket, thread or clock; random numbers come from the caller.  May import
:mod:`kraft.metadata`, :mod:`kraft.raft` and :mod:`kafka_common`.

What must not be done here: change state outside of ``replay``; keep state in anything but a
timeline structure, because a controller that loses its leadership must revert it; iterate over a
set of strings, whose order differs from process to process.

Source: Kafka 3.9 ``org.apache.kafka.controller`` (KIP-631).
"""
