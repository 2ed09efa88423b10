"""KRaft: the raft step, by which the nodes of a quorum replicate the metadata log.

The raft step is pure: it takes an input and the time, and returns what is to be done, in order.
Nothing here opens a socket or a file, reads a clock or waits.

How to read it:

1. :mod:`.kafka_raft_client`: a node, and what its caller must do; :mod:`.inputs` and
   :mod:`.outputs`;
2. :mod:`.states` and :mod:`.quorum`: the states of a node and every transition;
3. :mod:`.inbound` (requests of other nodes), :mod:`.responses` (their responses),
   :mod:`.polling` (timed work);
4. :mod:`.leader_state`: the rule by which records are committed;
5. :mod:`.wire` and its neighbours: messages as bytes.

May import :mod:`kafka_common`; it knows neither the metadata in the log nor the controller.  The
disk is behind the Protocol in :mod:`.raft_log`; :mod:`kraft.node` implements it.

What must not be done here: reorder outputs, or acknowledge what is not yet on disk.

Source: Kafka 3.9 ``raft`` and ``metadata`` (KIP-500, KIP-595, KIP-630, KIP-631).
"""
