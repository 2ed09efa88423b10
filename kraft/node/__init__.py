"""A node of a KRaft quorum: its log and snapshots on disk, its sockets, its process.

``kraft.raft`` and ``kraft.controller`` decide; here are its files, its sockets and its process.
How to read it:

1. :mod:`.quorum_process`: a node as a process, from its properties to its exit code;
2. :mod:`.quorum_node`: log, listener and driver put together; :mod:`.controller_service`: the
   controller on top; :mod:`.node_security`: how both are secured;
   :mod:`.raft_driver` runs the raft step and performs what it asks for, :mod:`.raft_channel` are
   its connections; :mod:`.controller_loop` runs the quorum controller in a thread of its own, and
   :mod:`.snapshot_generator` has it write snapshots;
3. :mod:`.metadata_log`: the log that raft replicates, on :mod:`replica_manager.log`;
   :mod:`.snapshot_files`, :mod:`.quorum_state_file`, :mod:`.recovery`;
4. :mod:`.quorum_requests`: what a frame of another node becomes; :mod:`.controller_apis`: what
   brokers and clients ask the controller;
5. :mod:`.metadata_publishing`: what is committed, for those who need a part of it;
6. :mod:`.storage_format` and :mod:`.node_files`: ``zkctl storage``.

May import everything of ``kraft``, and of ``replica_manager`` all but ``broker`` and ``__main__``.

What must not be done here: answer a vote or a Fetch before the flush that the raft step asked for;
touch the controller's state from the event loop (``ControllerLoop.ask`` and ``look``); serve a
directory whose ``meta.properties`` names another cluster or node.

Source: Kafka ``KafkaMetadataLog``, ``FileQuorumStateStore``, ``Snapshots``.
"""
